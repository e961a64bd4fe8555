"""Deployments: one ReplicaSet per pod template revision, and rollouts between them.

The new ReplicaSet is the one whose template equals the Deployment's; the others are history for `kubectl rollout undo`.
A reconcile does one step (create the new set, scale it up, scale old ones down) and updates the status; the changes of
the step trigger the next reconcile.

Of the conditions that `kubectl rollout status` waits for, Progressing describes the rollout: its reason becomes
NewReplicaSetAvailable on completion, it is refreshed with all progress, and turns False after progressDeadlineSeconds
without any.

Left out: the deprecated rollback annotation of extensions/v1beta1.

Upstream: pkg/controller/deployment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.kube.api.api_errors import AlreadyExists, ApiError
from stowplan.kube.api.meta import MAX_INT32, seconds_of, timestamp
from stowplan_cluster.apiserver.objects import JsonObject, condition_of
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import NORMAL, WARNING, ControllerClient
from stowplan_cluster.controllers.workloads.ownership import Ownership, owner_reference
from stowplan_cluster.controllers.workloads.pod_templates import (
    MAX_NAME,
    POD_TEMPLATE_HASH,
    hash_of,
    same_template,
    subject_of,
)
from stowplan_cluster.reconcile import deployments as rollouts
from stowplan_cluster.reconcile.deployments import max_unavailable, reported, wanted
from stowplan_cluster.reconcile.pods import PODS, decode_pod
from stowplan_cluster.reconcile.views import DEPLOYMENTS, REPLICA_SETS, Deployment, Key, ReplicaSet

#: Annotations of a Deployment that are not copied to its ReplicaSets.
_OWN_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    rollouts.REVISION,
    rollouts.REVISION_HISTORY,
    rollouts.DESIRED_REPLICAS,
    rollouts.MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
)
#: Maximum length of the annotation with a ReplicaSet's former revisions.
_HISTORY_LENGTH = 2000


class DeploymentController:
    def __init__(self, registry: Registry) -> None:
        self.name = "deployment-controller"
        self.watches = (DEPLOYMENTS.storage, REPLICA_SETS.storage)
        self._client = ControllerClient(registry, "deployment-controller")
        self._sets: Ownership[Deployment, ReplicaSet] = Ownership(
            self._client, DEPLOYMENTS, REPLICA_SETS.storage, REPLICA_SETS.decode
        )

    def keys_of(self, event: Event) -> Sequence[Key]:
        return self._sets.keys_of(event)

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(DEPLOYMENTS.storage, key)
        if stored is None:
            return None
        deployment = DEPLOYMENTS.decode(stored)
        sets = rollouts.oldest_first(self._sets.claim(deployment))
        return _Rollout(self._client, stored, deployment, sets).advance()


class _Rollout:
    """One reconcile of one Deployment."""

    def __init__(
        self, client: ControllerClient, stored: Stored, deployment: Deployment, sets: Sequence[ReplicaSet]
    ) -> None:
        self._client = client
        self._stored = stored
        self._deployment = deployment
        template = deployment.spec.template
        self._new = next((one for one in sets if same_template(one.spec.template, template)), None)
        self._old = [one for one in sets if one is not self._new]
        self._status = DeploymentStatus(deployment, now=client.now)
        #: The Deployment's revision; "" if it has none yet.
        self._revision = ""

    def advance(self) -> float | None:
        deployment = self._deployment
        if deployment.deleting:
            return self._write(self._status.with_counts(self._new, self._old))
        self._status.set_paused()
        self._keep_new_up_to_date()
        step = self._next_step()
        if step.create is not None and self._create_new(step.create):
            step = self._next_step()
        for one in (*self._old, self._new):
            if one is not None and one.metadata.name in step.sizes:
                self._resize(one, step.sizes[one.metadata.name])
        complete = not step.sizes and is_complete(deployment, deployment.status)
        if deployment.spec.paused or (complete and not step.scaling):
            self._forget_history()
        if step.scaling:
            return self._write(self._status.with_counts(self._new, self._old))
        return self._write(self._status.of_rollout(self._new, self._old))

    def _next_step(self) -> rollouts.Step:
        return rollouts.next_step(self._deployment, self._new, self._old, self._old_pods_run)

    def _write(self, status: JsonObject) -> float | None:
        # On the main endpoint this would increment the generation.
        annotations = {rollouts.REVISION: self._revision} if self._revision else {}
        self._client.update_status(self._stored, status, annotations=annotations)
        return self._status.seconds_to_deadline(status)

    # Steps

    def _old_pods_run(self) -> bool:
        dependents = (pod for one in self._old for pod in self._client.store.dependents(one.metadata.uid))
        return any(not decode_pod(pod).finished for pod in dependents if pod.resource == PODS)

    def _resize(self, replica_set: ReplicaSet, size: int) -> None:
        before = replica_set.spec.replicas
        annotations = rollouts.replicas_annotations(self._deployment)
        if size == before and annotations.items() <= replica_set.metadata.annotations.items():
            return
        obj = self._to_dict(replica_set)
        obj["spec"]["replicas"] = size
        obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), **annotations}
        self._replace(replica_set, self._update(replica_set, obj))
        if size != before:
            direction = "up" if size > before else "down"
            message = f"Scaled {direction} replica set {replica_set.metadata.name} from {before} to {size}"
            self._client.events.record(subject_of(self._deployment), NORMAL, "ScalingReplicaSet", message)

    def _forget_history(self) -> None:
        limit = self._deployment.spec.revision_history_limit
        alive = [one for one in self._old if not one.deleting]
        excess = len(alive) - limit
        if limit == MAX_INT32 or excess <= 0:
            return
        for one in sorted(rollouts.oldest_first(alive), key=rollouts.revision_of)[:excess]:
            observed = one.status.get("observedGeneration", 0) >= one.metadata.generation
            if not one.spec.replicas and not one.status.get("replicas", 0) and observed:
                metadata = one.metadata
                self._client.delete(REPLICA_SETS.storage, metadata.namespace, metadata.name, uid=metadata.uid)

    # The new ReplicaSet and the revisions

    def _keep_new_up_to_date(self) -> None:
        """Set the new ReplicaSet's revision to the highest, and copy annotations and minReadySeconds to it."""
        if self._new is None:
            return
        obj = self._to_dict(self._new)
        metadata, spec = obj["metadata"], obj["spec"]
        annotations = self._annotations_of_new(self._new.metadata.annotations)
        seconds = self._deployment.spec.min_ready_seconds
        if annotations != self._new.metadata.annotations or spec.get("minReadySeconds", 0) != seconds:
            metadata["annotations"] = annotations
            spec["minReadySeconds"] = seconds
            self._replace(self._new, self._update(self._new, obj))
        self._revision = annotations.get(rollouts.REVISION, "")
        if has_deadline(self._deployment) and self._status.progressing is None:
            message = f'Found new replica set "{self._new.metadata.name}"'
            self._status.set(PROGRESSING, "True", FOUND_NEW_REPLICA_SET, message)

    def _annotations_of_new(self, present: dict[str, str]) -> dict[str, str]:
        revision = max((rollouts.revision_of(one) for one in self._old), default=0) + 1
        taken_over = self._deployment.metadata.annotations.items()
        annotations = present | {name: value for name, value in taken_over if name not in _OWN_ANNOTATIONS}
        before, number = present.get(rollouts.REVISION), rollouts.number_in(present, rollouts.REVISION)
        if before is None or (number is not None and number < revision):
            annotations[rollouts.REVISION] = str(revision)
            if before is not None:
                annotations[rollouts.REVISION_HISTORY] = _longer_history(
                    present.get(rollouts.REVISION_HISTORY, ""), before
                )
        return annotations

    def _create_new(self, size: int) -> ReplicaSet | None:
        """Create the new ReplicaSet; None if the name is taken (the next reconcile uses another hash)."""
        obj = self._new_replica_set(size)
        name: str = obj["metadata"]["name"]
        try:
            created = self._client.create(REPLICA_SETS.storage, obj)
        except AlreadyExists:
            self._status.collisions = (self._status.collisions or 0) + 1
            return None
        except ApiError as error:
            self._report_create_error(name, error)
            raise
        self._new = REPLICA_SETS.decode(created)
        if size:
            message = f"Scaled up replica set {name} from 0 to {size}"
            self._client.events.record(subject_of(self._deployment), NORMAL, "ScalingReplicaSet", message)
        self._revision = obj["metadata"]["annotations"][rollouts.REVISION]
        if has_deadline(self._deployment):
            message = f'Created new replica set "{name}"'
            self._status.set(PROGRESSING, "True", NEW_REPLICA_SET_CREATED, message)
        return self._new

    def _new_replica_set(self, size: int) -> JsonObject:
        deployment = self._deployment
        spec = self._stored.to_dict()["spec"]
        hashed = hash_of(deployment.spec.template, self._status.collisions or 0)
        template, selector = spec["template"], spec["selector"]
        labels = {**(template.setdefault("metadata", {}).get("labels") or {}), POD_TEMPLATE_HASH: hashed}
        template["metadata"]["labels"] = labels
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), POD_TEMPLATE_HASH: hashed}
        metadata = {
            "name": f"{deployment.metadata.name[: MAX_NAME - 1 - len(hashed)]}-{hashed}",
            "namespace": deployment.metadata.namespace,
            "labels": dict(labels),
            "annotations": self._annotations_of_new({}) | rollouts.replicas_annotations(deployment),
            "ownerReferences": [owner_reference(deployment)],
        }
        return {
            "apiVersion": REPLICA_SETS.api_version,
            "kind": REPLICA_SETS.kind,
            "metadata": metadata,
            "spec": {
                "replicas": size,
                "minReadySeconds": deployment.spec.min_ready_seconds,
                "selector": selector,
                "template": template,
            },
        }

    def _report_create_error(self, name: str, error: ApiError) -> None:
        message = f'Failed to create new replica set "{name}": {error}'
        if has_deadline(self._deployment):
            self._status.set(PROGRESSING, "False", REPLICA_SET_CREATE_ERROR, message)
            self._client.update_status(self._stored, {**self._deployment.status, "conditions": self._status.conditions})
        self._client.events.record(subject_of(self._deployment), WARNING, REPLICA_SET_CREATE_ERROR, message)

    # Writing ReplicaSets

    def _to_dict(self, replica_set: ReplicaSet) -> JsonObject:
        return self._stored_of(replica_set).to_dict()

    def _update(self, replica_set: ReplicaSet, obj: JsonObject) -> ReplicaSet:
        return REPLICA_SETS.decode(self._client.update(self._stored_of(replica_set), obj))

    def _stored_of(self, replica_set: ReplicaSet) -> Stored:
        return self._client.fetch(REPLICA_SETS.storage, replica_set.key)

    def _replace(self, before: ReplicaSet, after: ReplicaSet) -> None:
        if before is self._new:
            self._new = after
        else:
            self._old = [after if one is before else one for one in self._old]


def _longer_history(history: str, revision: str) -> str:
    """Append a revision to the history, dropping the first ones if it gets too long."""
    revisions = [*filter(None, history.split(",")), revision]
    while len(text := ",".join(revisions)) > _HISTORY_LENGTH:
        revisions.pop(0)
    return text


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
