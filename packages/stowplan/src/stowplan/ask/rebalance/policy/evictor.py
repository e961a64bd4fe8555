"""Which pods a policy may evict, and how many.

An `Evictor` is what strategies evict with. Whether an eviction takes place is the answer of a function: that of a plan
tries the move, and a test's notes who was asked for.

Upstream: descheduler's pkg/framework/plugins/defaultevictor, pkg/descheduler/evictions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from stowplan.ask.rebalance.policy.arguments import (
    DAEMON_SETS,
    FAILED_BARE,
    LOCAL_STORAGE,
    MANDATORY,
    RESOURCE_CLAIMS,
    SYSTEM_CRITICAL,
    SYSTEM_CRITICAL_PRIORITY,
    WITH_CLAIMS,
    WITHOUT_BUDGET,
    DefaultEvictor,
    SelectorFields,
    selects,
)
from stowplan.ask.rebalance.policy.node_fit import fits_a_node
from stowplan.ask.rebalance.policy.snapshot import PolicyPod, Snapshot
from stowplan.kube.api.meta import seconds_of
from stowplan.kube.api.pod import CONFIG_SOURCE, EVICT, MIRROR
from stowplan.kube.api.selector_text import parse_label_selector
from stowplan.kube.api.types import Node
from stowplan.kube.structs import PlainStruct, field


class Eviction(Enum):
    DONE = "done"
    REFUSED = "refused"
    NODE_LIMIT = "node limit"
    TOTAL_LIMIT = "total limit"


class EvictionCounts(PlainStruct):
    """How many pods a policy has evicted, and may evict."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None
    of_node: Counter[str] = field(default_factory=Counter)
    of_namespace: Counter[str] = field(default_factory=Counter)

    def limit(self, pod: PolicyPod) -> Eviction | None:
        """The limit that the pod's eviction would exceed."""
        if self.total is not None and self.of_namespace.total() >= self.total:
            return Eviction.TOTAL_LIMIT
        if self.per_node is not None and self.of_node[pod.node] >= self.per_node:
            return Eviction.NODE_LIMIT
        if self.per_namespace is not None and self.of_namespace[pod.namespace] >= self.per_namespace:
            return Eviction.REFUSED
        return None

    def count(self, pod: PolicyPod) -> None:
        self.of_node[pod.node] += 1
        self.of_namespace[pod.namespace] += 1


#: Evicts a pod for a reason, unless the node to which it would go is among those to avoid.
Evict = Callable[[PolicyPod, str, frozenset[str]], bool]


class Evictor:
    def __init__(
        self,
        arguments: DefaultEvictor,
        snapshot: Snapshot,
        evict: Evict,
        counts: EvictionCounts,
        *,
        judges_fit: bool = True,
    ) -> None:
        """`judges_fit`: whether `nodeFit` is judged here; not where each eviction is tried."""
        self._arguments = arguments
        self._snapshot = snapshot
        self._evict = evict
        self._counts = counts
        self.judges_fit = judges_fit
        self._protections = arguments.protections
        threshold = arguments.priority_threshold
        named = snapshot.priorities.get(threshold.name, SYSTEM_CRITICAL_PRIORITY)
        self._threshold = named if threshold.value is None else threshold.value
        self._selector = parse_label_selector(arguments.node_selector)
        config = arguments.pod_protections.config
        self._protected_classes = {one.name for one in config.pods_with_claims.protected_storage_classes}

    def evict(self, pod: PolicyPod, reason: str, avoiding: frozenset[str] = frozenset()) -> Eviction:
        limit = self._counts.limit(pod)
        if limit is not None:
            return limit
        if not self._evict(pod, reason, avoiding):
            return Eviction.REFUSED
        self._counts.count(pod)
        return Eviction.DONE

    def takes(self, pod: PolicyPod) -> bool:
        """Whether the pod may be evicted."""
        annotations = pod.pod.metadata.annotations
        if EVICT in annotations:
            return True
        if self._arguments.no_eviction_policy == MANDATORY and pod.prefers_to_stay:
            return False
        if MIRROR in annotations or annotations.get(CONFIG_SOURCE, "api") != "api":
            return False
        return pod.pod.metadata.deletion_timestamp is None and next(self._protected(pod), None) is None

    def _protected(self, pod: PolicyPod) -> Iterator[str]:
        """The reasons for which the pod is protected."""
        arguments, protections = self._arguments, self._protections
        priority, owners = pod.priority or 0, pod.pod.metadata.owner_references
        if SYSTEM_CRITICAL in protections and priority >= SYSTEM_CRITICAL_PRIORITY:
            yield SYSTEM_CRITICAL
        if SYSTEM_CRITICAL in protections and pod.priority is not None and priority >= self._threshold:
            yield "priorityThreshold"
        if not owners and (FAILED_BARE in protections or pod.pod.status.phase != "Failed"):
            yield FAILED_BARE
        if LOCAL_STORAGE in protections and _has_local_storage(pod):
            yield LOCAL_STORAGE
        if DAEMON_SETS in protections and "DaemonSet" in pod.owner_kinds:
            yield DAEMON_SETS
        if WITH_CLAIMS in protections and self._has_protected_claims(pod):
            yield WITH_CLAIMS
        if WITHOUT_BUDGET in protections and not self._snapshot.has_budget(pod):
            yield WITHOUT_BUDGET
        if RESOURCE_CLAIMS in protections and pod.pod.spec.resource_claims:
            yield RESOURCE_CLAIMS
        if not selects(arguments.label_selector, pod.labels):
            yield "labelSelector"
        if len(owners) == 1 and 1 < arguments.min_replicas > self._snapshot.replicas[owners[0].uid]:
            yield "minReplicas"
        if arguments.min_pod_age is not None and self._age(pod) < arguments.min_pod_age.seconds:
            yield "minPodAge"

    def _age(self, pod: PolicyPod) -> float:
        started = pod.pod.status.start_time
        return self._snapshot.now - seconds_of(started) if started else -1.0

    def _has_protected_claims(self, pod: PolicyPod) -> bool:
        names = [one.persistent_volume_claim.claim_name for one in pod.pod.spec.volumes if one.persistent_volume_claim]
        if not self._protected_classes:
            return bool(names)
        claims = (self._snapshot.claims.get((pod.namespace, name)) for name in names)
        # What is not known is protected.
        classes = {claim.spec.storage_class_name if claim is not None else None for claim in claims}
        return any(not name or name in self._protected_classes for name in classes)

    def takes_at_last(self, pod: PolicyPod) -> bool:
        """What is asked once a strategy has selected the pod."""
        arguments, snapshot = self._arguments, self._snapshot
        if arguments.node_fit and self.judges_fit:
            nodes = [node for node in snapshot.nodes if self._selector.matches(node.metadata.labels)]
            if not fits_a_node(snapshot, pod, nodes, elsewhere=True):
                return False
        wanted: SelectorFields | None = arguments.namespace_label_selector
        if wanted is None or wanted == SelectorFields():
            return True
        namespace = snapshot.namespaces.get(pod.namespace)
        return namespace is not None and selects(wanted, namespace.metadata.labels)

    def takes_at_once(self, pod: PolicyPod) -> bool:
        return self.takes(pod) and self.takes_at_last(pod)

    def fits(self, pod: PolicyPod, nodes: Sequence[Node], *, elsewhere: bool = False) -> bool:
        """Whether a node takes it, as far as that is judged here; `elsewhere`: another one than its own."""
        return not self.judges_fit or fits_a_node(self._snapshot, pod, nodes, elsewhere=elsewhere)


def _has_local_storage(pod: PolicyPod) -> bool:
    return any((volume.empty_dir or volume.host_path) is not None for volume in pod.pod.spec.volumes)
