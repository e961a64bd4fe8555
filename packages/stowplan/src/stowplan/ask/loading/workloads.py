"""Workloads: pod templates and ownership; which nodes get a pod of a DaemonSet, and how it is restricted to its node.

Upstream: pkg/controller/daemon (NodeShouldRunDaemonPod), pkg/controller/daemon/util.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from stowplan.kube.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Toleration,
)
from stowplan.kube.api.decode import DecodeError, convert, validation_errors
from stowplan.kube.api.manifest_files import LoadError
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.node_selectors import RequiredNodeAffinity
from stowplan.kube.api.taints import untolerated
from stowplan.kube.api.types import Node, Pod

#: Kind, namespace, name.
WorkloadName = tuple[str, str, str]
#: Kind -> its resource, as `custom_resource` takes it.
WORKLOAD_RESOURCES = {
    "Deployment": "deployments.v1.apps",
    "StatefulSet": "statefulsets.v1.apps",
    "DaemonSet": "daemonsets.v1.apps",
    "ReplicaSet": "replicasets.v1.apps",
    "ReplicationController": "replicationcontrollers.v1.",
    "Job": "jobs.v1.batch",
    "CronJob": "cronjobs.v1.batch",
}
QUOTA_RESOURCE = "resourcequotas.v1."
#: Kind -> the kind through which it manages pods.
_THROUGH = {"Deployment": "ReplicaSet", "CronJob": "Job"}


def pod_of(manifest: Mapping[str, Any]) -> Pod:
    """The pod template of an object, or the pod itself; raises LoadError."""
    kind, metadata = manifest.get("kind"), manifest.get("metadata") or {}
    name = f"{kind} {metadata.get('namespace') or 'default'}/{metadata.get('name')}"
    if kind == "Pod":
        obj: Any = manifest
    else:
        spec = manifest.get("spec") or {}
        holder = (spec.get("jobTemplate") or {}).get("spec") or {} if kind == "CronJob" else spec
        template = manifest.get("template") if kind == "PodTemplate" else holder.get("template")
        if not isinstance(template, dict):
            raise LoadError([f"{name}: has no pod template"])
        labels = (template.get("metadata") or {}).get("labels") or {}
        about = {"name": metadata.get("name"), "namespace": metadata.get("namespace") or "default", "labels": labels}
        obj = {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": template.get("spec") or {}}
    try:
        pod = convert(obj, Pod)
    except DecodeError as error:
        raise LoadError([f"{name}: {error}"]) from error
    problems = validation_errors(pod)
    if problems:
        raise LoadError([f"{name}: {problem}" for problem in problems])
    return pod


def workload_of(pod: Pod) -> tuple[str, str] | None:
    """Kind and name of the workload as in `belongs_to`: a Deployment rather than its ReplicaSet."""
    owner = controller_of(pod.metadata)
    if owner is None:
        return None
    name, hyphen, _ = owner.name.rpartition("-")
    return ("Deployment", name) if owner.kind == "ReplicaSet" and hyphen else (owner.kind, owner.name)


def belongs_to(pod: Pod, kind: str, name: str) -> bool:
    """Whether a controller manages the pod; a Deployment and a CronJob do so through others, named after them."""
    owner = controller_of(pod.metadata)
    if owner is None:
        return False
    if kind in _THROUGH:
        return owner.kind == _THROUGH[kind] and owner.name.rpartition("-")[0] == name
    return (owner.kind, owner.name) == (kind, name)


def tolerating(template: Pod) -> Pod:
    """The template with the controller's tolerations."""
    spec = template.spec
    added = _TOLERATIONS if spec.host_network else _TOLERATIONS[:-1]
    return replace(template, spec=replace(spec, tolerations=(*spec.tolerations, *added)))


def wanted_on(template: Pod, node: Node) -> bool:
    """Whether the node gets a pod of this template, which must have the controller's tolerations."""
    if template.spec.node_name not in ("", node.metadata.name):
        return False
    if untolerated(node.spec.taints, template.spec.tolerations) is not None:
        return False
    return RequiredNodeAffinity.from_pod(template).matches(node.metadata.labels, node.metadata.name)


def tied_to(pod: Pod, node: str) -> Pod:
    """The pod, restricted to this node."""
    requirement = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    # Parity: the template's own terms are replaced by the node name.
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(requirement,)),))
    affinity = pod.spec.affinity or Affinity()
    node_affinity = replace(
        affinity.node_affinity or NodeAffinity(), required_during_scheduling_ignored_during_execution=required
    )
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, node_affinity=node_affinity)))


def untied(pod: Pod) -> Pod:
    """The template of a DaemonSet's pod, as far as the pod tells: its required node affinity was replaced."""
    spec, affinity = pod.spec, pod.spec.affinity
    if affinity is not None and affinity.node_affinity is not None:
        node_affinity = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=None)
        affinity = replace(affinity, node_affinity=node_affinity)
    return replace(pod, spec=replace(spec, node_name="", affinity=affinity))


def node_of(pod: Pod) -> str:
    """The node that a pod is restricted to; "" if it is not restricted to one."""
    affinity = pod.spec.affinity
    node_affinity = None if affinity is None else affinity.node_affinity
    required = None if node_affinity is None else node_affinity.required_during_scheduling_ignored_during_execution
    match required and required.node_selector_terms:
        case (NodeSelectorTerm(match_expressions=(), match_fields=(field,)),) if (
            field.key == "metadata.name" and field.operator == "In" and len(field.values) == 1
        ):
            return field.values[0]
    return ""


def _tolerated(key: str, effect: str) -> Toleration:
    return Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect=effect)


#: The last one is for pods with host networking only.
_TOLERATIONS = (
    _tolerated("not-ready", "NoExecute"),
    _tolerated("unreachable", "NoExecute"),
    _tolerated("disk-pressure", "NoSchedule"),
    _tolerated("memory-pressure", "NoSchedule"),
    _tolerated("pid-pressure", "NoSchedule"),
    _tolerated("unschedulable", "NoSchedule"),
    _tolerated("network-unavailable", "NoSchedule"),
)
