"""StatefulSets: pods with stable names, created and deleted in order (`reconcile.stateful_sets`).

rollingUpdate.maxUnavailable has no effect: its feature gate is off by default upstream, so that it is not stored.

Upstream: pkg/controller/statefulset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stowplan.kube.api.api_errors import ApiError, conflict
from stowplan.kube.api.decode import to_dict
from stowplan.kube.api.types import PersistentVolumeClaim
from stowplan.kube.claims.stateful_claims import claim_volumes, claims_for, identity
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import NORMAL, WARNING, ControllerClient
from stowplan_cluster.controllers.workloads.ownership import Ownership, owner_reference
from stowplan_cluster.controllers.workloads.pod_templates import new_pod, subject_of
from stowplan_cluster.controllers.workloads.revisions import HASH, REVISION_HASH, Revision, RevisionHistory
from stowplan_cluster.reconcile.pods import PENDING, PODS, Pod, decode_pod, next_availability
from stowplan_cluster.reconcile.stateful_sets import (
    Moves,
    Seen,
    has_current_revision,
    is_complete,
    next_moves,
    ordinals,
)
from stowplan_cluster.reconcile.views import STATEFUL_SETS, Key, StatefulSet

# Pods of a StatefulSet and their claims: ordinals, identity and storage.
#
# Pods and their claims are named by ordinal, so a recreated pod gets its claims back. Claims outlive pods by default;
# persistentVolumeClaimRetentionPolicy Delete is implemented with owner references and the garbage collector.
#
# Left out: no warning for claims that another controller owns as well.
#
# Upstream: pkg/controller/statefulset/stateful_pod_control.go, stateful_set_utils.go.

CLAIMS = "persistentvolumeclaims"

DELETE = "Delete"

_NAME_RE = re.compile(r"(?P<parent>.*)-(?P<ordinal>[0-9]+)")


def ordinal_of(stateful_set: StatefulSet, pod_name: str) -> int:
    """The ordinal of a pod name; -1 if the name does not belong to the set."""
    match = _NAME_RE.fullmatch(pod_name)
    if match is None or match["parent"] != stateful_set.metadata.name:
        return -1
    return int(match["ordinal"])


class StatefulPods:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    def create(self, stateful_set: StatefulSet, ordinal: int, revision: Revision) -> None:
        pod = _pod(stateful_set, ordinal, revision)
        name = pod["metadata"]["name"]
        self.create_claims(stateful_set, ordinal)
        try:
            self._client.create(PODS, pod)
        except ApiError as error:
            message = f"Create Pod {name} in StatefulSet {stateful_set.metadata.name} failed error: {error}"
            self._client.events.record(subject_of(stateful_set), WARNING, "FailedCreate", message)
            raise
        self._record(stateful_set, "Create", name)

    def delete(self, stateful_set: StatefulSet, pod: Pod) -> None:
        if self._client.delete(PODS, pod.metadata.namespace, pod.name, uid=pod.uid):
            self._record(stateful_set, "Delete", pod.name)

    def keep_identity(self, stateful_set: StatefulSet, pod: Pod) -> None:
        """Set the identity labels of an adopted pod."""
        labels = identity(pod.name, ordinal_of(stateful_set, pod.name))
        if labels.items() <= pod.labels.items():
            return
        stored = self._client.fetch(PODS, Key(pod.metadata.namespace, pod.name, pod.uid))
        obj = stored.to_dict()
        obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), **labels}
        self._client.update(stored, obj)
        self._record(stateful_set, "Update", pod.name)

    def create_claims(self, stateful_set: StatefulSet, ordinal: int) -> None:
        for claim in _claims(stateful_set, ordinal):
            name = claim.metadata.name
            stored = self._client.store.get(CLAIMS, stateful_set.metadata.namespace, name)
            if stored is None:
                self._client.create(CLAIMS, to_dict(claim))
                pod, owner = _pod_name(stateful_set, ordinal), stateful_set.metadata.name
                message = f"Create Claim {name} Pod {pod} in StatefulSet {owner} success"
                self._client.events.record(subject_of(stateful_set), NORMAL, "SuccessfulCreate", message)
            elif "deletionTimestamp" in stored.to_dict()["metadata"]:
                raise conflict(CLAIMS, "", name, "the claim is being deleted")

    def claims_wait_for_collection(self, stateful_set: StatefulSet, ordinal: int) -> bool:
        """Whether a claim is still to be deleted with an earlier pod of this name."""
        if stateful_set.spec.persistent_volume_claim_retention_policy.when_scaled != DELETE:
            return False
        name = _pod_name(stateful_set, ordinal)
        return any(
            reference.get("kind") == "Pod" and reference.get("name") == name
            for stored in self._existing_claims(stateful_set, ordinal)
            for reference in stored.to_dict()["metadata"].get("ownerReferences") or ()
        )

    def keep_claim_owners(self, stateful_set: StatefulSet, pod: Pod) -> None:
        """Set the owner references of a pod's claims as the retention policy requires."""
        wanted = _claim_owner(stateful_set, pod)
        uids = (stateful_set.metadata.uid, pod.uid)
        for stored in self._existing_claims(stateful_set, ordinal_of(stateful_set, pod.name)):
            obj = stored.to_dict()
            present = obj["metadata"].get("ownerReferences") or []
            references = [one for one in present if one.get("uid") not in uids]
            references += [wanted] if wanted is not None else []
            if references != present:
                obj["metadata"]["ownerReferences"] = references
                self._client.update(stored, obj)

    def _existing_claims(self, stateful_set: StatefulSet, ordinal: int) -> Iterator[Stored]:
        for claim in _claims(stateful_set, ordinal):
            stored = self._client.store.get(CLAIMS, claim.metadata.namespace, claim.metadata.name)
            if stored is not None:
                yield stored

    def _record(self, stateful_set: StatefulSet, verb: str, pod: str) -> None:
        message = f"{verb} Pod {pod} in StatefulSet {stateful_set.metadata.name} successful"
        self._client.events.record(subject_of(stateful_set), NORMAL, f"Successful{verb}", message)


def _pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    return f"{stateful_set.metadata.name}-{ordinal}"


def _pod(stateful_set: StatefulSet, ordinal: int, revision: Revision) -> JsonObject:
    name = _pod_name(stateful_set, ordinal)
    pod = new_pod(stateful_set, revision.template, name=name)
    metadata, spec = pod["metadata"], pod["spec"]
    labels = metadata.get("labels") or {}
    metadata["labels"] = {**labels, **identity(name, ordinal), REVISION_HASH: revision.name}
    spec["hostname"] = name
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    own = claim_volumes(stateful_set.spec.volume_claim_templates, name)
    if own:
        others = [volume for volume in spec.get("volumes") or () if volume["name"] not in own]
        spec["volumes"] = [*map(to_dict, own.values()), *others]
    return pod


def _claims(stateful_set: StatefulSet, ordinal: int) -> Iterator[PersistentVolumeClaim]:
    spec, pod = stateful_set.spec, _pod_name(stateful_set, ordinal)
    labels = spec.label_selector.match_labels if spec.label_selector else {}
    return claims_for(spec.volume_claim_templates, pod, stateful_set.metadata.namespace, labels)


def _claim_owner(stateful_set: StatefulSet, pod: Pod) -> JsonObject | None:
    """The owner with which a claim of the pod is deleted; None to keep it."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    scaled_down = ordinal_of(stateful_set, pod.name) not in ordinals(stateful_set)
    if policy.when_scaled == DELETE and scaled_down:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.name,
            "uid": pod.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    return owner_reference(stateful_set) if policy.when_deleted == DELETE else None


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
        known, update, collisions = self._history.follow(stateful_set, stateful_set.spec.template)
        current = next((one for one in known if one.name == stateful_set.status.get("currentRevision")), update)
        mine = {ordinal_of(stateful_set, pod.name): pod for pod in pods}
        seen: dict[int, Seen | None] = dict.fromkeys(ordinals(stateful_set))
        seen |= {ordinal: self._seen(stateful_set, pod, update) for ordinal, pod in mine.items()}
        status = _status(stateful_set, pods, current, update, collisions, self._client.now)
        if is_complete(stateful_set, seen):
            status |= {"currentRevision": update.name, "currentReplicas": status["updatedReplicas"]}
        waits_for_claim = False
        try:
            if not stateful_set.deleting:
                moves = next_moves(stateful_set, seen)
                self._look_after(stateful_set, mine, moves)
                waits_for_claim = self._carry_out(stateful_set, mine, moves, current, update)
        finally:
            # Update the status even if creates or deletes failed.
            self._client.update_status(stored, status, kept=_KEPT)
        in_use = {current.name, update.name, *(pod.labels.get(REVISION_HASH, "") for pod in pods)}
        self._history.truncate(known, in_use, stateful_set.spec.revision_history_limit)
        if waits_for_claim:
            return CLAIM_RECHECK_SECONDS
        return next_availability(pods, stateful_set.spec.min_ready_seconds, self._client.now)

    def _seen(self, stateful_set: StatefulSet, pod: Pod, update: Revision) -> Seen:
        available = pod.available(stateful_set.spec.min_ready_seconds, self._client.now)
        return Seen(
            outdated=pod.labels.get(REVISION_HASH) != update.name,
            ready=pod.ready,
            available=available and not pod.terminating,
            finished=pod.finished,
            terminating=pod.terminating,
        )

    def _look_after(self, stateful_set: StatefulSet, pods: Mapping[int, Pod], moves: Moves) -> None:
        """Identity and storage of the pods, up to the one that others wait for."""
        kept, control = ordinals(stateful_set), self._control
        for ordinal in sorted(pods):
            pod = pods[ordinal]
            if ordinal not in kept and moves.stops_at is None:
                control.keep_claim_owners(stateful_set, pod)
            if ordinal not in kept or pod.finished or pod.terminating or moves.is_beyond(ordinal):
                continue
            if pod.phase == PENDING:
                control.create_claims(stateful_set, ordinal)
            if ordinal != moves.stops_at:
                control.keep_identity(stateful_set, pod)
                control.keep_claim_owners(stateful_set, pod)

    def _carry_out(
        self, stateful_set: StatefulSet, pods: Mapping[int, Pod], moves: Moves, current: Revision, update: Revision
    ) -> bool:
        """Returns whether a pod waits for claims of an earlier one to be deleted."""
        waits = False
        for ordinal in moves.create[:BURST]:
            if self._control.claims_wait_for_collection(stateful_set, ordinal):
                waits = True
                continue
            revision = current if has_current_revision(stateful_set, ordinal) else update
            self._control.create(stateful_set, ordinal, revision)
        for ordinal in (*moves.delete, *moves.update)[:BURST]:
            self._control.delete(stateful_set, pods[ordinal])
        return waits


def _status(
    stateful_set: StatefulSet, pods: Sequence[Pod], current: Revision, update: Revision, collisions: int, now: float
) -> JsonObject:
    spec = stateful_set.spec
    revisions = [pod.labels.get(REVISION_HASH) for pod in pods if not pod.terminating]
    return {
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
