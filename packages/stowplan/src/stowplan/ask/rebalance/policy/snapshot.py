"""The nodes and pods that a strategy sees: a moment that does not change while it selects pods.

Upstream: the listers and indexers in descheduler's pkg/descheduler/{node,pod}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from stowplan.ask.offline import Cluster
from stowplan.ask.rebalance.policy.pods_in_full import PodInFull, PodsInFull
from stowplan.ask.what_if.hypothetical_nodes import nodes_of
from stowplan.kube.api.container_totals import BEST_EFFORT, BURSTABLE, qos_class
from stowplan.kube.api.label_selectors import compile_label_selector
from stowplan.kube.api.meta import seconds_of
from stowplan.kube.api.pod import FINISHED, PREFER_NO_EVICTION
from stowplan.kube.api.pod_requests import pod_requests, to_vector
from stowplan.kube.api.policy import SYSTEM_PRIORITIES
from stowplan.kube.api.types import Namespace, Node, PersistentVolumeClaim, Pod, PodDisruptionBudget, PriorityClass


class PolicyPod:
    """A pod with a node, running or finished."""

    def __init__(self, pod: Pod, node: str, in_full: Callable[[Pod], PodInFull]) -> None:
        self.pod = pod
        self._in_full = in_full
        self.namespace = pod.metadata.namespace or "default"
        self.name = pod.metadata.name
        self.key = f"{self.namespace}/{self.name}"
        self.node = node
        self.labels = pod.metadata.labels
        self.priority = pod.spec.priority

    def __repr__(self) -> str:
        return self.key

    @cached_property
    def in_full(self) -> PodInFull:
        return self._in_full(self.pod)

    @property
    def has_finished(self) -> bool:
        return self.pod.status.phase in FINISHED

    @property
    def owner_kinds(self) -> list[str]:
        return [owner.kind for owner in self.pod.metadata.owner_references]

    @property
    def prefers_to_stay(self) -> bool:
        return PREFER_NO_EVICTION in self.pod.metadata.annotations

    @property
    def created(self) -> float:
        return seconds_of(self.pod.metadata.creation_timestamp)

    @cached_property
    def requests(self) -> dict[str, int]:
        """cpu in millicores, the rest in units."""
        return to_vector(pod_requests(self.pod), counted_only=False)

    @cached_property
    def _qos(self) -> int:
        given = self.in_full.status.qos_class or qos_class(msgspec.to_builtins(self.pod.spec))
        return (BEST_EFFORT, BURSTABLE).index(given) if given in (BEST_EFFORT, BURSTABLE) else 2

    @property
    def least_important_first(self) -> tuple[bool, int, int, bool]:
        return self.priority is not None, self.priority or 0, self._qos, self.prefers_to_stay


class Snapshot:
    def __init__(
        self,
        nodes: Iterable[Node],
        pods: Iterable[tuple[Pod, str]],
        *,
        in_full: Callable[[Pod], PodInFull],
        now: float,
        namespaces: Iterable[Namespace] = (),
        claims: Iterable[PersistentVolumeClaim] = (),
        budgets: Iterable[PodDisruptionBudget] = (),
        classes: Iterable[PriorityClass] = (),
        measured: Mapping[str, Mapping[str, int]] | None = None,
        measured_pods: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        """`pods` with their nodes, finished ones included; `now` in seconds since the epoch.

        `measured`: use by node and resource, and of pods, if a strategy is to have it instead of what is requested.
        """
        self.nodes: Sequence[Node] = [node for node in nodes if _is_ready(node)]
        self.now = now
        self.namespaces = {one.metadata.name: one for one in namespaces}
        self.claims = {(one.metadata.namespace or "default", one.metadata.name): one for one in claims}
        self.priorities = SYSTEM_PRIORITIES | {one.metadata.name: one.value for one in classes}
        self.measured, self.measured_pods = measured, measured_pods or {}
        self._budgets = [
            (one.metadata.namespace or "default", compile_label_selector(one.spec.selector)) for one in budgets
        ]
        self._pods: dict[str, list[PolicyPod]] = {}
        for pod, node in pods:
            self._pods.setdefault(node, []).append(PolicyPod(pod, node, in_full))

    @classmethod
    def of_cluster(
        cls,
        cluster: Cluster,
        full: PodsInFull,
        measured: Mapping[str, Mapping[str, int]] | None = None,
        measured_pods: Mapping[str, Mapping[str, int]] | None = None,
    ) -> Snapshot:
        objects = cluster.state.objects
        return cls(
            nodes_of(cluster),
            [
                *((info.pod, info.node_name) for info in cluster.state.placed_pods()),
                *((pod, pod.spec.node_name) for pod in full.finished),
            ],
            in_full=full.of,
            now=cluster.now,
            namespaces=objects.all(Namespace),
            claims=objects.all(PersistentVolumeClaim),
            budgets=objects.all(PodDisruptionBudget),
            classes=objects.all(PriorityClass),
            measured=measured,
            measured_pods=measured_pods,
        )

    def all_pods_on(self, node: str) -> Sequence[PolicyPod]:
        return self._pods.get(node, ())

    def pods_on(self, node: str) -> list[PolicyPod]:
        """Those that have not finished."""
        return [pod for pod in self.all_pods_on(node) if not pod.has_finished]

    @cached_property
    def by_node(self) -> dict[str, Node]:
        return {node.metadata.name: node for node in self.nodes}

    @cached_property
    def replicas(self) -> Counter[str]:
        """Pods per owner's UID."""
        owners = (owner for pods in self._pods.values() for pod in pods for owner in pod.pod.metadata.owner_references)
        return Counter(owner.uid for owner in owners)

    def has_budget(self, pod: PolicyPod) -> bool:
        return any(namespace == pod.namespace and one.matches(pod.labels) for namespace, one in self._budgets)


def _is_ready(node: Node) -> bool:
    return all(one.status == "True" for one in node.status.conditions if one.type == "Ready")
