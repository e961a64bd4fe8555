"""What a claim wants of its volume, when both are bound, and how they look then.

Upstream: k8s.io/component-helpers/storage/volume/helpers.go, pv_helpers.go.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from stowplan.kube.api.label_selectors import Selector, SelectorError, compile_label_selector
from stowplan.kube.api.meta import ObjectReference, ResourceList, reference_to, timestamp
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.api.storage import PersistentVolumeClaimStatus, PersistentVolumeStatus
from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim, StorageClass

#: On a claim or volume: the name of its class, from before there was a field for it.
STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
#: On a claim: its volume is bound to it.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
#: On a claim: the node for which to provision a volume.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: On a claim: the provisioner that has to create its volume, under the newer and the older name.
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
#: On a volume, or on a claim: the controller bound it, and may unbind it.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
#: On a volume: the provisioner that created it.
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


#: Provisioners that create no volumes.
NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")

PENDING, BOUND, AVAILABLE, RELEASED = "Pending", "Bound", "Available", "Released"

_FILESYSTEM = "Filesystem"
_STORAGE = "storage"
_YES = "yes"


class ClaimKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def key_of(claim: PersistentVolumeClaim) -> ClaimKey:
    return ClaimKey(claim.metadata.namespace or "default", claim.metadata.name)


def claim_of(volume: PersistentVolume) -> ClaimKey | None:
    """The claim in the claimRef."""
    reference = volume.spec.claim_ref
    return None if reference is None else ClaimKey(reference.namespace or "default", reference.name)


class ClaimRequirements(NamedTuple):
    """What a claim requires of a volume."""

    class_name: str
    #: In units of 10^-9 bytes; None: not specified.
    size: int | None
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str
    selector: Selector | None
    #: Why the selector is invalid.
    problem: str = ""


def wanted_by(claim: PersistentVolumeClaim) -> ClaimRequirements:
    spec = claim.spec
    selector, problem = None, ""
    if spec.selector is not None:
        try:
            selector = compile_label_selector(spec.selector)
        except SelectorError as e:
            key = f"{claim.metadata.namespace}/{claim.metadata.name}"
            problem = f"error creating internal label selector for claim: {key}: {e}"
    return ClaimRequirements(
        class_name=class_name_of(claim),
        size=size_in(spec.resources.requests),
        access_modes=frozenset(spec.access_modes),
        volume_mode=mode_of(claim),
        attributes_class=spec.volume_attributes_class_name or "",
        selector=selector,
        problem=problem,
    )


def class_name_of(obj: PersistentVolumeClaim | PersistentVolume) -> str:
    """Name of the class of a claim or volume; "" if it has none.

    The annotation takes precedence, even if it is empty.
    """
    annotated = obj.metadata.annotations.get(STORAGE_CLASS)
    return (obj.spec.storage_class_name or "") if annotated is None else annotated


def names_class(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim has a class or explicitly none, so that it does not get the default one."""
    return claim.spec.storage_class_name is not None or STORAGE_CLASS in claim.metadata.annotations


def waits_for_consumer(storage_class: StorageClass | None) -> bool:
    return storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"


def mode_of(obj: PersistentVolumeClaim | PersistentVolume) -> str:
    return obj.spec.volume_mode or _FILESYSTEM


def size_in(amounts: ResourceList) -> int | None:
    """The storage in units of 10^-9 bytes."""
    amount = amounts.get(_STORAGE)
    return None if amount is None else parse_quantity(amount)


# -- states ------------------------------------------------------------------------------------------------------------


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_free(volume: PersistentVolume) -> bool:
    """Whether the volume is available to any claim."""
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == AVAILABLE
        and volume.metadata.deletion_timestamp is None
    )


def is_bound_to(reference: ObjectReference | None, claim: PersistentVolumeClaim) -> bool:
    """Whether a claimRef names this claim, maybe without its UID."""
    return (
        reference is not None
        and (reference.namespace or "default", reference.name) == key_of(claim)
        and reference.uid in ("", claim.metadata.uid)
    )


# -- binding -----------------------------------------------------------------------------------------------------------


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume, with this claim in its claimRef; unchanged if it already is."""
    reference, metadata = volume.spec.claim_ref, volume.metadata
    wanted = claim.metadata.namespace, claim.metadata.name, claim.metadata.uid
    if reference is not None and (reference.namespace, reference.name, reference.uid) == wanted:
        return volume
    if not is_bound_to(reference, claim) and BOUND_BY_CONTROLLER not in metadata.annotations:
        metadata = replace(metadata, annotations={**metadata.annotations, BOUND_BY_CONTROLLER: _YES})
    return replace(volume, metadata=metadata, spec=replace(volume.spec, claim_ref=reference_to(claim)))


def unbound(volume: PersistentVolume) -> PersistentVolume:
    """The volume without its claimRef; one that a user set stays as a reservation."""
    metadata, reference = volume.metadata, volume.spec.claim_ref
    assert reference is not None
    if BOUND_BY_CONTROLLER not in metadata.annotations:
        return replace(volume, spec=replace(volume.spec, claim_ref=replace(reference, uid="")))
    annotations = {name: value for name, value in metadata.annotations.items() if name != BOUND_BY_CONTROLLER}
    return replace(
        volume, metadata=replace(metadata, annotations=annotations), spec=replace(volume.spec, claim_ref=None)
    )


def in_phase(volume: PersistentVolume, phase: str, now: float, message: str = "") -> PersistentVolume:
    if volume.status.phase == phase:
        return volume
    status = PersistentVolumeStatus(phase=phase, message=message, last_phase_transition_time=timestamp(now))
    return replace(volume, status=status)


def bound_claim(claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
    """The claim, with this volume; unchanged if it already is."""
    spec, annotations, status, of = claim.spec, claim.metadata.annotations, claim.status, volume.spec
    if spec.volume_name != volume.metadata.name:
        spec = replace(spec, volume_name=volume.metadata.name)
        annotations = {BOUND_BY_CONTROLLER: _YES, **annotations}
    annotations = {**annotations, BIND_COMPLETED: _YES}
    if status.phase != BOUND:
        # Only on binding: later the claim's capacity may differ, as when a file system is still being expanded.
        status = PersistentVolumeClaimStatus(
            phase=BOUND,
            capacity=of.capacity,
            current_volume_attributes_class_name=of.volume_attributes_class_name
            or status.current_volume_attributes_class_name,
        )
    status = replace(status, access_modes=of.access_modes)
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations), spec=spec, status=status)
