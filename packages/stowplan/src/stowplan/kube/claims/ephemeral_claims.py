"""Create PersistentVolumeClaims for generic ephemeral volumes.

Such a volume gets the claim `<pod>-<volume>`, created from the volume's template and owned by the pod, so that it is
deleted with the pod. An existing claim of that name that the pod does not own is never used: the pod waits until it is
deleted. A deleted claim is recreated.

Upstream: pkg/controller/volume/ephemeral.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.meta import ApiStruct, ObjectMeta, OwnerReference, controller_of
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import PersistentVolumeClaim, Pod
from stowplan.kube.api.volumes import PersistentVolumeClaimTemplate, Volume
from stowplan.kube.claims.claim_terms import ClaimKey, key_of
from stowplan.kube.claims.writes import WARNING, Create, Effects, Objects, Report


class PodKey(NamedTuple):
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class EphemeralClaims:
    kinds: Sequence[type[ApiStruct]] = (PersistentVolumeClaim, Pod)

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        #: Claim -> pods that need it.
        self._pods: dict[ClaimKey, dict[PodKey, None]] = {}

    def keys_of(self, change: Change[Any]) -> Sequence[Hashable]:
        old: Any = change.old
        new: Any = change.new
        if isinstance(old if new is None else new, PersistentVolumeClaim):
            return [*self._pods.get(key_of(old), ())] if new is None else ()
        if old is not None and new is not None:
            # A pod's volumes are immutable.
            return ()
        pod: Pod = old if new is None else new
        metadata = pod.metadata
        key = PodKey(metadata.namespace or "default", metadata.name, metadata.uid)
        claims = [
            ClaimKey(key.namespace, claim_name(pod, volume)) for volume in pod.spec.volumes if is_ephemeral(volume)
        ]
        for claim in claims:
            self._note(claim, key, wanted=new is not None)
        return [key] if claims and new is not None else ()

    def _note(self, claim: ClaimKey, pod: PodKey, *, wanted: bool) -> None:
        pods = self._pods.setdefault(claim, {})
        if wanted:
            pods[pod] = None
            return
        pods.pop(pod, None)
        if not pods:
            del self._pods[claim]

    def reconcile(self, key: PodKey, now: float) -> Effects:
        pod = self._objects.find(Pod, key.namespace, key.name)
        if pod is None or pod.metadata.uid != key.uid or pod.metadata.deletion_timestamp is not None:
            return
        for volume in pod.spec.volumes:
            if is_ephemeral(volume):
                yield from self._serve(key, pod, volume)

    def _serve(self, key: PodKey, pod: Pod, volume: Volume) -> Effects:
        name = claim_name(pod, volume)
        there = self._objects.find(PersistentVolumeClaim, key.namespace, name)
        if there is None:
            try:
                yield Create(ephemeral_claim(pod, volume))
            except ApiError as error:
                yield _failed(pod, volume, f"create PVC {name}: {error}")
                raise
            return
        owner = controller_of(there.metadata)
        if owner is None or owner.uid != key.uid:
            problem = f"PVC {key.namespace}/{name} was not created for pod {key} (pod is not owner)"
            yield _failed(pod, volume, problem)


def _failed(pod: Pod, volume: Volume, problem: str) -> Report:
    return Report(pod, WARNING, "FailedBinding", f"ephemeral volume {volume.name}: {problem}")


def is_ephemeral(volume: Volume) -> bool:
    return volume.ephemeral is not None and volume.persistent_volume_claim is None


def claim_name(pod: Pod, volume: Volume) -> str:
    """The claim of a volume that is one, or gets one; "" for others."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return "" if volume.ephemeral is None else f"{pod.metadata.name}-{volume.name}"


def ephemeral_claim(pod: Pod, volume: Volume) -> PersistentVolumeClaim:
    """The claim that is created for an ephemeral volume."""
    assert volume.ephemeral is not None
    template = volume.ephemeral.volume_claim_template or PersistentVolumeClaimTemplate()
    of_pod = pod.metadata
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=of_pod.name, uid=of_pod.uid, controller=True, block_owner_deletion=True
    )
    metadata = ObjectMeta(
        name=claim_name(pod, volume),
        namespace=of_pod.namespace or "default",
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(owner,),
    )
    return PersistentVolumeClaim(metadata=metadata, spec=template.spec)
