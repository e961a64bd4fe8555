"""Create PersistentVolumeClaims for generic ephemeral volumes.

Such a volume gets the claim `<pod>-<volume>`, created from the volume's template and owned by the pod, so that it is
deleted with the pod. An existing claim of that name that the pod does not own is never used: the pod waits until it is
deleted. A deleted claim is recreated.

Upstream: pkg/controller/volume/ephemeral.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.meta import controller_of
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.events import WARNING
from stowplan_cluster.controllers.volumes.volume_binder import CLAIMS
from stowplan_cluster.controllers.volumes.volume_matching import ClaimKey
from stowplan_cluster.reconcile.pods import PODS
from stowplan_cluster.reconcile.views import AnyObject, Key, MountedVolume, PodWithVolumes


class EphemeralVolumeController:
    def __init__(self, registry: Registry) -> None:
        self.name = "ephemeral-volume-controller"
        self.watches = (CLAIMS, PODS)
        self._client = ControllerClient(registry, "ephemeral_volume")
        #: Claim name -> pods that need it.
        self._pods: dict[ClaimKey, dict[Key, None]] = {}

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        stored = event.stored
        if stored.resource == CLAIMS:
            deleted = event.type == "DELETED"
            return [*self._pods.get(ClaimKey(stored.namespace, stored.name), ())] if deleted else ()
        if event.type == "MODIFIED":
            # A pod's volumes are immutable.
            return ()
        pod, key = decode_json(stored.data, PodWithVolumes), Key(stored.namespace, stored.name, stored.uid)
        claims = [ClaimKey(stored.namespace, _claim_name(pod, volume)) for volume in _ephemeral(pod)]
        for claim in claims:
            self._note(claim, key, wanted=event.type != "DELETED")
        return [key] if claims and event.type != "DELETED" else ()

    def _note(self, claim: ClaimKey, pod: Key, *, wanted: bool) -> None:
        pods = self._pods.setdefault(claim, {})
        if wanted:
            pods[pod] = None
            return
        pods.pop(pod, None)
        if not pods:
            del self._pods[claim]

    def reconcile(self, key: Any) -> float | None:
        stored = self._client.find(PODS, key)
        if stored is None:
            return None
        pod = decode_json(stored.data, PodWithVolumes)
        if pod.metadata.deletion_timestamp is not None:
            return None
        for volume in _ephemeral(pod):
            self._serve(stored, pod, volume)
        return None

    def _serve(self, stored: Stored, pod: PodWithVolumes, volume: MountedVolume) -> None:
        name = _claim_name(pod, volume)
        there = self._client.store.get(CLAIMS, stored.namespace, name)
        if there is not None:
            owner = controller_of(decode_json(there.data, AnyObject).metadata)
            if owner is None or owner.uid != stored.uid:
                of, mine = f"{stored.namespace}/{name}", f"{stored.namespace}/{stored.name}"
                self._warn(stored, volume, f"PVC {of} was not created for pod {mine} (pod is not owner)")
            return
        try:
            self._client.create(CLAIMS, _claim(stored, volume, name))
        except ApiError as error:
            self._warn(stored, volume, f"create PVC {name}: {error}")
            raise

    def _warn(self, stored: Stored, volume: MountedVolume, problem: str) -> None:
        message = f"ephemeral volume {volume.name}: {problem}"
        self._client.events.record(stored.to_dict(), WARNING, "FailedBinding", message)


def _ephemeral(pod: PodWithVolumes) -> list[MountedVolume]:
    return [v for v in pod.spec.volumes if v.ephemeral is not None and v.persistent_volume_claim is None]


def _claim_name(pod: PodWithVolumes, volume: MountedVolume) -> str:
    return f"{pod.metadata.name}-{volume.name}"


def _claim(pod: Stored, volume: MountedVolume, name: str) -> JsonObject:
    assert volume.ephemeral is not None
    template: Any = volume.ephemeral.get("volumeClaimTemplate") or {}
    metadata = template.get("metadata") or {}
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "uid": pod.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    copied = {field: metadata[field] for field in ("annotations", "labels") if metadata.get(field)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": pod.namespace, "ownerReferences": [owner], **copied},
        "spec": template.get("spec") or {},
    }
