"""Claims that are bound without a pod: those of classes with mode Immediate, and those with a volume of their own.

Such a claim gets the volume that it names, one that is reserved for it, or the smallest suitable free one; if there is
none, the provisioner of its class creates one, in a topology of its choice (`api.topologies`). A claim without a class
gets the default one if no volume without a class is suitable.

A claim without a suitable volume waits for a class, volume or node to be added.

Upstream: pkg/controller/volume/persistentvolume/pv_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from stowplan.drivers.virtual_time.object_store import Key, ObjectStore
from stowplan.kube.api.port import Change
from stowplan.kube.api.storage import Candidate, default_class
from stowplan.kube.api.topologies import immediate_topology
from stowplan.kube.api.types import CSINode, Node, PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.scheduler.in_tree.common.annotations import STORAGE_CLASS
from stowplan.scheduler.in_tree.common.volume_claims import class_name_of
from stowplan.scheduler.in_tree.volume_binding.claims import ClaimRequirements, is_fully_bound, size_in, wanted_by
from stowplan.scheduler.in_tree.volume_binding.volumes import is_free

_WAITS = "WaitForFirstConsumer"
#: Provisioners that create no volumes.
NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")


class Found(NamedTuple):
    """What a claim gets: this volume, one that is created in the topology, or the default class."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None = None
    topology: dict[str, str] | None = None
    class_name: str = ""


class ImmediateClaims:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._waiting: dict[Key, None] = {}
        #: Volumes by the claim of their claimRef; those that are free, by class.
        self._volumes: dict[Key | str, dict[str, PersistentVolume]] = {}
        #: Whether there were changes that waiting claims may have waited for.
        self.are_due = False

    def follow(self, change: Change[Any]) -> None:
        old: Any = change.old
        new: Any = change.new
        kind = type(new if old is None else old)
        if kind is PersistentVolumeClaim:
            self._follow_claim(old, new)
        elif kind is PersistentVolume:
            self._follow_volume(old, new)
        elif old is None:
            self._news()

    def _follow_volume(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None:
            before = self._volumes.get(_place(old), {})
            before.pop(old.metadata.name, None)
            if not before:
                self._volumes.pop(_place(old), None)
        if new is not None and (new.spec.claim_ref is not None or is_free(new)):
            self._volumes.setdefault(_place(new), {})[new.metadata.name] = new
            self._news()

    def _follow_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is None or is_fully_bound(new):
            gone = new or old
            assert gone is not None
            self._waiting.pop((gone.metadata.namespace, gone.metadata.name), None)
        elif old is None or old.spec != new.spec:
            self._waiting[new.metadata.namespace, new.metadata.name] = None
            self._news()

    def _news(self) -> None:
        self.are_due = self.are_due or bool(self._waiting)

    def served(self) -> Iterator[Found]:
        """Claims that can be bound now; they are no longer waiting."""
        self.are_due = False
        taken: set[str] = set()
        for key in list(self._waiting):
            claim = self._store.get(PersistentVolumeClaim, *key)
            storage_class = self._store.find(StorageClass, "", class_name_of(claim))
            waits = storage_class is not None and storage_class.volume_binding_mode == _WAITS
            volume = self._volume_of(key, claim, taken, only_its_own=waits)
            found = Found(claim, volume)
            if volume is not None:
                taken.add(volume.metadata.name)
            elif claim.spec.volume_name:
                continue
            elif waits:
                # The scheduler starts these.
                del self._waiting[key]
                continue
            elif (provisioned := self._without_volume(claim, storage_class)) is None:
                continue
            else:
                found = provisioned
            del self._waiting[key]
            yield found

    def _volume_of(
        self, key: Key, claim: PersistentVolumeClaim, taken: set[str], *, only_its_own: bool
    ) -> PersistentVolume | None:
        wanted, named = wanted_by(claim), claim.spec.volume_name
        own = [one for _, one in sorted(self._volumes.get(key, {}).items()) if _is_for(one, claim)]
        free = [one for name, one in self._volumes.get(wanted.class_name, {}).items() if name not in taken]
        if named:
            # Parity: neither the selector of the claim counts, nor anything if the volume is reserved for it.
            suitable = [*own, *(one for one in free if _is_enough(one, wanted))]
            return next((one for one in suitable if one.metadata.name == named), None)
        # Parity: a reserved volume may have another class.
        reserved = next((one for one in own if _is_enough(one, wanted)), None)
        if reserved is not None or only_its_own:
            return reserved
        return min((one for one in free if _serves(one, wanted)), key=_order, default=None)

    def _without_volume(self, claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> Found | None:
        if claim.spec.storage_class_name is None and STORAGE_CLASS not in claim.metadata.annotations:
            about = (one.metadata for one in self._store.list(StorageClass))
            default = default_class(Candidate(m.name, m.annotations, m.creation_timestamp) for m in about)
            return None if default is None else Found(claim, class_name=default)
        if storage_class is None or storage_class.provisioner in NO_PROVISIONER:
            return None
        nodes = ((node.metadata.name, node.metadata.labels) for node in self._store.list(Node))
        topology = immediate_topology(claim.metadata.name, nodes, self.csi_node_of, storage_class)
        return None if topology is None else Found(claim, topology=topology)

    def csi_node_of(self, node_name: str) -> CSINode | None:
        return self._store.find(CSINode, "", node_name)


def _place(volume: PersistentVolume) -> Key | str:
    reference = volume.spec.claim_ref
    return class_name_of(volume) if reference is None else (reference.namespace, reference.name)


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is reserved for the claim, of all with its name."""
    reference = volume.spec.claim_ref
    if reference is None or volume.metadata.deletion_timestamp is not None:
        return False
    if not reference.uid:
        return volume.status.phase in ("", "Pending", "Available")
    return reference.uid == claim.metadata.uid


def _serves(volume: PersistentVolume, wanted: ClaimRequirements) -> bool:
    selector = wanted.selector
    return (
        _is_enough(volume, wanted)
        and not wanted.problem
        and (selector is None or selector.matches(volume.metadata.labels))
    )


def _is_enough(volume: PersistentVolume, wanted: ClaimRequirements) -> bool:
    spec = volume.spec
    return (
        (size_in(spec.capacity) or 0) >= (wanted.size or 0)
        and wanted.access_modes <= frozenset(spec.access_modes)
        and (spec.volume_mode or "Filesystem") == wanted.volume_mode
        and (spec.volume_attributes_class_name or "") == wanted.attributes_class
    )


def _order(volume: PersistentVolume) -> tuple[int, list[str], int, str]:
    """A sort key: those with the fewest access modes first, then the smallest."""
    spec = volume.spec
    modes = sorted(spec.access_modes)
    return len(modes), modes, size_in(spec.capacity) or 0, volume.metadata.name
