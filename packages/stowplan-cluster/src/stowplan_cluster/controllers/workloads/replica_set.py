"""ReplicaSets and ReplicationControllers: keep spec.replicas pods running (`reconcile.replica_sets`).

A reconcile creates or deletes a bounded number of pods, so that it does not
block for long; its own changes trigger the next one.

Status counts are kept incrementally, so a change of one pod among thousands costs the work of one; only scaling down
and minReadySeconds iterate over all pods.

Upstream: pkg/controller/replicaset, pkg/controller/replication.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.meta import controller_of
from stowplan_cluster.apiserver.objects import JsonObject, condition_of, set_condition
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.workloads.ownership import Ownership
from stowplan_cluster.controllers.workloads.pod_templates import PodControl, new_pod
from stowplan_cluster.reconcile.pods import PODS, Pod, decode_pod, next_availability
from stowplan_cluster.reconcile.replica_sets import next_change
from stowplan_cluster.reconcile.views import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    Key,
    ReplicaSet,
    ReplicationController,
    WorkloadKind,
)

#: Maximum number of pods created or deleted per reconcile.
BURST = 50

REPLICA_FAILURE = "ReplicaFailure"

#: Status fields that are present even if 0.
_KEPT = ("replicas", "terminatingReplicas")

S = TypeVar("S", ReplicaSet, ReplicationController)


class _PodStatus(NamedTuple):
    """What a pod contributes to status counts, except availability, which depends on time."""

    active: bool
    ready: bool
    terminating: bool
    labels: tuple[tuple[str, str], ...]


def _pod_status_of(pod: Pod) -> _PodStatus:
    terminating = pod.terminating and not pod.finished
    return _PodStatus(pod.active, pod.ready, terminating, tuple(pod.labels.items()))


class _Replicas(Generic[S]):
    """The controller of both kinds."""

    def __init__(self, registry: Registry, name: str, component: str, kind: WorkloadKind[S]) -> None:
        self.name = name
        self.watches = (kind.storage, PODS)
        self._kind: WorkloadKind[S] = kind
        self._client = ControllerClient(registry, component)
        self._control = PodControl(self._client)
        self._pods: Ownership[S, Pod] = Ownership(self._client, kind, PODS, decode_pod, tally=_pod_status_of)

    def keys_of(self, event: Event) -> Sequence[Key]:
        return self._pods.keys_of(event)

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(self._kind.storage, key)
        if stored is None:
            return None
        owner = self._kind.decode(stored)
        members = self._pods.claim_members(owner)
        pods = list(members.mine.values())
        failure: ApiError | None = None
        seen = self._seen(owner, members.tally)
        if not owner.deleting:
            try:
                self._scale(owner, seen["replicas"], pods)
            except ApiError as error:
                failure = error
        self._client.update_status(stored, self._status(owner, seen, pods, failure), kept=_KEPT)
        if failure is not None:
            raise failure
        active = (pod for pod in pods if pod.active)
        seconds = owner.spec.min_ready_seconds
        return next_availability(active, seconds, self._client.now) if seconds else None

    def _scale(self, owner: S, active: int, pods: Sequence[Pod]) -> None:
        change = next_change(owner.spec.replicas, active, lambda: pods, lambda: self._related(owner, pods))
        for _ in range(min(change.create, BURST)):
            self._control.create(owner, new_pod(owner, owner.spec.template))
        for pod in change.delete[:BURST]:
            self._control.delete(owner, pod)

    def _related(self, owner: S, own: Sequence[Pod]) -> Iterable[Pod]:
        """The pods of all sets with the same controller as the owner; the owner's own if it has none."""
        reference = controller_of(owner.metadata)
        if reference is None:
            return own
        siblings = self._client.store.dependents(reference.uid)
        owners = [self._kind.decode(one) for one in siblings if one.resource == self._kind.storage]
        return [pod for sibling in owners for pod in self._pods.dependents(sibling)]

    def _seen(self, owner: S, tally: Counter[_PodStatus]) -> dict[str, int]:
        """The status counts that do not depend on time."""
        labels = ((owner.spec.template.get("metadata") or {}).get("labels") or {}).items()
        active = {status: number for status, number in tally.items() if status.active}
        return {
            "replicas": sum(active.values()),
            "fullyLabeledReplicas": sum(number for one, number in active.items() if labels <= dict(one.labels).items()),
            "readyReplicas": sum(number for one, number in active.items() if one.ready),
            "terminatingReplicas": sum(number for one, number in tally.items() if one.terminating),
        }

    def _status(self, owner: S, seen: dict[str, int], pods: Sequence[Pod], failure: ApiError | None) -> JsonObject:
        seconds = owner.spec.min_ready_seconds
        available = seen["readyReplicas"]
        if seconds:
            now = self._client.now
            available = sum(1 for pod in pods if pod.active and pod.available(seconds, now))
        status: JsonObject = {
            **seen,
            "availableReplicas": available,
            "observedGeneration": owner.metadata.generation,
            "conditions": self._conditions(owner, seen["replicas"], failure),
        }
        if self._kind.storage != REPLICA_SETS.storage:
            del status["terminatingReplicas"]
        return status

    def _conditions(self, owner: S, active: int, failure: ApiError | None) -> list[JsonObject]:
        conditions = [dict(one) for one in owner.status.get("conditions") or ()]
        if failure is None:
            return [one for one in conditions if one["type"] != REPLICA_FAILURE]
        status = {"conditions": conditions}
        if condition_of(status, REPLICA_FAILURE) is None:
            reason = "FailedCreate" if active < owner.spec.replicas else "FailedDelete"
            condition = {"type": REPLICA_FAILURE, "status": "True", "reason": reason, "message": str(failure)}
            set_condition(status, condition, now=self._client.timestamp)
        return conditions


class ReplicaSetController(_Replicas[ReplicaSet]):
    def __init__(self, registry: Registry) -> None:
        super().__init__(registry, "replicaset-controller", "replicaset-controller", REPLICA_SETS)


class ReplicationControllerController(_Replicas[ReplicationController]):
    def __init__(self, registry: Registry) -> None:
        super().__init__(
            registry, "replicationcontroller-controller", "replication-controller", REPLICATION_CONTROLLERS
        )
