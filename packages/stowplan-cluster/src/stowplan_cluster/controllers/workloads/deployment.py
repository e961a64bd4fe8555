"""Deployments: one ReplicaSet per pod template revision, and rollouts between them.

The new ReplicaSet is the one whose template equals the Deployment's; the others are history for `kubectl rollout undo`.
A reconcile does one step (create the new set, scale it up, scale old ones down) and updates the status; the changes of
the step trigger the next reconcile.

Left out: the deprecated rollback annotation of extensions/v1beta1.

Upstream: pkg/controller/deployment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.kube.api.api_errors import AlreadyExists, ApiError
from stowplan.kube.api.meta import MAX_INT32
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.events import NORMAL, WARNING
from stowplan_cluster.controllers.pods import PODS, decode_pod
from stowplan_cluster.controllers.views import DEPLOYMENTS, REPLICA_SETS, Deployment, Key, ReplicaSet
from stowplan_cluster.controllers.workloads import deployment_status
from stowplan_cluster.controllers.workloads import deployment_status as reasons
from stowplan_cluster.controllers.workloads.ownership import Ownership, owner_reference
from stowplan_cluster.controllers.workloads.pod_templates import (
    MAX_NAME,
    POD_TEMPLATE_HASH,
    hash_of,
    same_template,
    subject_of,
)

#: Annotations of a Deployment that are not copied to its ReplicaSets.
_OWN_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    deployment_status.REVISION,
    deployment_status.REVISION_HISTORY,
    deployment_status.DESIRED_REPLICAS,
    deployment_status.MAX_REPLICAS,
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
        sets = deployment_status.oldest_first(self._sets.claim(deployment))
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
        self._status = deployment_status.DeploymentStatus(deployment, now=client.now)
        #: The Deployment's revision; "" if it has none yet.
        self._revision = ""

    def advance(self) -> float | None:
        deployment = self._deployment
        if deployment.deleting:
            return self._write(self._status.with_counts(self._new, self._old))
        self._status.set_paused()
        self._keep_new_up_to_date()
        if deployment.spec.paused or self._is_scaling():
            return self._scale()
        if deployment.spec.strategy.type == deployment_status.RECREATE:
            self._recreate()
        else:
            self._roll()
        return self._write(self._status.of_rollout(self._new, self._old))

    def _write(self, status: JsonObject) -> float | None:
        # On the main endpoint this would increment the generation.
        annotations = {deployment_status.REVISION: self._revision} if self._revision else {}
        self._client.update_status(self._stored, status, annotations=annotations)
        return self._status.seconds_to_deadline(status)

    # Steps

    def _scale(self) -> float | None:
        """Scale to spec.replicas, without continuing the rollout."""
        sets = [*self._old, *([self._new] if self._new is not None else [])]
        active = [one for one in sets if one.spec.replicas > 0]
        latest = self._new if self._new is not None else next(iter(reversed(self._old)), None)
        if len(active) <= 1:
            lone = active[0] if active else latest
            if lone is not None:
                self._resize(lone, self._deployment.spec.replicas, annotate=True)
        elif self._new is not None and self._is_saturated(self._new):
            for one in self._old:
                self._resize(one, 0)
        elif self._deployment.spec.strategy.type != deployment_status.RECREATE:
            sizes = deployment_status.proportional_sizes(self._deployment, active)
            for one in active:
                self._resize(one, sizes[one.metadata.name], annotate=True)
        if self._deployment.spec.paused:
            self._forget_history()
        return self._write(self._status.with_counts(self._new, self._old))

    def _roll(self) -> None:
        new = self._new or self._create_new()
        if new is None:
            return
        all_sets = deployment_status.wanted([*self._old, new])
        size = new.spec.replicas
        if size > self._deployment.spec.replicas:
            target = self._deployment.spec.replicas
        else:
            target = deployment_status.size_of_new(self._deployment, size, all_sets)
        if self._resize(new, target) or self._shrink_old(new):
            return
        if deployment_status.is_complete(self._deployment, self._deployment.status):
            self._forget_history()

    def _shrink_old(self, new: ReplicaSet) -> bool:
        active = [one for one in self._old if one.spec.replicas > 0]
        if not active:
            return False
        sizes = deployment_status.sizes_of_old(self._deployment, active, new)
        resized = [self._resize(one, sizes[one.metadata.name]) for one in active]
        return any(resized)

    def _recreate(self) -> None:
        resized = [self._resize(one, 0) for one in self._old]
        if any(resized) or self._old_pods_run():
            return
        new = self._new or self._create_new()
        if new is None:
            return
        self._resize(new, self._deployment.spec.replicas)
        if deployment_status.is_complete(self._deployment, self._deployment.status):
            self._forget_history()

    def _old_pods_run(self) -> bool:
        dependents = (pod for one in self._old for pod in self._client.store.dependents(one.metadata.uid))
        return any(not decode_pod(pod).finished for pod in dependents if pod.resource == PODS)

    def _is_scaling(self) -> bool:
        """Whether spec.replicas changed since some active ReplicaSet was sized."""
        sets = [*self._old, *([self._new] if self._new is not None else [])]
        desired = (
            deployment_status.number_in(one.metadata.annotations, deployment_status.DESIRED_REPLICAS)
            for one in sets
            if one.spec.replicas > 0
        )
        return any(number is not None and number != self._deployment.spec.replicas for number in desired)

    def _is_saturated(self, new: ReplicaSet) -> bool:
        replicas = self._deployment.spec.replicas
        return (
            new.spec.replicas == replicas
            and deployment_status.number_in(new.metadata.annotations, deployment_status.DESIRED_REPLICAS) == replicas
            and new.status.get("availableReplicas", 0) == replicas
        )

    def _resize(self, replica_set: ReplicaSet, size: int, *, annotate: bool = False) -> bool:
        """Set a ReplicaSet's size; return whether it changed. `annotate` updates the annotations in any case."""
        before = replica_set.spec.replicas
        annotations = deployment_status.replicas_annotations(self._deployment)
        if size == before and (not annotate or annotations.items() <= replica_set.metadata.annotations.items()):
            return False
        obj = self._to_dict(replica_set)
        obj["spec"]["replicas"] = size
        obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), **annotations}
        self._replace(replica_set, self._update(replica_set, obj))
        if size != before:
            direction = "up" if size > before else "down"
            message = f"Scaled {direction} replica set {replica_set.metadata.name} from {before} to {size}"
            self._client.events.record(subject_of(self._deployment), NORMAL, "ScalingReplicaSet", message)
        return size != before

    def _forget_history(self) -> None:
        limit = self._deployment.spec.revision_history_limit
        alive = [one for one in self._old if not one.deleting]
        excess = len(alive) - limit
        if limit == MAX_INT32 or excess <= 0:
            return
        for one in sorted(deployment_status.oldest_first(alive), key=deployment_status.revision_of)[:excess]:
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
        self._revision = annotations.get(deployment_status.REVISION, "")
        if deployment_status.has_deadline(self._deployment) and self._status.progressing is None:
            message = f'Found new replica set "{self._new.metadata.name}"'
            self._status.set(deployment_status.PROGRESSING, "True", reasons.FOUND_NEW_REPLICA_SET, message)

    def _annotations_of_new(self, present: dict[str, str]) -> dict[str, str]:
        revision = max((deployment_status.revision_of(one) for one in self._old), default=0) + 1
        taken_over = self._deployment.metadata.annotations.items()
        annotations = present | {name: value for name, value in taken_over if name not in _OWN_ANNOTATIONS}
        before, number = (
            present.get(deployment_status.REVISION),
            deployment_status.number_in(present, deployment_status.REVISION),
        )
        if before is None or (number is not None and number < revision):
            annotations[deployment_status.REVISION] = str(revision)
            if before is not None:
                annotations[deployment_status.REVISION_HISTORY] = _longer_history(
                    present.get(deployment_status.REVISION_HISTORY, ""), before
                )
        return annotations

    def _create_new(self) -> ReplicaSet | None:
        """Create the new ReplicaSet; None if the name is taken (the next reconcile uses another hash)."""
        obj = self._new_replica_set()
        size: int = obj["spec"]["replicas"]
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
        self._revision = obj["metadata"]["annotations"][deployment_status.REVISION]
        if deployment_status.has_deadline(self._deployment):
            message = f'Created new replica set "{name}"'
            self._status.set(deployment_status.PROGRESSING, "True", reasons.NEW_REPLICA_SET_CREATED, message)
        return self._new

    def _new_replica_set(self) -> JsonObject:
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
            "annotations": self._annotations_of_new({}) | deployment_status.replicas_annotations(deployment),
            "ownerReferences": [owner_reference(deployment)],
        }
        return {
            "apiVersion": REPLICA_SETS.api_version,
            "kind": REPLICA_SETS.kind,
            "metadata": metadata,
            "spec": {
                "replicas": deployment_status.size_of_new(deployment, 0, deployment_status.wanted(self._old)),
                "minReadySeconds": deployment.spec.min_ready_seconds,
                "selector": selector,
                "template": template,
            },
        }

    def _report_create_error(self, name: str, error: ApiError) -> None:
        message = f'Failed to create new replica set "{name}": {error}'
        if deployment_status.has_deadline(self._deployment):
            self._status.set(deployment_status.PROGRESSING, "False", reasons.REPLICA_SET_CREATE_ERROR, message)
            self._client.update_status(self._stored, {**self._deployment.status, "conditions": self._status.conditions})
        self._client.events.record(subject_of(self._deployment), WARNING, reasons.REPLICA_SET_CREATE_ERROR, message)

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
