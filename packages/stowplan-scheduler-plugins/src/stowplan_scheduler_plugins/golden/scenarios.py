"""Scenarios: a cluster of recorded objects, the verdict of each pending pod, and the order of queued ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import stowplan
from stowplan.plugins import CycleState, PodInfo, QueueSortPlugin, ReservePlugin
from stowplan.plugins.objects import parse_timestamp
from stowplan_scheduler_plugins.elastic_quotas import USE
from stowplan_scheduler_plugins.golden.differences import differences, verdict_differences
from stowplan_scheduler_plugins.golden.tally import STEPS, VERDICTS, Answer
from stowplan_scheduler_plugins.load_sources import measured

Json = Any
#: In configurations it stands for the address of the recorded load watcher.
_WATCHER = "http://watcher.example"
#: When the reference was asked: long after anything in the scenarios, but for measurements of the future.
NOW = parse_timestamp("2026-09-01T00:00:00Z")


@dataclass(frozen=True)
class Queued:
    """A queued pod, as far as QueueSort plugins read it."""

    pod: PodInfo
    timestamp: float
    initial_attempt_timestamp: float


def scenario_answers(scenario: Json) -> Iterator[Answer]:
    name = scenario["name"]
    cluster = stowplan.Cluster(objects_of(scenario), config=scenario["config"], now=NOW)
    weights = weights_of(scenario["config"])
    yield from quota_answers(scenario, cluster)
    if not scenario.get("noVerdicts"):
        for pod, want in zip(scenario["pods"], scenario["verdicts"], strict=True):
            found = verdict_differences(want, _verdict(cluster, pod), weights)
            if "postFilter" in want:
                several = len((want.get("preemption") or {}).get("selected") or ()) > 1
                wanted = want["postFilter"]
                if "deleted" in wanted:
                    wanted = wanted | {"deleted": sorted(wanted["deleted"])}
                found += differences(wanted, _post_filter(cluster, pod, several=several), "/postFilter")
            if "reserved" in want:
                found += differences(want["reserved"], _reserve(cluster, pod), "/reserved")
            yield Answer(VERDICTS, f"{name} {want['pod']}", found)
    yield from queue_answers(scenario, cluster)


def quota_answers(scenario: Json, cluster: stowplan.Cluster) -> Iterator[Answer]:
    if "quotaUsed" in scenario:
        wanted = {quota: _named(used) for quota, used in scenario["quotaUsed"].items()}
        yield Answer(STEPS, f"{scenario['name']} quotas", list(differences(wanted, _used(cluster))))


def queue_answers(scenario: Json, cluster: stowplan.Cluster) -> Iterator[Answer]:
    if "less" in scenario:
        found = list(differences(scenario["less"], _less(cluster, scenario), "less"))
        yield Answer(STEPS, f"{scenario['name']} queue", found)


def _verdict(cluster: stowplan.Cluster, pod: Json) -> Json:
    if (pod.get("status") or {}).get("nominatedNodeName"):
        # For the reference, each of several equal nominated pods is the last one (docs/reference/differences.md).
        cluster.remove(pod)
        cluster.add(pod)
    verdict = cluster.explain(pod)
    found = verdict.to_dict()
    if verdict.preemption is not None and verdict.preemption.error:
        # An error of some nodes, while others are candidates.
        found["preemption"]["reason"] = verdict.preemption.error
    return found


def _used(cluster: stowplan.Cluster) -> Json:
    """What CapacityScheduling counts as used, by namespace."""
    [framework] = cluster.algorithm.frameworks.values()
    plugin: Any = framework.plugins["CapacityScheduling"]
    placed = cluster.state.pods_by(USE).placed
    return {
        quota.namespace: _named({**quota.used, "milliCPU": quota.used.get("cpu", 0), "cpu": 0})
        | _named({"pods": len(placed.of(quota.namespace))})
        for quota in plugin.quotas()
    }


def _named(used: dict[str, int]) -> dict[str, int]:
    """What is used at all."""
    return {name: amount for name, amount in used.items() if amount}


def _reserve(cluster: stowplan.Cluster, pod: Json) -> str:
    """Assume the pod on the best node, the first one of equals, and run Reserve alone."""
    totals: dict[str, int] = cluster.explain(pod).to_dict()["totals"]
    node = min(totals, key=lambda name: (-totals[name], name))
    info = cluster.pod(pod)
    cluster.add(pod | {"spec": pod["spec"] | {"nodeName": node}})
    for plugin in cluster.framework_of(info).plugins.values():
        if isinstance(plugin, ReservePlugin):
            plugin.reserve(CycleState(), info, node)
    return node


def _post_filter(cluster: stowplan.Cluster, pod: Json, *, several: bool) -> Json:
    """What PostFilter returned; with several equal candidates, without the one that was chosen."""
    preemption = cluster.explain(pod).preemption
    selected = None if preemption is None else preemption.selected
    if selected is not None:
        # Those that are terminating already are not deleted again.
        victims = [cluster.pod(victim.key) for victim in selected.victims]
        deleted = sorted(one.key for one in victims if one.pod.metadata.deletion_timestamp is None)
        chosen = {"nominatedNodeName": selected.node_name} | ({"deleted": deleted} if deleted else {})
        return {"code": "Success"} | ({} if several else chosen)
    with cluster.transaction():
        [decision] = cluster.schedule([pod])
    plugin, result = decision.post_filter[-1]
    found = {"code": result.status.code.name, "plugin": plugin, "message": result.status.message}
    if result.nominated_node_name is not None:
        found["nominatedNodeName"] = result.nominated_node_name
    return found


def objects_of(scenario: Json) -> list[Json]:
    watched = scenario.get("metrics")
    load = [] if watched is None else [measured(_WATCHER, watched)]
    return [*scenario["objects"], *scenario["pods"], *load]


def weights_of(config: Json) -> dict[str, int]:
    """The weight of each plugin that is enabled somewhere."""
    found: dict[str, int] = {}
    for profile in config["profiles"]:
        for point in profile["plugins"].values():
            for plugin in point.get("enabled") or ():
                found[plugin["name"]] = max(found.get(plugin["name"], 1), plugin.get("weight") or 1)
    return found


def _less(cluster: stowplan.Cluster, scenario: Json) -> list[str]:
    pods = {one.key: one for one in map(cluster.pod, scenario["pods"])}
    plugins = cluster.framework_of(next(iter(pods.values()))).plugins.values()
    [sort] = [plugin for plugin in plugins if isinstance(plugin, QueueSortPlugin)]
    queue = [
        Queued(pods[one["pod"]], parse_timestamp(one["timestamp"]), parse_timestamp(one["initialAttempt"]))
        for one in scenario["queue"]
    ]
    return ["".join("1" if sort.less(a, b) else "0" for b in queue) for a in queue]
