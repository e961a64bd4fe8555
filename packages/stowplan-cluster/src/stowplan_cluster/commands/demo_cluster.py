"""The demo's cluster and workload: small, with one pending pod per common reason.

Three zones with two ordinary nodes each, two tainted GPU nodes, and one cordoned node. A shop and its batch jobs fill
them; two more pods find no room: one preempts others, one lacks a toleration.
"""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"

#: The pod that stays pending.
WAITING = "ml/notebook"
#: Apps whose pods may end up pending: the latecomer, and the victims of the preemptor.
MAY_WAIT = ("notebook", "crunch")


def cluster() -> list[Obj]:
    """Nodes and the objects that pods refer to."""
    nodes = [_node(f"node-{zone}{i}", zone, cpu="4", memory="16Gi") for zone in "abc" for i in (1, 2)]
    nodes += [_gpu_node("gpu-a1", "a"), _gpu_node("gpu-b1", "b")]
    broken = _node("node-c3", "c", cpu="4", memory="16Gi")
    broken["spec"] = {"unschedulable": True}
    classes = [_priority_class("critical", 1000), _priority_class("batch", -10)]
    return [*(_namespace(name) for name in ("shop", "ml", "batch")), *nodes, broken, *classes]


def workload() -> list[Obj]:
    """Workloads whose pods all fit."""
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _app("web")}
    return [
        _stateful_set(
            _template(
                "shop",
                "db",
                cpu="1",
                memory="4Gi",
                affinity=_with_anti_affinity("db", ZONE),
                priorityClassName="critical",
            ),
            replicas=3,
        ),
        _budget("shop", "web", available=4),
        _deployment(
            _template("shop", "web", cpu="500m", memory="512Mi", topologySpreadConstraints=[spread]), replicas=6
        ),
        _stateful_set(
            _template("shop", "cache", cpu="500m", memory="2Gi", affinity=_with_anti_affinity("cache", HOSTNAME)),
            replicas=3,
        ),
        _deployment(_template("shop", "api", cpu="750m", memory="1Gi", affinity=_near("cache", HOSTNAME)), replicas=4),
        _stateful_set(
            _template("ml", "train", cpu="4", memory="16Gi", gpus=1, tolerations=[_toleration()]), replicas=2
        ),
        _deployment(_template("batch", "crunch", cpu="1", memory="1Gi", priorityClassName="batch"), replicas=10),
    ]


def late_workloads() -> list[Obj]:
    """Workloads for which no room is left; one of them may preempt others."""
    notebook = _template("ml", "notebook", cpu="2", memory="8Gi", gpus=1)
    notebook["metadata"]["name"] = "notebook"
    checkout = _template("shop", "checkout", cpu="2", memory="2Gi", priorityClassName="critical")
    return [{"apiVersion": "v1", "kind": "Pod", **notebook}, _deployment(checkout, replicas=1)]


def pod_count(objects: list[Obj]) -> int:
    """The number of pods that these objects create."""
    return sum(1 if obj["kind"] == "Pod" else obj.get("spec", {}).get("replicas", 0) for obj in objects)


# -- nodes ------------------------------------------------------------------------------------------------------------


def _node(name: str, zone: str, *, cpu: str, memory: str, **extended: str) -> Obj:
    labels = {HOSTNAME: name, ZONE: zone, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": {"cpu": cpu, "memory": memory, "pods": "110", **extended}},
    }


def _gpu_node(name: str, zone: str) -> Obj:
    node = _node(name, zone, cpu="8", memory="32Gi", **{GPU: "2"})
    return {**node, "spec": {"taints": [{"key": GPU, "effect": "NoSchedule"}]}}


# -- objects that pods refer to ---------------------------------------------------------------------------------------


def _namespace(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _priority_class(name: str, value: int) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def _budget(namespace: str, app: str, *, available: int) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace, "name": app},
        "spec": {"selector": _app(app), "minAvailable": available},
    }


# -- pods and workloads -----------------------------------------------------------------------------------------------


def _app(name: str) -> Obj:
    return {"matchLabels": {"app": name}}


def _toleration() -> Obj:
    return {"key": GPU, "operator": "Exists"}


def _with_anti_affinity(app: str, topology_key: str) -> Obj:
    term = {"labelSelector": _app(app), "topologyKey": topology_key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _near(app: str, topology_key: str) -> Obj:
    term = {"weight": 50, "podAffinityTerm": {"labelSelector": _app(app), "topologyKey": topology_key}}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def _template(namespace: str, app: str, *, cpu: str, memory: str, gpus: int = 0, **spec: Any) -> Obj:
    # Extended resources cannot be overcommitted: requests equal limits.
    devices = {GPU: str(gpus)} if gpus else {}
    resources = {"requests": {"cpu": cpu, "memory": memory, **devices}, "limits": devices}
    container = {"name": app, "image": f"registry.example/{app}:1.0", "resources": resources}
    return {"metadata": {"namespace": namespace, "labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def _deployment(template: Obj, *, replicas: int) -> Obj:
    return _workload("Deployment", template, replicas=replicas)


def _stateful_set(template: Obj, *, replicas: int) -> Obj:
    return _workload("StatefulSet", template, replicas=replicas, serviceName=template["metadata"]["labels"]["app"])


def _workload(kind: str, template: Obj, **spec: Any) -> Obj:
    app, namespace = template["metadata"]["labels"]["app"], template["metadata"]["namespace"]
    pods = {**template, "metadata": {"labels": {"app": app}}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"namespace": namespace, "name": app},
        "spec": {"selector": _app(app), "template": pods, **spec},
    }
