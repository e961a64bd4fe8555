"""Scenarios: a cluster of recorded objects, the verdict of each pending pod, and the order of queued ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import stowplan
from stowplan.plugins import PodInfo, QueueSortPlugin
from stowplan.plugins.objects import parse_timestamp
from stowplan_scheduler_plugins.golden.differences import differences, verdict_differences
from stowplan_scheduler_plugins.golden.tally import STEPS, VERDICTS, Answer
from stowplan_scheduler_plugins.load import measured

Json = Any
#: In configurations it stands for the address of the recorded load watcher.
_WATCHER = "http://watcher.example"
#: When the reference was asked: long after anything in the scenarios, but for measurements of the future.
_NOW = parse_timestamp("2026-09-01T00:00:00Z")


@dataclass(frozen=True)
class Queued:
    """A queued pod, as far as QueueSort plugins read it."""

    pod: PodInfo
    timestamp: float
    initial_attempt_timestamp: float


def scenario_answers(scenario: Json) -> Iterator[Answer]:
    name = scenario["name"]
    cluster = stowplan.Cluster(_objects(scenario), config=scenario["config"], now=_NOW)
    weights = _weights(scenario["config"])
    if not scenario.get("noVerdicts"):
        for pod, want in zip(scenario["pods"], scenario["verdicts"], strict=True):
            found = verdict_differences(want, _verdict(cluster, pod), weights)
            yield Answer(VERDICTS, f"{name} {want['pod']}", found)
    if "less" in scenario:
        yield Answer(STEPS, f"{name} queue", list(differences(scenario["less"], _less(cluster, scenario), "less")))


def _verdict(cluster: stowplan.Cluster, pod: Json) -> Json:
    if (pod.get("status") or {}).get("nominatedNodeName"):
        # For the reference, each of several equal nominated pods is the last one (docs/reference/differences.md).
        cluster.remove(pod)
        cluster.add(pod)
    return cluster.explain(pod).to_dict()


def _objects(scenario: Json) -> list[Json]:
    watched = scenario.get("metrics")
    load = [] if watched is None else [measured(_WATCHER, watched)]
    return [*scenario["objects"], *scenario["pods"], *load]


def _weights(config: Json) -> dict[str, int]:
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
