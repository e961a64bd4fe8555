"""Pods of DaemonSets: which nodes get one, and how it is restricted to its node.

A node gets a pod if the template's node name, selector and required affinity match and it tolerates the taints. If only
a NoSchedule taint prevents that, a running pod may stay. Each pod is created for a node by a required affinity to the
node's name; the scheduler binds it.

Upstream: pkg/controller/daemon (NodeShouldRunDaemonPod), pkg/controller/daemon/util.
"""

from __future__ import annotations

from msgspec.structs import replace

from stowplan.kube.api import taints
from stowplan.kube.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Toleration,
)
from stowplan.kube.api.node import Node
from stowplan.kube.api.node_selectors import NODE_NAME_FIELD, RequiredNodeAffinity
from stowplan.kube.api.pod import Pod

#: The last one is for pods with host networking only.
_TOLERATIONS = tuple(
    Toleration(key=key, operator="Exists", effect=effect)
    for key, effect in (
        (taints.NOT_READY, taints.NO_EXECUTE),
        (taints.UNREACHABLE, taints.NO_EXECUTE),
        (taints.DISK_PRESSURE, taints.NO_SCHEDULE),
        (taints.MEMORY_PRESSURE, taints.NO_SCHEDULE),
        (taints.PID_PRESSURE, taints.NO_SCHEDULE),
        (taints.UNSCHEDULABLE, taints.NO_SCHEDULE),
        (taints.NETWORK_UNAVAILABLE, taints.NO_SCHEDULE),
    )
)


def tolerating(template: Pod) -> Pod:
    """The template with the controller's tolerations."""
    spec = template.spec
    added = _TOLERATIONS if spec.host_network else _TOLERATIONS[:-1]
    missing = (one for one in added if one not in spec.tolerations)
    return replace(template, spec=replace(spec, tolerations=(*spec.tolerations, *missing)))


def wanted_on(template: Pod, node: Node) -> bool:
    """Whether the node gets a pod of this template, which must have the controller's tolerations."""
    return _matches(template, node) and taints.untolerated(node.spec.taints, template.spec.tolerations) is None


def may_stay(template: Pod, node: Node) -> bool:
    """Whether a pod of this template may stay on its node."""
    tolerations = template.spec.tolerations
    return _matches(template, node) and taints.untolerated(node.spec.taints, tolerations, (taints.NO_EXECUTE,)) is None


def _matches(template: Pod, node: Node) -> bool:
    name = node.metadata.name
    required = RequiredNodeAffinity.from_pod(template)
    return template.spec.node_name in ("", name) and required.matches(node.metadata.labels, name)


def tied_to(pod: Pod, node: str) -> Pod:
    """The pod, restricted to this node."""
    requirement = NodeSelectorRequirement(key=NODE_NAME_FIELD, operator="In", values=(node,))
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


def node_of(affinity: Affinity | None) -> str:
    """The node that a pod with this affinity is restricted to; "" if it is not restricted to one."""
    node_affinity = None if affinity is None else affinity.node_affinity
    required = None if node_affinity is None else node_affinity.required_during_scheduling_ignored_during_execution
    match required and required.node_selector_terms:
        case (NodeSelectorTerm(match_expressions=(), match_fields=(field,)),) if (
            field.key == NODE_NAME_FIELD and field.operator == "In" and len(field.values) == 1
        ):
            return field.values[0]
    return ""
