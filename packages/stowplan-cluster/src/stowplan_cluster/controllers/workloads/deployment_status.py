"""Deployment status: counts, and the conditions that `kubectl rollout status` waits for.

Progressing describes the rollout: its reason becomes NewReplicaSetAvailable on completion, it is refreshed with all
progress, and turns False after progressDeadlineSeconds without any.

Upstream: pkg/controller/deployment/progress.go, sync.go (calculateStatus).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import floor

from stowplan.kube.api.meta import MAX_INT32
from stowplan.kube.api.timestamps import timestamp
from stowplan.kube.api.whole_numbers import share, whole_number
from stowplan_cluster.apiserver.objects import JsonObject, condition_of
from stowplan_cluster.controllers.pods import seconds_of
from stowplan_cluster.controllers.views import Deployment, ReplicaSet

# Compute the size of each ReplicaSet during a rollout.
#
# A rollout has at most `replicas + maxSurge` pods and at least `replicas - maxUnavailable` available ones. When the
# Deployment is scaled during a rollout, its ReplicaSets are scaled in proportion to their size.
#
# Upstream: pkg/controller/deployment/util/deployment_util.go, sync.go (scale), rolling.go.

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"

RECREATE = "Recreate"


def max_surge(deployment: Deployment) -> int:
    if deployment.spec.strategy.type == RECREATE:
        return 0
    return share(deployment.spec.strategy.rolling_update.max_surge, deployment.spec.replicas, round_up=True)


def max_unavailable(deployment: Deployment) -> int:
    replicas = deployment.spec.replicas
    if deployment.spec.strategy.type == RECREATE or not replicas:
        return 0
    unavailable = share(deployment.spec.strategy.rolling_update.max_unavailable, replicas, round_up=False)
    if not unavailable and not max_surge(deployment):
        # Both percentages may resolve to 0; then the rollout would never progress.
        return 1
    return min(unavailable, replicas)


def max_replicas(deployment: Deployment) -> int:
    return deployment.spec.replicas + max_surge(deployment)


def replicas_annotations(deployment: Deployment) -> dict[str, str]:
    return {DESIRED_REPLICAS: str(deployment.spec.replicas), MAX_REPLICAS: str(max_replicas(deployment))}


def number_in(annotations: Mapping[str, str], name: str) -> int | None:
    return whole_number(annotations.get(name, ""))


def revision_of(replica_set: ReplicaSet) -> int:
    return number_in(replica_set.metadata.annotations, REVISION) or 0


def oldest_first(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    return sorted(sets, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))


def wanted(sets: Iterable[ReplicaSet | None]) -> int:
    return sum(one.spec.replicas for one in sets if one is not None)


def reported(sets: Iterable[ReplicaSet | None], count: str) -> int:
    """The sum of a status field over all sets."""
    return sum(one.status.get(count, 0) for one in sets if one is not None)


def size_of_new(deployment: Deployment, new: int, all_sets: int) -> int:
    """The size of the new ReplicaSet, given its current size and the total size of all sets."""
    if deployment.spec.strategy.type == RECREATE:
        return deployment.spec.replicas
    room = max_replicas(deployment) - all_sets
    return new if room <= 0 else new + min(room, deployment.spec.replicas - new)


def sizes_of_old(deployment: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet) -> dict[str, int]:
    """The sizes of old ReplicaSets, by name; unhealthy pods are removed first."""
    all_sets = [*old, new]
    floor_available = deployment.spec.replicas - max_unavailable(deployment)
    unavailable_new = new.spec.replicas - new.status.get("availableReplicas", 0)
    may_go = wanted(all_sets) - floor_available - unavailable_new
    sizes = {one.metadata.name: one.spec.replicas for one in oldest_first(old)}
    if may_go <= 0:
        return sizes
    for one in oldest_first(old):
        available = one.status.get("availableReplicas", 0)
        gone = max(0, min(may_go, sizes[one.metadata.name] - available))
        sizes[one.metadata.name] -= gone
        may_go -= gone
    spare = reported(all_sets, "availableReplicas") - floor_available
    for name, size in sizes.items():
        gone = max(0, min(spare, size))
        sizes[name] -= gone
        spare -= gone
    return sizes


def proportional_sizes(deployment: Deployment, sets: Sequence[ReplicaSet]) -> dict[str, int]:
    """Distribute a new total over the active ReplicaSets, by name."""
    ceiling = max_replicas(deployment) if deployment.spec.replicas else 0
    to_add = ceiling - wanted(sets)
    age = {one.metadata.uid: index for index, one in enumerate(oldest_first(sets))}
    newer_first = to_add > 0
    ordered = sorted(
        sets,
        key=lambda one: (-one.spec.replicas, -age[one.metadata.uid] if newer_first else age[one.metadata.uid]),
    )
    sizes: dict[str, int] = {}
    added = 0
    for one in ordered:
        share = _share(deployment, one, to_add, added) if to_add else 0
        sizes[one.metadata.name] = one.spec.replicas + share
        added += share
    if ordered and to_add:
        largest = ordered[0].metadata.name
        sizes[largest] = max(0, sizes[largest] + to_add - added)
    return sizes


def _share(deployment: Deployment, one: ReplicaSet, to_add: int, added: int) -> int:
    if not one.spec.replicas or to_add == added:
        return 0
    left = to_add - added
    fraction = _fraction(deployment, one)
    return min(fraction, left) if to_add > 0 else max(fraction, left)


def _fraction(deployment: Deployment, one: ReplicaSet) -> int:
    """The change of a set's size that keeps its share of the total."""
    if not deployment.spec.replicas:
        return -one.spec.replicas
    before = number_in(one.metadata.annotations, MAX_REPLICAS) or deployment.status.get("replicas", 0)
    if not before:
        return 0
    return floor(one.spec.replicas * max_replicas(deployment) / before + 0.5) - one.spec.replicas


AVAILABLE = "Available"
PROGRESSING = "Progressing"
REPLICA_FAILURE = "ReplicaFailure"

NEW_REPLICA_SET_CREATED = "NewReplicaSetCreated"
FOUND_NEW_REPLICA_SET = "FoundNewReplicaSet"
REPLICA_SET_UPDATED = "ReplicaSetUpdated"
NEW_REPLICA_SET_AVAILABLE = "NewReplicaSetAvailable"
REPLICA_SET_CREATE_ERROR = "ReplicaSetCreateError"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"

#: Status fields that are present even if 0.
_KEPT = ("terminatingReplicas",)


def has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds != MAX_INT32


def is_complete(deployment: Deployment, status: JsonObject) -> bool:
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    return (
        all(status.get(count, 0) == deployment.spec.replicas for count in counts)
        and status.get("observedGeneration", 0) >= deployment.metadata.generation
    )


class DeploymentStatus:
    """Builds the status of one reconcile, starting from the existing conditions."""

    def __init__(self, deployment: Deployment, *, now: float) -> None:
        self._deployment = deployment
        self._now = now
        self.collisions: int | None = deployment.status.get("collisionCount")
        self.conditions: list[JsonObject] = [dict(one) for one in deployment.status.get("conditions") or ()]

    @property
    def progressing(self) -> JsonObject | None:
        return condition_of({"conditions": self.conditions}, PROGRESSING)

    def set(self, type_: str, status: str, reason: str, message: str) -> None:
        """Set a condition and move it to the end; no-op if status and reason are unchanged."""
        current = condition_of({"conditions": self.conditions}, type_)
        if current is not None and current["status"] == status and current.get("reason") == reason:
            return
        now = timestamp(self._now)
        same_status = current is not None and current["status"] == status
        condition = {
            "type": type_,
            "status": status,
            "lastUpdateTime": now,
            "lastTransitionTime": current.get("lastTransitionTime", now) if current and same_status else now,
            "reason": reason,
            "message": message,
        }
        self.remove(type_)
        self.conditions.append(condition)

    def remove(self, type_: str) -> None:
        self.conditions = [one for one in self.conditions if one["type"] != type_]

    def set_paused(self) -> None:
        """Keep a paused Deployment from timing out, and restart the deadline of a resumed one."""
        condition = self.progressing
        if not has_deadline(self._deployment) or (condition and condition.get("reason") == TIMED_OUT):
            return
        marked = condition is not None and condition.get("reason") == PAUSED
        if self._deployment.spec.paused and not marked:
            self.set(PROGRESSING, "Unknown", PAUSED, "Deployment is paused")
        elif not self._deployment.spec.paused and marked:
            self.set(PROGRESSING, "Unknown", RESUMED, "Deployment is resumed")

    def with_counts(self, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> JsonObject:
        """The complete status, without evaluating progress."""
        deployment = self._deployment
        sets = [*old, new]
        available = reported(sets, "availableReplicas")
        if available >= deployment.spec.replicas - max_unavailable(deployment):
            self.set(AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        else:
            message = "Deployment does not have minimum availability."
            self.set(AVAILABLE, "False", "MinimumReplicasUnavailable", message)
        status: JsonObject = {
            "observedGeneration": deployment.metadata.generation,
            "replicas": reported(sets, "replicas"),
            "updatedReplicas": reported([new], "replicas"),
            "readyReplicas": reported(sets, "readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": max(0, wanted(sets) - available),
            "terminatingReplicas": reported(sets, "terminatingReplicas"),
            "collisionCount": self.collisions,
            "conditions": self.conditions,
        }
        return {name: value for name, value in status.items() if value or name in _KEPT}

    def of_rollout(self, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> JsonObject:
        """The complete status, including progress and failures."""
        status = self.with_counts(new, old)
        if not has_deadline(self._deployment):
            self.remove(PROGRESSING)
        elif not self._was_complete(status):
            self._judge(status, new)
        self._copy_failures(new, old)
        return {**status, "conditions": self.conditions}

    def _was_complete(self, status: JsonObject) -> bool:
        """Whether the last rollout completed and none has started since."""
        condition = self.progressing
        return (
            status.get("replicas", 0) == status.get("updatedReplicas", 0)
            and condition is not None
            and condition.get("reason") == NEW_REPLICA_SET_AVAILABLE
        )

    def _judge(self, status: JsonObject, new: ReplicaSet | None) -> None:
        name = self._deployment.metadata.name
        who = f'ReplicaSet "{new.metadata.name}"' if new is not None else f'Deployment "{name}"'
        if is_complete(self._deployment, status):
            self.set(PROGRESSING, "True", NEW_REPLICA_SET_AVAILABLE, f"{who} has successfully progressed.")
        elif self._has_progressed(status):
            self._refresh(f"{who} is progressing.")
        elif self._has_timed_out():
            self.set(PROGRESSING, "False", TIMED_OUT, f"{who} has timed out progressing.")

    def _has_progressed(self, status: JsonObject) -> bool:
        before = self._deployment.status
        for count in ("updatedReplicas", "readyReplicas", "availableReplicas"):
            if status.get(count, 0) > before.get(count, 0):
                return True
        return _old_replicas(status) < _old_replicas(before)

    def _refresh(self, message: str) -> None:
        """Record progress: update lastUpdateTime even if the reason is unchanged."""
        current = self.progressing
        self.remove(PROGRESSING)
        self.set(PROGRESSING, "True", REPLICA_SET_UPDATED, message)
        if current is not None and current["status"] == "True":
            self.conditions[-1]["lastTransitionTime"] = current.get("lastTransitionTime")

    def _has_timed_out(self) -> bool:
        condition = self.progressing
        if condition is None or condition.get("reason") == NEW_REPLICA_SET_AVAILABLE:
            return False
        if condition.get("reason") == TIMED_OUT:
            return True
        return self._deadline(condition) < self._now

    def _deadline(self, condition: JsonObject) -> float:
        return seconds_of(condition.get("lastUpdateTime")) + self._deployment.spec.progress_deadline_seconds

    def _copy_failures(self, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> None:
        """Copy a ReplicaFailure condition, preferring the new ReplicaSet's."""
        sets = [*([new] if new is not None else []), *old]
        failure = next(filter(None, (condition_of(one.status, REPLICA_FAILURE) for one in sets)), None)
        if failure is None:
            self.remove(REPLICA_FAILURE)
        else:
            self.set(REPLICA_FAILURE, failure["status"], failure.get("reason", ""), failure.get("message", ""))

    def seconds_to_deadline(self, status: JsonObject) -> float | None:
        """Seconds until the rollout may time out; None if there is no deadline to wait for."""
        condition = self.progressing
        if not has_deadline(self._deployment) or condition is None or self._deployment.spec.paused:
            return None
        if is_complete(self._deployment, status) or condition.get("reason") == TIMED_OUT:
            return None
        # One more second, as timestamps are whole seconds.
        return max(0.0, self._deadline(condition) - self._now) + 1


def _old_replicas(status: JsonObject) -> int:
    count: int = status.get("replicas", 0) - status.get("updatedReplicas", 0)
    return count
