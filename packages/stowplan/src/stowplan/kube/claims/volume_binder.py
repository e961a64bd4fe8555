"""Bind PersistentVolumes to claims, and release them.

A claim gets the volume that it names, one reserved for it, the smallest that fits, or a new one from its class's
provisioner (`provisioner.py`). With WaitForFirstConsumer the scheduler reserves a volume for the claim, or it is
provisioned once the scheduler has selected a node. Available volumes are grouped by class, mode and access modes and
sorted by size (`VolumeIndex`), so that only those that are large enough are considered. A volume is reserved at once;
the rest of the binding may take time (`takes`), except for a volume that was just provisioned.

A volume whose claim is gone is Released; with reclaim policy Delete the provisioner removes it. A waiting claim is
reconciled again when a suitable volume or class is added. Volumes are not resized: if a bound claim requests more, an
event says so.

Left out: WaitForPodScheduled events, recycling (such a volume fails, as on a cluster without recycler), migration of
in-tree volumes.

Upstream: pkg/controller/volume/persistentvolume/{pv_controller,index}.go,
k8s.io/component-helpers/storage/volume/pv_helpers.go (FindMatchingVolume).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Change
from stowplan.kube.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    StorageClass,
    default_class,
    is_default_class,
)
from stowplan.kube.claims.claim_terms import (
    AVAILABLE,
    BETA_STORAGE_PROVISIONER,
    BIND_COMPLETED,
    BOUND,
    NO_PROVISIONER,
    PENDING,
    PROVISIONED_BY,
    RELEASED,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    ClaimKey,
    ClaimRequirements,
    bound_claim,
    bound_to,
    claim_of,
    class_name_of,
    in_phase,
    is_bound_to,
    is_free,
    is_fully_bound,
    key_of,
    mode_of,
    names_class,
    size_in,
    unbound,
    waits_for_consumer,
    wanted_by,
)
from stowplan.kube.claims.writes import NORMAL, WARNING, Effects, LookAgain, Objects, Report, Write


class _Group(NamedTuple):
    """Class and mode have to be equal, access modes a superset."""

    class_name: str
    mode: str
    attributes_class: str
    access_modes: frozenset[str]


def group_of(volume: PersistentVolume) -> _Group:
    spec = volume.spec
    return _Group(
        class_name_of(volume), mode_of(volume), spec.volume_attributes_class_name or "", frozenset(spec.access_modes)
    )


class VolumeIndex:
    def __init__(self) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        #: (size, name) of the free volumes.
        self._free: dict[_Group, list[tuple[int, str]]] = {}
        self._of_claims: dict[ClaimKey, dict[str, None]] = {}

    def get(self, name: str) -> PersistentVolume | None:
        return self._volumes.get(name)

    def put(self, volume: PersistentVolume) -> None:
        name, claim = volume.metadata.name, claim_of(volume)
        self.drop(name)
        self._volumes[name] = volume
        if claim is not None:
            self._of_claims.setdefault(claim, {})[name] = None
        if is_free(volume):
            insort(self._free.setdefault(group_of(volume), []), _place(volume))

    def drop(self, name: str) -> None:
        volume = self._volumes.pop(name, None)
        if volume is None:
            return
        claim = claim_of(volume)
        if claim is not None:
            left = self._of_claims[claim]
            del left[name]
            if not left:
                del self._of_claims[claim]
        if is_free(volume):
            group = group_of(volume)
            places = self._free[group]
            del places[bisect_left(places, _place(volume))]
            if not places:
                del self._free[group]

    def of_claim(self, key: ClaimKey) -> list[str]:
        """Names of the volumes whose claimRef names this claim."""
        return list(self._of_claims.get(key, ()))

    def best_for(
        self, claim: PersistentVolumeClaim, wanted: ClaimRequirements, *, reserved_only: bool
    ) -> PersistentVolume | None:
        """The volume to bind. With `reserved_only` the scheduler chooses among the others."""
        for name in sorted(self._of_claims.get(key_of(claim), ())):
            volume = self._volumes[name]
            # Parity: a reserved volume may have another class.
            enough = _size(volume) >= (wanted.size or 0) and wanted.access_modes <= frozenset(volume.spec.access_modes)
            same = group_of(volume)[1:3] == (wanted.volume_mode, wanted.attributes_class)
            going = volume.metadata.deletion_timestamp is not None
            if enough and same and not going and is_bound_to(volume.spec.claim_ref, claim):
                return volume
        return None if reserved_only else next(self._fitting(wanted), None)

    def _fitting(self, wanted: ClaimRequirements) -> Iterator[PersistentVolume]:
        groups = [group for group in self._free if suits(group, wanted)]
        for group in sorted(groups, key=lambda group: (len(group.access_modes), sorted(group.access_modes))):
            places = self._free[group]
            for _, name in places[bisect_left(places, (wanted.size or 0, "")) :]:
                volume = self._volumes[name]
                if wanted.selector is None or wanted.selector.matches(volume.metadata.labels):
                    yield volume


def suits(offered: _Group, wanted: ClaimRequirements) -> bool:
    same = wanted.class_name, wanted.volume_mode, wanted.attributes_class
    return offered[:3] == same and wanted.access_modes <= offered.access_modes and not wanted.problem


def fits(volume: PersistentVolume, wanted: ClaimRequirements) -> bool:
    """Whether the claim can be bound to this free volume."""
    matches = wanted.selector is None or wanted.selector.matches(volume.metadata.labels)
    return is_free(volume) and _size(volume) >= (wanted.size or 0) and suits(group_of(volume), wanted) and matches


def mismatch(volume: PersistentVolume, wanted: ClaimRequirements) -> str:
    """Why a claim that names this volume cannot be bound to it; "" if it can."""
    group = group_of(volume)
    if volume.metadata.deletion_timestamp is not None:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if _size(volume) < (wanted.size or 0):
        return "requested PV is too small"
    if group.class_name != wanted.class_name:
        return "storageClassName does not match"
    if group.attributes_class != wanted.attributes_class:
        return "volumeAttributesClassName does not match"
    if group.mode != wanted.volume_mode:
        return "incompatible volumeMode"
    return "" if wanted.access_modes <= group.access_modes else "incompatible accessMode"


def _size(volume: PersistentVolume) -> int:
    return size_in(volume.spec.capacity) or 0


def _place(volume: PersistentVolume) -> tuple[int, str]:
    return _size(volume), volume.metadata.name


_LOST_REFERENCE = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
_LOST_VOLUME = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
_MISBOUND = "Two claims are bound to the same volume, this one is bound incorrectly"
_NO_RECYCLER = "No recycler plugin found for the volume!"


class VolumeKey(NamedTuple):
    name: str


class VolumeBinder:
    kinds: Sequence[type[ApiStruct]] = (StorageClass, PersistentVolume, PersistentVolumeClaim)

    def __init__(self, objects: Objects, *, takes: float = 0.0) -> None:
        """`takes`: seconds from the reservation of a volume until it is bound."""
        self._objects = objects
        self._takes = takes
        self._volumes = VolumeIndex()
        #: spec.volumeName -> claims that name the volume.
        self._claimants: dict[str, dict[ClaimKey, None]] = {}
        #: Class -> claims without a suitable volume, in order of arrival.
        self._waiting: dict[str, dict[ClaimKey, None]] = {}
        #: When claims are bound whose volumes are reserved.
        self._due: dict[ClaimKey, float] = {}

    def keys_of(self, change: Change[Any]) -> Sequence[Hashable]:
        about = change.old if change.new is None else change.new
        if isinstance(about, StorageClass):
            return self._follow_class(about, deleted=change.new is None)
        if isinstance(about, PersistentVolume):
            return self._follow_volume(about, deleted=change.new is None)
        return self._follow_claim(change.old, change.new)

    def reconcile(self, key: ClaimKey | VolumeKey, now: float) -> Effects:
        if isinstance(key, ClaimKey):
            claim = self._objects.find(PersistentVolumeClaim, *key)
            if claim is not None:
                yield from self._sync_claim(claim, now)
            return
        volume = self._objects.find(PersistentVolume, "", key.name)
        if volume is not None:
            yield from self._sync_volume(volume, now)
            yield from self._offer(key.name, now)

    # -- changes -------------------------------------------------------------------------------------------------------

    def _follow_class(self, storage_class: StorageClass, *, deleted: bool) -> Sequence[Hashable]:
        waiting = [*self._waiting.get(storage_class.metadata.name, ())]
        if not deleted and is_default_class(storage_class.metadata.annotations):
            waiting += self._waiting.get("", ())
        return waiting

    def _follow_volume(self, volume: PersistentVolume, *, deleted: bool) -> Sequence[Hashable]:
        name = volume.metadata.name
        before = self._volumes.get(name)
        self._volumes.drop(name)
        claims = dict.fromkeys((*_claims_in(before), *self._claimants.get(name, ())))
        if deleted:
            return list(claims)
        self._volumes.put(volume)
        return [VolumeKey(name), *dict.fromkeys((*claims, *_claims_in(volume)))]

    def _follow_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> Sequence[Hashable]:
        claim = old or new
        assert claim is not None
        key, before = key_of(claim), "" if old is None else old.spec.volume_name
        name = "" if new is None else new.spec.volume_name
        if before != name:
            _discard(self._claimants, before, key)
        if name:
            self._claimants.setdefault(name, {})[key] = None
        # Its next reconcile adds it again if needed.
        _discard(self._waiting, class_name_of(claim), key)
        if new is None:
            self._due.pop(key, None)
        volumes = dict.fromkeys([*self._volumes.of_claim(key), *(one for one in (before, name) if one)])
        return [key, *(VolumeKey(volume) for volume in volumes)]

    def _offer(self, name: str, now: float) -> Effects:
        """Offer an available volume to the claim that has waited longest."""
        volume = self._volumes.get(name)
        if volume is None or not is_free(volume):
            return
        for key in list(self._waiting.get(class_name_of(volume), ())):
            claim = self._objects.find(PersistentVolumeClaim, *key)
            if claim is not None and fits(volume, wanted_by(claim)):
                yield from self._sync_claim(claim, now)
                current = self._volumes.get(name)
                if current is None or not is_free(current):
                    return

    # -- claims --------------------------------------------------------------------------------------------------------

    def _sync_claim(self, claim: PersistentVolumeClaim, now: float) -> Effects:
        if BIND_COMPLETED in claim.metadata.annotations:
            return self._sync_bound_claim(claim, now)
        return self._sync_reserving_claim(claim, now) if claim.spec.volume_name else self._sync_free_claim(claim, now)

    def _sync_free_claim(self, claim: PersistentVolumeClaim, now: float) -> Effects:
        """A claim without volumeName."""
        name = class_name_of(claim)
        storage_class = self._objects.find(StorageClass, "", name) if name else None
        delayed = waits_for_consumer(storage_class)
        volume = self._volumes.best_for(claim, wanted_by(claim), reserved_only=delayed)
        if volume is not None:
            yield from self._bind(volume, claim, now)
            return
        default = None if names_class(claim) else default_class(self._objects.list(StorageClass))
        if default is not None:
            yield Write(claim, replace(claim, spec=replace(claim.spec, storage_class_name=default)))
            return
        self._waiting.setdefault(name, {})[key_of(claim)] = None
        if delayed and SELECTED_NODE not in claim.metadata.annotations:
            message = "waiting for first consumer to be created before binding"
            yield Report(claim, NORMAL, "WaitForFirstConsumer", message)
        elif name:
            yield from _ask_provisioner(claim, storage_class)
            return
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            yield Report(claim, NORMAL, "FailedBinding", message)
        yield from _in_claim_phase(claim, PENDING)

    def _sync_reserving_claim(self, claim: PersistentVolumeClaim, now: float) -> Effects:
        """A claim with volumeName."""
        name = claim.spec.volume_name
        volume = self._volume(name)
        reference = None if volume is None else volume.spec.claim_ref
        if volume is not None and reference is None and (why := mismatch(volume, wanted_by(claim))):
            yield Report(claim, WARNING, "VolumeMismatch", f'Cannot bind to requested volume "{name}": {why}')
        elif volume is not None and (reference is None or is_bound_to(reference, claim)):
            yield from self._bind(volume, claim, now)
            return
        elif volume is not None:
            message = f'volume "{name}" already bound to a different claim.'
            yield Report(claim, WARNING, "FailedBinding", message)
        yield from _in_claim_phase(claim, PENDING)

    def _sync_bound_claim(self, claim: PersistentVolumeClaim, now: float) -> Effects:
        """A claim that is or was bound."""
        name = claim.spec.volume_name
        volume = self._volume(name) if name else None
        reference = None if volume is None else volume.spec.claim_ref
        if volume is not None and (reference is None or reference.uid == claim.metadata.uid):
            yield from self._complete(volume, claim, now)
            yield from _report_growth(claim)
            return
        reason, message = "ClaimLost", _LOST_VOLUME if name else _LOST_REFERENCE
        if volume is not None:
            reason, message = "ClaimMisbound", _MISBOUND
        if claim.status.phase != "Lost":
            yield from _in_claim_phase(claim, "Lost")
            yield Report(claim, WARNING, reason, message)

    def _volume(self, name: str) -> PersistentVolume | None:
        # A volume that has not changed so far may be unknown here.
        return self._volumes.get(name) or self._objects.find(PersistentVolume, "", name)

    def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim, now: float) -> Effects:
        key = key_of(claim)
        reserved = bound_to(volume, claim)
        if reserved is not volume:
            yield Write(volume, reserved)
        if self._takes and PROVISIONED_BY not in volume.metadata.annotations:
            due = self._due.setdefault(key, now + self._takes)
            if due > now:
                yield LookAgain(due - now)
                return
        self._due.pop(key, None)
        yield from self._complete(reserved, claim, now)

    def _complete(self, volume: PersistentVolume, claim: PersistentVolumeClaim, now: float) -> Effects:
        bound = in_phase(bound_to(volume, claim), BOUND, now)
        if bound is not volume:
            yield Write(volume, bound)
        named = bound_claim(claim, volume)
        if named != claim:
            yield Write(claim, named)

    # -- volumes -------------------------------------------------------------------------------------------------------

    def _sync_volume(self, volume: PersistentVolume, now: float) -> Effects:
        reference, key = volume.spec.claim_ref, claim_of(volume)
        claim = None if key is None else self._objects.find(PersistentVolumeClaim, *key)
        # Objects from files may have no UID.
        without_uid = claim is not None and is_fully_bound(claim) and not claim.metadata.uid
        if reference is None or (not reference.uid and not without_uid):
            # Available or reserved: the claim's reconcile binds it.
            yield from _changed(volume, in_phase(volume, AVAILABLE, now))
            return
        if claim is None or claim.metadata.uid != reference.uid:
            yield from _release(volume, now)
        elif claim.spec.volume_name == volume.metadata.name:
            yield from _changed(volume, in_phase(volume, BOUND, now))
        elif not claim.spec.volume_name:
            # The claim's reconcile completes the binding, unless the volume mode differs.
            yield from _report_mode_mismatch(volume, claim)
        elif PROVISIONED_BY in volume.metadata.annotations and _policy_of(volume) == "Delete":
            yield from _release(volume, now)
        else:
            yield from _changed(volume, in_phase(unbound(volume), AVAILABLE, now))


def _ask_provisioner(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> Effects:
    if storage_class is None:
        message = f'storageclass.storage.k8s.io "{class_name_of(claim)}" not found'
        yield Report(claim, WARNING, "ProvisioningFailed", message)
        return
    provisioner, metadata = storage_class.provisioner, claim.metadata
    if provisioner in NO_PROVISIONER:
        yield Report(claim, WARNING, "ProvisioningFailed", f"no volume plugin matched name: {provisioner}")
    elif metadata.annotations.get(STORAGE_PROVISIONER) != provisioner:
        names = (BETA_STORAGE_PROVISIONER, STORAGE_PROVISIONER)
        annotations = {**metadata.annotations, **dict.fromkeys(names, provisioner)}
        yield Write(claim, replace(claim, metadata=replace(metadata, annotations=annotations)))
        message = (
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually "
            "by the system administrator. If volume creation is delayed, please verify that the provisioner is "
            "running and correctly registered."
        )
        yield Report(claim, NORMAL, "ExternalProvisioning", message)


def _in_claim_phase(claim: PersistentVolumeClaim, phase: str) -> Effects:
    """A claim without a volume."""
    if (claim.status.phase or PENDING) != phase:
        yield Write(claim, replace(claim, status=PersistentVolumeClaimStatus(phase=phase)))


def _report_growth(claim: PersistentVolumeClaim) -> Effects:
    """Report that a bound claim requests more storage, which only a resizer could provide."""
    wanted, has = claim.spec.resources.requests.get("storage"), claim.status.capacity.get("storage")
    if (size_in(claim.spec.resources.requests) or 0) > (size_in(claim.status.capacity) or 0) and has is not None:
        message = f"The claim asks for {wanted} and its volume has {has}: nothing here resizes volumes"
        yield Report(claim, WARNING, "ExternalExpanding", message)


def _report_mode_mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Effects:
    if mode_of(volume) == mode_of(claim):
        return
    why, name = "due to incompatible volumeMode.", volume.metadata.name
    message = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim.metadata.name}" {why}'
    yield Report(volume, WARNING, "VolumeMismatch", message)
    message = f'Cannot bind PersistentVolume "{name}" to requested PersistentVolumeClaim {why}'
    yield Report(claim, WARNING, "VolumeMismatch", message)


def _release(volume: PersistentVolume, now: float) -> Effects:
    if volume.status.phase == "Failed":
        return
    released = in_phase(volume, RELEASED, now)
    yield from _changed(volume, released)
    if _policy_of(volume) == "Recycle":
        yield Write(released, in_phase(released, "Failed", now, _NO_RECYCLER))
        yield Report(volume, WARNING, "VolumeFailedRecycle", _NO_RECYCLER)


def _changed(old: PersistentVolume, new: PersistentVolume) -> Effects:
    if new is not old:
        yield Write(old, new)


def _claims_in(volume: PersistentVolume | None) -> tuple[ClaimKey, ...]:
    key = None if volume is None else claim_of(volume)
    return () if key is None else (key,)


def _policy_of(volume: PersistentVolume) -> str:
    return volume.spec.persistent_volume_reclaim_policy


def _discard(index: dict[str, dict[ClaimKey, None]], name: str, key: ClaimKey) -> None:
    left = index.get(name, {})
    left.pop(key, None)
    if not left:
        index.pop(name, None)
