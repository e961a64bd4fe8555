"""Whether a node seems to fit a pod, by the descheduler's own check.

It knows selectors, taints, requests, and the pod's anti-affinity. Where moves are tried, the scheduler decides instead;
this is left as an order in which to try pods.

Upstream: NodeFit in descheduler's pkg/descheduler/node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stowplan.ask.rebalance.policy.snapshot import PolicyPod, Snapshot
from stowplan.kube.api.affinity import PodAffinityTerm
from stowplan.kube.api.label_selectors import SelectorError, compile_label_selector
from stowplan.kube.api.node_selectors import RequiredNodeAffinity
from stowplan.kube.api.quantity import milli_value, parse_quantity, value
from stowplan.kube.api.resource_names import CPU, PODS
from stowplan.kube.api.taints import untolerated
from stowplan.kube.api.types import Node


def fits_a_node(snapshot: Snapshot, pod: PolicyPod, nodes: Sequence[Node], *, elsewhere: bool) -> bool:
    """`elsewhere`: whether the node must be another one than its own."""
    others = (node for node in nodes if not (elsewhere and node.metadata.name == pod.node))
    return any(_fits(snapshot, pod, node) for node in others)


def _fits(snapshot: Snapshot, pod: PolicyPod, node: Node) -> bool:
    if node.spec.unschedulable or not matches_node(pod, node):
        return False
    if untolerated(node.spec.taints, pod.pod.spec.tolerations, comparison_operators=True):
        return False
    if _meets_excluded_pods(snapshot, pod, node):
        return False
    return pod.node == node.metadata.name or _has_room(snapshot, pod, node)


def matches_node(pod: PolicyPod, node: Node) -> bool:
    """Whether the pod's node selector and required node affinity do."""
    try:
        affinity = RequiredNodeAffinity.from_pod(pod.pod)
        return affinity.match_or_error(node.metadata.labels, node.metadata.name)
    except SelectorError:
        return False


def anti_affinity_terms(pod: PolicyPod) -> Sequence[PodAffinityTerm]:
    """The required ones."""
    affinity = pod.pod.spec.affinity
    anti = None if affinity is None else affinity.pod_anti_affinity
    return () if anti is None else anti.required_during_scheduling_ignored_during_execution


def selected_pods(pod: PolicyPod, term: PodAffinityTerm, among: Sequence[PolicyPod]) -> Iterator[PolicyPod]:
    """Other pods that a term selects."""
    namespaces = term.namespaces or (pod.namespace,)
    try:
        selector = compile_label_selector(term.label_selector)
    except SelectorError:
        return
    for other in among:
        # Parity: pods of the same name in other namespaces are left out, too.
        if other.name != pod.name and other.namespace in namespaces and selector.matches(other.labels):
            yield other


def _meets_excluded_pods(snapshot: Snapshot, pod: PolicyPod, node: Node) -> bool:
    return any(
        term.topology_key in node.metadata.labels
        for term in anti_affinity_terms(pod)
        for _ in selected_pods(pod, term, snapshot.pods_on(node.metadata.name))
    )


def _has_room(snapshot: Snapshot, pod: PolicyPod, node: Node) -> bool:
    there = snapshot.pods_on(node.metadata.name)
    allocatable = amounts(node.status.allocatable)
    for name, wanted in pod.requests.items():
        used = sum(other.requests.get(name, 0) for other in there)
        if wanted > allocatable.get(name, 0) - used:
            return False
    return allocatable.get(PODS, 0) > len(there)


def amounts(resources: dict[str, str | int | float]) -> dict[str, int]:
    """cpu in millicores, the rest in units."""
    parsed = {name: parse_quantity(text) for name, text in resources.items()}
    return {name: milli_value(nano) if name == CPU else value(nano) for name, nano in parsed.items()}
