"""Pods of a DaemonSet: which nodes get one, and how it is restricted to its node.

Upstream: pkg/controller/daemon (NodeShouldRunDaemonPod), pkg/controller/daemon/util.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.kube.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Toleration,
)
from stowplan.kube.api.node_selectors import RequiredNodeAffinity
from stowplan.kube.api.taints import untolerated

if TYPE_CHECKING:
    from stowplan.kube.api.types import Node, Pod


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
