"""The cluster that lives: which controllers there are, and the admission that goes with them.

Some admission plugins do what a controller has to undo: they put a finalizer on a claim, a taint on a
new node. Those are on just when that controller runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.controllers import workload_controllers
from stowplan_cluster.controllers.cluster_controllers import cluster_controllers
from stowplan_cluster.controllers.loop import Loop, select_controllers

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stowplan_cluster.apiserver.server import ApiServer

#: Admission plugin to the controller that undoes its work.
_UNDONE_BY = {
    "StorageObjectInUseProtection": "persistentvolumeclaim-protection-controller",
    "TaintNodesByCondition": "node-lifecycle-controller",
}


def living_cluster(
    server: ApiServer, *, controllers: Sequence[str] = ("*",), disabled_admission: Collection[str] = ()
) -> Loop:
    """The loop of the selected controllers, see `select_controllers`; ValueError for names that are unknown."""
    known = [*workload_controllers(server.registry), *cluster_controllers(server.registry)]
    chosen = select_controllers(known, controllers)
    names = {controller.name for controller in chosen}
    disabled = frozenset(disabled_admission)
    undone = {plugin for plugin, controller in _UNDONE_BY.items() if controller in names}
    server.set_admission(enabled=frozenset(undone) - disabled, disabled=disabled | (_UNDONE_BY.keys() - undone))
    return Loop(server.registry, chosen, server.clock)
