"""ResourceClaims: create from templates, release when their pods are done.

A pod's entry that names a template gets a claim of its own, `<pod>-<entry>-<random>`, owned by the pod and noted in its
status. Who has reserved a claim and is done is taken off it; with the last one the devices are given back, and a claim
that was made for a pod which has ended goes. A claim that somebody deletes while it is in use stays until it is not.

Left out: claims of pod groups.

Upstream: pkg/controller/resourceclaim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.api.api_errors import ApiError, NotFound, not_found
from stowplan.api.decode import decode_json
from stowplan.api.meta import controller_of
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.device_views import (
    CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    ClaimingPod,
    DeviceClaimKey,
    PodClaim,
    may_claim,
)
from stowplan_cluster.controllers.events import WARNING
from stowplan_cluster.controllers.pods import PODS
from stowplan_cluster.controllers.views import AnyObject
from stowplan_cluster.controllers.workloads import Key

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.registry import Registry
    from stowplan_cluster.apiserver.store import Event, Stored

FINALIZER = "resource.kubernetes.io/delete-protection"
#: Of a claim that was made for a pod: the entry of the pod's spec.
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"

#: What remains of 63 characters beside the hyphen and the random ones.
_MAX_GENERATE_NAME = 57
_MAX_CONSUMERS = 256


class ResourceClaimController:
    def __init__(self, registry: Registry) -> None:
        self.name = "resourceclaim-controller"
        self.watches = (RESOURCE_CLAIMS, PODS)
        self._client = ControllerClient(registry, "resource_claim")
        #: The pods that use a claim, and back.
        self._pods: dict[DeviceClaimKey, dict[Key, None]] = {}
        self._claims: dict[Key, dict[DeviceClaimKey, None]] = {}

    # -- following ----------------------------------------------------------------------------------------------------

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        if stored.resource == RESOURCE_CLAIMS:
            claim = DeviceClaimKey(stored.namespace, stored.name)
            pods = self._pods.get(claim, ())
            return [*pods] if event.type == "DELETED" else [claim, *pods]
        if not may_claim(stored):
            return ()
        pod, key = decode_json(stored.data, ClaimingPod), Key(stored.namespace, stored.name, stored.uid)
        claims = pod.claims
        self._note(key, claims if event.type != "DELETED" else {})
        if event.type == "DELETED" or pod.done:
            return [*claims]
        return [key] if not pod.deleting else ()

    def _note(self, pod: Key, claims: dict[DeviceClaimKey, None]) -> None:
        before = self._claims.pop(pod, {})
        for gone in before.keys() - claims.keys():
            self._pods[gone].pop(pod)
            if not self._pods[gone]:
                del self._pods[gone]
        for claim in claims:
            self._pods.setdefault(claim, {})[pod] = None
        if claims:
            self._claims[pod] = claims

    def reconcile(self, key: Any) -> float | None:
        if isinstance(key, Key):
            self._serve(key)
        else:
            self._release(key)
        return None

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _serve(self, key: Key) -> None:
        stored = self._client.find(PODS, key)
        if stored is None:
            return
        pod = decode_json(stored.data, ClaimingPod)
        if pod.deleting or pod.done:
            # Upstream makes claims for pods that have ended, too, and deletes them again.
            return
        names = dict(pod.generated)
        for entry in pod.spec.resource_claims:
            if entry.resource_claim_template_name is not None:
                names[entry.name] = self._claim_of(stored, pod, entry)
        if names != pod.generated:
            self._note_in_status(stored, names)
        if pod.spec.node_name:
            self._reserve(stored, pod, names)

    def _claim_of(self, stored: Stored, pod: ClaimingPod, entry: PodClaim) -> str:
        """The claim of an entry with a template; it is made unless there is one."""
        known = self._client.store.get(RESOURCE_CLAIMS, stored.namespace, pod.generated.get(entry.name, ""))
        if known is not None and _is_of(known, stored):
            return known.name
        # Made by a reconcile that could not note it.
        for made in self._client.store.dependents(stored.uid):
            if made.resource == RESOURCE_CLAIMS and _entry_of(made) == entry.name and _is_of(made, stored):
                return made.name
        try:
            template = self._template(stored.namespace, entry.resource_claim_template_name or "")
            return self._client.create(RESOURCE_CLAIMS, _claim(stored, entry.name, template)).name
        except ApiError as error:
            problem = f"PodResourceClaim {entry.name}: {error}"
            self._client.events.record(stored.to_dict(), WARNING, "FailedResourceClaimCreation", problem)
            raise

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

    def _reserve(self, stored: Stored, pod: ClaimingPod, names: dict[str, str]) -> None:
        """A pod that came to its node without a scheduler reserves those of its claims that have devices."""
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
            if all(user.get("uid") != stored.uid for user in users):
                status["reservedFor"] = [*users, {"resource": "pods", "name": stored.name, "uid": stored.uid}]
                self._client.update(claim, obj, subresource="status")

    # -- claims -------------------------------------------------------------------------------------------------------

    def _release(self, key: DeviceClaimKey) -> None:
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
            self._unprotect(stored)
        if not left:
            self._drop_of_ended_pod(key)

    def _uses(self, namespace: str, user: JsonObject) -> bool:
        if user.get("apiGroup") or user.get("resource") != "pods":
            return True
        pod = self._client.find(PODS, Key(namespace, user["name"], user["uid"]))
        return pod is not None and not decode_json(pod.data, ClaimingPod).done

    def _free(self, stored: Stored, claim: JsonObject, left: Iterable[JsonObject], *, deallocated: bool) -> Stored:
        status = {**claim["status"], "reservedFor": [*left]}
        if not status["reservedFor"]:
            del status["reservedFor"]
        if deallocated:
            # What drivers said of the devices goes with them (strategies/status.py).
            status.pop("allocation", None)
        return self._client.update(stored, {**claim, "status": status}, subresource="status")

    def _unprotect(self, stored: Stored) -> None:
        obj = stored.to_dict()
        metadata = obj["metadata"]
        metadata["finalizers"] = [one for one in metadata["finalizers"] if one != FINALIZER]
        self._client.update(stored, obj)

    def _drop_of_ended_pod(self, key: DeviceClaimKey) -> None:
        """A claim that was made for a pod goes when that has ended, which may be long before the pod goes."""
        stored = self._client.store.get(RESOURCE_CLAIMS, key.namespace, key.name)
        if stored is None:
            return
        metadata = decode_json(stored.data, AnyObject).metadata
        owner = controller_of(metadata)
        if owner is None or owner.kind != "Pod" or metadata.deletion_timestamp is not None:
            return
        pod = self._client.find(PODS, Key(key.namespace, owner.name, owner.uid))
        # The garbage collector looks after claims of pods that are gone.
        if pod is not None and decode_json(pod.data, ClaimingPod).done:
            self._client.delete(RESOURCE_CLAIMS, key.namespace, key.name, uid=stored.uid)


def _is_of(claim: Stored, pod: Stored) -> bool:
    owner = controller_of(decode_json(claim.data, AnyObject).metadata)
    return owner is not None and owner.uid == pod.uid


def _entry_of(claim: Stored) -> str:
    return decode_json(claim.data, AnyObject).metadata.annotations.get(POD_CLAIM_NAME, "")


def _claim(pod: Stored, entry: str, template: JsonObject) -> JsonObject:
    wanted = template.get("metadata") or {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    metadata = {
        "generateName": generate_name(pod.name, entry),
        "namespace": pod.namespace,
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
    """What the names of claims begin with."""
    name = f"{pod}-{entry}-"
    if len(name) <= _MAX_GENERATE_NAME:
        return name
    pod_share, entry_share = (len(part) * _MAX_GENERATE_NAME // len(name) for part in (pod, entry))
    # Parity: no hyphen before the random characters then.
    return f"{pod[:pod_share]}-{entry[:entry_share]}"
