"""The plugins of the Helm chart beside all in-tree defaults: the whole PostFilter chain, and CapacityScheduling's part.

The data are of Kubernetes 1.35. Since 1.36, NodeResourcesBalancedAllocation scores otherwise, in every scheduler; its
points are left out.
"""

from collections.abc import Iterator
from typing import Any

import stowplan
from stowplan_scheduler_plugins.golden.differences import differences, verdict_differences
from stowplan_scheduler_plugins.golden.scenarios import NOW, queue_answers, quota_answers, weights_of
from stowplan_scheduler_plugins.golden.tally import VERDICTS, Answer

Json = Any
_VERSION = "1.35"
_CHANGED = "NodeResourcesBalancedAllocation"
_ENDS = ("Success", "Error", "UnschedulableAndUnresolvable")


def chart_answers(number: int, scenario: Json) -> Iterator[Answer]:
    objects = [*scenario["objects"], *scenario["pods"]]
    cluster = stowplan.Cluster(objects, config=scenario["config"], now=NOW, emulated_version=_VERSION)
    yield from quota_answers(scenario, cluster)
    # Before any group fails, which the order depends on.
    yield from queue_answers(scenario, cluster)
    weights = weights_of(scenario["config"])
    for pod, want in zip(scenario["pods"], scenario["verdicts"], strict=True):
        got = cluster.explain(pod).to_dict()
        wanted_chain = want.get("postFilter")
        if want.get("feasible"):
            got.pop("preemption", None)
            found = verdict_differences(_unchanged(want), _unchanged(got), weights)
        else:
            got["preemption"], chain = _post_filter(cluster, pod)
            found = verdict_differences(want, got, weights)
            if wanted_chain is not None:
                found += differences(wanted_chain, {key: chain[key] for key in chain if key in wanted_chain}, "/chain")
        yield Answer(VERDICTS, f"{scenario['name']} {want['pod']}", found)


def _unchanged(verdict: Json) -> Json:
    """Without the points of the plugin that has changed."""
    scores, totals = verdict.get("scores") or {}, verdict.get("totals") or {}
    return verdict | {
        "scores": {node: {name: one for name, one in of.items() if name != _CHANGED} for node, of in scores.items()},
        "totals": {node: total - scores.get(node, {}).get(_CHANGED, 0) for node, total in totals.items()},
    }


def _post_filter(cluster: stowplan.Cluster, pod: Json) -> tuple[Json, Json]:
    """CapacityScheduling's own dry run, and what the chain of all PostFilter plugins returned."""
    info = cluster.pod(pod)
    with cluster.engine.asking(info) as question:
        evaluation, outcome = cluster.algorithm.filtered(question.framework, question.pod)
        state: Any = outcome.state
        diagnosis = outcome.diagnosis or evaluation.diagnosis(outcome.refused)
        plugins: list[Any] = list(question.framework.post_filter)
        [own] = [plugin for plugin in plugins if plugin.name == "CapacityScheduling"]
        explained = own.preemption(own.post_filter(state, question.pod, diagnosis))
        results = []
        for plugin in plugins:
            results.append(plugin.post_filter(state, question.pod, diagnosis))
            if results[-1].status.code.name in _ENDS:
                break
    preemption = {
        "eligible": not explained.ineligible_reason,
        "reason": explained.ineligible_reason or explained.error,
        "candidates": {
            name: {"victims": [victim.key for victim in one.victims], "pdbViolations": one.pdb_violations}
            for name, one in explained.candidates.items()
        },
        "selected": list(explained.best),
    }
    return preemption, _chain(plugins, results)


def _chain(plugins: list[Any], results: list[Any]) -> Json:
    last = results[-1].status.code.name
    if last in _ENDS:
        text = results[-1].status.message
        said = {"plugin": plugins[len(results) - 1].name, "message": text} if last != "Success" else {}
        name = results[-1].nominated_node_name
    else:
        texts = [result.status.message for result in results]
        said = {"plugin": plugins[0].name, "message": ", ".join(filter(None, texts))}
        name = next((one.nominated_node_name for one in reversed(results) if one.nominated_node_name is not None), None)
    return {"code": last, **said} | ({} if name is None else {"nominatedNodeName": name})
