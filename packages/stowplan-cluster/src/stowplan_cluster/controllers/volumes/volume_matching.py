"""Find a volume for a claim: the smallest available one that matches.

Available volumes are grouped by class, mode and access modes and sorted by size, so only volumes that are large enough
are considered. Volumes provisioned for the claim, or reserved for it by a user, come first.

Upstream: k8s.io/component-helpers/storage/volume/pv_helpers.go (FindMatchingVolume),
pkg/controller/volume/persistentvolume/index.go.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.label_selectors import Selector, compile_label_selector
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.api.storage import (
    Candidate,
    PersistentVolume,
    PersistentVolumeClaim,
    default_class,
    is_default_class,
)
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.store import Stored
from stowplan_cluster.controllers.client import ControllerClient

FILESYSTEM = "Filesystem"
AVAILABLE = "Available"


class ClaimKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _Kind(NamedTuple):
    """The group of a volume: class and mode have to be equal, access modes a superset."""

    class_name: str
    mode: str
    attributes_class: str
    access_modes: frozenset[str]


class Wanted(PlainStruct, frozen=True):
    """The fields of a claim that decide which volumes match."""

    key: ClaimKey
    uid: str
    kind: _Kind
    #: Nano-bytes.
    size: int
    selector: Selector | None


class Offered(PlainStruct, frozen=True):
    """The fields of a volume that decide which claims match."""

    name: str
    kind: _Kind
    size: int
    labels: Mapping[str, str]
    #: The claim in claimRef, and its uid if set.
    claim: ClaimKey | None
    claim_uid: str
    phase: str
    deleting: bool

    @property
    def free(self) -> bool:
        return self.claim is None and self.phase == AVAILABLE and not self.deleting

    def is_bound_to(self, wanted: Wanted) -> bool:
        return self.claim == wanted.key and self.claim_uid in ("", wanted.uid)

    def mismatch(self, wanted: Wanted) -> str:
        """Why a claim that names this volume cannot be bound to it; "" if it can."""
        if self.deleting:
            return f'the volume is marked for deletion "{self.name}"'
        if self.size < wanted.size:
            return "requested PV is too small"
        if self.kind.class_name != wanted.kind.class_name:
            return "storageClassName does not match"
        if self.kind.attributes_class != wanted.kind.attributes_class:
            return "volumeAttributesClassName does not match"
        if self.kind.mode != wanted.kind.mode:
            return "incompatible volumeMode"
        return "" if wanted.kind.access_modes <= self.kind.access_modes else "incompatible accessMode"


def wanted_of(stored: Stored) -> Wanted:
    claim = decode_json(stored.data, PersistentVolumeClaim)
    spec = claim.spec
    kind = _Kind(
        spec.storage_class_name or "",
        spec.volume_mode or FILESYSTEM,
        spec.volume_attributes_class_name or "",
        frozenset(spec.access_modes),
    )
    return Wanted(
        key=ClaimKey(stored.namespace, stored.name),
        uid=stored.uid,
        kind=kind,
        size=parse_quantity(spec.resources.requests.get("storage", 0)),
        selector=compile_label_selector(spec.selector) if spec.selector is not None else None,
    )


def offered_of(stored: Stored) -> Offered:
    volume = decode_json(stored.data, PersistentVolume)
    spec = volume.spec
    kind = _Kind(
        spec.storage_class_name,
        spec.volume_mode or FILESYSTEM,
        spec.volume_attributes_class_name or "",
        frozenset(spec.access_modes),
    )
    reference = spec.claim_ref
    return Offered(
        name=stored.name,
        kind=kind,
        size=parse_quantity(spec.capacity.get("storage", 0)),
        labels=stored.labels,
        claim=ClaimKey(reference.namespace, reference.name) if reference is not None else None,
        claim_uid=reference.uid if reference is not None else "",
        phase=volume.status.phase,
        deleting=volume.metadata.deletion_timestamp is not None,
    )


class Volumes:
    def __init__(self) -> None:
        self._volumes: dict[str, Offered] = {}
        #: (size, name) of the free volumes.
        self._free: dict[_Kind, list[tuple[int, str]]] = {}
        self._of_claims: dict[ClaimKey, dict[str, None]] = {}

    def get(self, name: str) -> Offered | None:
        return self._volumes.get(name)

    def put(self, volume: Offered) -> None:
        self.drop(volume.name)
        self._volumes[volume.name] = volume
        if volume.claim is not None:
            self._of_claims.setdefault(volume.claim, {})[volume.name] = None
        if volume.free:
            insort(self._free.setdefault(volume.kind, []), (volume.size, volume.name))

    def drop(self, name: str) -> None:
        volume = self._volumes.pop(name, None)
        if volume is None:
            return
        if volume.claim is not None:
            left = self._of_claims[volume.claim]
            del left[name]
            if not left:
                del self._of_claims[volume.claim]
        if volume.free:
            sizes = self._free[volume.kind]
            del sizes[bisect_left(sizes, (volume.size, name))]
            if not sizes:
                del self._free[volume.kind]

    def of_claim(self, key: ClaimKey) -> list[str]:
        """Names of the volumes whose claimRef names this claim."""
        return list(self._of_claims.get(key, ()))

    def best_for(self, wanted: Wanted, *, reserved_only: bool) -> Offered | None:
        """The volume to bind. With `reserved_only` the scheduler chooses among the others."""
        for name in sorted(self._of_claims.get(wanted.key, ())):
            volume = self._volumes[name]
            # Parity: a reserved volume may have another class.
            enough = volume.size >= wanted.size and wanted.kind.access_modes <= volume.kind.access_modes
            same = volume.kind[1:3] == wanted.kind[1:3]
            if volume.is_bound_to(wanted) and enough and same and not volume.deleting:
                return volume
        if reserved_only:
            return None
        return next(self._fitting(wanted), None)

    def _fitting(self, wanted: Wanted) -> Iterator[Offered]:
        kinds = [kind for kind in self._free if suits(kind, wanted.kind)]
        for kind in sorted(kinds, key=lambda kind: (len(kind.access_modes), sorted(kind.access_modes))):
            sizes = self._free[kind]
            for _, name in sizes[bisect_left(sizes, (wanted.size, "")) :]:
                volume = self._volumes[name]
                if wanted.selector is None or wanted.selector.matches(volume.labels):
                    yield volume


def suits(offered: _Kind, wanted: _Kind) -> bool:
    return offered[:3] == wanted[:3] and wanted.access_modes <= offered.access_modes


def fits(volume: Offered, wanted: Wanted) -> bool:
    """Whether the claim can be bound to this free volume."""
    matches = wanted.selector is None or wanted.selector.matches(volume.labels)
    return volume.free and volume.size >= wanted.size and suits(volume.kind, wanted.kind) and matches


# The writes that bind a volume to a claim or unbind it.
#
# Upstream: pkg/controller/volume/persistentvolume/pv_controller.go (bind, unbindVolume).

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"

_YES = "yes"


def annotations_of(obj: JsonObject) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def reference_to(claim: Stored) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": str(claim.version),
    }


class Binding:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    def bind(self, volume: Stored, claim: Stored) -> None:
        """Set claimRef, volumeName and both phases, as far as they differ."""
        volume = self._claim_volume(volume, claim)
        volume = self.set_volume_phase(volume, "Bound")
        claim = self._name_volume(claim, volume.name)
        self._set_bound(claim, volume)

    def unbind(self, volume: Stored) -> None:
        """Remove the claimRef; one that a user set stays as a reservation."""
        obj = volume.to_dict()
        annotations = annotations_of(obj)
        if BOUND_BY_CONTROLLER in annotations:
            del obj["spec"]["claimRef"]
            del annotations[BOUND_BY_CONTROLLER]
        else:
            obj["spec"]["claimRef"].pop("uid")
        self.set_volume_phase(self._client.update(volume, obj), "Available")

    def set_volume_phase(self, stored: Stored, phase: str, message: str = "") -> Stored:
        status: JsonObject = dict(stored.to_dict().get("status") or {})
        if status.get("phase") == phase:
            return stored
        status.pop("message", None)
        status.update(phase=phase, lastPhaseTransitionTime=self._client.timestamp)
        if message:
            status["message"] = message
        return self._client.update_status(stored, status)

    def set_claim_phase(self, stored: Stored, phase: str) -> bool:
        """Set the phase of a claim without a volume; return whether it changed."""
        status: JsonObject = dict(stored.to_dict().get("status") or {})
        before = status.get("phase")
        for field in ("accessModes", "capacity", "currentVolumeAttributesClassName"):
            status.pop(field, None)
        status["phase"] = phase
        self._client.update_status(stored, status)
        return before != phase

    def _claim_volume(self, volume: Stored, claim: Stored) -> Stored:
        obj = volume.to_dict()
        reference: Any = obj["spec"].get("claimRef") or {}
        same_name = (reference.get("namespace"), reference.get("name")) == (claim.namespace, claim.name)
        if same_name and reference.get("uid") == claim.uid:
            return volume
        obj["spec"]["claimRef"] = reference_to(claim)
        if not same_name:
            obj["metadata"]["annotations"] = {**annotations_of(obj), BOUND_BY_CONTROLLER: _YES}
        return self._client.update(volume, obj)

    def _name_volume(self, claim: Stored, name: str) -> Stored:
        obj = claim.to_dict()
        annotations = annotations_of(obj)
        if obj["spec"].get("volumeName") == name and BIND_COMPLETED in annotations:
            return claim
        by_controller = {} if obj["spec"].get("volumeName") == name else {BOUND_BY_CONTROLLER: _YES}
        obj["metadata"]["annotations"] = {**by_controller, **annotations, BIND_COMPLETED: _YES}
        obj["spec"]["volumeName"] = name
        return self._client.update(claim, obj)

    def _set_bound(self, claim: Stored, volume: Stored) -> None:
        spec = volume.to_dict()["spec"]
        status: JsonObject = dict(claim.to_dict().get("status") or {})
        status["accessModes"] = spec["accessModes"]
        if status.get("phase") != "Bound":
            # Only on binding: later the claim's capacity may differ, as when a file system is still being expanded.
            status["capacity"] = spec["capacity"]
            if "volumeAttributesClassName" in spec:
                status["currentVolumeAttributesClassName"] = spec["volumeAttributesClassName"]
        status["phase"] = "Bound"
        self._client.update_status(claim, status)


# StorageClass lookups for the volume controllers.
#
# Upstream: pkg/volume/util/storageclass.go.

CLASSES = "storageclasses.storage.k8s.io"
#: The provisioner of classes without dynamic provisioning.
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def waits_for_consumer(class_: JsonObject) -> bool:
    return class_.get("volumeBindingMode") == "WaitForFirstConsumer"


def is_default(stored: Stored) -> bool:
    return is_default_class(_candidate(stored).annotations)


def default_of(classes: Iterable[Stored]) -> str | None:
    return default_class(map(_candidate, classes))


def _candidate(stored: Stored) -> Candidate:
    metadata = stored.to_dict()["metadata"]
    return Candidate(stored.name, metadata.get("annotations") or {}, metadata["creationTimestamp"])
