"""µs a pod of the scheduling cycle: decode, compile, filter all nodes, score, choose, assume.

    python benchmarks/cycle.py [--nodes 100 1000 5000 15000] [--pods 300] [--scenario basic …] [--only WHAT]

Existing pods, two a node, have the shape of the incoming ones. "full" works everything out for every pod, "reuse"
shares what equal pods share. Times are medians over the pods, so that one pause of the machine does not count.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import time
from typing import Any

import msgspec
import shapes

import stowplan
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.types import Pod


def loaded(nodes: int, scenario: str, existing: int, *, reuse: bool) -> stowplan.Cluster:
    cluster = stowplan.Cluster([shapes.node(i) for i in range(nodes)], reuse=reuse)
    for i in range(existing):
        # Anti-affinity to its own kind would be broken by two pods a node: these are of another colour's kind.
        kind = "basic" if scenario in ("antiaffinity",) else scenario
        cluster.add(shapes.pod(i, kind, "e", nodeName=f"node-{i % nodes:05d}"))
    return cluster


def cycle(nodes: int, scenario: str, pods: int, *, reuse: bool, existing: int | None = None) -> float:
    """Median µs from the pod's JSON to its place in the cluster."""
    cluster = loaded(nodes, scenario, 2 * nodes if existing is None else existing, reuse=reuse)
    if scenario == "antiaffinity":
        # One of them a node.
        pods = min(pods, nodes)
    incoming = [encode_json_of(shapes.pod(i, scenario)) for i in range(pods)]
    for raw in incoming[: pods // 10]:
        cluster.schedule([decode_json(raw, Pod)])
    gc.collect()
    gc.freeze()
    gc.disable()
    times = []
    for raw in incoming[pods // 10 :]:
        start = time.perf_counter()
        (decision,) = cluster.schedule([decode_json(raw, Pod)])
        times.append(time.perf_counter() - start)
        assert decision.node_name, decision.message
    gc.enable()
    gc.unfreeze()
    return 1e6 * statistics.median(times)


def encode_json_of(obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode(obj)


def preemption(nodes: int, per_node: int = 8) -> float:
    """Median ms of a preemptor on full nodes with lower-priority pods."""
    cluster = stowplan.Cluster([shapes.node(i, cpu="1") for i in range(nodes)])
    request = {"requests": {"cpu": "120m", "memory": "500Mi"}}
    for i in range(nodes * per_node):
        victim = shapes.pod(i, "basic", "v", nodeName=f"node-{i // per_node:05d}", priority=i % 3)
        victim["spec"]["containers"][0]["resources"] = request
        victim["status"] = {"startTime": f"2026-01-01T{i % 24:02d}:{i % 60:02d}:00Z"}
        cluster.add(victim)
    times = []
    for i in range(7):
        preemptor = shapes.pod(i, "basic", "high", priority=100)
        preemptor["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "300m"}}
        start = time.perf_counter()
        (decision,) = cluster.schedule([preemptor])
        times.append(time.perf_counter() - start)
        assert decision.node_name, decision.message
    return 1e3 * statistics.median(times)


def memory(nodes: int, pods_per_node: int) -> tuple[float, float]:
    """KiB a node and KiB a pod beyond what the interpreter takes."""
    before = _resident()
    cluster = stowplan.Cluster([shapes.node(i) for i in range(nodes)])
    cluster.schedule([shapes.pod(0, "spread", "first")])
    gc.collect()
    with_nodes = _resident()
    for i in range(nodes * pods_per_node):
        raw = encode_json_of(shapes.pod(i, "mixed", "e", nodeName=f"node-{i % nodes:05d}"))
        cluster.add(decode_json(raw, Pod))
    gc.collect()
    with_pods = _resident()
    assert cluster.state.table.count == nodes
    return (with_nodes - before) / nodes, (with_pods - with_nodes) / (nodes * pods_per_node)


def _resident() -> float:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize() / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 5000, 15000])
    parser.add_argument("--pods", type=int, default=300)
    parser.add_argument("--scenario", nargs="+", default=list(shapes.SCENARIOS))
    parser.add_argument("--only", choices=["memory", "cycle", "scale", "preemption"])
    args = parser.parse_args()
    if args.only in (None, "memory"):
        a_node, a_pod = memory(5000, 10)
        print(f"memory at 5,000 nodes and 50,000 pods: {a_node:.1f} KiB a node, {a_pod:.1f} KiB a pod\n")
    if args.only in (None, "cycle"):
        print(f"{'µs a pod':14}" + "".join(f"{n:>9,} full {'reuse':>7}" for n in args.nodes))
        for scenario in args.scenario:
            cells = [cycle(n, scenario, args.pods, reuse=r) for n in args.nodes for r in (False, True)]
            pairs = zip(cells[::2], cells[1::2], strict=True)
            print(f"{scenario:14}" + "".join(f"{full:>14.0f} {again:>7.0f}" for full, again in pairs), flush=True)
    if args.only in (None, "scale"):
        print("\nµs a pod at 5,000 nodes by existing pods (full)")
        for scenario in args.scenario:
            few, many = (cycle(5000, scenario, args.pods, reuse=False, existing=e) for e in (10_000, 100_000))
            print(f"{scenario:14} 10,000: {few:.0f}   100,000: {many:.0f}   ratio {many / few:.2f}", flush=True)
    if args.only in (None, "preemption"):
        print(f"\npreemptor at 5,000 nodes with 8 lower-priority pods each: {preemption(5000):.1f} ms")


if __name__ == "__main__":
    main()
