"""The demo's cluster and workload: small enough to see at a glance, with something of every reason that pods wait for.

Three zones with two ordinary nodes each, two nodes with GPUs that only those may use who tolerate their taint, and
one that is being repaired. A shop and its batch jobs fill them; then come two pods that find no room.
"""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"


def cluster() -> list[Obj]:
    """Nodes and what else pods refer to."""
    nodes = [_node(f"node-{zone}{i}", zone, cpu="4", memory="16Gi") for zone in "abc" for i in (1, 2)]
    nodes += [_gpu_node("gpu-a1", "a"), _gpu_node("gpu-b1", "b")]
    broken = _node("node-c3", "c", cpu="4", memory="16Gi")
    broken["spec"] = {"unschedulable": True, "taints": [_taint("node.kubernetes.io/unschedulable")]}
    classes = [_priority_class("critical", 1000), _priority_class("batch", -10)]
    return [*nodes, broken, *classes, _budget("shop", "web", 4)]


def workload() -> list[Obj]:
    """Pods that all find a node."""
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _app("web")}
    apart = _anti_affinity("db", ZONE)
    pods = [
        _pod("shop", "db", i, cpu="1", memory="4Gi", affinity=apart, priorityClassName="critical") for i in range(3)
    ]
    pods += [_pod("shop", "web", i, cpu="500m", memory="512Mi", topologySpreadConstraints=[spread]) for i in range(6)]
    pods += [
        _pod("shop", "cache", i, cpu="500m", memory="2Gi", affinity=_anti_affinity("cache", HOSTNAME)) for i in range(3)
    ]
    pods += [_pod("shop", "api", i, cpu="750m", memory="1Gi", affinity=_near("cache", HOSTNAME)) for i in range(4)]
    pods += [_pod("ml", "train", i, cpu="4", memory="16Gi", gpus=1, tolerations=[_toleration()]) for i in range(2)]
    pods += [_pod("batch", "crunch", i, cpu="1", memory="1Gi", priorityClassName="batch") for i in range(10)]
    return pods


def latecomers() -> list[Obj]:
    """Pods for which there is no room: one forgot a toleration, one may push others aside."""
    return [
        _pod("ml", "notebook", 0, cpu="2", memory="8Gi", gpus=1),
        _pod("shop", "checkout", 0, cpu="2", memory="2Gi", priorityClassName="critical"),
    ]


def _node(name: str, zone: str, *, cpu: str, memory: str, **extended: str) -> Obj:
    amounts = {"cpu": cpu, "memory": memory, "pods": "110", **extended}
    labels = {HOSTNAME: name, ZONE: zone, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _gpu_node(name: str, zone: str) -> Obj:
    node = _node(name, zone, cpu="8", memory="32Gi", **{GPU: "2"})
    return {**node, "spec": {"taints": [_taint(GPU)]}}


def _taint(key: str) -> Obj:
    return {"key": key, "effect": "NoSchedule"}


def _toleration() -> Obj:
    return {"key": GPU, "operator": "Exists"}


def _priority_class(name: str, value: int) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def _budget(namespace: str, app: str, available: int) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace, "name": app},
        "spec": {"selector": _app(app), "minAvailable": available},
        "status": {"disruptionsAllowed": 2},
    }


def _app(name: str) -> Obj:
    return {"matchLabels": {"app": name}}


def _anti_affinity(app: str, topology_key: str) -> Obj:
    term = {"labelSelector": _app(app), "topologyKey": topology_key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _near(app: str, topology_key: str) -> Obj:
    term = {"weight": 50, "podAffinityTerm": {"labelSelector": _app(app), "topologyKey": topology_key}}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def _pod(namespace: str, app: str, number: int, *, cpu: str, memory: str, gpus: int = 0, **spec: Any) -> Obj:
    requests = {"cpu": cpu, "memory": memory} | ({GPU: str(gpus)} if gpus else {})
    container = {"name": app, "image": f"registry.example/{app}:1.0", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": f"{app}-{number}", "labels": {"app": app}},
        "spec": {"containers": [container], **spec},
    }
