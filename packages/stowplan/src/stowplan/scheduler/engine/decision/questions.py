"""Judge a pod without side effects.

A question is about one pod and the current cluster; a placed or assumed pod is judged as if it were not on its node.
The scheduling algorithm judges it, on every node regardless of sampling, and runs every plugin. `CycleState.asking`
tells plugins that there must be no side effects. Plugins that cannot be run this way are listed with the reason, such
as PostFilter plugins that do not declare themselves `effect_free`.

Extenders take time to answer: the caller sends the requests that a judgement lists (`wanted`), and asks again with the
answers until the list is empty.

The same question may be asked for another version of the pod, or on a cluster that is changed in a transaction. That is
how suggestions are verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.klog import without_log
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.decision.cycle_steps import CycleSteps, run_at_once
from stowplan.scheduler.engine.decision.decision import fits_nowhere, without_nodes
from stowplan.scheduler.engine.decision.extender_cycle import ExtenderCycle, ExtenderResult, RequestKey
from stowplan.scheduler.engine.decision.post_filters import post_filters_not_run, run_post_filters
from stowplan.scheduler.engine.evaluation.evaluation import Evaluation
from stowplan.scheduler.engine.evaluation.scoring import INFEASIBLE
from stowplan.scheduler.framework.boundary import call
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.extender import Extender
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.requests import Ask, Outcome
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Status

if TYPE_CHECKING:
    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm

T = TypeVar("T")

#: Why a PostFilter plugin was not run.
NOT_EFFECT_FREE = "its PostFilter does not declare itself free of effects (effect_free)"

_NOT_ASKED = "an attempt would call it, this question did not; its {verbs} may change this"


@mypyc_attr(native_class=False)
@dataclass(kw_only=True)
class Judgement:
    """The scheduler's verdict on a pod on every node: a snapshot, except for `post_filter`."""

    pod: PodInfo
    #: Node names by row; "" for rows without a node.
    names: list[str]
    #: The node that the pod would be placed on; "" if there is none.
    node_name: str = ""
    #: The pod is nominated to that node and fits there, so it is chosen regardless of scores.
    nominated: bool = False
    #: The PreEnqueue rejection that keeps the pod from being tried.
    gated: Status | None = None
    #: The error that ended the attempt.
    error: Status | None = None
    diagnosis: Diagnosis | None = None
    #: Rows that passed every filter.
    feasible: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    #: Plugin -> normalized scores times weight, by row; skipped plugins are absent.
    scores: dict[str, Ints] = field(default_factory=dict)
    totals: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    #: The reference's message if no node is feasible, without PostFilter's part.
    message: str = ""
    #: The message including PostFilter's part, as in the condition on a live cluster.
    full_message: str = ""
    #: Results of PostFilter plugins by plugin, in order; only valid during the question.
    post_filter: tuple[tuple[str, PostFilterResult], ...] = ()
    #: PostFilter plugins and extenders that an attempt would call and the question did not -> why.
    not_asked: Mapping[str, str] = field(default_factory=dict)
    #: Answers of extenders, in order.
    extenders: tuple[ExtenderResult, ...] = ()
    #: Extender requests that are needed to complete the judgement.
    wanted: tuple[Ask, ...] = ()
    #: The pod's current node, if it was placed and judged as if it were not.
    current_node: str = ""
    #: The version of the judged cluster.
    version: tuple[int, ...] = ()


class Question:
    """One pod, and the cluster without it; only valid within `Engine.asking`."""

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        framework: Framework,
        pod: PodInfo,
        *,
        current_node: str,
        version: tuple[int, ...],
    ) -> None:
        """`current_node`: the node that the pod was removed from; `version`: the cluster's before that."""
        self._algorithm = algorithm
        self._current_node = current_node
        self._version = version
        self.framework = framework
        self.cluster = algorithm.cluster
        self.pod = unplaced(self.cluster, pod)

    @without_log()
    def judgement(self, answers: Mapping[RequestKey, Outcome] | None = None) -> Judgement:
        """The judgement, complete except for `wanted` requests without answers; None: ignore extenders."""
        found = Judgement(
            pod=self.pod,
            names=list(self.cluster.table.names),
            current_node=self._current_node,
            version=self._version,
            gated=self.gated(self.pod),
        )
        if found.gated is None:
            self._judge(found, answers)
        return found

    def _judge(self, found: Judgement, answers: Mapping[RequestKey, Outcome] | None) -> None:
        """Decide with every node and the result of every plugin.

        There is no sampling (and its position does not change), no sharing with equal pods, and no randomness.
        """
        framework, pod = self.framework, self.pod
        if not self.cluster.table.count:
            found.error = without_nodes(pod).status
            return
        evaluation, outcome = self._algorithm.filtered(framework, pod)
        if outcome.error is not None:
            found.error = outcome.error
            return
        feasible, diagnosis, extenders = outcome.feasible, outcome.diagnosis, None
        if diagnosis is None:
            diagnosis = evaluation.diagnosis(outcome.refused)
            if answers is not None and framework.handle.extenders():
                interested = [extender for extender in framework.handle.extenders() if extender.is_interested(pod)]
                extenders = ExtenderCycle(self._algorithm, framework, pod, interested, asking=True)
                narrowed, found.wanted = _answered(extenders.narrow(feasible, diagnosis), answers)
                if narrowed is None:
                    return
                feasible, found.error = narrowed
        if found.error is None and feasible.any():
            self._choose(found, evaluation, feasible, extenders, answers)
        elif found.error is None:
            self._post_filter(found, outcome.state, diagnosis, after_extenders=extenders is not None)
        if found.wanted:
            return
        # The arrays belong to the evaluation and change when it is used again.
        found.feasible, found.diagnosis = feasible.copy(), diagnosis.snapshot()
        found.extenders = () if extenders is None else tuple(extenders.results)
        if found.error is None:
            found.not_asked = dict(self._not_asked(found.feasible, extenders_called=answers is not None))

    def _choose(
        self,
        found: Judgement,
        evaluation: Evaluation,
        feasible: Mask,
        extenders: ExtenderCycle | None,
        answers: Mapping[RequestKey, Outcome] | None,
    ) -> None:
        """The node, and the scores of all feasible ones."""
        scored = self._algorithm.score(self.framework, evaluation, self.pod, feasible)
        points: dict[str, Ints] | None = {}
        if extenders is not None and answers is not None and scored.error is None:
            points, found.wanted = _answered(extenders.points(), answers)
        if scored.error is not None or points is None:
            found.error = scored.error
            return
        added = sum(points.values())
        row = self._algorithm.row_tried_first(self.pod)
        found.nominated = row is not None and bool(feasible[row])
        if row is None or not found.nominated:
            row = int(np.where(feasible, scored.ranked + added, INFEASIBLE).argmax())
        found.node_name = self.cluster.table.names[row]
        found.scores = {plugin: of_plugin.copy() for plugin, of_plugin in scored.by_plugin().items()} | points
        found.totals = scored.totals + added

    def _post_filter(self, found: Judgement, state: CycleState, diagnosis: Diagnosis, *, after_extenders: bool) -> None:
        framework, pod = self.framework, self.pod
        decision = run_at_once(run_post_filters(framework, fits_nowhere(pod, state, diagnosis)))
        found.message, found.full_message = diagnosis.message(), decision.message
        found.post_filter = decision.post_filter
        if not after_extenders:
            found.post_filter += post_filters_not_run(framework, state, pod, diagnosis, decision)

    def _not_asked(self, feasible: Mask, *, extenders_called: bool) -> Iterator[tuple[str, str]]:
        """Plugins and extenders that an attempt would also have called; `extenders_called`: extenders were."""
        nodes = int(np.count_nonzero(feasible))
        if not nodes:
            framework = self.framework
            for plugin in framework.post_filter:
                if plugin not in framework.effect_free_post_filter:
                    yield plugin.name, NOT_EFFECT_FREE
        for extender in self.framework.handle.extenders():
            wanted = {
                "filter": extender.filters and nodes > 0 and not extenders_called,
                "prioritize": extender.prioritizes and nodes > 1 and not extenders_called,
                "preempt": extender.preempts and not nodes,
            }
            verbs = [verb for verb, is_wanted in wanted.items() if is_wanted]
            if verbs and is_interested(extender, self.pod):
                yield extender.name, not_asked_to(verbs)

    # -- variants of the pod or the cluster ----------------------------------------------------------------------------

    @without_log()
    def gated(self, pod: PodInfo) -> Status | None:
        """The PreEnqueue rejection of the pod; None if there is none."""
        return self.framework.run_pre_enqueue(pod)

    @without_log()
    def feasible(self, pod: PodInfo) -> Mask:
        """Rows that pass every filter; none after an error."""
        _, outcome = self._algorithm.filtered(self.framework, pod)
        return outcome.feasible if outcome.error is None else np.zeros(self.cluster.table.n, np.bool_)

    @without_log()
    def diagnosis(self, pod: PodInfo) -> Diagnosis | None:
        """The filters' verdict on every node; None after an error."""
        evaluation, outcome = self._algorithm.filtered(self.framework, pod)
        if outcome.error is not None:
            return None
        return outcome.diagnosis or evaluation.diagnosis(outcome.refused)


def _answered(steps: CycleSteps[T], answers: Mapping[RequestKey, Outcome]) -> tuple[T | None, tuple[Ask, ...]]:
    """What the steps return, with these answers of extenders; or the requests that have none yet."""
    try:
        needed = next(steps)
        while True:
            asks = tuple(ask for ask in needed if isinstance(ask, Ask))  # type: ignore[union-attr]
            if missing := tuple(ask for ask in asks if (ask.who, ask.verb) not in answers):
                steps.close()
                return None, missing
            needed = steps.send(tuple(answers[ask.who, ask.verb] for ask in asks))
    except StopIteration as end:
        result: T = end.value
        return result, ()


def unplaced(state: ClusterState, info: PodInfo) -> PodInfo:
    """A copy of the pod without its node, because spec.nodeName would bind it there."""
    pod = info.pod
    if not pod.spec.node_name:
        return PodInfo(pod, info.shape)
    return state.pod_info(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="")))


def not_asked_to(verbs: Sequence[str]) -> str:
    """Why an extender was not called."""
    return _NOT_ASKED.format(verbs=" and ".join(verbs))


def is_interested(extender: Extender, pod: PodInfo) -> bool:
    # If it raises, an attempt will report it.
    return call(extender.is_interested, pod, check=None, failed=lambda cause, by: True)
