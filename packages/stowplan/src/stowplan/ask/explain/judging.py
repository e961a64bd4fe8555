"""Ask the engine for a `Verdict`, or a `GroupVerdict`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.ask.explain.preemption import preemption_of
from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
from stowplan.ask.explain.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.engine.decision.extender_results import RequestKey
    from stowplan.scheduler.engine.engine import Engine
    from stowplan.scheduler.framework.requests import Ask, Outcome


def judged(engine: Engine, info: PodInfo, *, ask: Callable[[Ask], Outcome] | None = None) -> Verdict:
    """The verdict on a pod of one of the profiles, without side effects. `ask` of None: skip extenders."""
    if ask is None:
        return _judged(engine, info, None)
    answers: dict[RequestKey, Outcome] = {}
    while True:
        verdict = _judged(engine, info, answers)
        if not verdict.wanted:
            return verdict
        answers |= {(wanted.who, wanted.verb): ask(wanted) for wanted in verdict.wanted}


async def judged_live(engine: Engine, info: PodInfo, *, ask: Callable[[Ask], Awaitable[Outcome]]) -> Verdict:
    """`judged` with asynchronous extenders. The cluster may change meanwhile: the verdict is about its last state."""
    answers: dict[RequestKey, Outcome] = {}
    while True:
        verdict = _judged(engine, info, answers)
        if not verdict.wanted:
            return verdict
        for wanted in verdict.wanted:
            answers[wanted.who, wanted.verb] = await ask(wanted)


def _judged(engine: Engine, info: PodInfo, answers: Mapping[RequestKey, Outcome] | None) -> Verdict:
    with engine.asking(info) as question:
        found = question.judgement(answers)
        preemption = preemption_of(question.framework, found.post_filter)
    # A verdict outlives the question.
    return Verdict(**vars(found) | {"post_filter": (), "preemption": preemption})


def judged_group(
    engine: Engine, group: str, *, preempts: bool = True, ask: Callable[[Ask], Outcome] | None = None
) -> GroupVerdict:
    """The verdict on a pod group, `namespace/name`, without side effects.

    Without `preempts`, there is no search for victims for the group as a whole. `ask` calls an extender; None skips
    extenders.
    """
    with engine.asking_about_group(group) as question:
        return GroupVerdict(**vars(question.judgement(preempts=preempts, ask=ask)))
