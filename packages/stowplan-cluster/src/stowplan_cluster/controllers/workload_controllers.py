"""The workload controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.controllers.workloads.daemon_set import DaemonSetController
from stowplan_cluster.controllers.workloads.deployment import DeploymentController
from stowplan_cluster.controllers.workloads.job import JobController
from stowplan_cluster.controllers.workloads.replica_set import ReplicaSetController, ReplicationControllerController
from stowplan_cluster.controllers.workloads.stateful_set import StatefulSetController
from stowplan_cluster.controllers.workloads.ttl_after_finished import TTLAfterFinishedController

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.registry import Registry
    from stowplan_cluster.controllers.loop import Controller


def workload_controllers(registry: Registry) -> list[Controller]:
    return [
        DeploymentController(registry),
        ReplicaSetController(registry),
        ReplicationControllerController(registry),
        StatefulSetController(registry),
        DaemonSetController(registry),
        JobController(registry),
        TTLAfterFinishedController(registry),
    ]
