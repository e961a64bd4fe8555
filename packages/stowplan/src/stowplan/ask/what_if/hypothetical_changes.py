"""Hypothetical changes of a cluster, with descriptions.

`apply` makes a change within the caller's transaction. Pods that lose their node are recreated as pending; the caller
schedules pending pods after all changes are made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count as counted_from
from itertools import islice
from typing import Any

from msgspec.structs import replace

from stowplan.ask.loading.workloads import belongs_to, workload_of
from stowplan.ask.offline import Cluster, ClusterError
from stowplan.ask.offline.arguments import decoded, near_names
from stowplan.ask.what_if.hypothetical_claims import release_claims, with_own_claims
from stowplan.ask.what_if.hypothetical_nodes import MOST_NODES, NodeTemplate, node_named, pods_on
from stowplan.ask.what_if.hypothetical_pods import named, ordinal_names, pods_of, recreated
from stowplan.ask.what_if.settling import is_ordered, put_back
from stowplan.kube.api.affinity import Taint as TaintOfNode
from stowplan.kube.api.deletion_order import deletion_rank
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.meta import ApiStruct, seconds_of
from stowplan.kube.api.taints import tolerates
from stowplan.kube.api.types import Node, PersistentVolume, PersistentVolumeClaim, Pod, StatefulSet
from stowplan.kube.config import Configuration
from stowplan.scheduler.cluster.objects import key_of
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.explanations.formatting import count

#: Workloads that a description names.
_NAMED = 3


class Change(ABC):
    """A hypothetical change of a cluster, for `what_if`; derive from it to make one of your own.

    Examples:
        >>> what_if(cluster, Remove("node-c3"), Label("node-a1", "disktype", "ssd")).changes
        ('remove node node-c3', 'label node node-a1 disktype=ssd')
    """

    @property
    @abstractmethod
    def text(self) -> str:
        """A description of the change."""

    @abstractmethod
    def apply(self, cluster: Cluster) -> None:
        """Make the change."""


@dataclass(frozen=True)
class AddNodes(Change):
    """Add nodes that are like an existing one, with the pods of its DaemonSets.

    Examples:
        >>> what_if(cluster, AddNodes(3, "node-a1")).after.nodes
        12
    """

    count: int
    #: The name of an existing node, or a new Node.
    like: str | Node

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or not 1 <= self.count <= MOST_NODES:
            want = f'want a number of nodes from 1 to {MOST_NODES:,}, as in AddNodes(2, "node-1")'
            raise ClusterError(f"AddNodes: {want}, got {self.count!r}")

    @property
    def text(self) -> str:
        name = self.like if isinstance(self.like, str) else self.like.metadata.name
        return f"add {count(self.count, 'node')} like {name}"

    def apply(self, cluster: Cluster) -> None:
        NodeTemplate.of(cluster, self.like).add_to(cluster, self.count)


@dataclass(frozen=True)
class Remove(Change):
    """Remove a node; pods with a controller are recreated.

    Examples:
        >>> what_if(cluster, Remove("gpu-b1")).after.nodes
        8
    """

    node: str

    @property
    def text(self) -> str:
        return f"remove node {self.node}"

    def apply(self, cluster: Cluster) -> None:
        _take_off(cluster, pods_on(cluster, self.node))
        cluster.state.remove_node(self.node)


@dataclass(frozen=True)
class Drain(Change):
    """The node is cordoned, and its pods are evicted, except for those that belong to it."""

    node: str

    @property
    def text(self) -> str:
        return f"drain node {self.node}"

    def apply(self, cluster: Cluster) -> None:
        node = node_named(cluster, self.node)
        cluster.add(replace(node, spec=replace(node.spec, unschedulable=True)))
        _take_off(
            cluster,
            (
                info
                for info in pods_on(cluster, self.node)
                if eviction_outcome(info.pod) is not EvictionOutcome.BELONGS_TO_NODE
            ),
        )


@dataclass(frozen=True)
class Label(Change):
    """Set or remove a label of a node.

    Examples:
        >>> Label("node-a1", "disktype", "ssd").text
        'label node node-a1 disktype=ssd'
    """

    node: str
    key: str
    #: None removes the label.
    value: str | None

    @property
    def text(self) -> str:
        what = f"without {self.key}" if self.value is None else f"{self.key}={self.value}"
        return f"label node {self.node} {what}"

    def apply(self, cluster: Cluster) -> None:
        node = node_named(cluster, self.node)
        labels = {key: value for key, value in node.metadata.labels.items() if key != self.key}
        if self.value is not None:
            labels[self.key] = self.value
        cluster.add(replace(node, metadata=replace(node.metadata, labels=labels)))


@dataclass(frozen=True)
class Taint(Change):
    """Add or remove a taint of a node. With NoExecute, pods that do not tolerate it are evicted.

    Examples:
        >>> Taint("node-a1", "maintenance", effect="NoExecute").text
        'taint node node-a1 maintenance=:NoExecute'
    """

    node: str
    key: str
    value: str = ""
    #: "" removes all taints with the key.
    effect: str = "NoSchedule"

    @property
    def text(self) -> str:
        what = f"{self.key}={self.value}:{self.effect}" if self.effect else f"without {self.key}"
        return f"taint node {self.node} {what}"

    def apply(self, cluster: Cluster) -> None:
        node = node_named(cluster, self.node)
        taints = [
            taint
            for taint in node.spec.taints
            if taint.key != self.key or (self.effect and taint.effect != self.effect)
        ]
        taint = TaintOfNode(key=self.key, value=self.value, effect=self.effect)
        if self.effect:
            taints.append(taint)
        cluster.add(replace(node, spec=replace(node.spec, taints=tuple(taints))))
        if self.effect == "NoExecute":
            _take_off(cluster, (info for info in pods_on(cluster, self.node) if not _stands(info.pod, taint)))


@dataclass(frozen=True)
class Scale(Change):
    """Set the number of a controller's pods; new ones are like those that exist.

    Examples:
        >>> what_if(cluster, Scale("Deployment", "shop", "web", 7)).placed
        {'shop/web-added-6': 'node-b2'}
    """

    #: As in owner references: Deployment, StatefulSet, ReplicaSet, Job, …
    kind: str
    namespace: str
    name: str
    replicas: int
    #: A pod as the controller would create it, for a controller without pods.
    template: Pod | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.replicas, int) or self.replicas < 0:
            raise ClusterError(f"Scale: want a number of pods, 0 or more, got {self.replicas!r}")
        if self.kind == "DaemonSet":
            raise ClusterError(f"{self.text}: it has one pod on each of its nodes, and cannot be scaled")

    @property
    def text(self) -> str:
        return f"scale {self.kind} {self.namespace}/{self.name} to {self.replicas}"

    def apply(self, cluster: Cluster) -> None:
        mine = pods_of(cluster.state, self.kind, self.namespace, self.name)
        model = mine[0].pod if mine else self.template
        if model is None and self.replicas:
            near = near_names(f"{self.namespace}/{self.name}", self._others(cluster), kind=self.kind.lower())
            raise ClusterError(f"{self.text}: it has no pod in this cluster to make others like{near}")
        for name in islice(self._names(mine), max(0, self.replicas - len(mine))):
            assert model is not None
            fresh = named(recreated(model), name)
            cluster.add(with_own_claims(cluster, fresh, model))
        if not self._leaves_to_the_set(cluster):
            # For a StatefulSet those with the highest ordinals.
            first = mine[::-1] if self.kind == "StatefulSet" else _first_to_go(mine)
            _forget(cluster, first[: max(0, len(mine) - self.replicas)])

    def _leaves_to_the_set(self, cluster: Cluster) -> bool:
        """Whether the pods beyond the number are deleted one after the other, as far as earlier ones run."""
        key = f"{self.namespace}/{self.name}"
        found = cluster.state.objects.get(StatefulSet, key) if self.kind == "StatefulSet" else None
        if found is None or not is_ordered(found):
            return False
        cluster.add(replace(found, spec=replace(found.spec, replicas=self.replicas)))
        return True

    def _names(self, mine: Sequence[PodInfo]) -> Iterator[str]:
        """Names of pods to add."""
        if self.kind == "StatefulSet":
            return ordinal_names(self.name, mine)
        return (f"{self.name}-added-{number}" for number in counted_from(len(mine)))

    def _others(self, cluster: Cluster) -> list[str]:
        """Workloads of the kind, by `namespace/name`."""
        infos = (*cluster.state.pending.values(), *cluster.state.placed_pods())
        found = ((info.namespace, workload_of(info.pod)) for info in infos)
        return sorted({f"{namespace}/{one[1]}" for namespace, one in found if one is not None and one[0] == self.kind})


@dataclass(frozen=True)
class Put(Change):
    """New objects, or new versions of existing ones.

    The pods of `workloads` are replaced by those among the objects, as in a rollout; unchanged pods stay.

    Examples:
        >>> what_if(cluster, Put((a_pod("web-9", "shop").requests(cpu="100m").obj(),))).placed
        {'shop/web-9': 'node-b2'}
    """

    objects: tuple[Mapping[str, Any] | ApiStruct, ...]
    #: The source of the objects.
    where: str = ""
    #: Kind, namespace and name of each.
    workloads: tuple[tuple[str, str, str], ...] = ()

    @property
    def text(self) -> str:
        pods = ", ".join(f"{kind} {namespace}/{name}" for kind, namespace, name in self.workloads[:_NAMED])
        more = f" and {len(self.workloads) - _NAMED} more" if len(self.workloads) > _NAMED else ""
        rollout = f", with the pods of {pods}{more}" if pods else ""
        return f"apply {self.where or count(len(self.objects), 'object')}{rollout}"

    def apply(self, cluster: Cluster) -> None:
        kept: set[str] = set()
        for obj in self.objects:
            if not isinstance(obj, Pod) and not _is_bound(cluster, obj):
                cluster.add(obj)
        for kind, namespace, name in self.workloads:
            kept |= self._rolled_out(cluster, kind, namespace, name)
        for obj in self.objects:
            if isinstance(obj, Pod) and f"{obj.metadata.namespace}/{obj.metadata.name}" not in kept:
                cluster.add(obj)

    def _rolled_out(self, cluster: Cluster, kind: str, namespace: str, name: str) -> set[str]:
        """Remove the workload's outdated pods; return the keys of new ones that already exist."""
        fresh = [
            cluster.state.pod_info(obj)
            for obj in self.objects
            if isinstance(obj, Pod) and obj.metadata.namespace == namespace and belongs_to(obj, kind, name)
        ]
        there = pods_of(cluster.state, kind, namespace, name)
        same = [info for info in there if fresh and info.shape.template is fresh[0].shape.template][: len(fresh)]
        _forget(cluster, [info for info in there if info not in same])
        names = {info.key for info in same}
        # A new pod replaces a remaining one: the one with its name, or any.
        others = [info.key for info in fresh if info.key not in names]
        return {info.key for info in fresh if info.key in names} | set(others[: len(same) - (len(fresh) - len(others))])


@dataclass(frozen=True)
class Reconfigure(Change):
    """Another scheduler configuration; placed pods stay.

    Examples:
        >>> Reconfigure("configurations/packing.yaml").text
        'configure the scheduler by configurations/packing.yaml'
    """

    config: Mapping[str, Any] | str | Configuration
    where: str = ""

    @property
    def text(self) -> str:
        name = self.where or (self.config if isinstance(self.config, str) else "another configuration")
        return f"configure the scheduler by {name}"

    def apply(self, cluster: Cluster) -> None:
        """No-op: the caller has created the cluster with it."""


def _is_bound(cluster: Cluster, obj: Mapping[str, Any] | ApiStruct) -> bool:
    """Whether it is a claim or volume that is already bound; applying a manifest does not undo that."""
    found, objects = decoded(obj), cluster.state.objects
    if isinstance(found, PersistentVolumeClaim):
        claim = objects.get(PersistentVolumeClaim, key_of(found.metadata))
        return claim is not None and bool(claim.spec.volume_name)
    volume = objects.get(PersistentVolume, found.metadata.name) if isinstance(found, PersistentVolume) else None
    return volume is not None and volume.spec.claim_ref is not None


def _stands(pod: Pod, taint: TaintOfNode) -> bool:
    return any(tolerates(toleration, taint) for toleration in pod.spec.tolerations)


def _first_to_go(infos: Sequence[PodInfo]) -> list[PodInfo]:
    """In the order in which their controller deletes them."""
    on_node = Counter(info.node_name for info in infos)

    def rank(info: PodInfo) -> tuple[object, ...]:
        status = info.pod.status
        ready = next((one for one in status.conditions if one.type == "Ready" and one.status == "True"), None)
        return deletion_rank(
            info.pod.metadata,
            node_name=info.node_name,
            phase=status.phase,
            ready_since=None if ready is None else seconds_of(ready.last_transition_time),
            siblings=on_node[info.node_name],
        )

    # Among equals, those that were listed last.
    last_first = list(reversed(infos))
    return sorted(last_first, key=rank)


def _forget(cluster: Cluster, infos: Iterable[PodInfo]) -> None:
    """Remove pods without recreating them."""
    for info in list(infos):
        cluster.remove(info.pod)
        release_claims(cluster, [info.pod])


def _take_off(cluster: Cluster, infos: Iterable[PodInfo]) -> None:
    """Remove pods from their node; those that are recreated become pending."""
    leaving = [(info.key, info.pod) for info in list(infos)]
    for key, _ in leaving:
        cluster.evict(key)
    put_back(cluster, (pod for _, pod in leaving if eviction_outcome(pod) is EvictionOutcome.RECREATED))
    release_claims(cluster, (pod for _, pod in leaving))
