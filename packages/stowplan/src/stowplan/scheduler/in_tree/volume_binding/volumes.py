"""Index of volumes that claims can be matched with.

A claim gets the smallest volume of its class that is large enough, has its modes, and can be used on the node. The
volumes of a class are grouped by mode, and within a group by node selector: of those with the same selector, only the
first that is large enough matters. So the best volumes of every row are found per distinct selector, and cached. When a
free volume of the class appears or disappears, only the rows on which it can be used are updated.

Volumes are tracked in their assumed state (`cluster.assumed`): a volume reserved for a pod is not free for others.

Upstream: FindMatchingVolume of k8s.io/component-helpers/storage/volume/pv_helpers.go, and the indexed assume cache.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from msgspec import field

from stowplan.kube.api.meta import ObjectReference
from stowplan.kube.api.node_selectors import NodeSelectorMatcher
from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim
from stowplan.kube.claims.claim_terms import ClaimRequirements, class_name_of, is_free, size_in
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Rows
from stowplan.scheduler.cluster.objects import ObjectIndex
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.in_tree.volume_binding.claims import affinity_of
from stowplan.scheduler.in_tree.volume_binding.node_sets import NodeSets

#: No volume.
NONE = -1

#: Maximum number of cached results; each has as many arrays of the table's size as volumes are needed.
_MAX_KEPT = 256
#: (row, volume) pairs processed at a time.
_PAIRS = 1 << 20
#: Number of changes remembered per class.
_MAX_CHANGES = 64
#: Maximum number of empty queues in an index by row.
_MAX_GONE = 1000
#: Number of rows from which a selector counts as wide.
_WIDE = 64


#: Free volumes by class; bound or reserved ones do not matter to other claims.
FREE_BY_CLASS = ObjectIndex("class, of free volumes", lambda v: (class_name_of(v),) if is_free(v) else ())


class Volume(NamedTuple):
    """The fields of a volume that matching needs."""

    id: int
    name: str
    class_name: str
    #: The class in the volume's spec, which is used for scores.
    spec_class: str
    #: In units of 10^-9 bytes.
    size: int
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str
    affinity: NodeSelectorMatcher | None
    labels: dict[str, str]
    #: The claim that it is reserved for, and whether it is free.
    claim_ref: ObjectReference | None
    free: bool

    @property
    def group(self) -> _Group:
        return self.volume_mode, self.attributes_class, self.access_modes

    def serves(self, wanted: ClaimRequirements) -> bool:
        """Whether size, class and mode match a claim that the volume is reserved for."""
        return (
            self.class_name == wanted.class_name
            and self.size >= (wanted.size or 0)
            and self.volume_mode == wanted.volume_mode
            and self.attributes_class == wanted.attributes_class
        )


#: Volume mode, attributes class, access modes.
_Group = tuple[str, str, frozenset[str]]
#: (size, name, id): the order in which claims take volumes.
_Place = tuple[int, str, int]


class _Queue(PlainStruct, eq=False):
    """Free volumes of one group that can be used on the same nodes."""

    group: _Group
    affinity: NodeSelectorMatcher | None
    #: Ascending.
    places: list[_Place] = field(default_factory=list)
    #: The rows that the affinity matches, and the version of the sets that they are from.
    rows: Rows | None = None
    version: int = -1


class _ByRow(PlainStruct):
    """The queues of a class by the rows of their selectors, for one version of the sets; some may be empty."""

    version: int
    queues: dict[int, list[_Queue]] = field(default_factory=dict)
    #: Queues with many rows.
    wide: list[_Queue] = field(default_factory=list)
    #: Total number of queues.
    count: int = 0


class _Class(PlainStruct):
    groups: dict[_Group, dict[NodeSelectorMatcher | None, _Queue]] = field(default_factory=dict)
    #: Changes when a free volume of the class appears or disappears.
    version: int = 0
    #: The latest changes: the new version, and the queue that changed.
    changes: deque[tuple[int, _Queue]] = field(default_factory=deque)
    #: Changes up to this version are dropped.
    before: int = 0
    by_row: _ByRow | None = None
    #: Queues that are not in `by_row` yet.
    fresh: list[_Queue] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(map(len, self.groups.values()))

    @property
    def queues(self) -> Iterator[_Queue]:
        return (queue for queues in self.groups.values() for queue in queues.values())

    def changed(self, queue: _Queue, version: int) -> None:
        self.changes.append((version, queue))
        if len(self.changes) > _MAX_CHANGES:
            self.before, _ = self.changes.popleft()
        self.version = version

    def changed_since(self, version: int) -> list[_Queue] | None:
        """None: no longer known."""
        return [queue for at, queue in self.changes if at > version] if version >= self.before else None


class Volumes:
    def __init__(self, cluster: ClusterState, node_sets: NodeSets) -> None:
        self._cluster = cluster
        self._node_sets = node_sets
        self._position: int | None = None
        #: The last version assigned to a class.
        self._clock = 0
        #: Changes when all volumes get new ids.
        self.epoch = 0
        self._ids = 0
        self._by_name: dict[str, Volume] = {}
        #: id -> volume.
        self.known: dict[int, Volume] = {}
        self._classes: dict[str, _Class] = defaultdict(_Class)
        #: Claim -> volumes reserved for a claim of this name.
        self._held: dict[str, dict[str, Volume]] = {}
        self._best: OrderedDict[tuple[ClaimRequirements, int], tuple[tuple[int, int], Ints]] = OrderedDict()

    # -- updates -------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Process all changes."""
        log = self._cluster.objects.changes(PersistentVolume)
        names = None if self._position is None else log.since(self._position)
        if names is None:
            self.epoch += 1
            names = [v.metadata.name for v in self._cluster.objects.all(PersistentVolume)]
            for volume in list(self._by_name.values()):
                self._take_out(volume)
        for name in names:
            old = self._by_name.get(name)
            if old is not None:
                self._take_out(old)
            obj = self._cluster.assumed.get(PersistentVolume, name)
            if obj is not None:
                self._put_in(obj)
        self._position = log.position

    def _put_in(self, obj: PersistentVolume) -> None:
        if obj.metadata.deletion_timestamp is not None or not (obj.spec.claim_ref or is_free(obj)):
            return
        self._ids += 1
        volume = _compiled(obj, self._ids)
        if volume is None:
            return
        self._by_name[volume.name] = self.known[volume.id] = volume
        self._clock += 1
        if volume.claim_ref is not None:
            self._held.setdefault(_claim_key(volume.claim_ref), {})[volume.name] = volume
        if volume.free:
            of_class = self._classes[volume.class_name]
            queues = of_class.groups.setdefault(volume.group, {})
            queue = queues.get(volume.affinity)
            if queue is None:
                queue = queues[volume.affinity] = _Queue(volume.group, volume.affinity)
                if of_class.by_row is not None:
                    of_class.fresh.append(queue)
            insort(queue.places, (volume.size, volume.name, volume.id))
            of_class.changed(queue, self._clock)

    def _take_out(self, volume: Volume) -> None:
        del self._by_name[volume.name], self.known[volume.id]
        self._clock += 1
        if volume.claim_ref is not None:
            key = _claim_key(volume.claim_ref)
            del self._held[key][volume.name]
            if not self._held[key]:
                del self._held[key]
        if volume.free:
            of_class = self._classes[volume.class_name]
            queues = of_class.groups[volume.group]
            queue = queues[volume.affinity]
            del queue.places[bisect_left(queue.places, (volume.size, volume.name, volume.id))]
            if not queue.places:
                del queues[volume.affinity]
                if not queues:
                    del of_class.groups[volume.group]
            of_class.changed(queue, self._clock)

    # -- queries -------------------------------------------------------------------------------------------------------

    def held_for(self, claim: PersistentVolumeClaim, wanted: ClaimRequirements) -> tuple[int, ...]:
        """Volumes that are reserved for this claim, and match it."""
        held = self._held.get(f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}")
        if held is None:
            return ()
        return tuple(
            volume.id
            for _, volume in sorted(held.items())
            if volume.claim_ref is not None
            and volume.claim_ref.uid in ("", claim.metadata.uid)
            and volume.serves(wanted)
        )

    def free(self, class_name: str) -> Iterator[Volume]:
        """Free volumes of a class, in no particular order."""
        of_class = self._classes.get(class_name)
        for queues in () if of_class is None else of_class.groups.values():
            for queue in queues.values():
                yield from (self.known[id] for _, _, id in queue.places)

    def best(self, wanted: ClaimRequirements, number: int) -> Ints:
        """The first `number` free volumes for a claim on each row, smallest first; shape (number, rows)."""
        of_class = self._classes.get(wanted.class_name)
        stamp = 0 if of_class is None else of_class.version, self._node_sets.version
        key = wanted, number
        found = self._best.get(key)
        if found is not None and found[0] == stamp:
            self._best.move_to_end(key)
            return found[1]
        ids = None if found is None or of_class is None else self._patched(of_class, *found, wanted, number)
        if ids is None:
            candidates = self._candidates(() if of_class is None else of_class.queues, wanted, number)
            rows = ((place[2], self._rows(queue)) for place, queue in candidates)
            ids = first_on_rows(rows, number, self._cluster.table.n)
        # The lookup may have made the sets drop results.
        self._best[key] = (stamp[0], self._node_sets.version), ids
        self._best.move_to_end(key)
        if len(self._best) > _MAX_KEPT:
            self._best.popitem(last=False)
        return ids

    def _patched(
        self, of_class: _Class, stamp: tuple[int, int], ids: Ints, wanted: ClaimRequirements, number: int
    ) -> Ints | None:
        """The updated result; None: too much has changed."""
        sets, n = self._node_sets, self._cluster.table.n
        changed = of_class.changed_since(stamp[0])
        if changed is None or stamp[1] != sets.version:
            return None
        here = np.zeros(n, np.bool_)
        for queue in changed:
            here[self._rows(queue)] = True
        rows = np.flatnonzero(here)
        if 2 * len(rows) > n:
            return None
        candidates = self._candidates(self._queues_on(of_class, rows.tolist()), wanted, number)
        rows_of = ((place[2], self._rows(queue)) for place, queue in candidates)
        now = first_on_rows(((id, admitted[here[admitted]]) for id, admitted in rows_of), number, n)
        if stamp[1] != sets.version:
            # The lookup has made the sets drop results.
            return None
        ids = ids.copy()
        ids[:, rows] = now[:, rows]
        return ids

    def _queues_on(self, of_class: _Class, rows: Iterable[int]) -> Iterable[_Queue]:
        """The queues that can be used on some of these rows, and possibly others."""
        by_row, version = of_class.by_row, self._node_sets.version
        if by_row is None or by_row.version != version or by_row.count > _MAX_GONE + 2 * of_class.count:
            by_row = of_class.by_row = _ByRow(version)
            of_class.fresh = list(of_class.queues)
        for queue in of_class.fresh:
            admitted = self._rows(queue)
            by_row.count += 1
            if len(admitted) > _WIDE:
                by_row.wide.append(queue)
            else:
                for row in admitted.tolist():
                    by_row.queues.setdefault(row, []).append(queue)
        of_class.fresh = []
        found = dict.fromkeys(by_row.wide)
        for row in rows:
            found |= dict.fromkeys(by_row.queues.get(row, ()))
        return [queue for queue in found if queue.places]

    def _candidates(
        self, queues: Iterable[_Queue], wanted: ClaimRequirements, number: int
    ) -> list[tuple[_Place, _Queue]]:
        """The first matching volumes of each of these queues, smallest first."""
        found: list[tuple[_Place, _Queue]] = []
        mode = wanted.volume_mode, wanted.attributes_class
        for queue in queues:
            volume_mode, attributes_class, access_modes = queue.group
            if (volume_mode, attributes_class) == mode and wanted.access_modes <= access_modes:
                found += [(place, queue) for place in islice(self._fitting(queue.places, wanted), number)]
        # Places are unique.
        found.sort(key=_place)
        return found

    def _fitting(self, places: list[_Place], wanted: ClaimRequirements) -> Iterable[_Place]:
        start = bisect_left(places, (wanted.size or 0, ""))
        rest = islice(places, start, None)
        selector = wanted.selector
        if selector is None:
            return rest
        return (place for place in rest if selector.matches(self.known[place[2]].labels))

    def _rows(self, queue: _Queue) -> Rows:
        if queue.rows is None or queue.version != self._node_sets.version:
            queue.rows = self._node_sets.rows(queue.affinity)
            queue.version = self._node_sets.version
        return queue.rows


_place = itemgetter(0)


def first_on_rows(candidates: Iterable[tuple[int, Rows]], number: int, rows: int) -> Ints:
    """The first `number` candidates per row, given candidates with their rows; shape (number, rows)."""
    found = np.full((number, rows), NONE, np.int64)
    filled = np.zeros(rows, np.int64)
    parts: list[Rows] = []
    ids: list[int] = []
    pairs = 0
    for id, admitted in candidates:
        parts.append(admitted)
        ids.append(id)
        pairs += len(admitted)
        if pairs >= _PAIRS or len(admitted) == rows:
            _fill(found, filled, parts, ids)
            parts, ids, pairs = [], [], 0
            if int(filled.min(initial=number)) >= number:
                return found
    _fill(found, filled, parts, ids)
    return found


def _fill(found: Ints, filled: Ints, parts: list[Rows], ids: list[int]) -> None:
    """Assign the next candidates to rows: `parts` has the rows of each of them."""
    if not parts:
        return
    number = len(found)
    rows = np.concatenate(parts)
    candidates = np.repeat(np.array(ids, np.int64), [len(part) for part in parts])
    wanting = filled[rows] < number
    rows, candidates = rows[wanting], candidates[wanting]
    if not len(rows):
        return
    order = np.argsort(rows, kind="stable")
    rows, candidates = rows[order], candidates[order]
    # The number of earlier candidates for the same row in this step.
    begins = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    lengths = np.diff(np.append(begins, len(rows)))
    place = np.arange(len(rows)) - np.repeat(begins, lengths) + filled[rows]
    taken = place < number
    found[place[taken], rows[taken]] = candidates[taken]
    filled[rows[begins]] = np.minimum(number, filled[rows[begins]] + lengths)


def _compiled(obj: PersistentVolume, id: int) -> Volume | None:
    """None: its size is invalid."""
    try:
        size = size_in(obj.spec.capacity) or 0
    except ValueError:
        return None
    return Volume(
        id=id,
        name=obj.metadata.name,
        class_name=class_name_of(obj),
        spec_class=obj.spec.storage_class_name,
        size=size,
        access_modes=frozenset(obj.spec.access_modes),
        volume_mode=obj.spec.volume_mode or "Filesystem",
        attributes_class=obj.spec.volume_attributes_class_name or "",
        affinity=affinity_of(obj),
        labels=obj.metadata.labels,
        claim_ref=obj.spec.claim_ref,
        free=is_free(obj),
    )


def _claim_key(reference: ObjectReference) -> str:
    return f"{reference.namespace or 'default'}/{reference.name}"
