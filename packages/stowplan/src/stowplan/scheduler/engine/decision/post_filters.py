"""PostFilter for a pod that no node fits: which plugins run, and the decision that follows from their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.framework.runtime.metrics import timed
from stowplan.scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.framework.cycle_state import CycleState
    from stowplan.scheduler.framework.diagnosis import Diagnosis
    from stowplan.scheduler.framework.interface import PostFilterPlugin, PostFilterResult
    from stowplan.scheduler.framework.runtime.framework import Framework

POST_FILTERS_SKIPPED = "All PostFilter plugins are skipped"


def post_filtered(framework: Framework, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Decision:
    """Run PostFilter for an unschedulable pod. For a question, plugins with side effects are skipped."""
    plugins, run = framework.post_filter, _timed_post_filter
    if state.asking:
        plugins, run = framework.effect_free_post_filter, _run_post_filter
    if not plugins:
        return PostFilterAnswers().decision(state, pod, diagnosis)
    state = state.clone()  # rejected equal pods share the state, but a plugin writes for this pod alone
    return run(framework, plugins, state, pod, diagnosis).decision(state, pod, diagnosis)


def without_post_filter(state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Decision:
    """The decision for an unschedulable pod without PostFilter."""
    status = Status(Code.Unschedulable, (diagnosis.message(POST_FILTERS_SKIPPED),))
    return Decision(pod, "", status, diagnosis, (), state, diagnosis.evaluated)


def post_filters_not_run(
    framework: Framework, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, decision: Decision
) -> tuple[tuple[str, PostFilterResult], ...]:
    """Results of the PostFilter plugins after the last one that ran; those that might succeed are not called."""
    plugins = framework.effect_free_post_filter[len(decision.post_filter) :]
    if not decision.post_filter or decision.post_filter[-1][1].status.code != Code.Error:
        return ()
    answers = ((plugin.name, framework.run_post_filter(plugin, state, pod, diagnosis)) for plugin in plugins)
    return tuple((name, answer) for name, answer in answers if answer.status.code != Code.Success)


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
        results = tuple(self._results)
        succeeded = bool(results) and results[-1][1].status.code == Code.Success
        text = diagnosis.message("" if succeeded else ", ".join(self._messages))
        status = Status(Code.Unschedulable, (text,))
        return Decision(pod, "", status, diagnosis, results, state, diagnosis.evaluated)


def _run_post_filter(
    framework: Framework, plugins: Sequence[PostFilterPlugin], state: CycleState, pod: PodInfo, diagnosis: Diagnosis
) -> PostFilterAnswers:
    answers = PostFilterAnswers()
    for plugin in plugins:
        if answers.add(plugin, framework.run_post_filter(plugin, state, pod, diagnosis)):
            break
    return answers


_timed_post_filter = timed("PostFilter", lambda answers: answers.code)(_run_post_filter)
