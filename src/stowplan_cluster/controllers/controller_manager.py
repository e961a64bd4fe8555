"""Select controllers and the admission plugins they need.

Some admission plugins need a controller to undo their work: they add a finalizer to a claim, or a taint to a new node.
They are enabled if and only if that controller runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.controllers.cluster_controllers import cluster_controllers
from stowplan_cluster.controllers.loop import Loop, select_controllers
from stowplan_cluster.controllers.workload_controllers import workload_controllers

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stowplan_cluster.apiserver.server import ApiServer

#: Admission plugin -> the controller that undoes its work.
_UNDONE_BY = {
    "StorageObjectInUseProtection": "persistentvolumeclaim-protection-controller",
    "TaintNodesByCondition": "node-lifecycle-controller",
}


def set_up_controllers(
    server: ApiServer, *, controllers: Sequence[str] = ("*",), disabled_admission: Collection[str] = ()
) -> Loop:
    """Configure admission and return the loop of the selected controllers; raise ValueError for unknown names."""
    known = [*workload_controllers(server.registry), *cluster_controllers(server.registry)]
    chosen = select_controllers(known, controllers)
    names = {controller.name for controller in chosen}
    disabled = frozenset(disabled_admission)
    undone = {plugin for plugin, controller in _UNDONE_BY.items() if controller in names}
    server.set_admission(enabled=frozenset(undone) - disabled, disabled=disabled | (_UNDONE_BY.keys() - undone))
    return Loop(server.registry, chosen, server.clock)
