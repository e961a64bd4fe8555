"""ResourceClaims: create from templates, release when their pods are done.

A spec.resourceClaims entry with a template gets a claim `<pod>-<entry>-<random>`, owned by the pod and recorded in its
status. PodGroups get claims in the same way; pods of the group whose entries have the same name and template share
them, and they are reserved for the group as long as it exists. Consumers that are done are removed from reservedFor;
with the last one the claim is deallocated, and a claim generated for a pod that has ended is deleted. A claim that is
deleted while in use stays until it is released.

Upstream: pkg/controller/resourceclaim.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from stowplan.kube.api.api_errors import ApiError, NotFound, not_found
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import PodGroup, PodResourceClaim
from stowplan.kube.claims.claim_terms import ClaimKey
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import WARNING, ControllerClient
from stowplan_cluster.controllers.devices.device_views import (
    CLAIM_TEMPLATES,
    GROUPS_API,
    POD_GROUPS,
    RESOURCE_CLAIMS,
    GroupMembers,
    claims_of,
    generated_claims,
    group_of,
    is_done,
    may_claim,
)
from stowplan_cluster.reconcile.pods import PODS, Pod, decode_pod
from stowplan_cluster.reconcile.views import AnyObject, Key

FINALIZER = "resource.kubernetes.io/delete-protection"
#: Annotation of a generated claim: the entry in the pod's spec.
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"

#: 63 characters less the hyphen and the random suffix.
_MAX_GENERATE_NAME = 57
_MAX_CONSUMERS = 256


class GroupKey(NamedTuple):
    """A PodGroup by name and uid."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ResourceClaimController:
    def __init__(self, registry: Registry) -> None:
        self.name = "resourceclaim-controller"
        self.watches = (RESOURCE_CLAIMS, PODS, POD_GROUPS)
        self._client = ControllerClient(registry, "resource_claim")
        #: Claim -> pods and groups that use it, and the reverse.
        self._users: dict[ClaimKey, dict[Key | GroupKey, None]] = {}
        self._claims: dict[Key | GroupKey, dict[ClaimKey, None]] = {}
        self._members = GroupMembers()

    # -- events -------------------------------------------------------------------------------------------------------

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        if stored.resource == RESOURCE_CLAIMS:
            claim = ClaimKey(stored.namespace, stored.name)
            users = self._users.get(claim, ())
            return [*users] if event.type == "DELETED" else [claim, *users]
        if stored.resource == POD_GROUPS:
            return self._follow_group(event)
        self._members.follow(event)
        if not may_claim(stored):
            return ()
        pod, key = decode_pod(stored), Key(stored.namespace, stored.name, stored.uid)
        claims = claims_of(pod)
        self._note(key, claims if event.type != "DELETED" else {})
        if event.type == "DELETED" or is_done(pod):
            return [*claims]
        return [key] if not pod.terminating else ()

    def _follow_group(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        group, key = decode_json(stored.data, PodGroup), GroupKey(stored.namespace, stored.name, stored.uid)
        self._note(key, claims_of(group) if event.type != "DELETED" else {})
        if event.type == "DELETED":
            return [*claims_of(group)]
        # Pods wait for their group and its claims.
        return [key, *self._members.of(stored.namespace, stored.name)]

    def _note(self, user: Key | GroupKey, claims: dict[ClaimKey, None]) -> None:
        before = self._claims.pop(user, {})
        for gone in before.keys() - claims.keys():
            self._users[gone].pop(user)
            if not self._users[gone]:
                del self._users[gone]
        for claim in claims:
            self._users.setdefault(claim, {})[user] = None
        if claims:
            self._claims[user] = claims

    def reconcile(self, key: Any) -> float | None:
        if isinstance(key, Key):
            self._serve(key)
        elif isinstance(key, GroupKey):
            self._serve_group(key)
        else:
            self._release(key)
        return None

    # -- pods and groups ----------------------------------------------------------------------------------------------

    def _serve(self, key: Key) -> None:
        stored = self._client.find(PODS, key)
        if stored is None:
            return
        pod = decode_pod(stored)
        if pod.terminating or is_done(pod):
            # Upstream also creates claims for pods that have ended, and deletes them again.
            return
        group_name, made = group_of(pod), generated_claims(pod)
        group = self._client.store.get(POD_GROUPS, stored.namespace, group_name) if group_name else None
        if group_name and group is None:
            # Without the group it is unknown which claims are shared.
            return
        shared = () if group is None else decode_json(group.data, PodGroup).spec.resource_claims
        names = dict(made)
        for entry in pod.spec.resource_claims:
            if entry.resource_claim_template_name is None:
                continue
            if group is not None and entry in shared:
                if (claim := self._claim_made_for(group, entry.name)) is not None:
                    names[entry.name] = claim
            else:
                names[entry.name] = self._claim_of(stored, entry, names.get(entry.name, ""))
        if names != made:
            self._note_in_status(stored, names)
        if pod.spec.node_name:
            self._reserve(stored, pod, names, group, shared)

    def _serve_group(self, key: GroupKey) -> None:
        stored = self._client.store.get(POD_GROUPS, key.namespace, key.name)
        if stored is None or stored.uid != key.uid:
            return
        group = decode_json(stored.data, PodGroup)
        if group.metadata.deletion_timestamp is not None:
            return
        made = generated_claims(group)
        names = dict(made)
        for entry in group.spec.resource_claims:
            if entry.resource_claim_template_name is not None:
                names[entry.name] = self._claim_of(stored, entry, names.get(entry.name, ""))
        if names != made:
            self._note_in_status(stored, names)

    def _claim_of(self, owner: Stored, entry: PodResourceClaim, noted: str) -> str:
        """The name of the claim of an entry with a template, which is created if missing."""
        known = self._client.store.get(RESOURCE_CLAIMS, owner.namespace, noted)
        if known is not None and _is_of(known, owner):
            return known.name
        # Created by a reconcile that failed to record it.
        if (made := self._claim_made_for(owner, entry.name)) is not None:
            return made
        try:
            template = self._template(owner.namespace, entry.resource_claim_template_name or "")
            return self._client.create(RESOURCE_CLAIMS, _claim(owner, entry.name, template)).name
        except ApiError as error:
            user = owner.to_dict()
            problem = f"{user['kind']}ResourceClaim {entry.name}: {error}"
            self._client.events.record(user, WARNING, "FailedResourceClaimCreation", problem)
            raise

    def _claim_made_for(self, owner: Stored, entry: str) -> str | None:
        for made in self._client.store.dependents(owner.uid):
            if made.resource == RESOURCE_CLAIMS and _entry_of(made) == entry and _is_of(made, owner):
                return made.name
        return None

    def _template(self, namespace: str, name: str) -> JsonObject:
        stored = self._client.store.get(CLAIM_TEMPLATES, namespace, name)
        if stored is None:
            missing = not_found("resourceclaimtemplate", "resource.k8s.io", name)
            raise NotFound(f'resource claim template "{name}": {missing}')
        spec: JsonObject = stored.to_dict()["spec"]
        return spec

    def _note_in_status(self, stored: Stored, names: dict[str, str]) -> None:
        obj = stored.to_dict()
        statuses = [{"name": entry, "resourceClaimName": claim} for entry, claim in names.items()]
        obj.setdefault("status", {})["resourceClaimStatuses"] = statuses
        self._client.update(stored, obj, subresource="status")

    def _reserve(
        self, stored: Stored, pod: Pod, names: dict[str, str], group: Stored | None, shared: Sequence[PodResourceClaim]
    ) -> None:
        """Reserve allocated claims for a pod that was bound without a scheduler."""
        for entry in pod.spec.resource_claims:
            claim = self._client.store.get(
                RESOURCE_CLAIMS, stored.namespace, entry.resource_claim_name or names.get(entry.name, "")
            )
            if claim is None:
                return
            obj = claim.to_dict()
            status = obj.get("status") or {}
            users = status.get("reservedFor") or []
            if "allocation" not in status or len(users) >= _MAX_CONSUMERS:
                continue
            consumer = _consumer(group if group is not None and entry in shared else stored)
            if all(user.get("uid") not in (stored.uid, consumer["uid"]) for user in users):
                status["reservedFor"] = [*users, consumer]
                self._client.update(claim, obj, subresource="status")

    # -- claims -------------------------------------------------------------------------------------------------------

    def _release(self, key: ClaimKey) -> None:
        stored = self._client.store.get(RESOURCE_CLAIMS, key.namespace, key.name)
        if stored is None:
            return
        obj = stored.to_dict()
        status = obj.get("status") or {}
        users = status.get("reservedFor") or []
        left = [user for user in users if self._uses(key.namespace, user)]
        protected = FINALIZER in (obj["metadata"].get("finalizers") or ())
        unused = not left and (len(left) < len(users) or "deletionTimestamp" in obj["metadata"])
        if len(left) < len(users) or (unused and protected and "allocation" in status):
            stored = self._free(stored, obj, left, deallocated=not left and protected)
        if unused and protected:
            self._client.remove_finalizer(stored, FINALIZER)
        if not left:
            self._drop_of_ended_pod(key)

    def _uses(self, namespace: str, user: JsonObject) -> bool:
        if (user.get("apiGroup"), user.get("resource")) == (GROUPS_API, "podgroups"):
            group = self._client.store.get(POD_GROUPS, namespace, user["name"])
            return group is not None and group.uid == user["uid"]
        if user.get("apiGroup") or user.get("resource") != "pods":
            return True
        pod = self._client.find(PODS, Key(namespace, user["name"], user["uid"]))
        return pod is not None and not is_done(decode_pod(pod))

    def _free(self, stored: Stored, claim: JsonObject, left: Iterable[JsonObject], *, deallocated: bool) -> Stored:
        status = {**claim["status"], "reservedFor": [*left]}
        if not status["reservedFor"]:
            del status["reservedFor"]
        if deallocated:
            # The strategy also removes status.devices.
            status.pop("allocation", None)
        return self._client.update(stored, {**claim, "status": status}, subresource="status")

    def _drop_of_ended_pod(self, key: ClaimKey) -> None:
        """Delete a claim generated for a pod that has ended, which may exist for long after that."""
        stored = self._client.store.get(RESOURCE_CLAIMS, key.namespace, key.name)
        if stored is None:
            return
        metadata = decode_json(stored.data, AnyObject).metadata
        owner = controller_of(metadata)
        if owner is None or owner.kind != "Pod" or metadata.deletion_timestamp is not None:
            return
        pod = self._client.find(PODS, Key(key.namespace, owner.name, owner.uid))
        # The garbage collector deletes claims of deleted pods.
        if pod is not None and is_done(decode_pod(pod)):
            self._client.delete(RESOURCE_CLAIMS, key.namespace, key.name, uid=stored.uid)


def _is_of(claim: Stored, user: Stored) -> bool:
    owner = controller_of(decode_json(claim.data, AnyObject).metadata)
    return owner is not None and owner.uid == user.uid


def _consumer(user: Stored) -> JsonObject:
    if user.resource == POD_GROUPS:
        return {"apiGroup": GROUPS_API, "resource": "podgroups", "name": user.name, "uid": user.uid}
    return {"resource": "pods", "name": user.name, "uid": user.uid}


def _entry_of(claim: Stored) -> str:
    return decode_json(claim.data, AnyObject).metadata.annotations.get(POD_CLAIM_NAME, "")


def _claim(user: Stored, entry: str, template: JsonObject) -> JsonObject:
    wanted, kind = template.get("metadata") or {}, user.to_dict()
    owner = {name: kind[name] for name in ("apiVersion", "kind")}
    owner |= {"name": user.name, "uid": user.uid, "controller": True}
    metadata = {
        "generateName": generate_name(user.name, entry),
        "namespace": user.namespace,
        "ownerReferences": [owner],
        "annotations": {**(wanted.get("annotations") or {}), POD_CLAIM_NAME: entry},
    }
    if wanted.get("labels"):
        metadata["labels"] = wanted["labels"]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


def generate_name(pod: str, entry: str) -> str:
    """The generateName of claims."""
    name = f"{pod}-{entry}-"
    if len(name) <= _MAX_GENERATE_NAME:
        return name
    pod_share, entry_share = (len(part) * _MAX_GENERATE_NAME // len(name) for part in (pod, entry))
    # Parity: a truncated name has no hyphen before the random suffix.
    return f"{pod[:pod_share]}-{entry[:entry_share]}"
