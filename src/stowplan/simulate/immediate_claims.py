"""Claims that are bound without a pod: those of classes with mode Immediate, and those that name their volume.

Such a claim gets the volume that it names, one that is reserved for it, or the smallest suitable free one; if there is
none, the provisioner of its class creates one. There is no selected node, so the provisioner chooses the topology. Like
the CSI provisioner, it iterates over the existing topologies, by the claim's name and the number at its end: the claims
of a StatefulSet are spread evenly.

A claim without a suitable volume waits for a class, volume or node to be added.

Upstream: pkg/controller/volume/persistentvolume/pv_controller.go, kubernetes-csi/external-provisioner (topology.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from stowplan.api.types import CSINode, Node, PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.in_tree.common.volume_claims import class_name_of
from stowplan.in_tree.volume_binding.claims import is_fully_bound, size_in, wanted_by
from stowplan.in_tree.volume_binding.volumes import is_free

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.api.changes import Change
    from stowplan.in_tree.volume_binding.claims import ClaimRequirements
    from stowplan.simulate.object_store import Key, ObjectStore

_WAITS = "WaitForFirstConsumer"
#: Provisioners that create no volumes.
NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")
_ZONE = "topology.kubernetes.io/zone"


class Found(NamedTuple):
    """What a claim gets: this volume, or one that is created for the node."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None = None
    node: str = ""


class ImmediateClaims:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._waiting: dict[Key, None] = {}
        #: Volumes that are free, or reserved for a claim that is not bound to them yet.
        self._offered: dict[str, PersistentVolume] = {}
        #: Whether there were changes that waiting claims may have waited for.
        self.are_due = False

    def follow(self, change: Change[Any]) -> None:
        old: Any = change.old
        new: Any = change.new
        kind = type(new if old is None else old)
        if kind is PersistentVolumeClaim:
            self._follow_claim(old, new)
        elif kind is PersistentVolume:
            self._offered.pop((new or old).metadata.name, None)
            if new is not None and (is_free(new) or _is_reserved(new)):
                self._offered[new.metadata.name] = new
                self._news()
        elif old is None:
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
            mode = None if storage_class is None else storage_class.volume_binding_mode
            if mode == _WAITS and not claim.spec.volume_name:
                # The scheduler starts these.
                del self._waiting[key]
                continue
            found = self._found(claim, storage_class, taken)
            if found is not None:
                del self._waiting[key]
                if found.volume is not None:
                    taken.add(found.volume.metadata.name)
                yield found

    def _found(self, claim: PersistentVolumeClaim, storage_class: StorageClass | None, taken: set[str]) -> Found | None:
        wanted = wanted_by(claim)
        suitable = [
            volume
            for name, volume in sorted(self._offered.items())
            if name not in taken and _serves(volume, wanted) and _is_for(volume, claim)
        ]
        if claim.spec.volume_name:
            named = [volume for volume in suitable if volume.metadata.name == claim.spec.volume_name]
            return Found(claim, named[0]) if named else None
        if suitable:
            return Found(claim, min(suitable, key=_order))
        if storage_class is None or storage_class.provisioner in NO_PROVISIONER:
            return None
        places = self._places(storage_class)
        return Found(claim, node=places[_turn(claim) % len(places)]) if places else None

    def _places(self, storage_class: StorageClass) -> list[str]:
        """One node of each topology in which the provisioner may create a volume."""
        found: dict[tuple[str, ...], str] = {}
        for node in self._store.list(Node):
            labels = node.metadata.labels
            if _is_allowed(labels, storage_class):
                keys = topology_keys(self._store, node.metadata.name, storage_class)
                found.setdefault(tuple(labels.get(key, "") for key in keys), node.metadata.name)
        return [found[segment] for segment in sorted(found)]


def topology_keys(store: ObjectStore, node_name: str, storage_class: StorageClass) -> list[str]:
    """The topology keys for volumes that a class's driver creates for a node."""
    csi_node = store.find(CSINode, "", node_name)
    for driver in () if csi_node is None else csi_node.spec.drivers:
        if driver.name == storage_class.provisioner and driver.topology_keys:
            return list(driver.topology_keys)
    terms = storage_class.allowed_topologies
    return [one.key for term in terms[:1] for one in term.match_label_expressions] or [_ZONE]


def _is_reserved(volume: PersistentVolume) -> bool:
    return (
        volume.spec.claim_ref is not None
        and volume.status.phase in ("", "Pending", "Available")
        and volume.metadata.deletion_timestamp is None
    )


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume's reservation allows the claim."""
    reference, metadata = volume.spec.claim_ref, claim.metadata
    return reference is None or (
        (reference.namespace, reference.name) == (metadata.namespace, metadata.name)
        and reference.uid in ("", metadata.uid)
    )


def _serves(volume: PersistentVolume, wanted: ClaimRequirements) -> bool:
    spec, selector = volume.spec, wanted.selector
    return (
        class_name_of(volume) == wanted.class_name
        and (size_in(spec.capacity) or 0) >= (wanted.size or 0)
        and wanted.access_modes <= frozenset(spec.access_modes)
        and (spec.volume_mode or "Filesystem") == wanted.volume_mode
        and (spec.volume_attributes_class_name or "") == wanted.attributes_class
        and not wanted.problem
        and (selector is None or selector.matches(volume.metadata.labels))
    )


def _order(volume: PersistentVolume) -> tuple[bool, int, list[str], int, str]:
    """A sort key: reserved volumes first, then those with the fewest access modes, then the smallest."""
    spec = volume.spec
    modes = sorted(spec.access_modes)
    return spec.claim_ref is None, len(modes), modes, size_in(spec.capacity) or 0, volume.metadata.name


def _is_allowed(labels: dict[str, str], storage_class: StorageClass) -> bool:
    terms = storage_class.allowed_topologies
    return not terms or any(
        all(labels.get(one.key) in one.values for one in term.match_label_expressions) for term in terms
    )


def _turn(claim: PersistentVolumeClaim) -> int:
    name, dash, number = claim.metadata.name.rpartition("-")
    if not dash or not (number.isascii() and number.isdecimal()):
        return crc32(claim.metadata.name.encode())
    return crc32(name.encode()) + int(number)
