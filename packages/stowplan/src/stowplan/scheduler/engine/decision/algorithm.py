"""The parts of a decision for one pod: find nodes, score, choose; for single pods, equal ones, and questions.

`SchedulingAlgorithm` has one framework per profile and the evaluations that equal pods share. It decides without side
effects; placing the pod is up to the caller. `schedule_one.schedule_pod` has the order of the steps.

Upstream: pkg/scheduler/schedule_one.go; docs/reference/behaviour.md, The scheduling cycle.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stowplan.kube.klog import get_logger
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.engine.evaluation.batch_placement import BatchPlacement
from stowplan.scheduler.engine.evaluation.columns import SharedColumns
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation, FilterResult
from stowplan.scheduler.engine.evaluation.run_of_pods import RunOfPods
from stowplan.scheduler.engine.evaluation.sampling import Found, Sampling
from stowplan.scheduler.engine.evaluation.scoring import Scored
from stowplan.scheduler.framework.boundary import Raised, call, declares
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import FeasibleSets
from stowplan.scheduler.framework.handle import Random
from stowplan.scheduler.framework.interface import PostFilterPlugin, PostFilterResult
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.metrics import ended
from stowplan.scheduler.framework.status import Code, Status

#: Attribute access on an Enum is slow.
_SUCCESS, _ERROR = Code.Success, Code.Error

#: Limits of the number of cached evaluations; in between, the number of rows is limited, because each holds per-node
#: arrays.
_MIN_EVALUATIONS, _MAX_EVALUATIONS, _MAX_ROWS = 64, 256, 1 << 18


_log = get_logger(__name__)


class NodeSubset(PlainStruct, eq=False):
    """The nodes that a pod may be placed on."""

    #: Whoever resumes a cycle that waited updates them: rows may have been reassigned to other nodes.
    rows: Rows


class SchedulingAlgorithm:
    """Decides for pods of several profiles on one cluster.

    `percentage_of_nodes_to_score` applies to profiles without their own; 0 means all nodes.
    """

    def __init__(
        self,
        cluster: ClusterState,
        frameworks: dict[str, Framework],
        *,
        random: Random | None = None,
        reuse: bool = True,
        percentage_of_nodes_to_score: int = 0,
    ) -> None:
        self.cluster = cluster
        self.frameworks = frameworks
        self._random = random
        self._reuse = reuse
        self.sampling = Sampling(cluster.table, percentage_of_nodes_to_score)
        self._columns = {name: SharedColumns(framework) for name, framework in frameworks.items()}
        self._evaluations: OrderedDict[tuple[str, Any], Evaluation] = OrderedDict()
        self.run = RunOfPods(cluster)

    def reconfigure(self, *, percentage_of_nodes_to_score: int) -> None:
        """Update after the profiles were replaced."""
        self.sampling.reconfigure(percentage_of_nodes_to_score)
        self.forget()

    def forget(self) -> None:
        """Drop all shared results, because the set of active plugins changed."""
        # Both: evaluations hold columns of the second, with results of plugins that may be off now.
        self._evaluations.clear()
        self._columns = {name: SharedColumns(framework) for name, framework in self.frameworks.items()}

    def framework_for(self, pod: PodInfo) -> Framework | None:
        """The profile of a pod."""
        return self.frameworks.get(pod.shape.scheduler_name)

    def schedule_batch(
        self, framework: Framework, pods: Sequence[PodInfo], *, within: NodeSubset | None = None
    ) -> list[Decision]:
        """Decide for equal pods (by `signature`) as if each were placed in turn; none actually is.

        Returns the same decisions as `schedule_pod` would, for as many pods as possible, counted from the first: all of
        them, those that fit, or none. The decisions share a state.
        """
        rows = None if within is None else within.rows
        listed = None if rows is None else len(rows)
        nodes = self.cluster.table.count if listed is None else listed
        # A search that ends early moves where the next pod's starts, and extenders are asked for each pod.
        if not nodes or framework.handle.extenders() or self.sampling.stops_early(framework, listed=listed):
            return []
        # A nominated node wins without scoring, so that this pod is not decided as its equals are.
        if any(self.row_tried_first(pod) is not None for pod in pods):
            return []
        started = framework.now()
        evaluation = self.evaluation(framework, pods[0])
        # One by one they are told why: a rejection has a diagnosis, and PostFilter is asked about it.
        outcome = evaluation.filter(pods[0], within=rows)
        if outcome.error is not None or outcome.diagnosis is not None:
            return []
        # Directly after `filter`, on whose state in the evaluation it builds.
        batch = evaluation.batch_placement(pods[0], outcome.feasible, {pod.shape: None for pod in pods}.keys())
        if batch is None:
            return []
        picks, names = batch.picks(len(pods), self._draw), self.cluster.table.names
        # As that many searches would have. With all nodes, each is a whole round and ends where it began.
        if outcome.seen < nodes:
            self.sampling.advance(outcome.seen * len(picks), listed=listed)
        if framework.metrics is not None:
            seconds, scored = framework.now() - started, sum(pick.feasible > 1 for pick in picks)
            framework.metrics.decided_together(len(picks), seconds, scored=scored, reused=outcome.reused)
        return [
            Decision(pod, names[row], state=batch.state, evaluated=batch.seen, feasible=feasible)
            # Fewer picks than pods: for the others, the next one is unknown, or there is no node left.
            for pod, (row, feasible) in zip(pods, picks, strict=False)
        ]

    def guaranteed_feasible_sets(self, framework: Framework, pod: PodInfo, lost: int) -> FeasibleSets | None:
        """`CountsPods.guaranteed_feasible_sets`, for all filters together; None: unknown, or the pod fits nowhere."""
        if self.row_tried_first(pod) is not None:
            return None
        evaluation = self.evaluation(framework, pod)
        outcome = evaluation.filter(pod)
        if outcome.error is not None or outcome.diagnosis is not None:
            return None
        return evaluation.guaranteed_feasible_sets(pod, outcome.feasible, lost)

    def reject_equal(
        self, framework: Framework, like: Decision, pods: Sequence[PodInfo], *, within: NodeSubset | None = None
    ) -> list[Decision]:
        """Decisions for pods equal to one that was just rejected, if they are rejected the same way; otherwise none.

        Nothing has changed since, and `like` is the result of `schedule_pod` for that pod.
        """
        if not pods or like.status is None or not like.status.rejected or like.diagnosis is None:
            return []
        if framework.handle.extenders():
            return []
        if any(self.row_tried_first(pod) is not None for pod in (like.pod, *pods)):
            return []
        outcome = self.evaluation(framework, like.pod).still_applies(like.diagnosis, pods)
        plugins = {plugin.name: plugin for plugin in framework.post_filter}
        answers = [(plugins[name], result) for name, result in like.post_filter]
        if outcome is None or not all(declares(p.repeats, r, pods, at=("Repeats", p)) for p, r in answers):
            return []
        # Last: once some were told, nothing but a plugin that raises may refuse.
        if not _notified(answers, pods):
            return []
        # As the searches for these pods would have moved the start.
        listed = None if within is None else len(within.rows)
        if outcome.seen < (self.cluster.table.count if listed is None else listed):
            self.sampling.advance(outcome.seen * len(pods), listed=listed)
        if framework.metrics is not None:
            framework.metrics.equal_pods_refused(len(pods), helped=bool(answers))
        return [
            Decision(pod, "", like.status, like.diagnosis, like.post_filter, like.state, like.evaluated) for pod in pods
        ]

    def look_up(self, framework: Framework, pod: PodInfo) -> tuple[Evaluation, float]:
        """The pod's evaluation, and the seconds that the lookup took; 0.0 without metrics."""
        if framework.metrics is None:
            return self.evaluation(framework, pod), 0.0
        started = framework.metrics.now()
        return self.evaluation(framework, pod), framework.metrics.now() - started

    def reused(self, framework: Framework, evaluation: Evaluation, pod: PodInfo, seconds: float) -> Decision | None:
        """The decision if an equal pod's results can be reused; None if the nodes have to be searched.

        `seconds`: the duration of the lookup of the evaluation.
        """
        metrics = framework.metrics
        # Samples examine other nodes each time. A timed attempt is about the calls, of which reuse has none.
        if self.sampling.stops_early(framework) or (metrics is not None and metrics.sample is not None):
            return None
        # A placement exists only if nothing but its own pods has changed the cluster (`RunOfPods.begin`), so that no
        # column has to be read.
        started, placement = framework.now(), self.run.placement
        if placement is not None:
            return self._ahead(framework, placement, pod, started, preparing=0.0, hint=seconds)
        results = evaluation.try_incremental(pod)
        if results is None:
            return None
        if results.scored:
            placement = self.run.look_ahead(evaluation, pod, results.feasible)
            if placement is not None:
                return self._ahead(framework, placement, pod, started, preparing=evaluation.preparing, hint=seconds)
        if results.seen < self.cluster.table.count:
            # As a search would have: the next pod's starts where this one's ends.
            self.sampling.advance(results.seen)
        if metrics is not None:
            took = framework.now() - started
            metrics.decided_again(took, preparing=evaluation.preparing, hint=seconds, scored=results.scored)
        if not results.scored:
            # The filters' results hold, and only the scores could not be updated.
            found = Found(results.feasible, results.feasible_count, results.seen)
            return self.choose(framework, evaluation, results.state, pod, found)
        best = evaluation.best()
        name = self.cluster.table.names[best[self._draw(len(best))]]
        return Decision(pod, name, state=results.state, evaluated=results.seen, feasible=results.feasible_count)

    def _ahead(
        self,
        framework: Framework,
        placement: BatchPlacement,
        pod: PodInfo,
        started: float,
        *,
        preparing: float,
        hint: float,
    ) -> Decision:
        """The decision that follows from those for the equal pods before."""
        seen, count = placement.seen, placement.feasible_count
        if seen < self.cluster.table.count:
            self.sampling.advance(seen)
        if framework.metrics is not None:
            took = framework.now() - started
            framework.metrics.decided_again(took, preparing=preparing, hint=hint, scored=True)
        # Drawn for each pod in its turn, so that random numbers are used in the same order as without the placement.
        name = self.cluster.table.names[placement.pick(self._draw)]
        return Decision(pod, name, state=placement.state, evaluated=seen, feasible=count)

    def find_nodes(
        self,
        framework: Framework,
        evaluation: Evaluation,
        pod: PodInfo,
        tried: int | None,
        within: Rows | None,
        seconds: float,
    ) -> tuple[FilterResult, Found | Status]:
        """The diagnosis and the nodes to choose from; `tried`: a row that wins if it is feasible.

        `seconds`: the duration of the lookup of the evaluation.
        """
        metrics = framework.metrics
        if metrics is None:
            return self._search(framework, evaluation, pod, tried, within)
        started = metrics.now()
        outcome, found = self._search(framework, evaluation, pod, tried, within)
        early, failed = outcome.ended_early, isinstance(found, Status)
        metrics.points["PreFilter"].took(outcome.preparing, ended(early))
        if early is None:
            # Excluding PreFilter.
            metrics.points["Filter"].ran(started + outcome.preparing, _ERROR if failed else _SUCCESS)
            placed = not failed and outcome.diagnosis is None
            metrics.hinted(outcome.reused, seconds=seconds, used=placed)
        return outcome, found

    def _search(
        self, framework: Framework, evaluation: Evaluation, pod: PodInfo, tried: int | None, within: Rows | None
    ) -> tuple[FilterResult, Found | Status]:
        listed = None if within is None else len(within)
        early = self.sampling.stops_early(framework, listed=listed)
        outcome = evaluation.filter(pod, one_by_one=not early, within=within)
        found = self._found(framework, evaluation, outcome, pod, tried, listed, early=early)
        if isinstance(found, Found) and not found.feasible_count and outcome.diagnosis is None:
            # Plugins that judge nodes one by one rejected all of them: now the reasons are needed.
            preparing = outcome.preparing
            outcome = evaluation.filter(pod, within=within)
            # PreFilter may have run twice for this attempt.
            outcome.preparing += preparing
            found = self._found(framework, evaluation, outcome, pod, tried, listed, early=early)
        return outcome, found

    def _found(
        self,
        framework: Framework,
        evaluation: Evaluation,
        outcome: FilterResult,
        pod: PodInfo,
        tried: int | None,
        listed: int | None,
        *,
        early: bool,
    ) -> Found | Status:
        """The nodes to choose from; none if the pod fits nowhere. `listed`: the number of nodes; None: all."""
        if outcome.error is not None:
            return outcome.error
        feasible, seen = outcome.feasible, outcome.seen
        if outcome.diagnosis is None:
            if tried is not None and feasible[tried] and evaluation.passes(pod, tried):
                # It wins without scoring, and sampling has not started.
                only = np.zeros(len(feasible), np.bool_)
                only[tried] = True
                return Found(only, 1, 1)
            # Before the advance below: this search advances the start itself.
            if early:
                return self.sampling.search(
                    framework,
                    outcome.examined,
                    feasible,
                    ask=lambda rows: evaluation.passing(pod, rows),
                    tried=tried,
                    listed=listed,
                )
        if seen < (self.cluster.table.count if listed is None else listed):
            self.sampling.advance(seen, listed=listed)
        return Found(feasible, int(np.count_nonzero(feasible)), seen)

    def choose(
        self, framework: Framework, evaluation: Evaluation, state: CycleState, pod: PodInfo, found: Found
    ) -> Decision:
        """Score the nodes that were found, and choose one."""
        if found.feasible_count == 1:
            # A single feasible node is chosen without scoring.
            row = int(found.feasible.argmax())
        else:
            scored = self.score(framework, evaluation, pod, found.feasible)
            if scored.error is not None:
                return Decision(pod, status=scored.error, state=state)
            row = self.best(scored.ranked)
        # By name from here on: in a later step, the row may be another node's.
        name = self.cluster.table.names[row]
        return Decision(pod, name, state=state, evaluated=found.evaluated, feasible=found.feasible_count)

    @staticmethod
    def score(framework: Framework, evaluation: Evaluation, pod: PodInfo, feasible: Mask) -> Scored:
        """The scores of the feasible nodes; valid until the evaluation is used again."""
        metrics = framework.metrics
        if metrics is None or evaluation.asking or not framework.score:
            return evaluation.score(pod, feasible)
        started = metrics.now()
        scored = evaluation.score(pod, feasible)
        code = _SUCCESS if scored.error is None else _ERROR
        metrics.points["PreScore"].took(scored.preparing, _ERROR if scored.ended_early else _SUCCESS)
        if not scored.ended_early:
            metrics.points["Score"].ran(started + scored.preparing, code)
        return scored

    def row_tried_first(self, pod: PodInfo, rows: Rows | None = None) -> int | None:
        """The row of the pod's nominated node, if it is considered: it wins without scoring if it is feasible."""
        # Memory first: the write of the status may be under way.
        name = self.cluster.nominator.node_of(pod.uid) or pod.pod.status.nominated_node_name
        row = self.cluster.table.row_of.get(name) if name else None
        return None if row is None or (rows is not None and row not in rows) else row

    @staticmethod
    def filtered(framework: Framework, pod: PodInfo) -> tuple[Evaluation, FilterResult]:
        """The filters' results for every node, for a question."""
        # One of its own, as a question must not leave anything behind: no shared columns, no metrics.
        evaluation = Evaluation(framework, asking=True, reusable=False)
        return evaluation, evaluation.filter(pod)

    # -- parts --------------------------------------------------------------------------------------------------------

    def evaluation(self, framework: Framework, pod: PodInfo) -> Evaluation:
        """The evaluation that the pod shares with its equals."""
        signature = framework.signature(pod) if self._reuse else None
        if signature is None:
            return Evaluation(framework, reusable=False)
        key = (framework.profile_name, signature)
        found = self._evaluations.get(key)
        if found is None:
            # Of pods with this signature alone: what a plugin reads beyond the template is in it.
            found = self._evaluations[key] = Evaluation(framework, self._columns[framework.profile_name])
            if len(self._evaluations) > self._most_evaluations():
                # The least recently used one, and never the new one: at least `_MIN_EVALUATIONS` are kept.
                self._evaluations.popitem(last=False)
        else:
            self._evaluations.move_to_end(key)
        return found

    def problems(self) -> Iterator[str]:
        """Shared results that are not what they count as."""
        for (profile, _), evaluation in self._evaluations.items():
            yield from (f"profile {profile}: {problem}" for problem in evaluation.problems())

    def _most_evaluations(self) -> int:
        affordable = _MAX_ROWS // max(1, self.cluster.table.n)
        return min(max(_MIN_EVALUATIONS, affordable), _MAX_EVALUATIONS)

    def best(self, totals: Ints) -> int:
        """The row with the highest total.

        Ties go to the first, or to a random one if there is a source of randomness.
        """
        best = int(totals.argmax())
        if self._random is None:
            return best
        equal = (totals == totals[best]).nonzero()[0]
        return int(equal[self._draw(len(equal))])

    def _draw(self, ways: int) -> int:
        # No draw without a choice: whether results were reused or not, the next pod must get the same random number.
        return 0 if self._random is None or ways == 1 else self._random.randrange(ways)


def _notified(answers: Sequence[tuple[PostFilterPlugin, PostFilterResult]], pods: Sequence[PodInfo]) -> bool:
    """Notify PostFilter plugins that these pods got their results, too; False if one raises."""
    # Lazy: after a plugin that raises, no further one is notified, as each pod is then tried by itself.
    told = (
        call(plugin.repeated, result, pods, check=None, failed=Raised, at=("Repeated", plugin))
        for plugin, result in answers
    )
    return not any(isinstance(answer, Raised) for answer in told)
