"""Hypothetical nodes: copies with their DaemonSet pods, and cordoned nodes.

All that is known of a DaemonSet are its pods, which come and go with the nodes. Any of them is its template, except for
the required node affinity, which the controller replaces by the pod's node. So a DaemonSet that has no pod on a node
that it seems to want gets none on others, either.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count as counted_from
from itertools import islice

from msgspec import field
from msgspec.structs import replace

from stowplan.ask.offline import Cluster, ClusterError
from stowplan.ask.what_if.hypothetical_claims import release_claims, with_own_claims
from stowplan.ask.what_if.hypothetical_pods import copy_of, named, on_node, recreated
from stowplan.kube.api.affinity import Taint
from stowplan.kube.api.daemon_pods import may_stay, node_of, tied_to, untied, wanted_on
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import CSINode, Node, Pod, ResourceSlice
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo


class _Daemons(PlainStruct):
    """The pods of a DaemonSet, by node."""

    template: Pod
    pods: dict[str, PodInfo] = field(default_factory=dict)


def daemons_waiting_for(cluster: Cluster, node: str) -> Iterator[Pod]:
    """Pods of DaemonSets that have not found room on their node."""
    for info in cluster.state.pending.values():
        if _is_daemon(info.pod) and node_of(info.pod.spec.affinity) == node:
            yield info.pod


class DaemonSets:
    """Those of a cluster before a change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._everywhere = {
            name
            for name, daemons in self._found().items()
            if all(node.metadata.name in daemons.pods for node in self._nodes() if wanted_on(daemons.template, node))
        }

    def follow(self) -> None:
        """After the change: remove pods whose node is gone or no longer wanted, and add missing ones."""
        for name, daemons in self._found().items():
            nodes = {node.metadata.name: node for node in self._nodes()}
            for node_name, info in daemons.pods.items():
                if node_name not in nodes or not may_stay(daemons.template, nodes[node_name]):
                    self._cluster.remove(info.pod)
                    release_claims(self._cluster, [info.pod])
            if name in self._everywhere:
                for node_name, node in nodes.items():
                    if node_name not in daemons.pods and wanted_on(daemons.template, node):
                        self._add(daemons.template, node_name)

    def _add(self, template: Pod, node: str) -> None:
        fresh = tied_to(named(recreated(template), f"{template.metadata.name}-on-{node}"), node)
        self._cluster.add(with_own_claims(self._cluster, fresh, template))

    def _nodes(self) -> list[Node]:
        return [node for node in self._cluster.state.table.nodes if node is not None]

    def _found(self) -> dict[tuple[str, str], _Daemons]:
        found: dict[tuple[str, str], _Daemons] = {}
        state = self._cluster.state
        # Of all pods of the cluster, few have such an owner.
        owned = [
            (info, owner)
            for infos in (state.placed_pods(), state.pending.values())
            for info in infos
            for owner in info.pod.metadata.owner_references
            if owner.kind == "DaemonSet" and owner.controller
        ]
        for info, owner in owned:
            if node := info.node_name or node_of(info.pod.spec.affinity):
                key = info.namespace, owner.name
                if key not in found:
                    found[key] = _Daemons(untied(info.pod))
                found[key].pods[node] = info
        return found


def _is_daemon(pod: Pod) -> bool:
    owner = controller_of(pod.metadata)
    return owner is not None and owner.kind == "DaemonSet"


HOSTNAME = "kubernetes.io/hostname"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
#: Taints for conditions of a node, which a new node does not have.
_OF_CONDITIONS = "node.kubernetes.io/"
#: Maximum number of nodes that a question may add.
MOST_NODES = 10_000
#: Number of kinds of nodes that are tried by default.
_KINDS = 5


def node_like(node: Node, name: str) -> Node:
    """A healthy node of the same kind: its size, its labels, and its taints except for those of conditions."""
    labels = dict(node.metadata.labels)
    if HOSTNAME in labels:
        labels[HOSTNAME] = name
    metadata = replace(node.metadata, name=name, uid=f"{name}, added", resource_version="", labels=labels)
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_OF_CONDITIONS))
    return replace(node, metadata=metadata, spec=replace(node.spec, unschedulable=False, taints=taints))


def cordoned(node: Node) -> Node:
    """As after `kubectl cordon`."""
    if node.spec.unschedulable:
        return node
    taints = (*node.spec.taints, Taint(key=_UNSCHEDULABLE, effect="NoSchedule"))
    return replace(node, spec=replace(node.spec, unschedulable=True, taints=taints))


def uncordoned(node: Node) -> Node:
    """As after `kubectl uncordon`."""
    taints = tuple(taint for taint in node.spec.taints if taint.key != _UNSCHEDULABLE)
    return replace(node, spec=replace(node.spec, unschedulable=False, taints=taints))


def fewest_nodes(suffice: Callable[[int], bool], most: int) -> int | None:
    """The lowest sufficient number of new nodes, found by doubling and bisection; None if `most` do not suffice."""
    low, high = 1, 1
    while not suffice(high):
        if high >= most:
            return None
        low, high = high + 1, min(high * 2, most)
    return bisect_left(range(high), True, low, high, key=suffice)


def node_at(cluster: Cluster, row: int) -> Node:
    node = cluster.state.table.nodes[row]
    assert node is not None
    return node


def node_named(cluster: Cluster, name: str) -> Node:
    if not isinstance(name, str):
        raise ClusterError(f"want the name of a node, got {name!r}")
    row = cluster.state.table.row_of.get(name)
    if row is None:
        raise ClusterError(f'node "{name}" not found')
    return node_at(cluster, row)


def nodes_of(cluster: Cluster) -> list[Node]:
    return [node_at(cluster, row) for row in cluster.state.table.row_of.values()]


def pods_on(cluster: Cluster, name: str) -> list[PodInfo]:
    """In the order in which they were placed."""
    node_named(cluster, name)
    return list(cluster.state.row_pods[cluster.state.table.row_of[name]])


class NodeTemplate:
    """A kind of node to add, with the pods and devices of each."""

    def __init__(
        self,
        node: Node,
        pods: tuple[Pod, ...] = (),
        waiting: tuple[Pod, ...] = (),
        slices: tuple[ResourceSlice, ...] = (),
        csi_node: CSINode | None = None,
    ) -> None:
        self.node = node
        self._pods = pods
        #: Pods of DaemonSets that the model has no room for.
        self._waiting = waiting
        self._slices = slices
        self._csi_node = csi_node

    @classmethod
    def of(cls, cluster: Cluster, like: str | Node) -> NodeTemplate:
        """The kind of a Node; or of an existing one, by name, with its DaemonSet pods."""
        if not isinstance(like, str):
            return cls(like)
        pods = (info.pod for info in pods_on(cluster, like))
        daemons = tuple(pod for pod in pods if eviction_outcome(pod) is EvictionOutcome.BELONGS_TO_NODE)
        objects = cluster.state.objects
        slices = tuple(one for one in objects.all(ResourceSlice) if one.spec.node_name == like)
        waiting = tuple(daemons_waiting_for(cluster, like))
        return cls(node_named(cluster, like), daemons, waiting, slices, objects.get(CSINode, like))

    def add_to(self, cluster: Cluster, count: int) -> list[str]:
        """Add nodes to the cluster and return their names."""
        free = (f"{self.node.metadata.name}-like-{number}" for number in counted_from(1))
        there = frozenset(cluster.state.table.row_of)
        names = list(islice((name for name in free if name not in there), count))
        for name in names:
            cluster.add(node_like(self.node, name))
            if self._csi_node is not None:
                cluster.add(replace(self._csi_node, metadata=replace(self._csi_node.metadata, name=name, uid="")))
            for pod in self._pods_on(name):
                cluster.add(pod)
            for one in self._slices:
                cluster.add(_slice_like(one, name))
            for pod in self._waiting:
                fresh = tied_to(copy_of(pod, f"{pod.metadata.name}-on-{name}"), name)
                cluster.add(with_own_claims(cluster, fresh, pod))
                info = cluster.pod(f"{fresh.metadata.namespace or 'default'}/{fresh.metadata.name}")
                if cluster.engine.framework_for(info) is not None:
                    cluster.places([info.key])
        return names

    def _pods_on(self, node_name: str) -> Iterator[Pod]:
        for pod in self._pods:
            yield on_node(pod, node_name, f"{pod.metadata.name}-on-{node_name}")


def _slice_like(one: ResourceSlice, node_name: str) -> ResourceSlice:
    """The same devices on another node, in a pool of their own."""
    metadata = replace(one.metadata, name=f"{one.metadata.name}-on-{node_name}", uid="", owner_references=())
    pool = replace(one.spec.pool, name=f"{one.spec.pool.name}-on-{node_name}")
    return replace(one, metadata=metadata, spec=replace(one.spec, node_name=node_name, pool=pool))


@dataclass(frozen=True)
class NodeKind:
    """A kind of node that can be added.

    Examples:
        >>> NodeKind("node-a1", price=0.2).name
        'node-a1'
    """

    #: The name of an existing node, or a Node.
    like: str | Node
    price: float | None = None

    @property
    def name(self) -> str:
        return self.like if isinstance(self.like, str) else self.like.metadata.name

    def check(self, cluster: Cluster) -> None:
        """Raise ClusterError if there is no such node."""
        if isinstance(self.like, str):
            node_named(cluster, self.like)


def kinds_of(cluster: Cluster, most: int = _KINDS) -> list[NodeKind]:
    """A node of each existing size, the most frequent first."""
    return kinds_among(nodes_of(cluster), most=most)


def kinds_per_zone(cluster: Cluster) -> list[NodeKind]:
    """A node of each existing size in each zone, the most frequent first."""
    return kinds_among(nodes_of(cluster), distinguished_by=zone_of)


def kinds_among(
    nodes: Iterable[Node], *, distinguished_by: Callable[[Node], str] = lambda node: "", most: int = _KINDS
) -> list[NodeKind]:
    """A node of each size among some nodes, the most frequent first."""
    sizes: dict[Hashable, list[str]] = {}
    for node in nodes:
        size = tuple(sorted((resource, str(amount)) for resource, amount in node.status.allocatable.items()))
        kind = size, node.spec.taints, distinguished_by(node)
        sizes.setdefault(kind, []).append(node.metadata.name)
    frequent = sorted(sizes.values(), key=len, reverse=True)
    return [NodeKind(names[0]) for names in frequent[:most]]


def zone_of(node: Node) -> str:
    return node.metadata.labels.get("topology.kubernetes.io/zone", "")
