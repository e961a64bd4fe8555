"""All controllers of the living cluster, in the order in which they are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.apiserver.controllers import workload_controllers
from stowplan.apiserver.controllers.cluster_controllers import cluster_controllers

if TYPE_CHECKING:
    from stowplan.apiserver.controllers.loop import Controller
    from stowplan.apiserver.server import ApiServer


def all_controllers(server: ApiServer) -> list[Controller]:
    return [*workload_controllers(server.registry), *cluster_controllers(server.registry)]
