"""Cached filter and score results of a pod on all nodes, updated incrementally.

An `Evaluation` runs the profile's filters and scores over all nodes and keeps each plugin's arrays (`Filtering`,
`Scoring`). Equal pods share it: for the next one, only what its predecessors changed is recomputed:

* for plugins that read a node's pods (`Reads.NODE_PODS`), the rows whose pods changed;
* for a plugin that counts pods on any node (`Reads.CLUSTER_PODS`), everything, if one of its counters changed;
* for plugins that read node objects, nothing;
* for plugins that do not declare what they read, or depend on a lookup object that changed (`Plugin.reads_objects`),
  everything.

After a change of a node object, everything is recomputed. The result is the same as without reuse, bit for bit, which a
property test verifies.

An evaluation may be restricted to some rows, as for a placement of a pod group. Filter and the diagnosis then only
cover these, while PreFilter and scoring plugins see all nodes.

Upstream has the idea as "opportunistic batching" (pkg/scheduler/framework/runtime/batch.go) and gives up on most pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import field

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.engine.evaluation.filling import Filling, FillingStart, results_ahead
from stowplan.scheduler.engine.evaluation.filtering import Filtering, equal_arrays
from stowplan.scheduler.engine.evaluation.node_sums import NodeSums
from stowplan.scheduler.engine.evaluation.nominated_nodes import NominatedNodes
from stowplan.scheduler.engine.evaluation.object_watches import ObjectWatches
from stowplan.scheduler.engine.evaluation.scoring import Scoring
from stowplan.scheduler.framework.boundary import declares
from stowplan.scheduler.framework.interface import Reads
from stowplan.scheduler.framework.status import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
    from stowplan.scheduler.engine.evaluation.scoring import Scored
    from stowplan.scheduler.framework.cycle_state import CycleState
    from stowplan.scheduler.framework.diagnosis import Diagnosis
    from stowplan.scheduler.framework.runtime.framework import Framework

    Mask = npt.NDArray[np.bool_]
    Rows = npt.NDArray[np.intp]
    Ints = npt.NDArray[np.int64]

#: Filters that judge a node by itself.
_OF_ONE_NODE = (Reads.NODES, Reads.NODE_SUMS, Reads.NODE_PODS)

_NOTHING: frozenset[str] = frozenset()

#: If more than this share of rows changed, everything is recomputed.
MAX_CHANGED_SHARE = 0.1


class Outcome(PlainStruct):
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


class IncrementalResults(NamedTuple):
    """Results that are updated for one equal pod after the other; valid until the next use."""

    state: CycleState
    #: Number of filtered nodes.
    seen: int
    #: Feasible rows, and their number: at least two.
    feasible: Mask
    feasible_count: int
    #: The feasible nodes' totals by row, `INFEASIBLE` elsewhere; None: the nodes have yet to be scored.
    ranked: Ints | None


class Evaluation:
    """The nodes as seen by pods of one signature."""

    def __init__(
        self, framework: Framework, sums: NodeSums | None = None, *, asking: bool = False, reusable: bool = True
    ) -> None:
        """`sums` are shared with other evaluations of the profile; `asking`: see `CycleState.asking`.

        Without `reusable`, it serves one pod only: objects that results depend on are not watched.
        """
        self._framework = framework
        self.asking = asking
        self._cluster = framework.handle.cluster
        sums = sums if sums is not None else NodeSums(framework)
        self._filtering = Filtering(framework, sums, asking=asking)
        self._scoring = Scoring(framework, sums, asking=asking)
        self._nominated = NominatedNodes(framework)
        self._generation = -1
        self._reusable = reusable
        #: Lookup objects that the results depend on; None: there is nothing to reuse.
        self._objects: ObjectWatches | None = None
        self._position = -1
        #: The last results if the pod was unschedulable, and what they depend on.
        self._kept: tuple[tuple[Any, ...], Rows | None, Outcome] | None = None
        #: The last results if all nodes were filtered and some were scored.
        self._incremental: IncrementalResults | None = None

    # -- incremental fast path -----------------------------------------------------------------------------------------

    def updated_results(self, pod: PodInfo) -> IncrementalResults | None:
        """What `filter` of all nodes and `score` would return, if little changed since an equal pod; None if not.

        If updating the scores is not limited to a few rows, they are left to `score`.
        """
        cluster, filtering, scoring = self._cluster, self._filtering, self._scoring
        if self._objects is None or self._generation != cluster.table.generation or cluster.nominator:
            return None
        if self._objects.outdated():
            return None
        found = self._incremental or self._complete()
        if found is None or not filtering.planned(pod):
            return None
        filtering.preparing = 0.0
        filtering.sample()
        if not filtering.follow(pod):
            rows = self._changed_rows()
            if rows is None or not filtering.renew(pod, rows, within=None, outdated=_NOTHING):
                # The full run that follows calls all plugins again.
                self._generation = -1
                return None
        feasible, count = filtering.feasible, found.feasible_count
        if feasible is not found.feasible:
            count = int(np.count_nonzero(feasible))
        # A single feasible node is taken without scoring.
        if count > 1 and scoring.follow(filtering.state, pod, feasible):
            if feasible is not found.feasible or scoring.ranked is not found.ranked:
                found = IncrementalResults(found.state, found.seen, feasible, count, scoring.ranked)
            self._incremental, self._position = found, cluster.changes.position
            return found
        scoring.outdate(self._changed_rows())
        self._incremental, self._position = None, cluster.changes.position
        return IncrementalResults(found.state, found.seen, feasible, count, None) if count > 1 else None

    @property
    def preparing(self) -> float:
        """Seconds that PreFilter took for the last pod; 0.0 without metrics."""
        return self._filtering.preparing

    def _complete(self) -> IncrementalResults | None:
        """The last results if all nodes were filtered, and all feasible ones scored."""
        filtering = self._filtering
        feasible = filtering.feasible
        if not filtering.judged_all or not self._scoring.current(feasible):
            return None
        return IncrementalResults(filtering.state, filtering.seen, feasible, int(np.count_nonzero(feasible)), None)

    # -- filtering ----------------------------------------------------------------------------------------------------

    def filter(self, pod: PodInfo, *, one_by_one: bool = True, within: Rows | None = None) -> Outcome:
        """Filter all nodes, or update the last results.

        Without `one_by_one`, node-level plugins are left to `passing`, if other plugins leave any node. `within`: the
        rows to filter.
        """
        filtering, self._incremental = self._filtering, None
        one_by_one = one_by_one or not filtering.looks_one_by_one
        filtering.preparing = 0.0
        filtering.sample()
        outdated = _NOTHING if self._objects is None else self._objects.outdated()
        if outdated or self._objects is None:
            self._nominated.forget()
        rows = self._changed_rows() if one_by_one == filtering.whole else None
        if rows is None or not filtering.update(pod, rows, within=within, outdated=outdated):
            filtering.run(pod, within=within, one_by_one=one_by_one)
            rows = None
        self._scoring.outdate(rows, outdated)
        reused = rows is not None
        self._record_position(pod, outdated)
        outcome = None if rows is None or rows else self._known(pod, within)
        if outcome is None:
            outcome = self._judgement(pod, within)
        outcome.reused, outcome.preparing = reused, filtering.preparing
        outcome.ended_early = None if filtering.pre_filtered is None else filtering.pre_filtered.status
        return outcome

    def _changed_rows(self) -> list[int] | None:
        """Rows whose pods changed since; None if everything has to be recomputed."""
        table, filtering = self._cluster.table, self._filtering
        if self._objects is None or self._generation != table.generation:
            return None
        pre = filtering.pre_filtered
        if filtering.error is not None or pre is None or pre.status is not None:
            return None
        rows = self._cluster.changes.since(self._position)
        if rows is None or len(rows) > max(1, table.n * MAX_CHANGED_SHARE):
            return None
        return rows

    def _record_position(self, pod: PodInfo, outdated: frozenset[str]) -> None:
        if self._objects is not None:
            self._objects.watch(pod, outdated)
        elif self._reusable:
            self._objects = ObjectWatches(self._framework, pod)
        self._generation = self._cluster.table.generation
        self._position = self._cluster.changes.position

    def _known(self, pod: PodInfo, within: Rows | None) -> Outcome | None:
        """The last results if they are still valid; to be used if no row changed."""
        if self._kept is None or self._filtering.renewed:
            return None
        stamp, rows, known = self._kept
        if not equal_arrays(rows, within) or stamp != self._stamp(pod):
            return None
        return Outcome(known.state, None, known.feasible, known.examined, known.seen, known.diagnosis, known.refused)

    def still_applies(self, diagnosis: Diagnosis, pods: Sequence[PodInfo]) -> Outcome | None:
        """The last results, if they have this diagnosis and apply to these equal pods as long as nothing changes."""
        filtering, counters = self._filtering, self._framework.pod_counters
        if self._kept is None or filtering.pre_filtered is None or filtering.pre_filtered.status is not None:
            return None
        known, pod, shapes = self._kept[2], pods[0], {pod.shape for pod in pods}
        if known.diagnosis is not diagnosis or self._kept[0] != self._stamp(pod) or self._cluster.nominator:
            return None
        for plugin in self._framework.moving_pre_filters:
            counter = counters.get(plugin.name)
            if counter is None:
                holds = all(declares(plugin.skips, shape) for shape in shapes)
            else:
                holds = declares(counter.filter_holds, filtering.state, pod)
            if not holds:
                return None
        return known

    def _stamp(self, pod: PodInfo) -> tuple[Any, ...] | None:
        """What results depend on besides the cluster's state; None if they must not be reused."""
        nominator, skipped = self._cluster.nominator, self._filtering.state.skip_filter
        if any(p.reads is Reads.ANYTHING and p.name not in skipped for p in self._framework.moving_filters):
            return None
        if nominator.node_of(pod.uid):
            # The room that the pod itself is nominated to is free for this pod only.
            return None
        # Nominated pods may distinguish pods that are otherwise equal.
        return nominator.version, pod.priority, pod.shape if nominator else None

    def _judgement(self, pod: PodInfo, within: Rows | None) -> Outcome:
        """The results of the filters, then of nominated pods; with reasons if no node is left."""
        self._kept = None
        filtering = self._filtering
        if filtering.error is not None:
            return Outcome(filtering.state, filtering.error)
        feasible, refused = self._with_nominations(pod)
        if isinstance(refused, Status):
            return Outcome(filtering.state, refused)
        # `any` would be a Python function.
        if len(feasible) and feasible[feasible.argmax()]:
            return Outcome(filtering.state, None, feasible, filtering.examined, filtering.seen, None, refused)
        if not filtering.explain(pod):
            filtering.run(pod, within=within)
            self._scoring.outdate(None)
            if filtering.error is not None:
                return Outcome(filtering.state, filtering.error)
        diagnosis = filtering.diagnosis(refused)
        outcome = Outcome(filtering.state, None, feasible, filtering.examined, filtering.seen, diagnosis, refused)
        stamp = self._stamp(pod)
        if stamp is not None:
            self._kept = stamp, within, outcome
        return outcome

    def _with_nominations(self, pod: PodInfo) -> tuple[Mask, dict[int, Status] | Status]:
        """Remove nodes that do not fit the pod with the pods nominated to them added."""
        filtering = self._filtering
        if not self._cluster.nominator:
            return filtering.feasible, {}
        refused = self._nominated.refused(filtering.state, pod, filtering.examined)
        if isinstance(refused, Status) or not refused:
            return filtering.feasible, refused
        feasible = filtering.feasible.copy()
        feasible[list(refused)] = False
        return feasible, refused

    def diagnosis(self, refused: dict[int, Status]) -> Diagnosis:
        """The verdict on every node after a full `filter` with this outcome."""
        return self._filtering.diagnosis(refused)

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
        return self._scoring.run(self._filtering.state, pod, feasible)

    def lasting_sets(self, pod: PodInfo, feasible: Mask, lost: int) -> list[Mask] | None:
        """`CountsPods.lasting_sets`, for all filters together.

        Must directly follow `filter`. None: unknown. It scores once, as scores of in-tree plugins do not fail later.
        """
        state, framework = self._filtering.state, self._framework
        if self._cluster.nominator or self.score(pod, feasible).error is not None:
            return None
        counters = framework.pod_counters
        moving = [plugin for plugin in framework.moving_pre_filters if not plugin.skips(pod.shape)]
        active = [plugin for plugin in framework.active_filters(state) if plugin.name not in counters]
        if any(plugin.name not in counters for plugin in moving) or any(p.reads not in _OF_ONE_NODE for p in active):
            return None
        alone = self._filtering.feasible_without(pod, counters)
        if alone is None:
            return None
        found = [alone]
        for plugin in moving:
            sets = counters[plugin.name].lasting_sets(state, pod, lost)
            if sets is None or (len(found) > 1 and len(sets) > 1):
                return None
            found = [one & other for one in found for other in sets]
        return found

    def filling(self, pod: PodInfo, feasible: Mask, shapes: Collection[PodShape]) -> Filling | None:
        """Where pods of these shapes, equal to this one, would be placed one after the other; None if unknown.

        Must directly follow `filter`. Valid until the evaluation is used again.
        """
        state, framework = self._filtering.state, self._framework
        scored = self.score(pod, feasible)
        if scored.error is not None or self._cluster.nominator:
            return None
        ahead = results_ahead(framework, state, pod, shapes)
        if ahead is None:
            return None
        rows = self._filtering.feasible_without(pod, ahead) if ahead else feasible
        if rows is None:
            return None
        start = FillingStart(
            framework=framework,
            state=state,
            pod=pod,
            open=rows,
            scored=scored,
            filters=[plugin for plugin in framework.active_filters(state) if plugin.reads is Reads.NODE_SUMS],
            ahead=ahead,
        )
        return Filling(start)
