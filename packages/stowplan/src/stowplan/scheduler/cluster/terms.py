"""Per-node counts of matching pods for each distinct term.

What inter-pod affinity and topology spread need of 100,000 existing pods are counts per node. Two matrices, with one
row per distinct term and one column per node, are updated with every placed or removed pod:

* `MatchCounts`: how many pods of a node match a term of *some incoming pod*. Terms are registered on first use; the
  least recently used ones are dropped if there are too many.
* `HeldCounts`: how many pods of a node *hold* an affinity term of their own (an existing pod's anti-affinity repels
  others, its preferences attract them). Terms live as long as a pod shape that holds them.

Matching is evaluated once per (term, pod shape), not per pod. An index by label finds the shapes for a selector with an
equality, and the terms for a shape; only selectors without an equality are compared with all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from stowplan.kube.api.label_selectors import Selector
from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Counts, Ints, Mask, Rows, Values
from stowplan.scheduler.cluster.columns import grown, with_rows
from stowplan.scheduler.cluster.labels import LabelColumn
from stowplan.scheduler.cluster.pod_info import AffinityTerm, PodShape
from stowplan.scheduler.cluster.pod_table import PodTable

Pair = tuple[str, str]
#: Per-domain sums kept up to date per slot; a slot rarely has more than a few readers.
_SUMS_A_SLOT = 8


def equality_of(selector: Selector) -> Pair | None:
    """A label that every match must have, used as an index key; None if the selector requires none."""
    for requirement in selector.requirements:
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, next(iter(requirement.values))
    return None


@mypyc_attr(native_class=False)
@dataclass(frozen=True, slots=True)
class PodTerm:
    """Which existing pods count: those that match every clause.

    A clause is (namespaces, selector); None means all namespaces. `live_only` excludes terminating pods.
    """

    clauses: tuple[tuple[frozenset[str] | None, Selector], ...]
    live_only: bool = False
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.clauses, self.live_only)))

    def __hash__(self) -> int:
        return self._hash

    def matches(self, shape: PodShape) -> bool:
        return all(
            (namespaces is None or shape.namespace in namespaces) and selector.matches(shape.labels)
            for namespaces, selector in self.clauses
        )

    def equality(self) -> Pair | None:
        return next((pair for _, selector in self.clauses if (pair := equality_of(selector)) is not None), None)


class _Index:
    """Ids by label equality, or under "any"."""

    def __init__(self) -> None:
        self._by_pair: dict[Pair, set[int]] = {}
        self._any: set[int] = set()

    def _bucket(self, pair: Pair | None) -> set[int]:
        return self._any if pair is None else self._by_pair.setdefault(pair, set())

    def add(self, id: int, pair: Pair | None) -> None:
        self._bucket(pair).add(id)

    def discard(self, id: int, pair: Pair | None) -> None:
        self._bucket(pair).discard(id)
        if pair is not None and not self._by_pair[pair]:
            del self._by_pair[pair]

    def candidates(self, labels: Mapping[str, str]) -> list[int]:
        """Ids that may match these labels, ascending (so that results do not depend on hashing)."""
        found = set(self._any)
        for pair in labels.items():
            if pair in self._by_pair:
                found |= self._by_pair[pair]
        return sorted(found)


class _DomainSums(PlainStruct, eq=False):
    """The sums of a slot's counts by label value, kept up to date."""

    column: LabelColumn
    #: Rows that count; None: all that have the label.
    eligible: Mask | None
    sums: Ints


class _Mark(PlainStruct, eq=False):
    """The versions of slots at the start of a transaction."""

    versions: list[int]
    detached: int
    #: Version of the set of held terms.
    epoch: int = 0


class _CountMatrix:
    """One row of counts per slot, and what is derived from it."""

    def __init__(self, capacity: int) -> None:
        #: Counts per slot and row; shape (slots, capacity).
        self.counts: Counts = np.zeros((8, capacity), np.int32)
        #: Changes whenever a count of the slot changes, or the slot is reassigned.
        self.versions: list[int] = []
        #: Number of times that an array which readers may hold was detached from its counts. What an undo adds and
        #: removes does not reach such an array, so its version must not return either (`rewind`).
        self.detached = 0
        self._clock = 0
        self._sums: dict[int, list[_DomainSums]] = {}

    def sum_by_domain(self, slot: int, column: LabelColumn, rows: int, eligible: Mask | None = None) -> Ints:
        """The counts of a slot on the first `rows` rows, summed by label value; [0], for nodes without the label, is 0.

        The array keeps following the counts: read it within the cycle, and never write to it.
        """
        known = self._sums.setdefault(slot, [])
        for found in known:
            if found.column is column and found.eligible is eligible:
                return found.sums
        sums = domain_sums(column, self.counts[slot, :rows], eligible)
        if len(known) == _SUMS_A_SLOT:
            # Whoever holds the array has one that no longer follows its counts.
            known.pop(0)
            self.detached += 1
        known.append(_DomainSums(column, eligible, sums))
        return sums

    def forget_sums(self) -> None:
        """Drop all sums after a node change, which may have changed domains."""
        # The arrays stop following their counts, which is not `detached`: nobody reads what was computed for another
        # generation, and the undo that brings the generation back brings these arrays back, too (`saved_sums`).
        self._sums.clear()

    def saved_sums(self) -> Callable[[], None]:
        """A function that restores the current sums, to be called once the counts are restored."""
        sums, detached = self._sums, self.detached
        # Arrays of the same domains continue in a new dictionary.
        self._sums = {}

        def restore() -> None:
            # A reassigned slot has the sums of another term now.
            self._sums = sums if self.detached == detached else {}

        return restore

    def mark(self) -> _Mark:
        return _Mark(list(self.versions), self.detached)

    def rewind(self, mark: _Mark) -> None:
        """Restore the versions of the slots as of the mark, after the changes since were undone.

        Slots that were registered since keep their newer versions. So do all slots if an array that readers may hold
        was detached since, because the undo did not reach it.
        """
        if self.detached == mark.detached:
            self.versions[: len(mark.versions)] = mark.versions

    def _add(self, slot: int, row: int, by: int) -> None:
        """Change a count, and everything derived from it."""
        # In place, so that plugins' states that hold these arrays stay current without being told.
        self.counts[slot, row] += by
        # As in `_touch`: a pod is counted for each term that matches it.
        self._clock = self.versions[slot] = self._clock + 1
        for of_domain in self._sums.get(slot, ()):
            code = of_domain.column.codes[row]
            if code and (of_domain.eligible is None or of_domain.eligible[row]):
                of_domain.sums[code] += by

    def _add_all(self, slot: int, rows: Rows, by: Ints) -> None:
        """`_add` for distinct rows."""
        self.counts[slot, rows] += by.astype(np.int32)
        self._touch(slot)
        for of_domain in self._sums.get(slot, ()):
            eligible = of_domain.eligible
            np.add.at(of_domain.sums, of_domain.column.codes[rows], by if eligible is None else by * eligible[rows])
            of_domain.sums[0] = 0

    def _touch(self, slot: int) -> None:
        self._clock += 1
        self.versions[slot] = self._clock

    def _more_slots(self) -> None:
        # A new array: rows of the old one that readers hold stay as they are.
        self.counts = with_rows(self.counts, self.counts.shape[0] * 2)
        self.detached += 1

    def grow(self, capacity: int) -> None:
        self.counts = grown(self.counts, capacity)
        self.detached += 1


def domain_sums(column: LabelColumn, counts: Values, eligible: Mask | None = None) -> Ints:
    """Counts per row, summed by label code; nodes without the label do not count."""
    codes = column.codes[: len(counts)]
    if eligible is not None:
        counts = counts * eligible
    if column.unique:
        sums = np.zeros(column.size, np.int64)
        sums[codes] = counts
    else:
        sums = np.bincount(codes, weights=counts, minlength=column.size).astype(np.int64)
    sums[0] = 0
    return sums


class MatchCounts(_CountMatrix):
    """The number of pods per row that match each registered `PodTerm`."""

    def __init__(self, capacity: int, limit: int = 1024) -> None:
        super().__init__(capacity)
        self._limit = limit
        self._slots: dict[PodTerm, int] = {}
        self._terms: list[PodTerm | None] = []
        self._used: list[int] = []
        self._index = _Index()
        self._shapes: dict[int, PodShape] = {}
        self._shapes_with: dict[Pair, set[int]] = {}
        #: Shape id -> slots of matching terms: (counted always, counted unless terminating).
        self._slots_of: dict[int, tuple[list[int], list[int]]] = {}

    def slot(self, term: PodTerm, pods: PodTable) -> int:
        """The slot of a term; a new term is counted over all pods."""
        # Also for a known term: what was asked for last is dropped last.
        self._clock += 1
        slot = self._slots.get(term)
        if slot is None:
            slot = self._register(term, pods)
        self._used[slot] = self._clock
        return slot

    def _register(self, term: PodTerm, pods: PodTable) -> int:
        slot = self._allocate()
        self._slots[term] = slot
        self._terms[slot] = term
        # A term is not unregistered by an undo: it is counted over all pods, and inverse changes keep it correct.
        self._index.add(slot, term.equality())
        matching = [shape for shape in self._candidate_shapes(term) if term.matches(shape)]
        for shape in matching:
            self._slots_of[shape.id][term.live_only].append(slot)
        # Over the pods as they are, those of an open transaction included: its undo takes them off again.
        self.counts[slot] = pods.count_by_row([s.id for s in matching], self.counts.shape[1], live_only=term.live_only)
        self._touch(slot)
        # Those of the slot's former term.
        self._sums.pop(slot, None)
        return slot

    def _candidate_shapes(self, term: PodTerm) -> Iterable[PodShape]:
        pair = term.equality()
        if pair is None:
            return self._shapes.values()
        return [self._shapes[id] for id in sorted(self._shapes_with.get(pair, ()))]

    def _allocate(self) -> int:
        if len(self._terms) < self._limit:
            self._terms.append(None)
            self.versions.append(0)
            self._used.append(0)
            if len(self._terms) > self.counts.shape[0]:
                self._more_slots()
            return len(self._terms) - 1
        slot = min(range(len(self._used)), key=self._used.__getitem__)
        self._evict(slot)
        return slot

    def _evict(self, slot: int) -> None:
        term = self._terms[slot]
        assert term is not None
        # Readers may hold the row of counts, which is that of another term from now on.
        self.detached += 1
        del self._slots[term]
        self._index.discard(slot, term.equality())
        for slots in self._slots_of.values():
            if slot in slots[term.live_only]:
                slots[term.live_only].remove(slot)

    # -- pods and shapes ----------------------------------------------------------------------------------------------

    @property
    def shapes(self) -> Iterable[PodShape]:
        """Those with placed pods, of which each has `refs`."""
        return self._shapes.values()

    def add_shape(self, shape: PodShape) -> None:
        self._shapes[shape.id] = shape
        for pair in shape.labels.items():
            self._shapes_with.setdefault(pair, set()).add(shape.id)
        slots: tuple[list[int], list[int]] = ([], [])
        for slot in self._index.candidates(shape.labels):
            term = self._terms[slot]
            assert term is not None
            if term.matches(shape):
                slots[term.live_only].append(slot)
        self._slots_of[shape.id] = slots

    def remove_shape(self, shape: PodShape) -> None:
        del self._shapes[shape.id], self._slots_of[shape.id]
        for pair in shape.labels.items():
            self._shapes_with[pair].discard(shape.id)
            if not self._shapes_with[pair]:
                del self._shapes_with[pair]

    def count(self, shape: PodShape, row: int, sign: int, *, terminating: bool) -> None:
        """Add or remove pods of this shape on a row."""
        always, live = self._slots_of[shape.id]
        for slot in always:
            self._add(slot, row, sign)
        for slot in () if terminating else live:
            self._add(slot, row, sign)

    def count_all(self, shape: PodShape, rows: Rows, by: Ints, *, terminating: bool) -> None:
        """`count` for a number of pods on each of some distinct rows."""
        always, live = self._slots_of[shape.id]
        for slot in always if terminating else (*always, *live):
            self._add_all(slot, rows, by)

    def counts_pods_of(self, slot: int, shape: PodShape) -> bool:
        """Whether pods of the shape change a slot's counts; also for shapes without placed pods."""
        term = self._terms[slot]
        return term is not None and term.matches(shape)

    def items(self) -> Iterable[tuple[PodTerm, int]]:
        return self._slots.items()


class Role(Enum):
    """The affinity list that contains a term."""

    REQUIRED_AFFINITY = "required affinity"
    REQUIRED_ANTI_AFFINITY = "required anti-affinity"
    PREFERRED_AFFINITY = "preferred affinity"
    PREFERRED_ANTI_AFFINITY = "preferred anti-affinity"


class HeldTerm(PlainStruct, frozen=True):
    """An affinity term of existing pods, with its role."""

    role: Role
    term: AffinityTerm


class HeldCounts(_CountMatrix):
    """The number of times that pods of each row hold each `HeldTerm`."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        #: Changes with the set of held terms.
        self.epoch = 0
        self.terms: list[HeldTerm | None] = []
        self._slots: dict[HeldTerm, int] = {}
        self._holders: list[int] = []
        self._free: list[int] = []
        self._index = _Index()
        #: Shape id -> slots of the terms it holds, with multiplicity.
        self._slots_of: dict[int, dict[int, int]] = {}

    def add_shape(self, shape: PodShape) -> None:
        if not shape.has_pod_affinity:
            return
        times: dict[int, int] = {}
        for held in held_terms(shape):
            slot = self._slots.get(held)
            if slot is None:
                slot = self._allocate(held)
            times[slot] = times.get(slot, 0) + 1
        for slot in times:
            self._holders[slot] += 1
        if times:
            self._slots_of[shape.id] = times

    def _new_epoch(self) -> None:
        # Never reused, not even when a transaction rewinds the epoch.
        self._clock += 1
        self.epoch = self._clock

    def mark(self) -> _Mark:
        mark = super().mark()
        mark.epoch = self.epoch
        return mark

    def rewind(self, mark: _Mark) -> None:
        super().rewind(mark)
        if self.detached == mark.detached:
            self.epoch = mark.epoch

    def _allocate(self, held: HeldTerm) -> int:
        self._new_epoch()
        if self._free:
            slot = self._free.pop()
        else:
            slot = len(self.terms)
            self.terms.append(None)
            self.versions.append(0)
            self._holders.append(0)
            if slot == self.counts.shape[0]:
                self._more_slots()
        self.terms[slot] = held
        self._slots[held] = slot
        self._index.add(slot, equality_of(held.term.selector))
        return slot

    def remove_shape(self, shape: PodShape) -> None:
        # Newest first, so that adding the shape again assigns the same slots.
        for slot in reversed(self._slots_of.pop(shape.id, {})):
            self._holders[slot] -= 1
            held = self.terms[slot]
            if not self._holders[slot] and held is not None:
                self._new_epoch()
                del self._slots[held]
                self._index.discard(slot, equality_of(held.term.selector))
                self.terms[slot] = None
                self.counts[slot] = 0
                self._sums.pop(slot, None)
                self.detached += 1
                self._free.append(slot)

    def count(self, shape: PodShape, row: int, sign: int) -> None:
        """Add or remove pods of this shape on a row."""
        for slot, times in self._slots_of.get(shape.id, {}).items():
            self._add(slot, row, sign * times)

    def count_all(self, shape: PodShape, rows: Rows, by: Ints) -> None:
        """`count` for a number of pods on each of some distinct rows."""
        for slot, times in self._slots_of.get(shape.id, {}).items():
            self._add_all(slot, rows, by * times)

    def matching(self, shape: PodShape, namespace_labels: Mapping[str, str]) -> list[tuple[int, HeldTerm]]:
        """The held terms that match a pod of this shape."""
        found = []
        for slot in self._index.candidates(shape.labels):
            held = self.terms[slot]
            if held is not None and held.term.matches(shape.namespace, shape.labels, namespace_labels):
                found.append((slot, held))
        return found

    def items(self) -> Iterable[tuple[HeldTerm, int]]:
        return self._slots.items()


def held_terms(shape: PodShape) -> list[HeldTerm]:
    lists = (
        (Role.REQUIRED_AFFINITY, shape.required_affinity),
        (Role.REQUIRED_ANTI_AFFINITY, shape.required_anti_affinity),
        (Role.PREFERRED_AFFINITY, shape.preferred_affinity),
        (Role.PREFERRED_ANTI_AFFINITY, shape.preferred_anti_affinity),
    )
    return [HeldTerm(role, term) for role, terms in lists for term in terms]
