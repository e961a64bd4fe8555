"""Select controllers and the admission plugins they need.

Some admission plugins need a controller: it undoes their work, as a finalizer of a claim or a taint of a new node, or
shows it, as the status of a quota. They are enabled if and only if that controller runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.controllers.cluster_controllers import cluster_controllers
from stowplan_cluster.controllers.loop import Loop, select_controllers
from stowplan_cluster.controllers.workload_controllers import workload_controllers

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stowplan_cluster.apiserver.server import ApiServer

#: Admission plugin -> its controller.
_CONTROLLER_OF = {
    "StorageObjectInUseProtection": "persistentvolumeclaim-protection-controller",
    "ResourceQuota": "resourcequota-controller",
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
    plugins = {plugin for plugin, controller in _CONTROLLER_OF.items() if controller in names}
    server.set_admission(enabled=frozenset(plugins) - disabled, disabled=disabled | (_CONTROLLER_OF.keys() - plugins))
    return Loop(server.registry, chosen, server.clock)
