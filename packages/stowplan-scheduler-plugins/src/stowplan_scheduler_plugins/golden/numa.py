"""Fingerprints of sets of pods, and the cache of topologies step by step."""

from collections.abc import Iterator, Mapping
from typing import Any

import stowplan
from stowplan.plugins import PodInfo
from stowplan.plugins.objects import parse_quantity
from stowplan_scheduler_plugins.golden.differences import differences
from stowplan_scheduler_plugins.golden.tally import STEPS, Answer
from stowplan_scheduler_plugins.node_topologies import Topology
from stowplan_scheduler_plugins.pod_fingerprints import fingerprint
from stowplan_scheduler_plugins.topology_caches import OverReserve

Json = Any
_CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"filter": {"enabled": [{"name": "NodeResourceTopologyMatch"}]}}}],
}


def fingerprint_answers(number: int, row: Json) -> Iterator[Answer]:
    found = fingerprint((namespace, name) for namespace, name in row["pods"])
    yield Answer(STEPS, f"fingerprint line {number}", list(differences(row["fingerprint"], found)))


def cache_answers(number: int, row: Json) -> Iterator[Answer]:
    replayed = _Replayed(row)
    for i, want in enumerate(row["steps"]):
        if i:
            replayed.apply(row["ops"][i - 1])
        found = list(differences(_exact(want), replayed.observed(want["nodes"])))
        yield Answer(STEPS, f"{row['name']} step {i}", found)


class _Replayed:
    """The cache, and a cluster that has the API's objects."""

    def __init__(self, row: Json) -> None:
        self._cluster = stowplan.Cluster(row["nrts"], config=_CONFIG)
        self._shared = row["informerMode"] == "Shared"
        self._known: dict[str, PodInfo] = {}
        self._listed: list[PodInfo] = []
        self._list(row["pods"])
        objects = self._cluster.state.objects
        self._cache = OverReserve(
            list(objects.all(Topology)),
            lambda node: objects.get(Topology, node),
            method=row["resyncMethod"],
            scope=row["resyncScope"],
        )

    def _list(self, pods: Json) -> None:
        self._listed = [self._cluster.pod(pod) for pod in pods]
        self._known |= {pod.key: pod for pod in self._listed}

    def apply(self, op: Json) -> None:
        node = op.get("node", "")
        match op["op"]:
            case "reserve":
                self._cache.reserve(node, self._known[op["pod"]])
            case "unreserve":
                self._cache.unreserve(node, self._known[op["pod"]])
            case "discard":
                self._cache.refused(node)
            case "foreign":
                self._cache.has_foreign_pod(node)
            case "update":
                self._cluster.add(op["nrt"])
                topology = self._cluster.state.objects.get(Topology, op["nrt"]["metadata"]["name"])
                if topology is not None:
                    self._cache.updated(topology)
            case "pods":
                self._list(op["pods"])
            case "resync":
                self._cache.resync(self._pods_that_count())

    def _pods_that_count(self) -> dict[str, list[PodInfo]]:
        found: dict[str, list[PodInfo]] = {}
        for pod in self._listed:
            phase, node = pod.pod.status.phase, pod.pod.spec.node_name
            if phase == "Running" or (not self._shared and phase != "Pending" and node):
                found.setdefault(node, []).append(pod)
        return found

    def observed(self, nodes: Mapping[str, Json]) -> Json:
        return {
            "nodes": {node: self._of_node(node) for node in nodes},
            "generation": self._cache.generation,
            "dirty": sorted(self._cache.dirty),
            "configChanged": sorted(self._cache.config_changed),
        }

    def _of_node(self, node: str) -> Json:
        known = self._cache.known(node)
        return {"fresh": known.fresh} | ({"available": known.zones()} if known.topology is not None else {})


def _exact(step: Json) -> Json:
    """A recorded step with quantities by value."""
    return {
        "nodes": {node: _exact_node(of_node) for node, of_node in step["nodes"].items()},
        "generation": step["generation"],
        "dirty": sorted(step["dirty"] or ()),
        "configChanged": sorted(step["configChanged"] or ()),
    }


def _exact_node(of_node: Json) -> Json:
    zones = of_node.get("available")
    found = {"fresh": of_node["fresh"]}
    if zones is not None:
        amounts = {zone: {name: parse_quantity(one) for name, one in of.items()} for zone, of in zones.items()}
        found["available"] = amounts
    return found
