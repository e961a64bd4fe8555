"""Required and preferred affinity between pods, in both directions.

There are three questions about every topology domain: does it have pods that the incoming pod must be near, pods that
the incoming pod avoids, or pods that avoid the incoming pod? All three are per-node counts of pods (`MatchCounts` for
the incoming pod's terms, `HeldCounts` for terms of existing pods), summed by the domains of each topology key. Scores
are the same sums with weights.

In a hypothetical view each node is independent, with only its own pods changed: `shift` arrays have the changes of its
domain's count.

Upstream: pkg/scheduler/framework/plugins/interpodaffinity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stowplan.kube.api import types as t
from stowplan.kube.api.label_selectors import Selector
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Counts, Ints, Mask, Values
from stowplan.scheduler.cluster.labels import LabelColumn
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.objects import ObjectDependency
from stowplan.scheduler.cluster.pod_info import AffinityTerm, PodInfo, PodShape
from stowplan.scheduler.cluster.terms import HeldTerm, PodTerm, Role, domain_sums, held_terms
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.batch_state import BatchFilterState, BatchState
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import CountsPods, FeasibleSets, Reads, SignPlugin
from stowplan.scheduler.framework.diagnosis import Entry, Rejections
from stowplan.scheduler.framework.events import ClusterEventWithHint
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PodExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.framework.status import SKIP, Code, Reason, Status, error, unresolvable
from stowplan.scheduler.in_tree.common.domain_classes import domain_classes
from stowplan.scheduler.in_tree.common.domains import normalized_by_domain, unused_raw, worth_normalizing
from stowplan.scheduler.in_tree.common.normalization import bounds_of, mapped
from stowplan.scheduler.in_tree.inter_pod_affinity import hints
from stowplan.scheduler.in_tree.inter_pod_affinity.batch_state import (
    AffinityBatch,
    AntiAffinityBatch,
    ScoreCounterBatch,
    SummedCounter,
    representatives,
    stretched,
)
from stowplan.scheduler.in_tree.inter_pod_affinity.declaration import DECLARATION, InterPodAffinityArgs
from stowplan.scheduler.in_tree.inter_pod_affinity.tables import (
    NO_TERMS,
    PodTerms,
    ScoreCounter,
    Table,
    anywhere,
    avoids,
    union,
)

PRE_FILTER_KEY = "PreFilterInterPodAffinity"
PRE_SCORE_KEY = "PreScoreInterPodAffinity"

AFFINITY = Reason("PodAffinity", "node(s) didn't match pod affinity rules")
ANTI_AFFINITY = Reason("PodAntiAffinity", "node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI_AFFINITY = Reason("ExistingPodAntiAffinity", "node(s) didn't satisfy existing pods anti-affinity rules")

_NO_LABELS: dict[str, str] = {}
#: (whether it counts held terms, slot, version) of a counter that a state depends on.
Version = tuple[bool, int, int]


class _FilterState(PlainStruct, eq=False):
    """Filter's state: tables of pods to be near, to avoid, and that avoid the pod."""

    affinity: list[Table]
    anti_affinity: list[Table]
    existing_anti_affinity: list[Table]
    #: Whether the pod matches its own affinity terms: the first pod of a group may go anywhere.
    matches_itself: bool
    versions: list[Version]
    epoch: int

    def tables(self) -> list[Table]:
        return [*self.affinity, *self.anti_affinity, *self.existing_anti_affinity]

    def clone(self) -> _FilterState:
        return _FilterState(
            [table.clone() for table in self.affinity],
            [table.clone() for table in self.anti_affinity],
            [table.clone() for table in self.existing_anti_affinity],
            self.matches_itself,
            self.versions,
            self.epoch,
        )


class _Skipped(NamedTuple):
    """The remainder of a `_FilterState` if there is nothing to filter."""

    versions: list[Version]
    epoch: int


class _ScoreState(PlainStruct, eq=False):
    #: Every row's score.
    raw: Ints
    #: Scores by domain, if a single label with few domains determines them.
    by_domain: tuple[LabelColumn, Ints] | None
    versions: list[Version]
    epoch: int


class InterPodAffinity(
    PreFilterPlugin, FilterPlugin, PodExtensions, PreScorePlugin, ScorePlugin, CountsPods, EnqueueExtensions, SignPlugin
):
    declaration = DECLARATION
    short_name = "pod affinity"
    reads = Reads.CLUSTER_PODS
    in_range = True

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_existing = args.ignore_preferred_terms_of_existing_pods

    # -- terms --------------------------------------------------------------------------------------------------------

    def _namespaces(self, term: AffinityTerm) -> frozenset[str] | None:
        """Namespaces whose pods match an incoming pod's term; None for all.

        Parity: the namespace selector still applies in addition to the namespaces that it was expanded to, and is
        matched against no labels; so a selector without positive requirements matches every namespace.
        """
        if term.namespace_selector.matches(_NO_LABELS):
            return None
        if term.namespace_selector.nothing:
            return term.namespaces
        selected = (
            namespace.metadata.name
            for namespace in self.handle.cluster.objects.all(t.Namespace)
            if term.namespace_selector.matches(namespace.metadata.labels)
        )
        return term.namespaces.union(selected)

    def _clause(self, term: AffinityTerm) -> tuple[frozenset[str] | None, Selector]:
        return self._namespaces(term), term.selector

    def _pod_terms(self, shape: PodShape) -> PodTerms:
        """The counters for an incoming pod's terms; cached on the shape while no relevant namespace changes."""
        if not shape.has_pod_affinity:
            return NO_TERMS
        version = self.handle.cluster.objects.version(t.Namespace) if shape.selects_namespaces else 0
        found: PodTerms | None = shape.memo("affinity terms", version)
        if found is None:
            affinity = PodTerm(tuple(self._clause(term) for term in shape.required_affinity))
            found = PodTerms(
                affinity=affinity,
                matches_itself=affinity.matches(shape),
                anti_affinity=[
                    (term.topology_key, PodTerm((self._clause(term),))) for term in shape.required_anti_affinity
                ],
                preferred=[
                    (term.topology_key, sign * term.weight, PodTerm((self._clause(term),)))
                    for sign, terms in ((1, shape.preferred_affinity), (-1, shape.preferred_anti_affinity))
                    for term in terms
                ],
            )
            shape.remember("affinity terms", version, found)
        return found

    def _held(self, pod: PodInfo) -> list[tuple[int, HeldTerm]]:
        """Terms of existing pods that match the incoming pod."""
        cluster = self.handle.cluster
        labels = cluster.objects.namespace_labels(pod.shape.namespace)
        # Usually the same dict as before, which is fast to compare.
        version = (cluster.held.epoch, labels)
        found: list[tuple[int, HeldTerm]] | None = pod.shape.memo("held terms", version)
        if found is None:
            found = cluster.held.matching(pod.shape, labels)
            pod.shape.remember("held terms", version, found)
        return found

    def _matched(self, term: PodTerm, versions: list[Version]) -> int:
        """The slot that counts pods that match a term."""
        cluster = self.handle.cluster
        slot = cluster.matches.slot(term, cluster.pods)
        versions.append((False, slot, cluster.matches.versions[slot]))
        return slot

    def _holding(self, slot: int, versions: list[Version]) -> int:
        """A slot that counts how often pods hold a term; records that it is used."""
        versions.append((True, slot, self.handle.cluster.held.versions[slot]))
        return slot

    def _sums(self, key: str, slot: int, *, held: bool) -> Ints:
        """A counter, summed by the domains of a key."""
        cluster = self.handle.cluster
        counts = cluster.held if held else cluster.matches
        return counts.sum_by_domain(slot, cluster.table.label(key), cluster.table.n)

    def reads_objects(self, pod: PodInfo) -> Collection[ObjectDependency]:
        """Namespaces, for their labels: the pod's own, and all if its terms select by labels."""
        found: tuple[ObjectDependency] | None = pod.shape.template.memo("namespaces read", 0)
        if found is None:
            own, any_ = ObjectDependency.named(t.Namespace, pod.namespace), ObjectDependency.of_kind(t.Namespace)
            found = pod.shape.template.remember("namespaces read", 0, (any_ if pod.shape.selects_namespaces else own,))
        return found

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        """Labels matter through what they match: terms that existing pods hold, and the pod's own affinity."""
        shape, held, terms = pod.shape, self._held(pod), self._pod_terms(pod.shape)
        known: tuple[Any, Any, dict[str, Any]] | None = shape.memo("affinity signature", 0)
        if known is not None and known[0] is held and known[1] is terms:
            return known[2]
        found = {"held": tuple(slot for slot, _ in held), "itself": terms.matches_itself}
        shape.remember("affinity signature", 0, (held, terms, found))
        return found

    def sign_version(self, pod: PodInfo) -> tuple[int, int]:
        cluster = self.handle.cluster
        # Covers namespaces, which are lookup objects.
        return cluster.held.epoch, cluster.objects.total_version

    def filter_holds(self, state: CycleState, pod: PodInfo) -> bool:
        found: _FilterState | _Skipped | None = state.get(PRE_FILTER_KEY)
        return found is not None and self._still(found)

    def score_holds(self, state: CycleState, pod: PodInfo, feasible_moved: bool) -> bool:
        found: _ScoreState | None = state.get(PRE_SCORE_KEY)
        if found is None:
            return self._ignore_existing
        return self._still(found)

    def _unaffected(self, state: CycleState, shapes: Collection[PodShape]) -> bool:
        """Whether pods of these shapes do not change the results."""
        if any(shape.has_pod_affinity for shape in shapes):
            # They may be the first to hold a term.
            return False
        filters: _FilterState | _Skipped | None = state.get(PRE_FILTER_KEY)
        scores: _ScoreState | None = state.get(PRE_SCORE_KEY)
        if filters is None or (scores is None and not self._ignore_existing):
            return False
        versions = filters.versions if scores is None else [*filters.versions, *scores.versions]
        matches = self.handle.cluster.matches
        counters = [slot for is_held, slot, _ in versions if not is_held]
        return not any(matches.counts_pods_of(slot, shape) for slot in counters for shape in shapes)

    def guaranteed_feasible_sets(self, state: CycleState, pod: PodInfo, lost: int) -> FeasibleSets | None:
        """Without the first pod of a group, which may go anywhere."""
        cluster, shape = self.handle.cluster, pod.shape
        # Also terms whose holders are on nodes without the topology key matter: they may get others.
        held = [held.term for _, held in self._held(pod) if held.role is Role.REQUIRED_ANTI_AFFINITY]
        away_from = (*held, *shape.required_anti_affinity)
        if not all(cluster.table.label(term.topology_key).unique for term in away_from):
            return None
        n = cluster.table.n
        rows = np.ones(n, np.bool_)
        found: _FilterState | _Skipped | None = state.get(PRE_FILTER_KEY)
        if not isinstance(found, _FilterState):
            return None if found is None else FeasibleSets([rows], bool(away_from))
        for away in (*found.anti_affinity, *found.existing_anti_affinity):
            rows &= (away.sums <= 0).take(away.column.codes[:n])
        if found.affinity:
            near = cluster.matches.counts[self._matched(self._pod_terms(shape).affinity, []), :n] > 0
            for table in found.affinity:
                # Nodes with such pods by domain: more than can be lost.
                nodes = domain_sums(table.column, near.astype(np.int32))
                rows &= (nodes > lost).take(table.column.codes[:n])
        return FeasibleSets([rows], bool(away_from))

    def batch_state(self, state: CycleState, pod: PodInfo, shapes: Collection[PodShape]) -> BatchState | None:
        if self._unaffected(state, shapes):
            return BatchState()
        filters: _FilterState | _Skipped | None = state.get(PRE_FILTER_KEY)
        if filters is None or any(shape.template is not pod.shape.template for shape in shapes):
            return None
        alike = representatives(shapes)
        refusals = () if isinstance(filters, _Skipped) else self._refusals_ahead(filters, alike)
        gains = self._gains(pod.shape, alike)
        if refusals is None or gains is None:
            return None
        return BatchState(refusals, self._scores_ahead(pod, gains) if any(gains.values()) else None)

    def _refusals_ahead(self, found: _FilterState, shapes: Sequence[PodShape]) -> list[BatchFilterState] | None:
        """`shapes`: of the pods. None: they differ in what they match."""
        table, first = self.handle.cluster.table, shapes[0]
        labels = self.handle.cluster.objects.namespace_labels(first.namespace)
        free = found.matches_itself and not any(near.sums.any() for near in found.affinity)
        near = [(x, _same(map(x.amount, shapes))) for x in found.affinity]
        away = [(x.column, x.sums > 0, _same(map(x.amount, shapes))) for x in found.anti_affinity]
        held = {x.key: x.sums > 0 for x in found.existing_anti_affinity}
        for key in dict.fromkeys((*held, *(term.topology_key for term in first.required_anti_affinity))):
            column = table.label(key)
            repels = _same(avoids(shape, key, labels)(other) for shape in shapes for other in shapes)
            away.append((column, held.get(key, np.zeros(column.size, np.bool_)), repels))
        if any(matched is None for _, matched in near) or any(repels is None for *_, repels in away):
            return None
        return [
            *(AffinityBatch(x, table.n, matched=bool(matched), anywhere=free) for x, matched in near),
            *(AntiAffinityBatch(column, refused, table.n, repels=bool(repels)) for column, refused, repels in away),
        ]

    def _gains(self, shape: PodShape, shapes: Sequence[PodShape]) -> dict[str, int] | None:
        """What each of the pods adds to the scores of its domains, by topology key; None: not the same for all."""
        if self._ignore_existing and not self._has_preferences(shape):
            return {}
        labels = self.handle.cluster.objects.namespace_labels(shape.namespace)
        gains: dict[str, int] = {}
        amounts = [
            (key, weight, _same(int(term.matches(x)) for x in shapes))
            for key, weight, term in self._pod_terms(shape).preferred
        ]
        for held in held_terms(shape):
            matched = _same(int(held.term.matches(x.namespace, x.labels, labels)) for x in shapes)
            amounts.append((held.term.topology_key, self._weight_of(held), matched))
        for key, weight, matched in amounts:
            if matched is None:
                return None
            gains[key] = gains.get(key, 0) + weight * matched
        return gains

    def _scores_ahead(self, pod: PodInfo, gains: Mapping[str, int]) -> ScoreCounterBatch:
        cluster = self.handle.cluster
        sums = {key: np.zeros(cluster.table.label(key).size, np.int64) for key in gains}
        for counter in self._score_counters(pod, []):
            part = self._sums(counter.key, counter.slot, held=counter.held) * counter.weight
            sums[counter.key] = sums[counter.key] + part if counter.key in sums else part
        counters = [SummedCounter(cluster.table.label(key), of_key, gains.get(key, 0)) for key, of_key in sums.items()]
        return ScoreCounterBatch(counters, domain_classes(cluster.table, [counter.column for counter in counters]))

    def _still(self, found: _FilterState | _Skipped | _ScoreState) -> bool:
        """Whether the counters that a state depends on are unchanged."""
        held = self.handle.cluster.held
        if found.epoch != held.epoch:
            return False
        matches = self.handle.cluster.matches.versions
        for is_held, slot, version in found.versions:
            if (held.versions if is_held else matches)[slot] != version:
                return False
        return True

    def _epoch(self) -> int:
        """Changes with the set of terms that existing pods hold, as states may then lack a counter."""
        return self.handle.cluster.held.epoch

    # -- filter -------------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        shape = pod.shape
        if shape.has_pod_affinity and shape.affinity_error is not None:
            return unresolvable(f"parsing pod: {shape.affinity_error}")
        terms = self._pod_terms(shape)
        versions: list[Version] = []
        existing = self._existing_anti_affinity(pod, versions)
        if not shape.required_affinity and not shape.required_anti_affinity and not any(x.sums.any() for x in existing):
            state.write(PRE_FILTER_KEY, _Skipped(versions, self._epoch()))
            return SKIP
        affinity = self._affinity_tables(shape, terms.affinity, versions)
        anti_affinity = [self._anti_table(key, term, versions) for key, term in terms.anti_affinity]
        itself = terms.matches_itself
        state.write(PRE_FILTER_KEY, _FilterState(affinity, anti_affinity, existing, itself, versions, self._epoch()))
        return None

    def _affinity_tables(self, shape: PodShape, term: PodTerm, versions: list[Version]) -> list[Table]:
        """Pods that match all affinity terms at once, by domain of each term's key."""
        if not shape.required_affinity:
            return []
        slot = self._matched(term, versions)
        keys = dict.fromkeys(x.topology_key for x in shape.required_affinity)
        return [self._table(key, self._sums(key, slot, held=False), lambda s: int(term.matches(s))) for key in keys]

    def _anti_table(self, key: str, term: PodTerm, versions: list[Version]) -> Table:
        slot = self._matched(term, versions)
        table = self._table(key, self._sums(key, slot, held=False), lambda s: int(term.matches(s)))
        table.counts = self._single_counts(table.column, self.handle.cluster.matches.counts[slot])
        return table

    def _single_counts(self, column: LabelColumn, counts: Counts) -> Counts | None:
        """A counter's row, if domains are single nodes and every node has the label."""
        return counts if column.unique and column.everywhere(self.handle.cluster.table.count) else None

    def _existing_anti_affinity(self, pod: PodInfo, versions: list[Version]) -> list[Table]:
        """Pods that hold anti-affinity against the incoming pod, by domain of each key in use."""
        slots: dict[str, list[int]] = {}
        for slot, held in self._held(pod):
            if held.role is Role.REQUIRED_ANTI_AFFINITY:
                slots.setdefault(held.term.topology_key, []).append(self._holding(slot, versions))
        labels = self.handle.cluster.objects.namespace_labels(pod.namespace)
        return [self._avoiding_table(key, of_key, avoids(pod.shape, key, labels)) for key, of_key in slots.items()]

    def _avoiding_table(self, key: str, slots: list[int], amount: Callable[[PodShape], int]) -> Table:
        sums = [self._sums(key, slot, held=True) for slot in slots]
        if len(slots) > 1:
            return self._table(key, np.add.reduce(sums), amount)
        table = self._table(key, sums[0], amount)
        table.counts = self._single_counts(table.column, self.handle.cluster.held.counts[slots[0]])
        return table

    def _table(self, key: str, sums: Ints, amount: Callable[[PodShape], int]) -> Table:
        return Table(key, self.handle.cluster.table.label(key), sums, amount)

    def shift_pods(self, state: CycleState, pod: PodInfo, shift: PodShift) -> Status | None:
        found: _FilterState = state.read(PRE_FILTER_KEY)
        rows = self.handle.cluster.table.n
        if shift.sign > 0:
            self._add_missing_keys(found, pod, shift)
        labels = self.handle.cluster.objects.namespace_labels(pod.namespace)
        for table in found.existing_anti_affinity:
            # Pods that share this state match the same terms of placed pods, but not necessarily those of added pods.
            table.amount = avoids(pod.shape, table.key, labels)
        for table in found.tables():
            table.shift_pods(shift, rows)
        return None

    def _add_missing_keys(self, found: _FilterState, pod: PodInfo, shift: PodShift) -> None:
        """Add tables for topology keys that only an added pod's anti-affinity uses."""
        known = {table.key for table in found.existing_anti_affinity}
        labels = self.handle.cluster.objects.namespace_labels(pod.namespace)
        for shape in shift.shapes:
            for term in shape.required_anti_affinity:
                if term.topology_key not in known and term.matches(pod.namespace, pod.labels, labels):
                    known.add(term.topology_key)
                    none = np.zeros(self.handle.cluster.table.label(term.topology_key).size, np.int64)
                    table = self._table(term.topology_key, none, avoids(pod.shape, term.topology_key, labels))
                    found.existing_anti_affinity.append(table)

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        found: _FilterState | None = state.get(PRE_FILTER_KEY)
        if found is None:
            return error(f'error reading "{PRE_FILTER_KEY}" from cycleState: not found')
        away = self._unmet_affinity(found, nodes, state)
        avoided = anywhere(found.anti_affinity, nodes, state, "avoided")
        avoiding = anywhere(found.existing_anti_affinity, nodes, state, "avoiding")
        refused = union((away, avoided, avoiding))
        if refused is None or not refused.any():
            return None
        return Rejections(refused, lambda: _entries(away, avoided, avoiding))

    @staticmethod
    def _unmet_affinity(found: _FilterState, nodes: Nodes, state: CycleState) -> Mask | None:
        tables = found.affinity
        if not tables:
            return None
        total = sum(int(table.sums.sum()) for table in tables) if found.matches_itself else 1
        if all(table.shift is None for table in tables):
            # The first pod of a group: only the pod itself matches.
            return union(table.absent(nodes, state, also_where_none=total != 0) for table in tables)
        lacking = np.logical_or.reduce([nodes.take(table.column.codes) == 0 for table in tables])
        empty = np.logical_or.reduce([table.here(nodes) <= 0 for table in tables])
        if found.matches_itself:
            moved = [nodes.take(table.shift) for table in tables if table.shift is not None]
            empty &= total + np.sum(moved, axis=0) != 0
        unmet: Mask = lacking | empty
        return unmet

    # -- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        shape = pod.shape
        if self._ignore_existing and not self._has_preferences(shape):
            return SKIP
        if shape.has_pod_affinity and shape.affinity_error is not None:
            return error(f"failed to parse pod: {shape.affinity_error}")
        versions: list[Version] = []
        of_nodes: Values | None = None
        of_domains: dict[str, Values] = {}
        any_entry = False
        for counter in self._score_counters(pod, versions):
            amounts, of_node = self._amounts(counter)
            any_entry = any_entry or bool(np.count_nonzero(amounts))
            part = amounts if counter.weight == 1 else amounts * counter.weight
            if of_node:
                of_nodes = part if of_nodes is None else of_nodes + part
            else:
                of_domains[counter.key] = of_domains[counter.key] + part if counter.key in of_domains else part
        if any_entry:
            state.write(PRE_SCORE_KEY, self._score_state(nodes.table, of_nodes, of_domains, versions))
            return None
        state.write(PRE_SCORE_KEY, _ScoreState(np.zeros(0, np.int64), None, versions, self._epoch()))
        return SKIP

    @staticmethod
    def _has_preferences(shape: PodShape) -> bool:
        return bool(shape.preferred_affinity or shape.preferred_anti_affinity)

    def _amounts(self, counter: ScoreCounter) -> tuple[Values, bool]:
        """Pods by domain; or, as the flag says, by node, if that is equal and saves the spreading."""
        table = self.handle.cluster.table
        counts = self.handle.cluster.held if counter.held else self.handle.cluster.matches
        column = table.label(counter.key)
        if self._single_counts(column, counts.counts[counter.slot]) is not None:
            return counts.counts[counter.slot, : table.n], True
        return counts.sum_by_domain(counter.slot, column, table.n), False

    def _score_state(
        self,
        table: NodeTable,
        of_nodes: Values | None,
        of_domains: dict[str, Ints],
        versions: list[Version],
    ) -> _ScoreState:
        columns = [table.label(key) for key in of_domains]
        if of_nodes is None and len(columns) == 1 and worth_normalizing(columns[0], table):
            (sums,) = of_domains.values()
            # A copy: counters' sums follow the pods.
            return _ScoreState(unused_raw(table), (columns[0], sums.copy()), versions, self._epoch())
        raw: Ints | None = None if of_nodes is None else of_nodes.astype(np.int64)
        for column, sums in zip(columns, of_domains.values(), strict=True):
            part = sums.take(column.codes[: table.n], mode="clip")
            raw = part if raw is None else raw + part
        assert raw is not None
        return _ScoreState(raw, None, versions, self._epoch())

    def _score_counters(self, pod: PodInfo, versions: list[Version]) -> list[ScoreCounter]:
        """The counters that attract the pod to, or repel it from, some domains."""
        found = [
            ScoreCounter(key, weight, self._matched(term, versions), held=False)
            for key, weight, term in self._pod_terms(pod.shape).preferred
        ]
        for slot, held in self._held(pod):
            if weight := self._weight_of(held):
                found.append(ScoreCounter(held.term.topology_key, weight, self._holding(slot, versions), held=True))
        return found

    def _weight_of(self, held: HeldTerm) -> int:
        if held.role is Role.REQUIRED_AFFINITY:
            return self._hard_weight
        if held.role is Role.PREFERRED_AFFINITY:
            return held.term.weight
        return -held.term.weight if held.role is Role.PREFERRED_ANTI_AFFINITY else 0

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        found: _ScoreState | None = state.get(PRE_SCORE_KEY)
        if found is None:
            return error(f'failed to read "{PRE_SCORE_KEY}" from cycleState: not found')
        return found.raw if nodes.rows is None else found.raw[nodes.rows]

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints | Status:
        found: _ScoreState = state.read(PRE_SCORE_KEY)
        if found.by_domain is not None:
            column, raw = found.by_domain
            return normalized_by_domain(raw, column, self.handle.cluster.table, state, feasible, stretched)
        bounds = bounds_of(scores, feasible)
        if bounds is None:
            return np.zeros(len(scores), np.int64)
        low, high = bounds
        return mapped(scores, low, high, lambda raw: stretched(raw, low, high))

    # -- events -------------------------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return hints.events(self.handle)


def _same(values: Iterable[int]) -> int | None:
    """The value, if it is always the same."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _entries(away: Mask | None, avoided: Mask | None, avoiding: Mask | None) -> list[Entry]:
    """The first failing rule of each node gives its reason."""
    rules = (
        (away, AFFINITY, Code.UnschedulableAndUnresolvable),
        (avoided, ANTI_AFFINITY, Code.Unschedulable),
        (avoiding, EXISTING_ANTI_AFFINITY, Code.Unschedulable),
    )
    entries: list[Entry] = []
    refused: Mask | None = None
    for mask, reason, code in rules:
        if mask is not None:
            entries.append(Entry(mask if refused is None else mask & ~refused, code, reason))
            refused = mask if refused is None else refused | mask
    return entries
