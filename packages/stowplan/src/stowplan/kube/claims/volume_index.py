"""Find a volume for a claim: the smallest available one that matches.

Available volumes are grouped by class, mode and access modes and sorted by size, so only volumes that are large enough
are considered. Volumes provisioned for the claim, or reserved for it by a user, come first.

Upstream: k8s.io/component-helpers/storage/volume/pv_helpers.go (FindMatchingVolume),
pkg/controller/volume/persistentvolume/index.go.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim
from stowplan.kube.claims.claim_terms import (
    ClaimKey,
    ClaimRequirements,
    claim_of,
    class_name_of,
    is_bound_to,
    is_free,
    key_of,
    mode_of,
    size_in,
)


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
