"""µs a pod when unrelated lookup objects change between equal pods, beside what reuse costs when nothing does.

    python benchmarks/lookups.py [--nodes 1000 5000] [--pods 60] [--changes 50] [--quantile 0.5]

First nothing changes. Then, before each pod, some objects that no plugin looks up for it are changed, of one kind at a
time in turn; taking them in is not part of the time, and shown for itself. The profile is the default one, with
VolumeBinding. Medians over the pods, or, on a machine that does other things as well, a lower share of them
(`--quantile`).
"""

from __future__ import annotations

import argparse
import gc
import time
from typing import Any

import msgspec
import shapes

import stowplan
from stowplan.kube.api.decode import decode_json, decode_object
from stowplan.kube.api.types import Pod

#: Pods of each turn that do not count.
_WARM_UP = 20

#: Kind -> how an object of it looks that has nothing to do with the pods.
UNRELATED: dict[str, dict[str, Any]] = {
    "claims": {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": shapes.NAMESPACE},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    },
    "storage classes": {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x"},
    "device classes": {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": {}},
    "CSI nodes": {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "spec": {"drivers": []}},
    "namespaces": {"apiVersion": "v1", "kind": "Namespace"},
    "services elsewhere": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "elsewhere"},
        "spec": {"selector": {"app": "race"}},
    },
    "services beside": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": shapes.NAMESPACE},
        "spec": {"selector": {"app": "other"}},
    },
}


def objects_of(kind: str, count: int, turn: int) -> list[Any]:
    obj = UNRELATED[kind]
    labels = {"turn": str(turn)}
    names = (f"{obj['kind'].lower()}-{i}" for i in range(count))
    metadata = obj.get("metadata", {})
    return [decode_object({**obj, "metadata": {**metadata, "name": name, "labels": labels}}) for name in names]


def measured(nodes: int, scenario: str, pods: int, changes: int, quantile: float) -> dict[str, tuple[float, float]]:
    """What changes -> µs of the next pod, and of taking one change in."""
    cluster = stowplan.Cluster([shapes.node(i) for i in range(nodes)])
    for i in range(2 * nodes):
        cluster.add(shapes.pod(i, scenario, "e", nodeName=f"node-{i % nodes:05d}"))
    turns = [*["nothing"] * (pods + _WARM_UP), *(list(UNRELATED) * (pods + _WARM_UP))]
    incoming = [msgspec.json.encode(shapes.pod(i, scenario)) for i in range(len(turns))]
    times: dict[str, list[float]] = {kind: [] for kind in turns}
    taken_in: dict[str, list[float]] = {kind: [] for kind in turns}
    gc.collect()
    gc.disable()
    for i, (kind, raw) in enumerate(zip(turns, incoming, strict=True)):
        # Made in any case: that cools the caches.
        made = objects_of("claims" if kind == "nothing" else kind, changes, i)
        objects = [] if kind == "nothing" else made
        start = time.perf_counter()
        for obj in objects:
            cluster.state.put_object(obj)
        between = time.perf_counter()
        (decision,) = cluster.schedule([decode_json(raw, Pod)])
        end = time.perf_counter()
        assert decision.node_name, decision.message
        times[kind].append(end - between)
        taken_in[kind].append((between - start) / max(1, len(objects)))
    gc.enable()
    return {kind: (_quantile(times[kind], quantile), _quantile(taken_in[kind], quantile)) for kind in times}


def _quantile(seconds: list[float], quantile: float) -> float:
    steady = sorted(seconds[_WARM_UP:])
    return 1e6 * steady[int(quantile * len(steady))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--pods", type=int, default=60)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--quantile", type=float, default=0.5)
    parser.add_argument("--scenario", nargs="+", default=["basic", "mixed"], choices=shapes.SCENARIOS)
    args = parser.parse_args()
    for nodes in args.nodes:
        for scenario in args.scenario:
            found = measured(nodes, scenario, args.pods, args.changes, args.quantile)
            nothing = found["nothing"][0]
            print(f"{nodes:,} nodes, {scenario}: µs a pod after {args.changes} changes (of nothing; µs a change)")
            for kind, (a_pod, a_change) in found.items():
                print(f"  {kind:20} {a_pod:7.0f} {a_pod / nothing:6.2f} {a_change:7.2f}", flush=True)


if __name__ == "__main__":
    main()
