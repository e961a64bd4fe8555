"""Ask the engine for verdicts, once for pods that no plugin can distinguish."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.ask.explain.suggestions.explanations import guarded
from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
from stowplan.ask.explain.verdicts.verdict import Verdict
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.engine.decision.extender_cycle import RequestKey
from stowplan.scheduler.framework.explanations.preemption import Eviction, Preemption, eviction
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.requests import Ask, Outcome
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.status import Code

if TYPE_CHECKING:
    from stowplan.scheduler.engine.engine import Engine


def kinds_of(engine: Engine, pods: Iterable[PodInfo]) -> list[tuple[PodInfo, tuple[str, ...]]]:
    """(the first pod of a kind, keys of the others), in the order of the first ones."""
    groups: dict[Any, list[PodInfo]] = {}
    for info in pods:
        framework = engine.framework_for(info)
        signature = None if framework is None else framework.signature(info)
        nominated = info.pod.status.nominated_node_name
        groups.setdefault(info.key if signature is None else (signature, nominated), []).append(info)
    return [(infos[0], tuple(info.key for info in infos[1:])) for infos in groups.values()]


def preemption_of(framework: Framework, results: Sequence[tuple[str, PostFilterResult]]) -> Preemption | None:
    """The result of the plugin that succeeded; if none did, the explanation of the first plugin that has one.

    Details are computed on the current cluster. None if no plugin explains more than its status.
    """
    selected = _selected(results[-1][1]) if results else None
    if selected is None:
        explained = (_explained(framework, name, result) for name, result in results)
        return next((found for found in explained if found is not None), None)
    plugin, last = results[-1]
    found = _explained(framework, plugin, last) or Preemption(plugin=plugin)
    return replace(
        found,
        candidates={selected.node_name: selected, **found.candidates},
        best=found.best or (selected.node_name,),
        selected=selected,
    )


def _selected(result: PostFilterResult) -> Eviction | None:
    """The plan of a success; a nomination without victims is an eviction of no pods."""
    if result.status.code != Code.Success:
        return None
    if result.plan is not None:
        return eviction(result.plan.node_name, result.plan.victims, result.plan.pdb_violations)
    return Eviction(result.nominated_node_name) if result.nominated_node_name else None


def _explained(framework: Framework, name: str, result: PostFilterResult) -> Preemption | None:
    plugin = next(plugin for plugin in framework.post_filter if plugin.name == name)
    found = guarded(name, plugin.preemption, None, result, at=("Explanation", plugin))
    return replace(found, plugin=name) if isinstance(found, Preemption) else None


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
