"""The clusters and pods that the benchmarks use: the shapes of a scheduler race.

Nodes have 4 CPUs and 32 GiB in three zones. Pods ask for 100m and 500Mi; a scenario adds one kind of constraint.
"""

from __future__ import annotations

from typing import Any

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NAMESPACE = "race"
SCENARIOS = ("basic", "spread", "prefspread", "affinity", "antiaffinity", "prefaffinity", "nodeaffinity", "mixed")


def node(i: int, cpu: str = "4") -> dict[str, Any]:
    labels = {HOST: f"node-{i:05d}", ZONE: f"zone{i % 3}", "topology.kubernetes.io/region": "r1"}
    size = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{i:05d}", "labels": labels},
        "status": {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(i: int, scenario: str = "basic", prefix: str = "p", **spec: Any) -> dict[str, Any]:
    if scenario == "mixed":
        scenario = ("basic", "prefspread", "prefaffinity", "nodeaffinity", "spread")[i % 5]
    labels = {"app": "race", "color": "green" if scenario == "antiaffinity" else "blue", "group": f"g{i % 50}"}
    size = {"cpu": "100m", "memory": "500Mi"}
    container = {
        "name": "pause",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": size, "limits": size},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{prefix}-{i:06d}", "namespace": NAMESPACE, "uid": f"{prefix}-{i}", "labels": labels},
        "spec": {"containers": [container], **constraint(scenario, labels), **spec},
    }


def constraint(scenario: str, labels: dict[str, str]) -> dict[str, Any]:
    color = {"matchLabels": {"color": labels["color"]}}
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    if scenario in ("spread", "prefspread"):
        unsatisfiable = "DoNotSchedule" if scenario == "spread" else "ScheduleAnyway"
        constraint = {"maxSkew": 5, "topologyKey": ZONE, "labelSelector": color, "whenUnsatisfiable": unsatisfiable}
        return {"topologySpreadConstraints": [constraint]}
    if scenario == "affinity":
        return {"affinity": {"podAffinity": {required: [{"labelSelector": color, "topologyKey": ZONE}]}}}
    if scenario == "antiaffinity":
        return {"affinity": {"podAntiAffinity": {required: [{"labelSelector": color, "topologyKey": HOST}]}}}
    if scenario == "prefaffinity":
        group = {"labelSelector": {"matchLabels": {"group": labels["group"]}}, "topologyKey": HOST}
        return {"affinity": {"podAffinity": {preferred: [{"weight": 1, "podAffinityTerm": group}]}}}
    if scenario == "nodeaffinity":
        zones = {"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}
        return {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}}}}
    return {}
