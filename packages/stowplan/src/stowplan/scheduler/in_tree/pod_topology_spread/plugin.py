"""Enforce (DoNotSchedule) or prefer (ScheduleAnyway) even spreading over topology domains.

The number of matching pods per node is a column (`MatchCounts`); a cycle sums it by domain with one bincount per
constraint. Which nodes count, and their domains, depends on node objects alone and is cached until one changes.

In a hypothetical view (preemption, nominated pods) each node is independent, with only its own pods changed: a `shift`
array per constraint has the changes, and the minimum over all domains is derived from the two lowest ones.

Upstream: pkg/scheduler/framework/plugins/podtopologyspread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from msgspec.structs import replace

from stowplan.kube.api.label_selectors import Selector, SelectorError, compile_label_selector
from stowplan.kube.api.types import TopologySpreadConstraint
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.labels import LabelColumn
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.terms import PodTerm
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.batch_state import BatchState
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import CountsPods, FeasibleSets, Reads, ReadsNoObjects, SignPlugin
from stowplan.scheduler.framework.diagnosis import Rejections
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
from stowplan.scheduler.framework.status import SKIP, Status, error, unschedulable
from stowplan.scheduler.in_tree.common.domain_classes import domain_classes
from stowplan.scheduler.in_tree.common.domains import (
    normalized_by_domain,
    present_domains,
    unused_raw,
    worth_normalizing,
)
from stowplan.scheduler.in_tree.common.node_selection import required_node_affinity_mask, untolerated_mask
from stowplan.scheduler.in_tree.common.normalization import bounds_of, mapped
from stowplan.scheduler.in_tree.pod_topology_spread import hints, skew
from stowplan.scheduler.in_tree.pod_topology_spread.amounts import (
    Part,
    by_difference,
    ignored_rows,
    registered_sums,
    rounded,
    rounded_sum,
    weighted_counts,
)
from stowplan.scheduler.in_tree.pod_topology_spread.batch_scores import InDomains, OnNodes, SoftAhead
from stowplan.scheduler.in_tree.pod_topology_spread.constraints import (
    HARD,
    SOFT,
    Constraint,
    Domains,
    Prepared,
    counted_term,
)
from stowplan.scheduler.in_tree.pod_topology_spread.declaration import DECLARATION, PodTopologySpreadArgs
from stowplan.scheduler.in_tree.pod_topology_spread.default_selector import default_selector

PRE_FILTER_KEY = "PreFilterPodTopologySpread"
PRE_SCORE_KEY = "PreScorePodTopologySpread"

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

#: Maximum number of remembered signatures; forgetting one only loses the sharing of results.
_MAX_NUMBERS = 4096


class _FilterState(PlainStruct, eq=False):
    spreads: list[skew.Spread]
    #: (slot, version) of the counters that this depends on.
    versions: list[tuple[int, int]]

    def clone(self) -> _FilterState:
        return _FilterState(
            [replace(s, shift=None if s.shift is None else s.shift.copy()) for s in self.spreads], self.versions
        )


class _ScoreState(PlainStruct, eq=False):
    #: Rounded raw sum of every row; arbitrary for ignored rows.
    raw: Ints
    #: Scores by domain, if a single label with few domains determines them.
    by_domain: tuple[LabelColumn, Ints] | None
    #: Rows that lack a required key; None: there are none.
    ignored: Mask | None
    #: (slot, version) of the counters that this depends on.
    versions: list[tuple[int, int]]


class PodTopologySpread(
    PreFilterPlugin,
    FilterPlugin,
    PodExtensions,
    PreScorePlugin,
    ScorePlugin,
    CountsPods,
    EnqueueExtensions,
    SignPlugin,
    ReadsNoObjects,
):
    """For default constraints, the lookups are part of the signature: the selector from services and controller."""

    declaration = DECLARATION
    short_name = "spread"
    reads = Reads.CLUSTER_PODS
    in_range = True

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._system = args.defaulting_type == "System"
        self._defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints
        self._numbers: dict[tuple[tuple[Selector, bool], ...], int] = {}
        self._next_number = count()
        self._comparisons = handle.features.enabled("TaintTolerationComparisonOperators")
        self._label_keys = handle.features.enabled("MatchLabelKeysInPodTopologySpread")

    # -- constraints --------------------------------------------------------------------------------------------------

    def constraints(self, shape: PodShape, action: str) -> tuple[Constraint, ...]:
        """The pod's constraints of one kind, or the defaults; raises SelectorError if one does not parse."""
        own = shape.pod.spec.topology_spread_constraints
        if own:
            found: tuple[Constraint, ...] | None = shape.memo(("spread", action), 0)
            if found is None:
                found = tuple(self._parsed(c, shape) for c in own if c.when_unsatisfiable == action)
                shape.remember(("spread", action), 0, found)
            return found
        defaults = [c for c in self._defaults if c.when_unsatisfiable == action]
        if not defaults:
            return ()
        selector = default_selector(shape, self.handle.cluster.objects)
        if selector.empty:
            return ()
        return tuple(replace(self._parsed(c, shape), selector=selector) for c in defaults)

    def _parsed(self, constraint: TopologySpreadConstraint, shape: PodShape) -> Constraint:
        selector = compile_label_selector(constraint.label_selector)
        keys = constraint.match_label_keys if self._label_keys else ()
        own = {key: shape.labels[key] for key in keys if key in shape.labels}
        if own:
            selector = selector.with_equalities(own)
        return Constraint(
            max_skew=constraint.max_skew,
            key=constraint.topology_key,
            selector=selector,
            min_domains=1 if constraint.min_domains is None else constraint.min_domains,
            honor_affinity=(constraint.node_affinity_policy or "Honor") == "Honor",
            honor_taints=(constraint.node_taints_policy or "Ignore") == "Honor",
        )

    def ignores(self, shape: PodShape) -> bool:
        return not self._defaults and not shape.pod.spec.topology_spread_constraints

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        """Labels and owner matter through the resulting selectors, and through whether the pod matches them itself."""
        shape = pod.shape
        if not shape.pod.spec.topology_spread_constraints:
            if not self._defaults:
                return {}
            selector = default_selector(shape, self.handle.cluster.objects)
            # The usual empty selector is cheaper to compare as None.
            return {"default": None if selector.empty else (selector, selector.matches(shape.labels))}
        found: dict[str, Any] | None = shape.memo("spread signature", 0)
        if found is None:
            try:
                own = (*self.constraints(shape, HARD), *self.constraints(shape, SOFT))
            except SelectorError:
                return unschedulable("constraints that do not parse")
            said = tuple((c.selector, c.counts(shape)) for c in own)
            found = {"own": self._number_of(said)}
            shape.remember("spread signature", 0, found)
        return found

    def sign_version(self, pod: PodInfo) -> int:
        return self.handle.cluster.objects.total_version

    def _number_of(self, said: tuple[tuple[Selector, bool], ...]) -> int:
        """A number that stands for the selectors, as signatures are hashed in every cycle; never reused."""
        if said not in self._numbers:
            if len(self._numbers) >= _MAX_NUMBERS:
                self._numbers.clear()
            self._numbers[said] = next(self._next_number)
        return self._numbers[said]

    def _domains(
        self, nodes: Nodes, pod: PodInfo, constraints: tuple[Constraint, ...], *, all_keys: bool
    ) -> list[Domains]:
        """Eligible nodes and their domains per constraint; cached while no node changes."""
        # Pods of a template share the arrays, so that counters are summed once for all of them.
        key = ("spread domains", pod.shape.template, constraints, all_keys)
        found: list[Domains] = nodes.table.memo(key, lambda: self._find_domains(nodes, pod, constraints, all_keys))
        return found

    def _find_domains(
        self, nodes: Nodes, pod: PodInfo, constraints: tuple[Constraint, ...], all_keys: bool
    ) -> list[Domains]:
        table = nodes.table
        columns = [table.label(c.key) for c in constraints]
        having = table.valid[: table.n]
        for column in columns if all_keys else ():
            having = having & (column.codes[: table.n] > 0)
        return [self._domain(nodes, pod, c, column, having) for c, column in zip(constraints, columns, strict=True)]

    def _domain(self, nodes: Nodes, pod: PodInfo, c: Constraint, column: LabelColumn, having: Mask) -> Domains:
        table = nodes.table
        eligible = having
        if c.honor_affinity and (matching := required_node_affinity_mask(table, pod)) is not None:
            eligible = eligible & matching
        if c.honor_taints and (tainted := untolerated_mask(table, pod, self._comparisons)) is not None:
            eligible = eligible & ~tainted
        codes = column.codes[: table.n]
        present = np.bincount(codes[eligible], minlength=column.size) > 0
        present[0] = False
        # Whether nodes without the label count matters if an empty value is the same domain.
        whole = bool(eligible[table.valid[: table.n] if column.code("") else codes > 0].all())
        found = np.flatnonzero(present)
        missing = codes == 0
        lacking = missing if bool((missing & table.valid[: table.n]).any()) else None
        return Domains(column, None if whole else eligible, found, len(found) == column.size - 1, lacking)

    def _prepared(self, state: CycleState, pod: PodInfo, nodes: Nodes, action: str) -> list[Prepared]:
        """The pod's constraints of one kind, for it and its equals; raises SelectorError as `constraints` does."""
        generation = nodes.table.generation
        found: list[Prepared] | None = state.memo(("spread", action), generation)
        if found is None:
            constraints = self.constraints(pod.shape, action)
            # With system defaults a missing label is a domain of its own; otherwise all keys are required.
            strict = action == HARD or bool(pod.shape.pod.spec.topology_spread_constraints) or not self._system
            domains = self._domains(nodes, pod, constraints, all_keys=strict)
            parts = [
                Prepared(c, d, counted_term(c, pod), int(c.counts(pod.shape)), strict)
                for c, d in zip(constraints, domains, strict=True)
            ]
            found = state.remember(("spread", action), generation, parts)
        return found

    def _counter(self, term: PodTerm | None) -> int:
        """The slot that counts pods; −1 if there is none."""
        cluster = self.handle.cluster
        return -1 if term is None else cluster.matches.slot(term, cluster.pods)

    def _version(self, slot: int) -> tuple[int, int]:
        return slot, self.handle.cluster.matches.versions[slot] if slot >= 0 else 0

    def _sums(self, slot: int, domains: Domains) -> Ints:
        """Matching pods on eligible nodes, by domain code."""
        if slot < 0:
            return np.zeros(domains.column.size, np.int64)
        cluster = self.handle.cluster
        return cluster.matches.sum_by_domain(slot, domains.column, cluster.table.n, domains.eligible)

    def filter_holds(self, state: CycleState, pod: PodInfo) -> bool:
        found: _FilterState | None = state.get(PRE_FILTER_KEY)
        return found is None or self._still(found.versions)

    def score_holds(self, state: CycleState, pod: PodInfo, feasible_moved: bool) -> bool:
        found: _ScoreState | None = state.get(PRE_SCORE_KEY)
        return found is None or (not feasible_moved and self._still(found.versions))

    def _unaffected(self, state: CycleState, shapes: Collection[PodShape]) -> bool:
        """Whether pods of these shapes do not change the results."""
        if state.get(PRE_SCORE_KEY) is not None:
            # The set of domains depends on the feasible nodes.
            return False
        found: _FilterState | None = state.get(PRE_FILTER_KEY)
        matches = self.handle.cluster.matches
        return found is None or not any(
            slot >= 0 and matches.counts_pods_of(slot, shape) for slot, _ in found.versions for shape in shapes
        )

    def guaranteed_feasible_sets(self, state: CycleState, pod: PodInfo, lost: int) -> FeasibleSets | None:
        found: _FilterState | None = state.get(PRE_FILTER_KEY)
        return skew.guaranteed_feasible_sets(() if found is None else found.spreads, self.handle.cluster.table.n, lost)

    def batch_state(self, state: CycleState, pod: PodInfo, shapes: Collection[PodShape]) -> BatchState | None:
        if self._unaffected(state, shapes):
            return BatchState()
        refusals = self._refusals_ahead(state, shapes)
        if refusals is None or state.get(PRE_SCORE_KEY) is None:
            return None if refusals is None else BatchState(refusals)
        scores = self._scores_ahead(state, pod, shapes)
        return None if scores is None else BatchState(refusals, scores)

    def _refusals_ahead(self, state: CycleState, shapes: Collection[PodShape]) -> Sequence[skew.SkewAhead] | None:
        found: _FilterState | None = state.get(PRE_FILTER_KEY)
        ahead = []
        for spread, (slot, _) in zip(found.spreads, found.versions, strict=True) if found is not None else ():
            counted = self._counted(slot, shapes)
            if counted is None:
                return None
            ahead.append(skew.SkewAhead(spread, self.handle.cluster.table.n, counted=counted))
        return ahead

    def _scores_ahead(self, state: CycleState, pod: PodInfo, shapes: Collection[PodShape]) -> SoftAhead | None:
        cluster = self.handle.cluster
        prepared = self._prepared(state, pod, Nodes(cluster), SOFT)
        parts: list[OnNodes | InDomains] = []
        columns, n = [], cluster.table.n
        for part in prepared:
            slot, domains, column = self._counter(part.term), part.domains, part.domains.column
            counted = self._counted(slot, shapes)
            if counted is None or (not part.strict and column.code("")):
                return None
            if part.constraint.key == HOSTNAME:
                counts = cluster.matches.counts[slot, :n] if slot >= 0 else np.zeros(n, np.int32)
                parts.append(OnNodes(part.constraint, np.where(column.codes[:n] > 0, counts, -1), counted))
            else:
                parts.append(InDomains(part.constraint, domains, self._sums(slot, domains).copy(), counted))
                columns.append(column)
        if len(prepared) - len(columns) > 1:
            return None
        return SoftAhead(parts, domain_classes(cluster.table, columns), required=prepared[0].strict)

    def _counted(self, slot: int, shapes: Collection[PodShape]) -> bool | None:
        """Whether a counter counts pods of these shapes; None: some of them."""
        matches = self.handle.cluster.matches
        counted = {slot >= 0 and matches.counts_pods_of(slot, shape) for shape in shapes}
        return None if len(counted) > 1 else counted.pop()

    def _still(self, versions: Sequence[tuple[int, int]]) -> bool:
        """Whether the counters that a state depends on are unchanged."""
        current = self.handle.cluster.matches.versions
        return all(slot < 0 or current[slot] == version for slot, version in versions)

    # -- filter -------------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        try:
            prepared = self._prepared(state, pod, nodes, HARD)
        except SelectorError as e:
            return error(f"get constraints from pod: obtaining pod's hard topology spread constraints: {e}")
        if not prepared:
            return SKIP
        spreads, versions = [], []
        for part in prepared:
            slot = self._counter(part.term)
            spreads.append(skew.spread_of(part, self._sums(slot, part.domains)))
            versions.append(self._version(slot))
        state.write(PRE_FILTER_KEY, _FilterState(spreads, versions))
        return None

    def shift_pods(self, state: CycleState, pod: PodInfo, shift: PodShift) -> Status | None:
        found: _FilterState = state.read(PRE_FILTER_KEY)
        n = self.handle.cluster.table.n
        for spread in found.spreads:
            selector, namespace = spread.constraint.selector, pod.namespace
            amounts = shift.amounts(lambda s, m=selector.matches, ns=namespace: int(s.namespace == ns and m(s.labels)))  # type: ignore[misc]
            if amounts is None:
                continue
            if spread.domains.eligible is not None:
                amounts = amounts * spread.domains.eligible[shift.rows]
            if spread.shift is None:
                spread.shift = np.zeros(n, np.int64)
            spread.shift[shift.rows] += amounts
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        found: _FilterState | None = state.get(PRE_FILTER_KEY)
        if found is None:
            return error(f'reading "{PRE_FILTER_KEY}" from cycleState: not found')
        refused: Mask | None = None
        masks = []
        for spread in found.spreads:
            missing = None if spread.domains.missing is None else nodes.take(spread.domains.missing)
            skewed = skew.skewed_rows(spread, nodes, state)
            masks.append((spread.constraint, missing, skewed))
            for mask in (missing, skewed):
                if mask is not None:
                    refused = mask if refused is None else refused | mask
        if refused is None or not refused.any():
            return None
        return Rejections(refused, lambda: skew.entries_of(masks))

    # -- score --------------------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        try:
            prepared = self._prepared(state, pod, nodes, SOFT)
        except SelectorError as e:
            return error(f"calculating preScoreState: obtaining pod's soft topology spread constraints: {e}")
        if not prepared or not nodes.table.count:
            return SKIP
        candidates = nodes.take(nodes.table.valid) if nodes.candidates is None else nodes.candidates
        ignored = ignored_rows(prepared, candidates) if prepared[0].strict else None
        scored = candidates if ignored is None else candidates & ~ignored
        slots = [self._counter(part.term) for part in prepared]
        parts = [self._soft_part(part, slot, scored, state) for part, slot in zip(prepared, slots, strict=True)]
        versions = [self._version(slot) for slot in slots]
        first, column = parts[0], prepared[0].domains.column
        if len(parts) == 1 and first.codes is not None:
            # With one constraint, rounding per domain is sufficient.
            of_domain = rounded(first.amounts)
            if ignored is None and worth_normalizing(column, nodes.table):
                found = _ScoreState(unused_raw(nodes.table), (column, of_domain), None, versions)
            else:
                found = _ScoreState(of_domain.take(first.codes, mode="clip"), None, ignored, versions)
        else:
            found = _ScoreState(rounded_sum(parts), None, ignored, versions)
        state.write(PRE_SCORE_KEY, found)
        return None

    def _soft_part(self, part: Prepared, slot: int, scored: Mask, state: CycleState) -> Part:
        """One soft constraint's part of a node's sum."""
        constraint, domains, system, n = part.constraint, part.domains, not part.strict, len(scored)
        codes = domains.column.codes[:n]
        if constraint.key == HOSTNAME:
            # Counted on the node itself, regardless of the inclusion policies.
            counts = self.handle.cluster.matches.counts[slot, :n] if slot >= 0 else np.zeros(n, np.int32)
            of_node = weighted_counts(counts, int(np.count_nonzero(scored)), constraint)
            return Part(None, np.where(codes > 0, of_node, 0.0) if system else of_node)
        present = present_domains(domains.column, self.handle.cluster.table, state, scored)
        sums, registered = registered_sums(present, self._sums(slot, domains), system=system)
        empty = domains.column.code("") if system else 0
        if empty:
            # Parity: an empty value and a missing label are the same domain.
            without = codes == 0
            registered -= int(scored[without].any() and scored[codes == empty].any())
            if slot >= 0:
                counted = without if domains.eligible is None else without & domains.eligible
                sums[empty] += int(self.handle.cluster.matches.counts[slot, :n][counted].sum())
        amounts = weighted_counts(sums, registered, constraint)
        # Nodes without the key are not scored by it; without system defaults they are ignored entirely.
        amounts[0] = 0.0
        return Part(codes, amounts)

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        found: _ScoreState | None = state.get(PRE_SCORE_KEY)
        if found is None:
            return error(f'error reading "{PRE_SCORE_KEY}" from cycleState: not found')
        return found.raw if nodes.rows is None else found.raw[nodes.rows]

    def normalize(self, state: CycleState, pod: PodInfo, scores: Ints, feasible: Mask) -> Ints | Status:
        found: _ScoreState = state.read(PRE_SCORE_KEY)
        if found.by_domain is not None:
            column, raw = found.by_domain
            return normalized_by_domain(raw, column, self.handle.cluster.table, state, feasible, by_difference)
        judged = feasible if found.ignored is None else feasible & ~found.ignored
        bounds = bounds_of(scores, judged)
        if bounds is None:
            return np.zeros(len(scores), np.int64)
        low, high = bounds
        normal = mapped(scores, low, high, lambda raw: by_difference(raw, low, high))
        if found.ignored is not None:
            normal[found.ignored] = 0
        return normal

    # -- events -------------------------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return hints.events(self)


def _system_default(key: str, max_skew: int) -> TopologySpreadConstraint:
    from stowplan.kube.api.types import TopologySpreadConstraint

    return TopologySpreadConstraint(max_skew=max_skew, topology_key=key, when_unsatisfiable=SOFT)


SYSTEM_DEFAULTS: tuple[TopologySpreadConstraint, ...] = (_system_default(HOSTNAME, 3), _system_default(ZONE, 5))
