"""One full evaluation of a pod in which nothing is placed: how a `Verdict` comes about.

Nothing is shared with other pods and nothing is left out: every node is looked at, whatever sampling would do, and
every plugin says its word. A pod that has a node, be it only assumed, is judged as if it had none.

A running scheduler is asked in the same way: by `CycleState.asking` everybody who takes part knows that nothing may
follow. PostFilter plugins that do not declare themselves free of effects are left out, and the verdict names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.cluster.pod_info import PodInfo
from stowplan.engine.algorithm import NO_NODES, nominated_row, post_filtered
from stowplan.engine.evaluation.evaluation import Evaluation
from stowplan.explain.preemption import preemption_of
from stowplan.explain.verdict import Verdict
from stowplan.framework.status import Code, Status

if TYPE_CHECKING:
    from stowplan.cluster.state import ClusterState
    from stowplan.framework.diagnosis import Diagnosis
    from stowplan.framework.runtime import Framework


def judged(framework: Framework, info: PodInfo) -> Verdict:
    """Judge a pod on every node; nothing changes."""
    state = framework.handle.cluster
    version = state.version
    verdict = _of_unplaced(framework, info) if info.node_name else _judged(framework, _unplaced(state, info))
    verdict.version = version
    return verdict


def _of_unplaced(framework: Framework, info: PodInfo) -> Verdict:
    """The verdict on a placed pod, made while it is off its node."""
    state, current = framework.handle.cluster, info.node_name
    with state.transaction():
        state.remove_pod(info.uid)
        verdict = _judged(framework, _unplaced(state, info))
    verdict.current_node = current
    return verdict


def _unplaced(state: ClusterState, info: PodInfo) -> PodInfo:
    """The pod without its node: spec.nodeName would otherwise bind it there. Always a pod of the verdict's own."""
    pod = info.pod
    if not pod.spec.node_name:
        return PodInfo(pod, info.shape)
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
    evaluation = Evaluation(framework, asking=True, reusable=False)
    outcome = evaluation.filter(info)
    if outcome.error is not None:
        verdict.error = outcome.error
        return verdict
    diagnosis = outcome.diagnosis or evaluation.diagnosis(outcome.refused)
    # The evaluation goes on with its arrays; the verdict keeps what they say now.
    verdict.feasible, verdict.diagnosis = outcome.feasible.copy(), diagnosis.snapshot()
    if outcome.feasible.any():
        _score(verdict, evaluation, framework)
    else:
        _fail(verdict, framework, diagnosis, outcome.state)
    return verdict


def _score(verdict: Verdict, evaluation: Evaluation, framework: Framework) -> None:
    scored = evaluation.score(verdict.pod, verdict.feasible)
    if scored.error is not None:
        verdict.error = scored.error
        return
    verdict.scores = {plugin: points.copy() for plugin, points in scored.by_plugin().items()}
    verdict.totals = scored.totals.copy()
    nominated = nominated_row(framework.handle.cluster, verdict.pod, verdict.feasible)
    verdict.nominated = nominated is not None
    verdict.node_name = verdict.names[int(scored.ranked.argmax()) if nominated is None else nominated]


def _fail(verdict: Verdict, framework: Framework, diagnosis: Diagnosis, state: Any) -> None:
    verdict.message = diagnosis.message()
    decision = post_filtered(framework, state, verdict.pod, diagnosis)
    verdict.full_message = decision.message
    verdict.not_asked = tuple(
        plugin.name for plugin in framework.post_filter if plugin not in framework.effect_free_post_filter
    )
    verdict.preemption = preemption_of(framework, decision.post_filter)
