"""Counterfactuals at scale: seconds of an answer on a cluster that is loaded already.

    python benchmarks/what_if.py [--nodes 5000] [--pods 50000]

Nodes are in three zones, and pods are those of fifty controllers. Each question is asked once more than it is timed.
"""

from __future__ import annotations

import argparse
import logging
import time
from typing import TYPE_CHECKING

import shapes

from stowplan import Cluster
from stowplan.what_if import AddNodes, NodeKind, Remove, drain, fit, survive, what_if
from stowplan.what_if.survive import ZONE

if TYPE_CHECKING:
    from collections.abc import Callable

CONTROLLERS = 50


def cluster_of(nodes: int, pods: int) -> Cluster:
    objects = [shapes.node(i) for i in range(nodes)]
    for i, node in enumerate(objects):
        node["metadata"].setdefault("labels", {})[ZONE] = f"zone-{i % 3}"
    for i in range(pods):
        pod = shapes.pod(i)
        name = f"web-{i % CONTROLLERS}"
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-abc", "uid": name, "controller": True}
        pod["metadata"]["ownerReferences"] = [owner]
        pod["spec"]["nodeName"] = objects[i % nodes]["metadata"]["name"]
        objects.append(pod)
    return Cluster(objects)


def timed(what: str, ask: Callable[[], object], times: int = 3) -> None:
    took = []
    for _ in range(times):
        began, busy = time.perf_counter(), time.process_time()
        ask()
        took.append((time.perf_counter() - began, time.process_time() - busy))
    seconds, cpu = map(min, zip(*took, strict=True))
    print(f"{what:58} {seconds:8.3f} s {cpu:8.3f} s of CPU", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began = time.perf_counter()
    cluster = cluster_of(options.nodes, options.pods)
    print(f"{options.nodes:,} nodes and {options.pods:,} pods, loaded in {time.perf_counter() - began:.1f} s")
    plain = shapes.pod(10**6)
    names = list(cluster.state.table.row_of)
    timed("fit: how many more", lambda: fit(cluster, plain))
    many = fit(cluster, plain).fits + 10_000
    timed(
        "fit: 10,000 too many, nodes of one kind",
        lambda: fit(cluster, plain, replicas=many, kinds=[NodeKind(names[0])]),
    )
    timed("fit: 100 replicas, placed by the scheduler", lambda: fit(cluster, plain, replicas=100))
    timed("drain: one node", lambda: drain(cluster, names[:1]))
    timed("drain: ten nodes", lambda: drain(cluster, names[:10]))
    timed("survive: one node", lambda: survive(cluster, "node", only=names[0]))
    timed("what-if: three nodes more, one less", lambda: what_if(cluster, AddNodes(3, names[0]), Remove(names[1])))
    timed("survive: one zone", lambda: survive(cluster, ZONE, only="zone-0"), times=1)


if __name__ == "__main__":
    main()
