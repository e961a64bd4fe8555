"""One full evaluation of a pod in which nothing is placed: how a `Verdict` comes about.

Nothing is shared with other pods and nothing is left out: every node is looked at, whatever sampling would do, and
every plugin says its word. A pod that has a node, be it only assumed, is judged as if it had none.

A scheduler at work is asked in the same way, with a difference: what would act on the answer (preemption, and users'
PostFilter plugins, of which nobody knows what they do) must not. `only_asking` sees to that.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.engine.algorithm import NO_NODES, nominated_row, post_filtered
from stowplan.engine.evaluation.evaluation import Evaluation
from stowplan.explain.verdict import Verdict
from stowplan.framework.status import Code, Status
from stowplan.in_tree.default_preemption.plugin import PreemptionOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.state import ClusterState
    from stowplan.framework.runtime import Framework


def judged(framework: Framework, info: PodInfo) -> Verdict:
    """Judge a pod on every node; nothing changes."""
    state = framework.handle.cluster
    if not info.node_name:
        return _judged(framework, _unplaced(state, info))
    current = info.node_name
    with state.what_if() as world:
        world.evict(info)
        verdict = _judged(framework, _unplaced(state, info))
        verdict.settle()
    verdict.current_node = current
    return verdict


@contextmanager
def only_asking(framework: Framework) -> Iterator[None]:
    """A live scheduler's profile, asked without consequences: nobody is evicted, nothing is counted, no dice are cast.

    Nothing else may run meanwhile: whoever asks must not wait for anything.
    """
    handle = framework.handle
    before = handle.random, handle.metrics, framework.metrics, framework.post_filter
    handle.random = handle.metrics = framework.metrics = None
    framework.post_filter = tuple(p for p in framework.post_filter if p.effect_free)
    try:
        yield
    finally:
        handle.random, handle.metrics, framework.metrics, framework.post_filter = before


def _unplaced(state: ClusterState, info: PodInfo) -> PodInfo:
    """The pod without its node: spec.nodeName would otherwise bind it there."""
    pod = info.pod
    if not pod.spec.node_name:
        return info
    return state.pod_info(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="")))


def _judged(framework: Framework, info: PodInfo) -> Verdict:
    table = framework.handle.cluster.table
    verdict = Verdict(info, list(table.names))
    verdict.gated = framework.run_pre_enqueue(info)
    if verdict.gated is not None:
        return verdict
    if not table.count:
        verdict.error = Status(Code.UnschedulableAndUnresolvable, error=RuntimeError(NO_NODES))
        return verdict
    evaluation = Evaluation(framework)
    outcome = evaluation.filter(info)
    if outcome.error is not None:
        verdict.error = outcome.error
        return verdict
    verdict.feasible = outcome.feasible
    verdict.diagnosis = outcome.diagnosis or evaluation.diagnosis(outcome.refused)
    if outcome.feasible.any():
        _score(verdict, evaluation, framework)
    else:
        _fail(verdict, framework, outcome.state)
    return verdict


def _score(verdict: Verdict, evaluation: Evaluation, framework: Framework) -> None:
    scored = evaluation.score(verdict.pod, verdict.feasible)
    if scored.error is not None:
        verdict.error = scored.error
        return
    verdict.scores, verdict.totals = scored.by_plugin(), scored.totals
    nominated = nominated_row(framework.handle.cluster, verdict.pod, verdict.feasible)
    verdict.node_name = verdict.names[int(scored.ranked.argmax()) if nominated is None else nominated]


def _fail(verdict: Verdict, framework: Framework, state: Any) -> None:
    assert verdict.diagnosis is not None
    verdict.message = verdict.diagnosis.message()
    decision = post_filtered(framework, state, verdict.pod, verdict.diagnosis)
    verdict.full_message = decision.message
    details = [result.detail for _, result in decision.post_filter]
    verdict.preemption = next((d for d in details if isinstance(d, PreemptionOutcome)), None)
