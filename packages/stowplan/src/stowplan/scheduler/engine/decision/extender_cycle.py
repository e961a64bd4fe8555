"""The part of a scheduling cycle that extenders take part in: which of the feasible nodes remain, and the best of them.

    filter      extenders, one after the other, remove nodes from those that passed all filters
    prioritize  extenders, in parallel, score the remaining nodes after the Score plugins

(In PostFilter, DefaultPreemption waits for them: `preemption.extenders`.)

A call that fails, or times out (the limit is the driver's: `httpTimeout`), is an outcome with an error, which
`answer_of` raises. In filter it ends the attempt with an error, without PostFilter, unless the extender is ignorable:
then its nodes stay as they were. In prioritize the extender gives no points.

Other pods may be tried while a cycle waits. So a waiting cycle only holds its own data: nodes by name, as rows may be
reassigned, scores, and a copy of the state. After each answer the remaining nodes are filtered again, and those that no
longer fit the pod are dropped. If none remains, other pods were faster: ClusterChangedError restarts the cycle. A node
that was added or became free during the wait is not considered by this cycle: the queue records the event, and wakes
the pod.

If other pods are tried in the meantime, a pod that waits for an extender has a provisional nomination to the node that
is the best so far, so that less important pods do not take its room. The nomination is internal: it is not in any
status, and ends with the wait.

Upstream: findNodesThatPassExtenders and prioritizeNodes in pkg/scheduler/schedule_one.go, which block instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from stowplan.kube.api.types import Node
from stowplan.kube.klog import get_logger
from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.decision.algorithm import NodeSubset, SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import CycleSteps
from stowplan.scheduler.engine.decision.decision import Decision, fits_nowhere, without_nodes
from stowplan.scheduler.engine.decision.extender_results import SCORE_FACTOR, refusals_of, refuse
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.engine.evaluation.scoring import INFEASIBLE
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.extender import ClusterChangedError, Extender, Filtered, answer_of
from stowplan.scheduler.framework.requests import Ask, Outcome
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Status, error

_log = get_logger(__name__)


class _FailedError(Exception):
    """The attempt ends with this status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


class ExtenderCycle:
    """One pass from the first filter to a node, for a pod that some extender is interested in."""

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        framework: Framework,
        pod: PodInfo,
        extenders: Sequence[Extender],
        within: NodeSubset | None,
        held: set[str] | None,
    ) -> None:
        """`extenders`: those that are interested in the pod. `held` collects the nodes that were reserved for it."""
        self._algorithm = algorithm
        self._framework = framework
        self._cluster: ClusterState = algorithm.cluster
        self._pod = pod
        self._extenders = extenders
        self._within = within
        self._held = held
        #: The remaining nodes, in order.
        self._names: list[str] = []
        #: The shared evaluation, as of the last judgement; valid until the cycle waits.
        self._evaluation: Evaluation
        self._state: CycleState
        self._evaluated = 0
        #: Node -> the rejection by an extender.
        self._refused: dict[str, Status] = {}
        #: Whether an extender removed a node.
        self._narrowed = False
        #: The node that is currently reserved for the pod.
        self._holding = ""

    def find_node(self) -> CycleSteps[Decision]:
        """The decision before PostFilter."""
        try:
            return (yield from self._find_node())
        except _FailedError as failed:
            return Decision(self._pod, status=failed.status)

    def _find_node(self) -> CycleSteps[Decision]:
        pod, rows = self._pod, self._rows
        if not (self._cluster.table.count if rows is None else len(rows)):
            return without_nodes(pod)
        tried = self._algorithm.row_tried_first(pod, rows)
        diagnosis = self._search(tried)
        if self._is_only(tried):
            if (yield from self._first_passes_extenders()):
                return self._placed(self._names[0])
            diagnosis = self._search(None)
        if diagnosis is None:
            yield from self._ask_filters()
            if self._names:
                return self._placed((yield from self._best()))
            diagnosis = self._diagnosis()
        return fits_nowhere(pod, self._state, diagnosis)

    @property
    def _rows(self) -> Rows | None:
        return None if self._within is None else self._within.rows

    def _placed(self, name: str) -> Decision:
        return Decision(
            self._pod, name, state=self._state, evaluated=self._evaluated, feasible=max(1, len(self._names))
        )

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _search(self, tried: int | None) -> Diagnosis | None:
        """Find the nodes that pass all filters; `tried`: a row that wins if it is one of them."""
        algorithm, framework, pod, table = self._algorithm, self._framework, self._pod, self._cluster.table
        self._evaluation, seconds = algorithm.look_up(framework, pod)
        outcome, found = algorithm.find_nodes(framework, self._evaluation, pod, tried, self._rows, seconds)
        if isinstance(found, Status):
            raise _FailedError(found)
        self._state, self._evaluated = outcome.state, found.evaluated
        rows = table.order.rows
        self._names = [table.names[row] for row in rows[found.feasible[rows]].tolist()]
        return outcome.diagnosis

    def _is_only(self, tried: int | None) -> bool:
        """Whether the search ended with the node that is tried first."""
        return tried is not None and self._evaluated == 1 and self._names == [self._cluster.table.names[tried]]

    def _evaluate_again(self) -> None:
        """Keep the nodes that still fit the pod; raise if there are none."""
        algorithm, framework, pod, table = self._algorithm, self._framework, self._pod, self._cluster.table
        self._evaluation = evaluation = algorithm.evaluation(framework, pod)
        judgement = evaluation.filter(pod, one_by_one=not algorithm.sampling.stops_early(framework))
        if judgement.error is not None:
            raise _FailedError(judgement.error)
        self._state = judgement.state
        known = [row for name in self._names if (row := table.row_of.get(name)) is not None]
        rows = np.array(known, np.intp)
        rows = rows[judgement.feasible[rows]]
        if len(rows):
            passed = evaluation.passing(pod, rows)
            if isinstance(passed, Status):
                raise _FailedError(passed)
            rows = rows[passed]
        if not len(rows):
            raise ClusterChangedError
        self._names = [table.names[row] for row in rows.tolist()]

    def _nodes(self) -> list[Node]:
        table = self._cluster.table
        nodes = (table.nodes[table.row_of[name]] for name in self._names)
        return [node for node in nodes if node is not None]

    # -- filter -------------------------------------------------------------------------------------------------------

    def _ask_filters(self) -> CycleSteps[None]:
        for extender in self._extenders:
            if not extender.filters:
                continue
            if not self._names:
                return
            try:
                question = extender.filter_question(self._pod, self._nodes())
                self._hold(self._likely)
                try:
                    answers = yield (Ask(who=extender.name, verb="filter", question=question),)
                finally:
                    self._let_go()
                self._leave(extender.read_filtered(answer_of(answers[0]), self._names))
            except Exception as e:
                if not extender.ignorable:
                    raise _FailedError(error(e)) from e
                text = "Skipping extender as it returned error and has ignorable flag set"
                _log.info(text, extender=extender.name, err=str(e))
            if self._names:
                self._evaluate_again()

    def _leave(self, filtered: Filtered) -> None:
        self._refused |= refusals_of(filtered)
        kept = frozenset(filtered.kept)
        left = [name for name in self._names if name in kept]
        self._narrowed = self._narrowed or len(left) < len(self._names)
        self._names = left

    def _first_passes_extenders(self) -> CycleSteps[bool]:
        """Whether the node that is tried first passes the extenders; on any failure, all nodes are searched."""
        try:
            yield from self._ask_filters()
        except _FailedError as failed:
            _log.unhandled(failed.status.cause, "Evaluation failed on nominated node", pod=self._pod)
            return False
        except ClusterChangedError:
            return False
        return bool(self._names)

    def _diagnosis(self) -> Diagnosis:
        """Why no node remains after the extenders."""
        evaluation = Evaluation(self._framework, reusable=False)
        judgement = evaluation.filter(self._pod, within=self._rows)
        if judgement.error is not None:
            raise _FailedError(judgement.error)
        self._state = judgement.state
        diagnosis = judgement.diagnosis or evaluation.diagnosis(judgement.refused)
        rows = np.flatnonzero(judgement.feasible)
        refuse(diagnosis, self._cluster.table.names, rows, self._refused, narrowed=self._narrowed)
        return diagnosis

    # -- scores -------------------------------------------------------------------------------------------------------

    def _best(self) -> CycleSteps[str]:
        """The best of the remaining nodes; a single one is chosen without scoring."""
        if len(self._names) == 1:
            return self._names[0]
        totals = self._totals()
        extenders = [extender for extender in self._extenders if extender.prioritizes]
        if extenders:
            # From here on, equal pods may use the shared arrays.
            totals, self._state = totals.copy(), self._state.clone()
            best = self._cluster.table.names[int(totals.argmax())]
            points, moved = yield from self._ask_prioritizers(extenders, lambda: best)
            if moved:
                self._evaluate_again()
                if len(self._names) == 1:
                    return self._names[0]
                totals = self._totals().copy()
            self._add(points, totals)
        return self._cluster.table.names[self._algorithm.best(totals)]

    def _totals(self) -> Ints:
        scored = self._algorithm.score(self._framework, self._evaluation, self._pod, self._feasible())
        if scored.error is not None:
            raise _FailedError(scored.error)
        return scored.ranked

    def _feasible(self) -> Mask:
        feasible = np.zeros(self._cluster.table.n, np.bool_)
        feasible[[self._cluster.table.row_of[name] for name in self._names]] = True
        return feasible

    def _ask_prioritizers(
        self, extenders: Sequence[Extender], best: Callable[[], str]
    ) -> CycleSteps[tuple[dict[str, int], bool]]:
        """Node -> score, without those of failing extenders; and whether the cluster changed in the meantime."""
        called: list[Extender] = []
        asks: list[Ask] = []
        nodes = self._nodes()
        for extender in extenders:
            try:
                question = extender.prioritize_question(self._pod, nodes)
            except Exception as e:
                _log_unscored(extender, e)
            else:
                called.append(extender)
                asks.append(Ask(who=extender.name, verb="prioritize", question=question))
        points: dict[str, int] = {}
        if not asks:
            return points, False
        self._hold(best)
        version = self._cluster.version
        try:
            outcomes = yield tuple(asks)
            moved = self._cluster.version != version
        finally:
            self._let_go()
        for extender, outcome in zip(called, outcomes, strict=True):
            for name, score in _scores(extender, outcome).items():
                points[name] = points.get(name, 0) + score * extender.weight * SCORE_FACTOR
        return points, moved

    def _add(self, points: Mapping[str, int], totals: Ints) -> None:
        row_of = self._cluster.table.row_of
        for name, added in points.items():
            row = row_of.get(name)
            if row is not None and totals[row] != INFEASIBLE:
                totals[row] += added

    # -- provisional nomination ----------------------------------------------------------------------------------------

    def _hold(self, best: Callable[[], str]) -> None:
        """Nominate the pod provisionally; an existing nomination stays."""
        nominator = self._cluster.nominator
        if self._held is None or nominator.node_of(self._pod.uid):
            return
        node_name = best()
        kept_for = PodInfo(self._pod.pod, self._pod.shape)
        # A nomination also excludes equally important pods, which must not be held up by a slow extender.
        kept_for.priority -= 1
        nominator.add(kept_for, node_name)
        self._held.add(node_name)
        self._holding = node_name

    def _let_go(self) -> None:
        node_name, self._holding = self._holding, ""
        # A real nomination may have replaced it.
        if node_name and self._cluster.nominator.node_of(self._pod.uid) == node_name:
            self._cluster.nominator.delete(self._pod.uid)

    def _likely(self) -> str:
        """The node that would be chosen without extenders; not counted in any metric."""
        if len(self._names) == 1:
            return self._names[0]
        scored = self._evaluation.score(self._pod, self._feasible())
        return self._names[0] if scored.error is not None else self._cluster.table.names[int(scored.ranked.argmax())]


def _scores(extender: Extender, outcome: Outcome) -> Mapping[str, int]:
    try:
        return dict(extender.read_scores(answer_of(outcome)))
    except Exception as e:
        _log_unscored(extender, e)
        return {}


def _log_unscored(extender: Extender, failed: Exception) -> None:
    text = "Failed to run extender's priority function. No score given by this extender."
    _log.v(5).info(text, extender=extender.name, err=str(failed))
