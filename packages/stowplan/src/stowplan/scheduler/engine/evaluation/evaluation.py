"""What a profile's plugins say of all nodes for a pod: the filters' and the scores' results, kept for equal pods.

An evaluation is PreFilter, the fold of the filters (`filtering.py`), PreScore, and the fold of the scores
(`scoring.py`). Both folds keep a column per plugin (`columns.py`, which says what makes a column current), so for the
next equal pod only what its predecessors changed is computed again. The result is the same as without reuse, bit for
bit, which a property test verifies.

Which pods are equal is up to the framework's `signature`.

An evaluation may be restricted to some rows, as for a placement of a pod group. Filter and the diagnosis then only
cover these, while PreFilter and scoring plugins see all nodes.

Who follows a pod reads `try_incremental` and `filter` here, and the head of `columns.py` for why a reused result is
right. The other modules are one idea each: the folds, nominated pods (`nominated_nodes.py`), how many nodes are
filtered (`sampling.py`), and many equal pods decided together (`batch_placement.py`) or in turn (`run_of_pods.py`).

Upstream has the idea as "opportunistic batching" (pkg/scheduler/framework/runtime/batch.go) and gives up on most pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.engine.evaluation.batch_placement import BatchPlacement, BatchStart, batch_states
from stowplan.scheduler.engine.evaluation.columns import SharedColumns
from stowplan.scheduler.engine.evaluation.filtering import Filtering
from stowplan.scheduler.engine.evaluation.nominated_nodes import NominatedNodes
from stowplan.scheduler.engine.evaluation.scoring import Scored, Scoring
from stowplan.scheduler.framework.boundary import call, declares, nothing
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import FeasibleSets, Reads
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Status

#: Filters that judge a node by itself.
_OF_ONE_NODE = (Reads.NODES, Reads.NODE_SUMS, Reads.NODE_PODS)


class FilterResult(PlainStruct):
    """The results of one attempt before a node is chosen."""

    state: CycleState
    #: Why the attempt ended early; None if nodes were filtered.
    error: Status | None = None
    feasible: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    #: Rows that were filtered, and their number.
    examined: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    seen: int = 0
    diagnosis: Diagnosis | None = None
    #: Rows without room next to the pods nominated to them.
    refused: dict[int, Status] = field(default_factory=dict)
    #: Whether results of equal pods were reused.
    reused: bool = False
    #: PreFilter's status if it ended the attempt, so that no Filter ran.
    ended_early: Status | None = None
    #: Seconds spent in PreFilter; 0.0 without metrics.
    preparing: float = 0.0


@mypyc_attr(native_class=True)
class IncrementalResults(PlainStruct, eq=False):
    """Results that are updated for one equal pod after the other; valid until the next use."""

    state: CycleState
    #: Number of filtered nodes.
    seen: int
    #: Feasible rows, and their number: at least two.
    feasible: Mask
    feasible_count: int
    #: Whether the nodes are scored, too (`Evaluation.best`).
    scored: bool


class Evaluation:
    """The nodes as seen by pods of one signature."""

    def __init__(
        self, framework: Framework, shared: SharedColumns | None = None, *, asking: bool = False, reusable: bool = True
    ) -> None:
        """`shared`: the columns of the profile's evaluations; `asking`: see `CycleState.asking`.

        Without `reusable`, it serves one pod only, and nothing is kept.
        """
        self._framework = framework
        self.asking = asking
        self._cluster = framework.handle.cluster
        if shared is None and reusable:
            shared = SharedColumns(framework)
        self.reusable = shared is not None
        self._filtering = Filtering(framework, shared, asking=asking)
        self._scoring = Scoring(framework, shared, asking=asking)
        self._nominated = NominatedNodes(framework)
        #: The last results if the pod was unschedulable, and what they depend on.
        self._refusal: tuple[tuple[Any, ...], FilterResult] | None = None

    # -- the next equal pod --------------------------------------------------------------------------------------------

    def try_incremental(self, pod: PodInfo) -> IncrementalResults | None:
        """What `filter` of all nodes and `score` would return, if they have little to do; None if not.

        If scores cannot be updated, they are left to `score`.
        """
        filtering, scoring = self._filtering, self._scoring
        # Nominated pods take a second pass of the filters, of which the fold knows nothing.
        if self._cluster.nominator or not filtering.declared or not filtering.judged_all:
            return None
        filtering.begin()
        # A single feasible node is taken without scoring.
        if filtering.refresh(pod, None) is None or filtering.feasible_count < 2:
            return None
        state, feasible = filtering.state, filtering.feasible
        scored = scoring.refresh(state, pod, feasible)
        return IncrementalResults(state, filtering.seen, feasible, filtering.feasible_count, scored)

    def best(self) -> Sequence[int]:
        """The rows with the highest total after `try_incremental`, ascending."""
        return self._scoring.best()

    @property
    def preparing(self) -> float:
        """Seconds that PreFilter took for the last pod; 0.0 without metrics."""
        return self._filtering.preparing

    # -- filtering ----------------------------------------------------------------------------------------------------

    def filter(self, pod: PodInfo, *, one_by_one: bool = True, within: Rows | None = None) -> FilterResult:
        """Filter all nodes, or update the last results.

        Without `one_by_one`, node-level plugins are left to `passing`, if other plugins leave any node. `within`: the
        rows to filter.
        """
        filtering = self._filtering
        one_by_one = one_by_one or not filtering.has_node_level
        filtering.begin()
        called = filtering.refresh(pod, within) if one_by_one == filtering.ran_node_level else None
        if called is None:
            filtering.run(pod, within=within, one_by_one=one_by_one)
        # Some plugin was called again (`called`), or all of them (None): nominated pods were judged with another state.
        if called is None or called:
            self._nominated.forget()
        found = self._last_refusal(pod) or self._judgement(pod, within)
        found.reused, found.preparing = called is not None, filtering.preparing
        found.ended_early = None if filtering.pre_filtered is None else filtering.pre_filtered.status
        return found

    def _last_refusal(self, pod: PodInfo) -> FilterResult | None:
        """The last results, if the pod was rejected and nothing changed since, as `_stamp` tells."""
        if self._refusal is None or self._refusal[0] != self._stamp(pod):
            return None
        known = self._refusal[1]
        # Another object: the caller sets what belongs to this pod (`reused`, `preparing`).
        return FilterResult(
            known.state, None, known.feasible, known.examined, known.seen, known.diagnosis, known.refused
        )

    def still_applies(self, diagnosis: Diagnosis, pods: Sequence[PodInfo]) -> FilterResult | None:
        """The last results, if they have this diagnosis and apply to these equal pods as long as nothing changes."""
        filtering, counters = self._filtering, self._framework.pod_counters
        if self._refusal is None or filtering.pre_filtered is None or filtering.pre_filtered.status is not None:
            return None
        known, pod, shapes = self._refusal[1], pods[0], {pod.shape for pod in pods}
        if known.diagnosis is not diagnosis or self._refusal[0] != self._stamp(pod) or self._cluster.nominator:
            return None
        for plugin in self._framework.cluster_dependent_pre_filters:
            counter = counters.get(plugin.name)
            if counter is None:
                still = all(declares(plugin.ignores, shape, at=("Ignores", plugin)) for shape in shapes)
            else:
                still = declares(counter.filter_holds, filtering.state, pod, at=("FilterHolds", counter))
            if not still:
                return None
        return known

    def _stamp(self, pod: PodInfo) -> tuple[Any, ...] | None:
        """What the results depend on; None if they must not be reused."""
        nominator, filtering = self._cluster.nominator, self._filtering
        if not filtering.declared or nominator.node_of(pod.uid):
            # The room that the pod itself is nominated to is free for this pod only.
            return None
        # Nothing else enters a rejection. PreFilter and the filters are in `version`, and nodes and pods with them. The
        # priority says which nominated pods count, and these may distinguish pods that are otherwise equal.
        return filtering.version, nominator.version, pod.priority, pod.shape if nominator else None

    def _judgement(self, pod: PodInfo, within: Rows | None) -> FilterResult:
        """The results of the filters, then of nominated pods; with reasons if no node is left."""
        self._refusal = None
        filtering = self._filtering
        if filtering.error is not None:
            return FilterResult(filtering.state, filtering.error)
        feasible, nominated = self._with_nominations(pod)
        if isinstance(nominated, Status):
            return FilterResult(filtering.state, nominated)
        # `any` would be a Python function.
        if len(feasible) and feasible[feasible.argmax()]:
            return FilterResult(filtering.state, None, feasible, filtering.examined, filtering.seen, None, nominated)
        if not filtering.explain(pod):
            filtering.run(pod, within=within)
            if filtering.error is not None:
                return FilterResult(filtering.state, filtering.error)
        diagnosis = filtering.diagnosis(nominated)
        found = FilterResult(filtering.state, None, feasible, filtering.examined, filtering.seen, diagnosis, nominated)
        stamp = self._stamp(pod)
        if stamp is not None:
            self._refusal = stamp, found
        return found

    def _with_nominations(self, pod: PodInfo) -> tuple[Mask, dict[int, Status] | Status]:
        """Remove nodes that do not fit the pod with the pods nominated to them added."""
        filtering = self._filtering
        if not self._cluster.nominator:
            return filtering.feasible, {}
        refused = self._nominated.refused(filtering.state, pod, filtering.examined)
        if isinstance(refused, Status) or not refused:
            return filtering.feasible, refused
        # A copy: the fold compares the next pod's results with its own array, and nominations are not in it.
        feasible = filtering.feasible.copy()
        feasible[list(refused)] = False
        return feasible, refused

    def diagnosis(self, refused: dict[int, Status]) -> Diagnosis:
        """The verdict on every node after a full `filter` with this outcome."""
        return self._filtering.diagnosis(refused)

    def problems(self) -> Iterator[str]:
        """Violations of the invariant in `columns.py`."""
        yield from self._filtering.problems()
        yield from self._scoring.problems()

    # -- node-level plugins --------------------------------------------------------------------------------------------

    def passing(self, pod: PodInfo, rows: Rows) -> Mask | Status:
        """Which of some feasible rows also pass the plugins that the last `filter` left out."""
        return self._filtering.passing(pod, rows)

    def passes(self, pod: PodInfo, row: int) -> bool:
        answer = self.passing(pod, np.array([row], np.intp))
        return not isinstance(answer, Status) and bool(answer[0])

    # -- scoring ------------------------------------------------------------------------------------------------------

    def score(self, pod: PodInfo, feasible: Mask) -> Scored:
        """The scores of the feasible nodes; valid until the evaluation is used again."""
        return self._scoring.score(self._filtering.state, pod, feasible)

    def guaranteed_feasible_sets(self, pod: PodInfo, feasible: Mask, lost: int) -> FeasibleSets | None:
        """`CountsPods.guaranteed_feasible_sets`, for all filters together.

        Must directly follow `filter`. None: unknown. It scores once, as scores of in-tree plugins do not fail later.
        """
        state, framework = self._filtering.state, self._framework
        if self._cluster.nominator or self.score(pod, feasible).error is not None:
            return None
        counters = framework.pod_counters
        moving = framework.applicable_plugins(pod.shape).cluster_dependent_pre_filters
        active = [plugin for plugin in framework.active_filters(state) if plugin.name not in counters]
        if any(plugin.name not in counters for plugin in moving) or any(p.reads not in _OF_ONE_NODE for p in active):
            return None
        found = [self._filtering.feasible_without(counters)]
        pods_matter = any(plugin.reads is Reads.NODE_PODS for plugin in active)
        for plugin in moving:
            counter = counters[plugin.name]
            at = "GuaranteedFeasibleSets", counter
            answer = call(counter.guaranteed_feasible_sets, state, pod, lost, check=None, failed=nothing, at=at)
            if answer is None or (len(found) > 1 and len(answer.sets) > 1):
                return None
            found = [one & other for one in found for other in answer.sets]
            pods_matter |= answer.pods_matter
        return FeasibleSets(found, pods_matter)

    def batch_placement(
        self, pod: PodInfo, feasible: Mask, shapes: Collection[PodShape], *, placed: bool = False
    ) -> BatchPlacement | None:
        """Where pods of these shapes, equal to this one, would be placed one after the other; None if unknown.

        `placed`: each of them will be, before the next one.
        Must directly follow `filter`. It reads nothing of the evaluation from then on.
        """
        state, framework = self._filtering.state, self._framework
        scored = self.score(pod, feasible)
        if scored.error is not None or self._cluster.nominator:
            return None
        ahead = batch_states(framework, state, pod, shapes)
        if ahead is None:
            return None
        rows = self._filtering.feasible_without(ahead) if ahead else feasible
        start = BatchStart(
            framework=framework,
            # Its own: the evaluation may be used for other pods and nodes in between.
            state=state.clone(),
            pod=pod,
            seen=self._filtering.seen,
            open=rows,
            scored=scored,
            filters=[plugin for plugin in framework.active_filters(state) if plugin.reads is Reads.NODE_SUMS],
            ahead=ahead,
            placed=placed,
        )
        return BatchPlacement(start)
