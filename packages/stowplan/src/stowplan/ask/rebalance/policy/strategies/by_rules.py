"""Strategies that select pods that violate what they, or their nodes, ask for: taints, node affinity, anti-affinity.

Upstream: descheduler's pkg/framework/plugins/removepodsviolating{nodetaints,nodeaffinity,interpodantiaffinity}.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stowplan.ask.rebalance.policy.arguments import (
    RemovePodsViolatingInterPodAntiAffinity,
    RemovePodsViolatingNodeAffinity,
    RemovePodsViolatingNodeTaints,
)
from stowplan.ask.rebalance.policy.evictor import Eviction, Evictor
from stowplan.ask.rebalance.policy.node_fit import anti_affinity_terms, matches_node, selected_pods
from stowplan.ask.rebalance.policy.snapshot import PolicyPod, Snapshot
from stowplan.ask.rebalance.policy.strategies.by_state import evict_all
from stowplan.kube.api.affinity import PREFERRED_TERMS, REQUIRED_TERMS, Taint
from stowplan.kube.api.node_selectors import compile_node_term
from stowplan.kube.api.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, tolerates
from stowplan.kube.api.types import Node

# -- taints -----------------------------------------------------------------------------------------------------------


def node_taints(
    snapshot: Snapshot, nodes: Sequence[Node], evictor: Evictor, arguments: RemovePodsViolatingNodeTaints
) -> None:
    for node in nodes:
        taints = [taint for taint in node.spec.taints if _counts(taint, arguments)]
        found = _not_tolerating(snapshot, node, taints, arguments)
        reasons = ((pod, f"RemovePodsViolatingNodeTaints: {key}") for pod, key in found if evictor.takes_at_once(pod))
        if evict_all(reasons, evictor) is Eviction.TOTAL_LIMIT:
            return


def _counts(taint: Taint, arguments: RemovePodsViolatingNodeTaints) -> bool:
    effects = (NO_SCHEDULE, PREFER_NO_SCHEDULE) if arguments.include_prefer_no_schedule else (NO_SCHEDULE,)
    names = {taint.key, f"{taint.key}={taint.value}"} if taint.value else {taint.key}
    if taint.effect not in effects or names.intersection(arguments.excluded_taints):
        return False
    return arguments.included_taints is None or bool(names.intersection(arguments.included_taints))


def _not_tolerating(
    snapshot: Snapshot, node: Node, taints: Sequence[Taint], arguments: RemovePodsViolatingNodeTaints
) -> Iterator[tuple[PolicyPod, str]]:
    for pod in snapshot.pods_on(node.metadata.name) if taints else ():
        tolerations = pod.pod.spec.tolerations
        keys = (taint.key for taint in taints if not any(tolerates(one, taint, True) for one in tolerations))
        key = next(keys, None)
        if key is not None and arguments.takes(pod.namespace, pod.labels):
            yield pod, key


# -- node affinity ----------------------------------------------------------------------------------------------------


def node_affinity(
    snapshot: Snapshot, nodes: Sequence[Node], evictor: Evictor, arguments: RemovePodsViolatingNodeAffinity
) -> None:
    for kind in arguments.node_affinity_type:
        for node in nodes:
            found = [
                (pod, f"RemovePodsViolatingNodeAffinity: {kind}")
                for pod in snapshot.pods_on(node.metadata.name)
                if arguments.takes(pod.namespace, pod.labels)
                and _is_violated(kind, pod, node, nodes)
                and evictor.takes_at_once(pod)
                and evictor.fits(pod, nodes)
            ]
            if evict_all(found, evictor) is Eviction.TOTAL_LIMIT:
                return


def _is_violated(kind: str, pod: PolicyPod, node: Node, nodes: Sequence[Node]) -> bool:
    affinity = pod.pod.spec.affinity.node_affinity if pod.pod.spec.affinity is not None else None
    if affinity is None:
        return False
    if kind == REQUIRED_TERMS:
        required = affinity.required_during_scheduling_ignored_during_execution
        return required is not None and not matches_node(pod, node)
    if kind != PREFERRED_TERMS or not affinity.preferred_during_scheduling_ignored_during_execution:
        return False
    return max((_weight(pod, one) for one in nodes), default=0) > _weight(pod, node)


def _weight(pod: PolicyPod, node: Node) -> int:
    """What the pod's preferences give a node."""
    affinity = pod.pod.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    total = 0
    for term in affinity.node_affinity.preferred_during_scheduling_ignored_during_execution or ():
        wanted = compile_node_term(term.preference)
        is_empty = not (wanted.expressions or wanted.fields)
        if not is_empty and wanted.matches(node.metadata.labels, node.metadata.name):
            total += term.weight
    return total


# -- anti-affinity ----------------------------------------------------------------------------------------------------


def inter_pod_anti_affinity(
    snapshot: Snapshot, nodes: Sequence[Node], evictor: Evictor, arguments: RemovePodsViolatingInterPodAntiAffinity
) -> None:
    there = {
        node.metadata.name: [
            pod for pod in snapshot.pods_on(node.metadata.name) if arguments.takes(pod.namespace, pod.labels)
        ]
        for node in nodes
    }
    left = {pod.key: pod for pods in there.values() for pod in pods}
    for pods in there.values():
        excluding = [pod for pod in pods if anti_affinity_terms(pod)]
        for pod in sorted(excluding, key=lambda pod: pod.least_important_first):
            other = _excluded_neighbour(snapshot, pod, list(left.values()))
            if other is None or not evictor.takes_at_once(pod):
                continue
            outcome = evictor.evict(pod, f"RemovePodsViolatingInterPodAntiAffinity: not near {other.key}")
            if outcome is Eviction.TOTAL_LIMIT:
                return
            if outcome is Eviction.NODE_LIMIT:
                break
            if outcome is Eviction.DONE:
                # Others need not leave because of it.
                del left[pod.key]


def _excluded_neighbour(snapshot: Snapshot, pod: PolicyPod, others: Sequence[PolicyPod]) -> PolicyPod | None:
    """A pod near which this one does not want to be."""
    own = snapshot.by_node[pod.node]
    for term in anti_affinity_terms(pod):
        for other in selected_pods(pod, term, others):
            node = snapshot.by_node.get(other.node)
            if node is own:
                return other
            domain = own.metadata.labels.get(term.topology_key)
            if node is not None and domain is not None and node.metadata.labels.get(term.topology_key) == domain:
                return other
    return None
