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
from typing import Any

import numpy as np

from stowplan.kube.api.types import Node
from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.klog import get_logger
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.decision.algorithm import NodeSubset, SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import CycleSteps
from stowplan.scheduler.engine.decision.decision import Decision, fits_nowhere, without_nodes
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.engine.evaluation.scoring import INFEASIBLE
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis, from_statuses
from stowplan.scheduler.framework.extender import (
    EXTENDER,
    MAX_EXTENDER_SCORE,
    ClusterChangedError,
    Extender,
    Filtered,
    answer_of,
)
from stowplan.scheduler.framework.interface import MAX_SCORE
from stowplan.scheduler.framework.requests import Ask
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Status, error, unresolvable, unschedulable

_log = get_logger(__name__)

#: What one point of an extender adds to a score, at weight 1.
SCORE_FACTOR = MAX_SCORE // MAX_EXTENDER_SCORE

#: Extender and verb.
RequestKey = tuple[str, str]


class ExtenderResult(PlainStruct, frozen=True):
    """An extender's answer to one request of a question."""

    extender: str
    #: filter or prioritize.
    verb: str
    #: Number of nodes in the request.
    asked: int
    #: For filter: node -> reason; "" for nodes that were omitted without a reason.
    refused: Mapping[str, str] = field(default_factory=dict)
    #: For prioritize: node -> what is added to its score.
    points: Mapping[str, int] = field(default_factory=dict)
    #: Why there is no answer; "" if there is one.
    failed: str = ""


@mypyc_attr(native_class=False)
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
        within: NodeSubset | None = None,
        held: set[str] | None = None,
        *,
        asking: bool = False,
    ) -> None:
        """`extenders`: those that are interested in the pod. `held` collects the nodes that were reserved for it.

        `asking`: for a question, during which nothing changes. It has `narrow` and `points` in place of `find_node`.
        """
        self._algorithm = algorithm
        self._framework = framework
        self._cluster: ClusterState = algorithm.cluster
        self._pod = pod
        self._extenders = extenders
        self._within = within
        self._held = held
        self._asking = asking
        #: For a question: what each request gave.
        self.results: list[ExtenderResult] = []
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
        algorithm, framework, pod = self._algorithm, self._framework, self._pod
        self._evaluation, seconds = algorithm.look_up(framework, pod)
        outcome, found = algorithm.find_nodes(framework, self._evaluation, pod, tried, self._rows, seconds)
        if isinstance(found, Status):
            raise _FailedError(found)
        self._state, self._evaluated = outcome.state, found.evaluated
        self._consider(found.feasible)
        return outcome.diagnosis

    def _consider(self, feasible: Mask) -> None:
        table = self._cluster.table
        rows = table.order.rows
        self._names = [table.names[row] for row in rows[feasible[rows]].tolist()]

    def _is_only(self, tried: int | None) -> bool:
        """Whether the search ended with the node that is tried first."""
        return tried is not None and self._evaluated == 1 and self._names == [self._cluster.table.names[tried]]

    def _evaluate_again(self) -> None:
        """Keep the nodes that still fit the pod; raise if there are none."""
        if self._asking:
            return
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
            asked = len(self._names)
            try:
                question = extender.filter_question(self._pod, self._nodes())
                self._hold(self._likely)
                try:
                    answers = yield (Ask(who=extender.name, verb="filter", question=question),)
                # Also when the cycle is aborted while it waits, which closes it here.
                finally:
                    self._let_go()
                self._leave(extender, extender.read_filtered(answer_of(answers[0]), self._names))
            # GeneratorExit is none of these: an aborted cycle does not count as an extender's failure.
            except Exception as e:
                self._note(extender, "filter", asked, failed=str(e))
                if not extender.ignorable:
                    raise _FailedError(error(e)) from e
                text = "Skipping extender as it returned error and has ignorable flag set"
                _log.info(text, extender=extender.name, err=str(e))
            if self._names:
                # Others may have taken nodes while it waited, and equal pods have used the shared evaluation.
                self._evaluate_again()

    def _leave(self, extender: Extender, filtered: Filtered) -> None:
        self._refused |= _refusals_of(filtered)
        kept, asked = frozenset(filtered.kept), self._names
        self._names = [name for name in asked if name in kept]
        self._narrowed = self._narrowed or len(self._names) < len(asked)
        if self._asking:
            messages = {**filtered.failed, **filtered.unresolvable}
            refused = {name: messages.get(name, "") for name in asked if name not in kept}
            self._note(extender, "filter", len(asked), refused=refused)

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
        self._add_refusals(diagnosis, np.flatnonzero(judgement.feasible))
        return diagnosis

    def _add_refusals(self, diagnosis: Diagnosis, rows: Rows) -> None:
        """Add the extenders' rejections of rows that had passed all filters to a diagnosis."""
        names = self._cluster.table.names
        statuses = {row: self._refused[names[row]] for row in rows.tolist() if names[row] in self._refused}
        # Nodes that were omitted without a reason count like nodes that were not examined.
        silent = np.zeros(len(diagnosis.examined), np.bool_)
        silent[[row for row in rows.tolist() if row not in statuses]] = True
        diagnosis.examined = diagnosis.examined & ~silent
        if statuses:
            diagnosis.filtered.append((EXTENDER, from_statuses(statuses, len(diagnosis.examined))))
        if self._narrowed:
            diagnosis.pre_filter_plugins |= {EXTENDER}

    # -- scores -------------------------------------------------------------------------------------------------------

    def _best(self) -> CycleSteps[str]:
        """The best of the remaining nodes; a single one is chosen without scoring."""
        if len(self._names) == 1:
            return self._names[0]
        totals = self._totals()
        if any(extender.prioritizes for extender in self._extenders):
            # From here on, equal pods may use the shared arrays.
            totals, self._state = totals.copy(), self._state.clone()
            best = self._cluster.table.names[int(totals.argmax())]
            points, moved = yield from self._ask_prioritizers(lambda: best)
            if moved:
                self._evaluate_again()
                if len(self._names) == 1:
                    return self._names[0]
                totals = self._totals().copy()
            for of_nodes in points.values():
                self._add(of_nodes, totals)
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

    def _ask_prioritizers(self, best: Callable[[], str]) -> CycleSteps[tuple[dict[str, Mapping[str, int]], bool]]:
        """Extender -> node -> what is added to its score; and whether the cluster changed in the meantime."""
        called: list[Extender] = []
        asks: list[Ask] = []
        nodes = self._nodes()
        for extender in self._extenders:
            if not extender.prioritizes:
                continue
            try:
                question = extender.prioritize_question(self._pod, nodes)
            except Exception as e:
                self._unscored(extender, e)
            else:
                called.append(extender)
                asks.append(Ask(who=extender.name, verb="prioritize", question=question))
        points: dict[str, Mapping[str, int]] = {}
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
            try:
                scores = extender.read_scores(answer_of(outcome))
                added = {name: score * extender.weight * SCORE_FACTOR for name, score in scores.items()}
            except Exception as e:
                self._unscored(extender, e)
            else:
                points[extender.name] = added
                self._note(extender, "prioritize", len(nodes), points=added)
        return points, moved

    def _unscored(self, extender: Extender, failed: Exception) -> None:
        self._note(extender, "prioritize", len(self._names), failed=str(failed))
        text = "Failed to run extender's priority function. No score given by this extender."
        _log.v(5).info(text, extender=extender.name, err=str(failed))

    def _add(self, points: Mapping[str, int], totals: Ints) -> None:
        row_of = self._cluster.table.row_of
        for name, added in points.items():
            row = row_of.get(name)
            # The node may be gone, or not fit any more.
            if row is not None and totals[row] != INFEASIBLE:
                totals[row] += added

    # -- questions -----------------------------------------------------------------------------------------------------

    def narrow(self, feasible: Mask, diagnosis: Diagnosis) -> CycleSteps[tuple[Mask, Status | None]]:
        """The feasible rows that the extenders leave, and the error that would end an attempt.

        Their rejections are added to the diagnosis.
        """
        self._consider(feasible)
        failed: Status | None = None
        try:
            yield from self._ask_filters()
        except _FailedError as e:
            failed = e.status
        left = self._feasible()
        self._add_refusals(diagnosis, np.flatnonzero(feasible & ~left))
        return left, failed

    def points(self) -> CycleSteps[dict[str, Ints]]:
        """Extender -> its addition to the scores, by row; a single node is not scored."""
        found: dict[str, Ints] = {}
        if len(self._names) < 2:
            return found
        points, _ = yield from self._ask_prioritizers(lambda: "")
        for extender, of_nodes in points.items():
            added = found[extender] = np.zeros(self._cluster.table.n, np.int64)
            for name in self._names:
                added[self._cluster.table.row_of[name]] = of_nodes.get(name, 0)
        return found

    def _note(self, extender: Extender, verb: str, asked: int, **found: Any) -> None:
        if self._asking:
            self.results.append(ExtenderResult(extender.name, verb, asked, **found))

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


def _refusals_of(filtered: Filtered) -> dict[str, Status]:
    """Node -> reason."""
    refused = {name: unschedulable(why).with_plugin(EXTENDER) for name, why in filtered.failed.items()}
    return refused | {name: unresolvable(why).with_plugin(EXTENDER) for name, why in filtered.unresolvable.items()}
