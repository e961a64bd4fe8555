"""The living cluster: controllers that keep the objects of the embedded API as their specs want them.

Each watches some storages, turns changes into keys, and reconciles one key at a time, synchronously,
through the registry, like any other client. `loop.py` drives them, `pump.py` keeps that going on an
event loop. They are small and right for the common case; each module says what it leaves out.

Upstream: cmd/kube-controller-manager, pkg/controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.controllers.daemon_set import DaemonSetController
from stowplan_cluster.controllers.deployment import DeploymentController
from stowplan_cluster.controllers.job import JobController
from stowplan_cluster.controllers.loop import Controller, Loop, select_controllers
from stowplan_cluster.controllers.pump import run
from stowplan_cluster.controllers.replica_set import ReplicaSetController, ReplicationControllerController
from stowplan_cluster.controllers.stateful_set import StatefulSetController
from stowplan_cluster.controllers.ttl_after_finished import TTLAfterFinishedController

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.registry import Registry

__all__ = [
    "Controller",
    "DaemonSetController",
    "DeploymentController",
    "JobController",
    "Loop",
    "ReplicaSetController",
    "ReplicationControllerController",
    "StatefulSetController",
    "TTLAfterFinishedController",
    "run",
    "select_controllers",
    "workload_controllers",
]


def workload_controllers(registry: Registry) -> list[Controller]:
    """What makes pods of workloads."""
    return [
        DeploymentController(registry),
        ReplicaSetController(registry),
        ReplicationControllerController(registry),
        StatefulSetController(registry),
        DaemonSetController(registry),
        JobController(registry),
        TTLAfterFinishedController(registry),
    ]
