"""Deployment status: counts, and the conditions that `kubectl rollout status` waits for.

Progressing describes the rollout: its reason becomes NewReplicaSetAvailable on completion, it is refreshed with all
progress, and turns False after progressDeadlineSeconds without any.

Upstream: pkg/controller/deployment/progress.go, sync.go (calculateStatus).
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.kube.api.meta import MAX_INT32
from stowplan.kube.api.timestamps import seconds_of, timestamp
from stowplan_cluster.apiserver.objects import JsonObject, condition_of
from stowplan_cluster.reconcile.deployments import max_unavailable, reported, wanted
from stowplan_cluster.reconcile.views import Deployment, ReplicaSet

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
