"""The scheduling algorithm for pods that may wait for extenders or PostFilter plugins.

The same steps as `SchedulingAlgorithm.schedule`, as a generator that yields requests and is resumed with their
outcomes. If there is nothing to wait for, it runs to the end at once, with the same decision.

    filter      extenders, one after the other, remove nodes from those that passed all filters
    prioritize  extenders, in parallel, score the remaining nodes after the Score plugins
    PostFilter  plugins may wait in steps; DefaultPreemption waits for extenders (`preemption.extenders`)

Other pods may be tried while a cycle waits. So a waiting cycle only holds its own data: nodes by name, as rows may be
reassigned, scores, and copies of state and diagnosis. After each answer the remaining nodes are filtered again, and
those that no longer fit the pod are dropped. If none remains, other pods were faster: the cycle restarts, up to
`MAX_TRIES` times; then the attempt fails with an error and is retried after a backoff. A node that was added or became
free during the wait is not considered by this cycle: the queue records the event, and wakes the pod.

If other pods are tried in the meantime, a pod that waits for an extender has a provisional nomination to the node that
is the best so far, so that less important pods do not take its room. The nomination is internal: it is not in any
status, and ends with the wait.

Upstream: findNodesThatPassExtenders and prioritizeNodes in pkg/scheduler/schedule_one.go, which block instead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.kube.klog import get_logger
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.decision.algorithm import row_tried_first, scored_nodes
from stowplan.scheduler.engine.decision.decision import Decision, without_nodes
from stowplan.scheduler.engine.decision.extender_results import SCORE_FACTOR, refusals_of, refuse
from stowplan.scheduler.engine.decision.post_filters import PostFilterAnswers, without_post_filter
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.engine.evaluation.scoring import INFEASIBLE
from stowplan.scheduler.framework.extender import ClusterChangedError, answer_of
from stowplan.scheduler.framework.requests import Ask, Done, InvalidStepError, Outcome, Request, Wait, problem_of
from stowplan.scheduler.framework.status import Status, error
from stowplan.scheduler.framework.unfinished import UnfinishedError, unfinished_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from stowplan.kube.api.types import Node
    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
    from stowplan.scheduler.engine.evaluation.evaluation import Outcome as Judgement
    from stowplan.scheduler.framework.cycle_state import CycleState
    from stowplan.scheduler.framework.diagnosis import Diagnosis
    from stowplan.scheduler.framework.extender import Extender, Filtered
    from stowplan.scheduler.framework.interface import PostFilterSteps
    from stowplan.scheduler.framework.runtime.framework import Framework

    Rows = npt.NDArray[np.intp]

#: Maximum number of times that a cycle is started because others were faster.
MAX_TRIES = 5

#: Requests to carry out in parallel; a time or objects to wait for; or a pause for other pods.
Needs = tuple[Request | Ask, ...] | Wait | UnfinishedError
#: Resumed with the outcomes, in the order of the requests; with one for a `Wait`, and with one for an
#: `UnfinishedError`, which says whether the plugin may continue.
Cycle = Generator[Needs, tuple[Outcome, ...], Decision]
Waits = Generator[Needs, tuple[Outcome, ...], None]

#: The rows to consider.
Within = Callable[[], "Rows"]

#: Memo key for a plain-data copy of a diagnosis.
_SNAPSHOT = "snapshot"

_log = get_logger(__name__)


class SuspendableAlgorithm:
    def __init__(self, algorithm: SchedulingAlgorithm) -> None:
        self._algorithm = algorithm

    def schedule(
        self,
        framework: Framework,
        pod: PodInfo,
        held: set[str] | None = None,
        *,
        within: Within | None = None,
        helped: bool = True,
    ) -> Cycle:
        """Find the best node for a pod.

        `held` collects the nodes that were reserved for it while it waited; None: reserve none. `within`: the rows to
        consider, evaluated when needed; None: all. Without `helped`, PostFilter does not run.
        """
        tries = 0
        while tries < MAX_TRIES:
            try:
                return (yield from _Try(self._algorithm, framework, pod, held, within, helped=helped).decide())
            except ClusterChangedError:
                tries += 1
                _log.v(4).info("Scheduling cycle restarts, as other pods were faster", pod=pod)
            except _FailedError as failed:
                if not (yield from _may_go_on(failed.status)):
                    return Decision(pod, status=failed.status)
        return Decision(pod, status=error(f"given up after {MAX_TRIES} tries: {ClusterChangedError()}"))


def _may_go_on(status: Status) -> Generator[Needs, tuple[Outcome, ...], bool]:
    """Whether a plugin has more to do, and may continue."""
    more = unfinished_of(status)
    if more is None:
        return False
    (outcome,) = yield more
    return isinstance(outcome, Done) and bool(outcome.value)


class _FailedError(Exception):
    """The attempt ends with this status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


class _Try:
    """One pass through the cycle, from the first filter to a decision."""

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        framework: Framework,
        pod: PodInfo,
        held: set[str] | None,
        within: Within | None,
        *,
        helped: bool,
    ) -> None:
        """`held` collects the nodes that were reserved for the pod; None: reserve none."""
        self._within = within
        self._helped = helped
        self._algorithm = algorithm
        self._held = held
        self._framework = framework
        self._cluster: ClusterState = algorithm.cluster
        self._pod = pod
        self._extenders = tuple(e for e in framework.handle.extenders() if e.is_interested(pod))
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

    def decide(self) -> Cycle:
        pod, within = self._pod, self._rows()
        if not (self._cluster.table.count if within is None else len(within)):
            return without_nodes(pod)
        tried = row_tried_first(self._cluster, pod)
        if tried is not None and within is not None and tried not in within:
            tried = None
        judgement = self._search(tried)
        if self._is_only(tried):
            if (yield from self._is_left_alone()):
                return self._placed(self._names[0])
            judgement = self._search(None)
        if judgement.diagnosis is not None:
            return (yield from self._post_filtered(judgement.diagnosis))
        yield from self._ask_filters()
        if not self._names:
            return (yield from self._post_filtered(self._diagnosis()))
        return self._placed((yield from self._best()))

    def _rows(self) -> Rows | None:
        return None if self._within is None else self._within()

    def _placed(self, name: str) -> Decision:
        return Decision(
            self._pod, name, state=self._state, evaluated=self._evaluated, feasible=max(1, len(self._names))
        )

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _search(self, tried: int | None) -> Judgement:
        """Find the nodes that pass all filters; `tried`: a row that wins if it is one of them."""
        self._evaluation, judgement, found = self._algorithm.searched(self._framework, self._pod, tried, self._rows())
        if isinstance(found, Status):
            raise _FailedError(found)
        self._state, self._evaluated = judgement.state, found.evaluated
        table = self._cluster.table
        rows = table.order.rows
        self._names = [table.names[row] for row in rows[found.feasible[rows]].tolist()]
        return judgement

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

    def _ask_filters(self) -> Waits:
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

    def _is_left_alone(self) -> Generator[Needs, tuple[Outcome, ...], bool]:
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
        judgement = evaluation.filter(self._pod, within=self._rows())
        if judgement.error is not None:
            raise _FailedError(judgement.error)
        self._state = judgement.state
        diagnosis = judgement.diagnosis or evaluation.diagnosis(judgement.refused)
        rows = np.flatnonzero(judgement.feasible)
        refuse(diagnosis, self._cluster.table.names, rows, self._refused, narrowed=self._narrowed)
        return diagnosis

    # -- scores -------------------------------------------------------------------------------------------------------

    def _best(self) -> Generator[Needs, tuple[Outcome, ...], str]:
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

    def _totals(self) -> npt.NDArray[np.int64]:
        scored = scored_nodes(self._framework, self._evaluation, self._pod, self._feasible())
        if scored.error is not None:
            raise _FailedError(scored.error)
        return scored.ranked

    def _feasible(self) -> npt.NDArray[np.bool_]:
        feasible = np.zeros(self._cluster.table.n, np.bool_)
        feasible[[self._cluster.table.row_of[name] for name in self._names]] = True
        return feasible

    def _ask_prioritizers(
        self, extenders: Sequence[Extender], best: Callable[[], str]
    ) -> Generator[Needs, tuple[Outcome, ...], tuple[dict[str, int], bool]]:
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

    def _add(self, points: Mapping[str, int], totals: npt.NDArray[np.int64]) -> None:
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

    # -- PostFilter ---------------------------------------------------------------------------------------------------

    def _post_filtered(self, diagnosis: Diagnosis) -> Cycle:
        if not self._helped:
            return without_post_filter(self._state, self._pod, diagnosis)
        framework, pod, answers = self._framework, self._pod, PostFilterAnswers()
        state, diagnosis = self._state.clone(), _own(diagnosis)
        started = framework.now()
        for plugin in framework.post_filter:
            result = yield from _stepwise(framework.run_post_filter_in_steps(plugin, state, pod, diagnosis))
            if answers.add(plugin, result):
                break
        if framework.post_filter and framework.metrics is not None:
            framework.metrics.points["PostFilter"].ran(started, answers.code)
        return answers.decision(state, pod, diagnosis)


def _own(diagnosis: Diagnosis) -> Diagnosis:
    """A plain-data copy, never modified, so that equal pods that fail for the same reasons share it."""
    own: Diagnosis | None = diagnosis.memos.memo(_SNAPSHOT, None)
    if own is None:
        own = diagnosis.snapshot()
        # Memos of one are valid for the other.
        own.memos = diagnosis.memos
        diagnosis.memos.remember(_SNAPSHOT, None, own)
    return own


def _stepwise(steps: PostFilterSteps) -> Generator[Needs, tuple[Outcome, ...], Any]:
    """Adapt a plugin's steps to a cycle."""
    outcome: Outcome | None = None
    try:
        while True:
            needed = steps.send(outcome)  # type: ignore[arg-type]
            if isinstance(needed, Wait):
                (outcome,) = yield needed
            elif isinstance(needed, Request | Ask):
                odd = problem_of(needed) if isinstance(needed, Request) else None
                if odd is not None:
                    raise odd
                (outcome,) = yield (needed,)
            else:
                raise InvalidStepError(needed)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()


def _scores(extender: Extender, outcome: Outcome) -> Mapping[str, int]:
    try:
        return dict(extender.read_scores(answer_of(outcome)))
    except Exception as e:
        _log_unscored(extender, e)
        return {}


def _log_unscored(extender: Extender, failed: Exception) -> None:
    text = "Failed to run extender's priority function. No score given by this extender."
    _log.v(5).info(text, extender=extender.name, err=str(failed))
