"""The cluster as drawn by the page: a row for each node and pod, as plain comparable values.

Rows name every field that leaves the process. Containers, their environment and images, volumes and annotations are not
included, so that no secret can leak.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import field

from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape, group_key

if TYPE_CHECKING:
    from stowplan.scheduler.cluster.node_table import NodeTable
    from stowplan.scheduler.cluster.state import ClusterState

V = TypeVar("V")

Labels = tuple[tuple[str, str], ...]
#: Resource -> amount in base units: millicores, bytes, counts.
Amounts = tuple[tuple[str, int], ...]
#: (key, value, effect).
Taints = tuple[tuple[str, str, str], ...]


class NodeRow(NamedTuple):
    name: str
    labels: Labels
    taints: Taints
    unschedulable: bool
    allocatable: Amounts


class PodRow(NamedTuple):
    #: namespace/name
    key: str
    #: Distinguishes a pod from its successor of the same name.
    uid: str
    #: "" while it is pending; includes unknown nodes.
    node: str
    nominated_node: str
    #: Kind/name of the controller, "" for none.
    workload: str
    labels: Labels
    requests: Amounts
    priority: int
    created: str
    terminating: bool
    #: namespace/name of its pod group, "" for none.
    group: str = ""


class Plan(PlainStruct, frozen=True):
    """All nodes by name and all pods by key."""

    nodes: dict[str, NodeRow] = field(default_factory=dict)
    pods: dict[str, PodRow] = field(default_factory=dict)

    def copy(self) -> Plan:
        return Plan(dict(self.nodes), dict(self.pods))

    def apply(self, change: PlanChange) -> None:
        for name in change.gone_nodes:
            self.nodes.pop(name, None)
        for key in change.gone_pods:
            self.pods.pop(key, None)
        self.nodes.update(change.nodes)
        self.pods.update(change.pods)


class PlanChange(PlainStruct, frozen=True):
    """A change of a plan: new or different rows, and deleted names."""

    nodes: Mapping[str, NodeRow] = field(default_factory=dict)
    pods: Mapping[str, PodRow] = field(default_factory=dict)
    gone_nodes: tuple[str, ...] = ()
    gone_pods: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.pods or self.gone_nodes or self.gone_pods)

    def then(self, other: PlanChange) -> PlanChange:
        """Both changes combined. A row that the first added and the second deleted is among the deleted names."""
        nodes = {name: row for name, row in self.nodes.items() if name not in other.gone_nodes}
        pods = {key: row for key, row in self.pods.items() if key not in other.gone_pods}
        nodes.update(other.nodes)
        pods.update(other.pods)
        return PlanChange(
            nodes,
            pods,
            tuple(name for name in dict.fromkeys((*self.gone_nodes, *other.gone_nodes)) if name not in nodes),
            tuple(key for key in dict.fromkeys((*self.gone_pods, *other.gone_pods)) if key not in pods),
        )


def difference(old: Plan, new: Plan) -> PlanChange:
    return PlanChange(
        {name: row for name, row in new.nodes.items() if old.nodes.get(name) != row},
        {key: row for key, row in new.pods.items() if old.pods.get(key) != row},
        tuple(name for name in old.nodes if name not in new.nodes),
        tuple(key for key in old.pods if key not in new.pods),
    )


def plan_of(state: ClusterState) -> Plan:
    """The current plan. Visits every node and pod."""
    # An assumed pod is also among the pending ones, possibly in a newer version without a node name.
    pending = (info for info in state.pending.values() if state.placed(info.uid) is None)
    pods = pod_rows([*state.placed_pods(), *pending])
    nodes = node_rows(state.table, [node for node in state.table.nodes if node is not None])
    return Plan({row.name: row for row in nodes}, {row.key: row for row in pods})


def node_rows(table: NodeTable, nodes: Sequence[Node]) -> Iterator[NodeRow]:
    """Rows of nodes that are in the table."""
    rows = [table.row_of[node.metadata.name] for node in nodes]
    # A column at a time: accessing a single array element costs more than the rest of its row.
    columns = {name: table.allocatable[index, rows].tolist() for name, index in table.resources.items()}
    columns["pods"] = table.allowed_pods[rows].tolist()
    names = sorted(columns)
    shared: dict[tuple[int, ...], Amounts] = {}
    for node, *found in zip(nodes, *(columns[name] for name in names), strict=True):
        amounts = tuple(found)
        allocatable = shared.get(amounts)
        if allocatable is None:
            allocatable = tuple((name, amount) for name, amount in zip(names, amounts, strict=True) if amount)
            shared[amounts] = allocatable
        yield NodeRow(
            node.metadata.name,
            _sorted(node.metadata.labels),
            tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints),
            node.spec.unschedulable,
            allocatable,
        )


def pod_rows(infos: Iterable[PodInfo]) -> Iterator[PodRow]:
    # Pods of a workload share a shape: its values are computed once.
    of_shape: dict[PodShape, tuple[str, Labels, Amounts]] = {}
    # A named tuple's own constructor is a Python function, which costs half as much as the rest of a row.
    make = tuple.__new__
    for info in infos:
        shape, pod = info.shape, info.pod
        shared = of_shape.get(shape)
        if shared is None:
            shared = of_shape[shape] = _workload(pod), _sorted(shape.labels), _sorted(shape.used)
        workload, labels, requests = shared
        row = (
            info.key,
            info.uid,
            info.node_name,
            pod.status.nominated_node_name,
            workload,
            labels,
            requests,
            info.priority,
            pod.metadata.creation_timestamp or "",
            info.terminating,
            group_key(pod) if pod.spec.scheduling_group is not None else "",
        )
        yield make(PodRow, row)


def _workload(pod: Pod) -> str:
    controller = controller_of(pod.metadata)
    return "" if controller is None else f"{controller.kind}/{controller.name}"


def _sorted(found: dict[str, V]) -> tuple[tuple[str, V], ...]:
    return tuple(sorted(found.items()))
