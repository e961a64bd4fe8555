"""Gangs and quotas under the plugins of stowplan-scheduler-plugins, as their Helm chart enables them.

    python benchmarks/scheduler_plugins.py [--nodes 1000] [--groups 20] [--size 15] [--gang 500] [--rounds 3]
                                           [--against FOLDER] [--profile]

The live scheduler in virtual time, with Coscheduling, CapacityScheduling, NodeResourceTopologyMatch and
NodeResourcesAllocatable beside the in-tree defaults. Each node has a NodeResourceTopology with two cells and policy
single-numa-node; six namespaces have an ElasticQuota. First the pods of `--groups` groups of `--size`, spread over the
namespaces, then one gang of `--gang`: pods per second of CPU, from their creation until all are bound. `--guaranteed`
gives pods the class Guaranteed, whose CPUs have to come from one cell.

`--against` is another checkout, which is measured by turns with this one.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import logging
import os
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shapes

from stowplan.scheduler.framework.runtime.registry import load_plugin
from stowplan.testing.live import live_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "scheduling.x-k8s.io"
LABEL = f"{GROUP}/pod-group"
MODULES = {
    "Coscheduling": "coscheduling",
    "CapacityScheduling": "capacity_scheduling",
    "NodeResourceTopologyMatch": "node_resource_topology_match",
    "NodeResourcesAllocatable": "node_resources_allocatable",
}
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": name} for name in MODULES],
                    "disabled": [{"name": "PrioritySort"}],
                }
            },
            "pluginConfig": [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 10}}],
        }
    ],
}
TEAMS = [f"team-{i}" for i in range(6)]


def definition(kind: str, group: str, version: str, *, scope: str = "Namespaced") -> dict[str, Any]:
    plural = {"PodGroup": "podgroups", "ElasticQuota": "elasticquotas"}.get(kind, "noderesourcetopologies")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": scope,
            "versions": [{"name": version, "served": True, "storage": True}],
        },
    }


def topology(node: str) -> dict[str, Any]:
    cells = [("cpu", "8"), ("memory", "64Gi")]
    resources = [{"name": name, "capacity": size, "allocatable": size, "available": size} for name, size in cells]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "topologyPolicies": ["SingleNUMANodeContainerLevel"],
        "zones": [{"name": f"node-{i}", "type": "Node", "resources": resources} for i in range(2)],
    }


def pod_group(namespace: str, name: str, size: int) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"minMember": size, "minResources": {"cpu": f"{100 * size}m"}},
    }


def quota(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": "1000", "memory": "10Ti"}},
    }


def members(namespace: str, group: str, size: int, *, guaranteed: bool) -> Iterator[dict[str, Any]]:
    for i in range(size):
        made = shapes.pod(i, prefix=group)
        made["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{group}-{i}"}
        made["metadata"]["labels"][LABEL] = group
        if not guaranteed:
            del made["spec"]["containers"][0]["resources"]["limits"]
        yield made


def setting(options: argparse.Namespace) -> list[dict[str, Any]]:
    nodes = [shapes.node(i, cpu="16") for i in range(options.nodes)]
    return [
        definition("PodGroup", GROUP, "v1alpha1"),
        definition("ElasticQuota", GROUP, "v1alpha1"),
        definition("NodeResourceTopology", "topology.node.k8s.io", "v1alpha2", scope="Cluster"),
        *nodes,
        *(topology(node["metadata"]["name"]) for node in nodes),
        *map(quota, TEAMS),
    ]


def rates(options: argparse.Namespace, profile: cProfile.Profile | None = None) -> dict[str, float]:
    """Pods per second of CPU, of the groups and of the gang."""
    groups = [(TEAMS[i % len(TEAMS)], f"group-{i}", options.size) for i in range(options.groups)]
    plugins = [load_plugin(f"stowplan_scheduler_plugins.{module}:{name}") for name, module in MODULES.items()]
    found = {}
    with live_cluster(*setting(options), config=CONFIG, plugins=plugins, plugin_timeout=0) as cluster:
        for name, parts in (("groups", groups), ("gang", [(TEAMS[0], "gang", options.gang)])):
            objects = [pod_group(*part) for part in parts]
            objects += [pod for part in parts for pod in members(*part, guaranteed=options.guaranteed)]
            gc.collect()
            began = time.process_time()
            with profile or nullcontext():
                # As if they were created together: a pod is scheduled when all are there.
                for obj in objects:
                    cluster._put(obj)
                cluster.settle()
            took = time.process_time() - began
            pods = [obj["metadata"] for obj in objects if obj["kind"] == "Pod"]
            assert all(cluster.node_of(pod["name"], namespace=pod["namespace"]) for pod in pods), name
            found[name] = len(pods) / took
    return found


def by_turns(options: argparse.Namespace) -> None:
    """Processes of both checkouts, one after the other."""
    here = Path(__file__).parents[1]
    checkouts = [("here", here), ("against", Path(options.against).resolve())]
    arguments = [f"--{name}={getattr(options, name)}" for name in ("nodes", "groups", "size", "gang")]
    arguments += ["--guaranteed"] * options.guaranteed
    found: dict[str, list[dict[str, float]]] = {name: [] for name, _ in checkouts}
    for _ in range(options.rounds):
        for name, folder in checkouts:
            path = os.pathsep.join(str(one) for one in folder.glob("packages/*/src"))
            command = [sys.executable, __file__, "--once", *arguments]
            done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, check=True)
            found[name].append(json.loads(done.stdout))
    for name, rounds in found.items():
        shown(name, rounds)


def shown(name: str, rounds: list[dict[str, float]]) -> None:
    for what in ("groups", "gang"):
        each = [one[what] for one in rounds]
        of = ", ".join(f"{rate:,.0f}" for rate in each)
        print(f"{name:>8} {what:>7} {statistics.median(each):10,.0f} pods per CPU second   of {of}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--size", type=int, default=15, help="pods of each group")
    parser.add_argument("--gang", type=int, default=500, help="pods of the last group")
    parser.add_argument("--guaranteed", action="store_true", help="pods of class Guaranteed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", help="another checkout, measured by turns")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    if options.profile:
        profile = cProfile.Profile()
        rates(options, profile)
        profile.print_stats("cumulative")
    elif options.once:
        print(json.dumps(rates(options)))
    elif options.against:
        by_turns(options)
    else:
        shown("here", [rates(options) for _ in range(options.rounds)])


if __name__ == "__main__":
    main()
