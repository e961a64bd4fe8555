"""PostFilter for a pod that no node fits: which plugins run, and the decision that follows from their results."""

from __future__ import annotations

from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.decision.cycle_steps import CycleSteps, run_at_once
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.interface import PostFilterPlugin, PostFilterResult, PostFilterSteps
from stowplan.scheduler.framework.requests import Ask, InvalidStepError, Outcome, Request, Wait, problem_of
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code, Status

#: Memo key for a plain-data copy of a diagnosis.
_SNAPSHOT = "snapshot"

POST_FILTERS_SKIPPED = "All PostFilter plugins are skipped"


def run_post_filters(framework: Framework, unfit: Decision) -> CycleSteps[Decision]:
    """Run PostFilter for a pod that fits nowhere. For a question, plugins with side effects are skipped."""
    pod, state, diagnosis = unfit.pod, unfit.state, unfit.diagnosis
    assert state is not None
    assert diagnosis is not None
    answers = PostFilterAnswers()
    plugins = framework.effect_free_post_filter if state.asking else framework.post_filter
    if not plugins:
        return answers.decision(state, pod, diagnosis)
    # Rejected equal pods share the state, but a plugin writes for this pod alone.
    state = state.clone()
    waits = framework.suspends and not state.asking
    if waits:
        # The diagnosis has arrays of the evaluation, which changes while this pod waits.
        diagnosis = _own(diagnosis)
    started = framework.now()
    for plugin in plugins:
        steps = framework.run_post_filter(plugin, state, pod, diagnosis, waits=waits)
        if answers.add(plugin, (yield from _cycle_steps(steps))):
            break
    if framework.metrics is not None and not state.asking:
        framework.metrics.points["PostFilter"].ran(started, answers.code)
    return answers.decision(state, pod, diagnosis)


def without_post_filter(unfit: Decision) -> Decision:
    """The decision for a pod that fits nowhere, without PostFilter."""
    assert unfit.diagnosis is not None
    unfit.status = Status(Code.Unschedulable, (unfit.diagnosis.message(POST_FILTERS_SKIPPED),))
    return unfit


def post_filters_not_run(
    framework: Framework, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, decision: Decision
) -> tuple[tuple[str, PostFilterResult], ...]:
    """Results of the PostFilter plugins after the last one that ran; those that might succeed are not called."""
    plugins = framework.effect_free_post_filter[len(decision.post_filter) :]
    if not decision.post_filter or decision.post_filter[-1][1].status.code != Code.Error:
        return ()
    found = []
    for plugin in plugins:
        steps = framework.run_post_filter(plugin, state, pod, diagnosis, waits=False)
        answer = run_at_once(_cycle_steps(steps))
        if answer.status.code != Code.Success:
            found.append((plugin.name, answer))
    return tuple(found)


class PostFilterAnswers:
    """Results of PostFilter plugins up to the one that ended the point, and their messages."""

    def __init__(self) -> None:
        self._results: list[tuple[str, PostFilterResult]] = []
        self._messages: list[str] = []

    def add(self, plugin: PostFilterPlugin, result: PostFilterResult) -> bool:
        """Add a result; return whether it ends PostFilter."""
        self._results.append((plugin.name, result))
        if result.status.code == Code.Success:
            return True
        if result.status.code not in (Code.Unschedulable, Code.Pending):
            final = result.status.code == Code.UnschedulableAndUnresolvable
            self._messages = [result.status.message if final else str(result.status.cause)]
            return True
        self._messages += result.status.shown_reasons
        return False

    @property
    def code(self) -> Code:
        """The status code of the point, after at least one result."""
        last = self._results[-1][1].status.code
        if last == Code.Pending:
            return Code.Unschedulable
        return last if last in (Code.Success, Code.Unschedulable, Code.UnschedulableAndUnresolvable) else Code.Error

    def decision(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Decision:
        """A rejection by the filters, whatever PostFilter returned; its error is only part of the message."""
        results = tuple(self._results)
        succeeded = bool(results) and results[-1][1].status.code == Code.Success
        text = diagnosis.message("" if succeeded else ", ".join(self._messages))
        status = Status(Code.Unschedulable, (text,))
        return Decision(pod, "", status, diagnosis, results, state, diagnosis.evaluated)


def _own(diagnosis: Diagnosis) -> Diagnosis:
    """A plain-data copy, never modified, so that equal pods that fail for the same reasons share it."""
    own: Diagnosis | None = diagnosis.memos.memo(_SNAPSHOT, None)
    if own is None:
        own = diagnosis.snapshot()
        # Memos of one are valid for the other.
        own.memos = diagnosis.memos
        diagnosis.memos.remember(_SNAPSHOT, None, own)
    return own


def _cycle_steps(steps: PostFilterSteps) -> CycleSteps[PostFilterResult]:
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
        result: PostFilterResult = end.value
        return result
    finally:
        steps.close()
