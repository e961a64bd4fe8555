"""Cached filter and score results of a pod on all nodes, updated incrementally.

An `Evaluation` runs the profile's filters and scores over all nodes and keeps each plugin's arrays (`Filtering`,
`Scoring`). Equal pods then share it: when the next one comes, only what its predecessors changed is worked out again:
the rows whose pods changed for plugins that read a node's pods (`Reads.NODE_PODS`), the whole of a plugin that counts
pods everywhere if one of its counters moved (`Reads.CLUSTER_PODS`), nothing for plugins that read node objects,
everything for plugins that do not say, or that depend on a lookup object that changed (`Plugin.reads_objects`). When a
node object changed, all is done anew. The result is the same as without reuse, bit for bit; a property test holds it
to that.

An evaluation may be restricted to some rows, as for a placement of a pod group: Filter and the diagnosis then know of
these alone, while PreFilter and scoring plugins see all nodes.

Upstream has the idea as "opportunistic batching" (pkg/scheduler/framework/runtime/batch.go) and gives up on most pods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stowplan.engine.evaluation.filling import Filling, Ground, unmoved
from stowplan.engine.evaluation.filtering import Filtering
from stowplan.engine.evaluation.node_sums import NodeSums
from stowplan.engine.evaluation.nominated_nodes import NominatedNodes
from stowplan.engine.evaluation.object_watches import ObjectWatches
from stowplan.engine.evaluation.scoring import Scoring
from stowplan.framework.interface import Reads
from stowplan.framework.status import Status, promised

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo, PodShape
    from stowplan.engine.evaluation.scoring import Scored
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.runtime import Framework

    Mask = npt.NDArray[np.bool_]
    Rows = npt.NDArray[np.intp]
    Ints = npt.NDArray[np.int64]

_NOTHING: frozenset[str] = frozenset()

#: With more changed rows than this share of the table, everything is worked out anew.
MAX_CHANGED_SHARE = 0.1


@dataclass(slots=True)
class Outcome:
    """One attempt's findings, before a node is chosen."""

    state: CycleState
    #: Why the attempt ended early; None when nodes were judged.
    error: Status | None = None
    feasible: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    #: Rows that filters looked at, and how many they are.
    examined: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    seen: int = 0
    diagnosis: Diagnosis | None = None
    #: Rows that have no room next to the pods nominated to them.
    refused: dict[int, Status] = field(default_factory=dict)
    #: Whether the pod was judged by what its equals had left.
    reused: bool = False
    #: What PreFilter said if that was the end of it: no Filter ran.
    ended_early: Status | None = None
    #: Seconds of it that went to PreFilter; 0.0 where nobody measures.
    preparing: float = 0.0


class Standing(NamedTuple):
    """Findings that are brought up to date for one equal pod after the other; good until the next use."""

    state: CycleState
    #: Nodes that filters looked at.
    seen: int
    #: Rows that passed, and how many they are: at least two.
    feasible: Mask
    feasible_count: int
    #: The feasible nodes' totals by row, `INFEASIBLE` elsewhere; None: the nodes have to be scored.
    ranked: Ints | None


class Evaluation:
    """The nodes as pods of one signature see them."""

    def __init__(
        self, framework: Framework, sums: NodeSums | None = None, *, asking: bool = False, reusable: bool = True
    ) -> None:
        """`sums` are shared with other evaluations of the profile; `asking`: see `CycleState.asking`.

        Without `reusable`, it is made for one pod: objects that answers depend on need not be watched.
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
        #: Lookup objects that the answers depend on; None: there is nothing to reuse.
        self._objects: ObjectWatches | None = None
        self._position = -1
        #: The last findings, if the pod fitted nowhere, and what they hang on.
        self._kept: tuple[tuple[Any, ...], Rows | None, Outcome] | None = None
        #: The last findings, if all nodes were judged and some were scored.
        self._standing: Standing | None = None

    # -- at once ------------------------------------------------------------------------------------------------------

    def standing(self, pod: PodInfo) -> Standing | None:
        """What `filter` of all nodes and `score` would find, if little changed since an equal pod; None if not.

        Where scores take more than a look at few rows, they are left to `score`.
        """
        cluster, filtering, scoring = self._cluster, self._filtering, self._scoring
        if self._objects is None or self._generation != cluster.table.generation or cluster.nominator:
            return None
        if self._objects.outdated():
            return None
        found = self._standing or self._complete()
        if found is None or not filtering.planned(pod):
            return None
        filtering.preparing = 0.0
        filtering.sample()
        if not filtering.follow(pod):
            rows = self._changed_rows()
            if rows is None or not filtering.renew(pod, rows, within=None, outdated=_NOTHING):
                # The full run that follows asks all plugins anew.
                self._generation = -1
                return None
        feasible, count = filtering.feasible, found.feasible_count
        if feasible is not found.feasible:
            count = int(np.count_nonzero(feasible))
        # A single feasible node is taken without scoring.
        if count > 1 and scoring.follow(filtering.state, pod, feasible):
            if feasible is not found.feasible or scoring.ranked is not found.ranked:
                found = Standing(found.state, found.seen, feasible, count, scoring.ranked)
            self._standing, self._position = found, cluster.changes.position
            return found
        scoring.outdate(self._changed_rows())
        self._standing, self._position = None, cluster.changes.position
        return Standing(found.state, found.seen, feasible, count, None) if count > 1 else None

    @property
    def preparing(self) -> float:
        """Seconds that PreFilter took for the last pod; 0.0 where nobody measures."""
        return self._filtering.preparing

    def _complete(self) -> Standing | None:
        """The last findings, if all nodes were judged, and all that were left were scored."""
        filtering = self._filtering
        feasible = filtering.feasible
        if not filtering.judged_all or not self._scoring.current(feasible):
            return None
        return Standing(filtering.state, filtering.seen, feasible, int(np.count_nonzero(feasible)), None)

    # -- filtering ----------------------------------------------------------------------------------------------------

    def filter(self, pod: PodInfo, *, one_by_one: bool = True, within: Rows | None = None) -> Outcome:
        """Judge all nodes, or bring the last judgement up to date.

        Without `one_by_one`, plugins that look at nodes one by one are left for `passing`, if other plugins leave any.
        `within`: the rows that filters look at; whoever asks again about the same rows passes the same array.
        """
        filtering, self._standing = self._filtering, None
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
        self._stand_now(pod, outdated)
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

    def _stand_now(self, pod: PodInfo, outdated: frozenset[str]) -> None:
        if self._objects is not None:
            self._objects.watch(pod, outdated)
        elif self._reusable:
            self._objects = ObjectWatches(self._framework, pod)
        self._generation = self._cluster.table.generation
        self._position = self._cluster.changes.position

    def _known(self, pod: PodInfo, within: Rows | None) -> Outcome | None:
        """The last findings once more, if they hold; made when no row changed."""
        if self._kept is None or self._filtering.renewed:
            return None
        stamp, rows, known = self._kept
        if rows is not within or stamp != self._stamp(pod):
            return None
        return Outcome(known.state, None, known.feasible, known.examined, known.seen, known.diagnosis, known.refused)

    def stands(self, diagnosis: Diagnosis, pods: Sequence[PodInfo]) -> Outcome | None:
        """The last findings, if they are this diagnosis and hold for these equal pods as long as nothing changes."""
        filtering, counters = self._filtering, self._framework.pod_counters
        if self._kept is None or filtering.pre_filtered is None or filtering.pre_filtered.status is not None:
            return None
        known, pod, shapes = self._kept[2], pods[0], {pod.shape for pod in pods}
        if known.diagnosis is not diagnosis or self._kept[0] != self._stamp(pod) or self._cluster.nominator:
            return None
        for plugin in self._framework.moving_pre_filters:
            counter = counters.get(plugin.name)
            if counter is None:
                holds = promised(lambda plugin=plugin: all(plugin.skips(shape) for shape in shapes))  # type: ignore[misc]
            else:
                holds = counter.filter_holds(filtering.state, pod)
            if not holds:
                return None
        return known

    def _stamp(self, pod: PodInfo) -> tuple[Any, ...] | None:
        """What findings hang on besides the cluster's state; None when they are not to be kept."""
        nominator, skipped = self._cluster.nominator, self._filtering.state.skip_filter
        if any(p.reads is Reads.ANYTHING and p.name not in skipped for p in self._framework.moving_filters):
            return None
        if nominator.node_of(pod.uid):
            # Room that the pod itself is nominated to is free for it, and for no other pod.
            return None
        # Nominated pods may tell pods apart that nothing on the nodes does.
        return nominator.version, pod.priority, pod.shape if nominator else None

    def _judgement(self, pod: PodInfo, within: Rows | None) -> Outcome:
        """The filters' findings and what nominated pods make of them; with the reasons if no node is left."""
        self._kept = None
        filtering = self._filtering
        if filtering.error is not None:
            return Outcome(filtering.state, filtering.error)
        feasible, refused = self._with_nominations(pod)
        if isinstance(refused, Status):
            return Outcome(filtering.state, refused)
        # `any` would be a function in Python.
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
        """Take out nodes that would not fit once the pods nominated to them have come."""
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
        """The verdict on every node after a `filter` that ran in full and had this outcome."""
        return self._filtering.diagnosis(refused)

    # -- plugins that look at nodes one by one ------------------------------------------------------------------------

    def passing(self, pod: PodInfo, rows: Rows) -> Mask | Status:
        """Which of some feasible rows also pass the plugins that the last `filter` left out."""
        return self._filtering.passing(pod, rows)

    def passes(self, pod: PodInfo, row: int) -> bool:
        answer = self.passing(pod, np.array([row], np.intp))
        return not isinstance(answer, Status) and bool(answer[0])

    # -- scoring ------------------------------------------------------------------------------------------------------

    def score(self, pod: PodInfo, feasible: Mask) -> Scored:
        """What the feasible nodes are worth; good until the evaluation is used again."""
        return self._scoring.run(self._filtering.state, pod, feasible)

    def filling(self, pod: PodInfo, feasible: Mask, shapes: Collection[PodShape]) -> Filling | None:
        """Where pods of these shapes, equal to this one, go one after the other; None if that cannot be told.

        As `filter` has just found the nodes. Good until the evaluation is used again.
        """
        state, framework = self._filtering.state, self._framework
        scored = self.score(pod, feasible)
        if scored.error is not None or self._cluster.nominator or not unmoved(framework, state, pod, shapes):
            return None
        filters = [plugin for plugin in framework.active_filters(state) if plugin.reads is Reads.NODE_SUMS]
        ground = Ground(framework=framework, state=state, pod=pod, feasible=feasible, scored=scored, filters=filters)
        return Filling(ground)
