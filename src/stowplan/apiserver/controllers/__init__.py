"""The living cluster: controllers that keep the objects of the embedded API as their specs want them.

Each watches some storages, turns changes into keys, and reconciles one key at a time, synchronously,
through the registry, like any other client. `loop.py` drives them, `pump.py` keeps that going on an
event loop. They are small and right for the common case; each module says what it leaves out.

Upstream: cmd/kube-controller-manager, pkg/controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.apiserver.controllers.daemon_set import DaemonSetController
from stowplan.apiserver.controllers.deployment import DeploymentController
from stowplan.apiserver.controllers.job import JobController
from stowplan.apiserver.controllers.loop import Controller, Loop, select_controllers
from stowplan.apiserver.controllers.pump import run
from stowplan.apiserver.controllers.replica_set import ReplicaSetController, ReplicationControllerController
from stowplan.apiserver.controllers.stateful_set import StatefulSetController
from stowplan.apiserver.controllers.ttl_after_finished import TTLAfterFinishedController

if TYPE_CHECKING:
    from stowplan.apiserver.registry import Registry

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
