"""Counterfactuals at scale: seconds of an answer on a cluster that is loaded already.

    python benchmarks/what_if.py [--nodes 5000] [--pods 50000] [--shape spread]

Nodes are in three zones, and pods are those of fifty controllers, or as their shape says. The best of three is printed;
of `--times 1`, the first, which also compiles pods.
"""

from __future__ import annotations

import argparse
import logging
import time
from typing import TYPE_CHECKING

import shapes

from stowplan import Cluster
from stowplan.ask.what_if import AddNodes, NodeKind, Remove, drain, fit, fit_group, survive, what_if
from stowplan.ask.what_if.survive import ZONE

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CONTROLLERS, TEMPLATES = 50, 500
PODS_OF_GROUP = 10
SHAPES = ("plain", "deployments", "templates", "spread", "affinity", "antiaffinity", "claims", "priorities", "groups")
#: Shapes of which each single loss takes too long.
DECIDED_ONE_BY_ONE = ("claims", "priorities", "groups")
_CLAIMS = "resource.k8s.io/v1"


def cluster_of(shape: str, nodes: int, pods: int) -> Cluster:
    gates = {"GenericWorkload": True, "GangScheduling": True} if shape == "groups" else None
    return Cluster(objects_of(shape, nodes, pods), feature_gates=gates, emulated_version="1.36")


def objects_of(shape: str, nodes: int, pods: int) -> list[dict[str, Any]]:
    # With priorities, nodes are full, so pods preempt.
    objects = [shapes.node(i, cpu="1" if shape == "priorities" else "4") for i in range(nodes)]
    names = [node["metadata"]["name"] for node in objects]
    for i in range(pods):
        pod = pod_of(shape, i)
        pod["spec"]["nodeName"] = names[i % nodes]
        objects.append(pod)
    return objects + beside(shape, names, pods)


def pod_of(shape: str, i: int) -> dict[str, Any]:
    """A pod of a controller."""
    scenario = shape if shape in shapes.SCENARIOS else "basic"
    name = f"web-{i % (TEMPLATES if shape == 'templates' else CONTROLLERS)}"
    pod = shapes.pod(i, scenario)
    labels, spec = pod["metadata"]["labels"], pod["spec"]
    labels["color"] = name
    match shape:
        case "templates":
            # Each of them asks for something else, and half of them spread.
            number = i % TEMPLATES
            size = {"cpu": f"{100 + number}m", "memory": f"{500 + number}Mi"}
            spec["containers"][0]["resources"] = {"requests": size}
            if number % 2:
                spec |= shapes.constraint("spread", labels)
        case "spread" | "affinity" | "antiaffinity":
            spec |= shapes.constraint(shape, labels)
        case "priorities":
            spec["priority"] = i % 10
        case "claims":
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"claim-{i}"}]
        case "groups":
            spec["schedulingGroup"] = {"podGroupName": f"train-{i // PODS_OF_GROUP}"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-abc", "uid": name, "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


def beside(shape: str, nodes: list[str], pods: int) -> list[dict[str, Any]]:
    """What the pods of a shape refer to."""
    match shape:
        case "deployments":
            # Pods with a Service or an existing controller spread by default.
            controllers = [f"web-{i}" for i in range(CONTROLLERS)]
            return [part for name in controllers for part in (service(name), replica_set(name))]
        case "claims":
            devices = [f"gpu-{i}" for i in range(-(-pods // len(nodes)) + 2)]
            kind = {"apiVersion": _CLAIMS, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
            return [kind, *(slice_of(node, devices) for node in nodes), *(claim(i, nodes) for i in range(pods))]
        case "groups":
            groups = -(-pods // PODS_OF_GROUP)
            return [group(i) for i in range(groups)]
    return []


def service(name: str) -> dict[str, Any]:
    spec = {"selector": {"color": name}, "ports": [{"port": 80}]}
    metadata = {"name": name, "namespace": shapes.NAMESPACE}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def replica_set(name: str) -> dict[str, Any]:
    labels = {"color": name}
    template = {"metadata": {"labels": labels}, "spec": shapes.pod(0)["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": f"{name}-abc", "namespace": shapes.NAMESPACE, "uid": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def slice_of(node: str, devices: list[str]) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {
        "driver": "gpu.example.com",
        "nodeName": node,
        "pool": pool,
        "devices": [{"name": name} for name in devices],
    }
    return {"apiVersion": _CLAIMS, "kind": "ResourceSlice", "metadata": {"name": f"{node}-gpu"}, "spec": spec}


def claim(i: int, nodes: list[str]) -> dict[str, Any]:
    """It is allocated on the pod's node."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    node, pod = nodes[i % len(nodes)], shapes.pod(i)["metadata"]
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": f"gpu-{i // len(nodes)}"}
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [fields]}}
    user = {"resource": "pods", "name": pod["name"], "uid": pod["uid"]}
    return {
        "apiVersion": _CLAIMS,
        "kind": "ResourceClaim",
        "metadata": {"name": f"claim-{i}", "namespace": shapes.NAMESPACE, "uid": f"claim-{i}"},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": allocation, "reservedFor": [user]},
    }


def group(i: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": f"train-{i}", "namespace": shapes.NAMESPACE, "uid": f"train-{i}"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": PODS_OF_GROUP}}},
    }


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
    parser.add_argument("--shape", choices=SHAPES, default="plain")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began = time.perf_counter()
    cluster = cluster_of(options.shape, options.nodes, options.pods)
    told = f"{options.nodes:,} nodes and {options.pods:,} pods ({options.shape})"
    print(f"{told}, loaded in {time.perf_counter() - began:.1f} s", flush=True)
    questions(cluster, options.shape, options.times)


def questions(cluster: Cluster, shape: str, times: int) -> None:
    names = list(cluster.state.table.row_of)
    (first, second) = names[:2]
    if shape == "groups":
        timed("fit: ten more groups", lambda: fit_group(cluster, f"{shapes.NAMESPACE}/train-0", replicas=10), times)
    else:
        asked = cluster.pod(f"{shapes.NAMESPACE}/{shapes.pod(1)['metadata']['name']}").pod
        kinds = [NodeKind(name, 1.0) for name in names[:3]]
        timed("fit: how many more", lambda: fit(cluster, asked), times)
        timed("fit: 100 replicas", lambda: fit(cluster, asked, replicas=100), times)
        many = fit(cluster, asked, replicas=1_000).fits + 100
        timed("fit: 100 too many, nodes of three kinds", lambda: fit(cluster, asked, replicas=many, kinds=kinds), times)
    timed("drain: one node", lambda: drain(cluster, [first]), times)
    timed("drain: ten nodes", lambda: drain(cluster, names[:10]), times)
    timed("survive: one node", lambda: survive(cluster, "node", only=first), times)
    timed("what-if: three nodes more, one less", lambda: what_if(cluster, AddNodes(3, first), Remove(second)), times)
    timed("survive: one zone", lambda: survive(cluster, ZONE, only="zone0"), times)
    if shape not in DECIDED_ONE_BY_ONE:
        timed("survive: each node", lambda: survive(cluster, "node"), 1)


if __name__ == "__main__":
    main()
