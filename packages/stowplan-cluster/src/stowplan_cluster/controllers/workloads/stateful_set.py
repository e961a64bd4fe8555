"""StatefulSets: pods with stable names, created and deleted in order.

OrderedReady creates one pod at a time, lowest ordinal first, each after all lower ones are available; scaling down and
updates start at the highest ordinal. Parallel does not wait. An update deletes pods of other revisions and recreates
them; with a partition, ordinals below it stay at, and are recreated at, the current revision.

Left out: rollingUpdate.maxUnavailable, whose feature gate is off by default upstream.

Upstream: pkg/controller/statefulset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.pods import PENDING, PODS, Pod, decode_pod, next_availability
from stowplan_cluster.controllers.workload_views import STATEFUL_SETS, Key, StatefulSet
from stowplan_cluster.controllers.workloads.ownership import Ownership
from stowplan_cluster.controllers.workloads.revisions import HASH, REVISION_HASH, Revision, RevisionHistory
from stowplan_cluster.controllers.workloads.stateful_pods import StatefulPods, in_range, ordinal_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.registry import Registry
    from stowplan_cluster.apiserver.store import Event

#: Maximum number of pods that a Parallel set creates or deletes per reconcile.
BURST = 50
#: Interval for checking whether an old claim is gone; claims are not watched.
CLAIM_RECHECK_SECONDS = 1.0

#: Status fields that are present even if 0.
_KEPT = ("replicas", "availableReplicas", "collisionCount")


class StatefulSetController:
    def __init__(self, registry: Registry) -> None:
        self.name = "statefulset-controller"
        self.watches = (STATEFUL_SETS.storage, PODS)
        self._client = ControllerClient(registry, "statefulset-controller")
        self._control = StatefulPods(self._client)
        self._history = RevisionHistory(self._client, hash_label=HASH)
        self._pods: Ownership[StatefulSet, Pod] = Ownership(
            self._client,
            STATEFUL_SETS,
            PODS,
            decode_pod,
            fits_name=lambda stateful_set, name: ordinal_of(stateful_set, name) >= 0,
        )

    def keys_of(self, event: Event) -> Sequence[Key]:
        return self._pods.keys_of(event)

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(STATEFUL_SETS.storage, key)
        if stored is None:
            return None
        stateful_set = STATEFUL_SETS.decode(stored)
        pods = self._pods.claim(stateful_set)
        known = self._history.of(stateful_set)
        update, collisions = self._history.update(
            stateful_set, stateful_set.spec.template, known, collisions=stateful_set.status.get("collisionCount", 0)
        )
        current = next((one for one in known if one.name == stateful_set.status.get("currentRevision")), update)
        moves = _Pass(self._control, stateful_set, pods, current, update, self._client.now)
        status = _status(stateful_set, pods, current, update, collisions, self._client.now)
        try:
            if not stateful_set.deleting:
                moves.advance()
        finally:
            # Update the status even if creates or deletes failed.
            self._client.update_status(stored, status)
        in_use = {current.name, update.name, *(pod.labels.get(REVISION_HASH, "") for pod in pods)}
        limit = stateful_set.spec.revision_history_limit
        self._history.truncate(known, live=lambda one: one.name in in_use, limit=limit)
        if moves.waits_for_claim:
            return CLAIM_RECHECK_SECONDS
        return next_availability(pods, stateful_set.spec.min_ready_seconds, self._client.now)


class _Pass:
    """One reconcile of a StatefulSet."""

    def __init__(
        self,
        control: StatefulPods,
        stateful_set: StatefulSet,
        pods: Sequence[Pod],
        current: Revision,
        update: Revision,
        now: float,
    ) -> None:
        self._control = control
        self._set = stateful_set
        self._current = current
        self._update = update
        self._now = now
        self._ordered = stateful_set.spec.pod_management_policy != "Parallel"
        self._moves = 0
        self.waits_for_claim = False
        by_ordinal = {ordinal_of(stateful_set, pod.name): pod for pod in pods}
        start = stateful_set.spec.ordinals.start
        self._ordinals = range(start, start + stateful_set.spec.replicas)
        self._replicas = {ordinal: by_ordinal.get(ordinal) for ordinal in self._ordinals}
        #: Highest ordinal first.
        self._condemned = [
            pod for ordinal, pod in sorted(by_ordinal.items(), reverse=True) if not in_range(stateful_set, ordinal)
        ]

    def advance(self) -> None:
        for ordinal in self._ordinals:
            if not self._keep(ordinal) and self._ordered:
                return
        for pod in self._condemned:
            self._control.keep_claim_owners(self._set, pod)
        for pod in self._condemned:
            if not self._condemn(pod) and self._ordered:
                return
        if self._set.spec.update_strategy.type == "RollingUpdate":
            self._roll()

    def _keep(self, ordinal: int) -> bool:
        """Reconcile one replica; return whether higher ordinals may proceed."""
        pod = self._replicas[ordinal]
        if pod is None:
            return self._create(ordinal)
        if pod.finished:
            if not pod.terminating:
                self._delete(pod)
            return False
        if pod.phase == PENDING and not pod.terminating:
            self._control.create_claims(self._set, ordinal)
        if self._ordered and (pod.terminating or not self._available(pod)):
            return False
        if not pod.terminating:
            self._control.keep_identity(self._set, pod)
            self._control.keep_claim_owners(self._set, pod)
        return True

    def _create(self, ordinal: int) -> bool:
        if self._moves >= BURST:
            return False
        if self._control.claims_wait_for_collection(self._set, ordinal):
            self.waits_for_claim = True
            return False
        self._moves += 1
        self._control.create(self._set, ordinal, self._revision_for(ordinal))
        return not self._ordered

    def _revision_for(self, ordinal: int) -> Revision:
        strategy = self._set.spec.update_strategy
        first_updated = self._set.spec.ordinals.start + strategy.rolling_update.partition
        return self._current if strategy.type == "RollingUpdate" and ordinal < first_updated else self._update

    def _condemn(self, pod: Pod) -> bool:
        if pod.terminating:
            return False
        # Unlike upstream, do not wait for finished pods, which never become available: two would block for ever.
        waits = self._ordered and not pod.finished and not self._available(pod)
        if waits and pod is not self._first_unavailable():
            return False
        self._delete(pod)
        return False

    def _delete(self, pod: Pod) -> None:
        if self._moves < BURST:
            self._moves += 1
            self._control.delete(self._set, pod)

    def _first_unavailable(self) -> Pod | None:
        """The lowest unavailable pod; None if that pod does not exist yet, or if there is none."""
        for pod in [*self._replicas.values(), *reversed(self._condemned)]:
            if pod is None or pod.terminating or not self._available(pod):
                return pod
        return None

    def _roll(self) -> None:
        """Delete the highest pod of another revision, if all above it are available."""
        partition = self._set.spec.update_strategy.rolling_update.partition
        for ordinal in reversed(self._ordinals[partition:]):
            pod = self._replicas[ordinal]
            if pod is None:
                return
            if pod.labels.get(REVISION_HASH) != self._update.name and not pod.terminating:
                self._control.delete(self._set, pod)
                return
            if pod.terminating or not self._available(pod):
                return

    def _available(self, pod: Pod) -> bool:
        return pod.available(self._set.spec.min_ready_seconds, self._now)


def _status(
    stateful_set: StatefulSet, pods: Sequence[Pod], current: Revision, update: Revision, collisions: int, now: float
) -> JsonObject:
    spec = stateful_set.spec
    revisions = [pod.labels.get(REVISION_HASH) for pod in pods if not pod.terminating]
    status: JsonObject = {
        "observedGeneration": stateful_set.metadata.generation,
        "replicas": len(pods),
        "readyReplicas": sum(1 for pod in pods if pod.ready),
        "availableReplicas": sum(1 for pod in pods if pod.available(spec.min_ready_seconds, now)),
        "currentReplicas": revisions.count(current.name),
        "updatedReplicas": revisions.count(update.name),
        "currentRevision": current.name,
        "updateRevision": update.name,
        "collisionCount": collisions,
    }
    done = all(status[count] == spec.replicas for count in ("replicas", "readyReplicas", "updatedReplicas"))
    if done and spec.update_strategy.type == "RollingUpdate":
        status |= {"currentRevision": update.name, "currentReplicas": status["updatedReplicas"]}
    return {name: value for name, value in status.items() if value or name in _KEPT}
