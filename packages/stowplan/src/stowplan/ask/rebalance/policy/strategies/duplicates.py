"""Pods of one owner and with the same images that share a node, where there are more nodes.

Upstream: descheduler's pkg/framework/plugins/removeduplicates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil

import msgspec

from stowplan.ask.rebalance.policy.arguments import RemoveDuplicates
from stowplan.ask.rebalance.policy.evictor import Eviction, Evictor
from stowplan.ask.rebalance.policy.node_fit import matches_node
from stowplan.ask.rebalance.policy.snapshot import PolicyPod, Snapshot
from stowplan.kube.api.taints import untolerated
from stowplan.kube.api.types import Node

#: Namespace, kind and name of an owner, and the images of a pod.
_Set = tuple[str, str, str, tuple[str, ...]]


def duplicates(snapshot: Snapshot, nodes: Sequence[Node], evictor: Evictor, arguments: RemoveDuplicates) -> None:
    #: By set and node: those that are not the first one.
    found: dict[_Set, dict[str, list[PolicyPod]]] = {}
    members: Counter[_Set] = Counter()
    for node in nodes:
        seen: set[tuple[_Set, ...]] = set()
        for pod in snapshot.pods_on(node.metadata.name):
            sets = _sets_of(pod)
            excluded = set(arguments.exclude_owner_kinds).intersection(pod.owner_kinds)
            if not sets or excluded or not arguments.namespaces.takes(pod.namespace) or not evictor.takes_at_once(pod):
                continue
            members.update(sets)
            if sets in seen:
                for one in sets:
                    found.setdefault(one, {}).setdefault(node.metadata.name, []).append(pod)
            seen.add(sets)
    for one, by_node in found.items():
        targets = _targets([pod for pods in by_node.values() for pod in pods], nodes)
        if len(targets) < 2:
            continue
        even = ceil(members[one] / len(targets))
        for name, pods in by_node.items():
            # The first one is not among them.
            for pod in pods[even - 1 :]:
                reason = f"RemoveDuplicates: {len(pods) + 1} of {one[1]} {one[2]} on {name}"
                outcome = evictor.evict(pod, reason)
                if outcome is Eviction.TOTAL_LIMIT:
                    return
                if outcome is Eviction.NODE_LIMIT:
                    break


def _sets_of(pod: PolicyPod) -> tuple[_Set, ...]:
    images = tuple(sorted(container.image for container in pod.pod.spec.containers))
    owners = pod.pod.metadata.owner_references
    return tuple(sorted((pod.namespace, owner.kind, owner.name, images) for owner in owners))


def _targets(pods: Sequence[PolicyPod], nodes: Sequence[Node]) -> set[str]:
    """Nodes whose selectors and taints suit one of the pods; those that suit on a single node do not count."""
    distinct = {
        msgspec.json.encode((pod.pod.spec.tolerations, pod.pod.spec.node_selector, pod.pod.spec.affinity)): pod
        for pod in pods
    }
    found: set[str] = set()
    for pod in distinct.values():
        names = {
            node.metadata.name
            for node in nodes
            if untolerated(node.spec.taints, pod.pod.spec.tolerations, comparison_operators=True) is None
            and matches_node(pod, node)
        }
        found |= names if len(names) > 1 else set()
    return found
