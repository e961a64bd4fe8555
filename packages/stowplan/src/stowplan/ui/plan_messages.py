"""The messages to a page: a snapshot of the plan, and deltas from one version of it to the next.

A snapshot of a large cluster is sent in parts: nodes first, so that there is something to see, then pods.

Rows are sent as columns. Values shared by many rows (labels, amounts, workloads) are listed once per block, and the
column has indexes into that list. Every block is self-contained, except for the parts of a snapshot: their pods refer
to the nodes of its first part, because thirty lists of thousands of names would be half of the data. A row in a delta
replaces the row with the same name. UIDs are not sent: a name belongs to one pod at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress, count, islice
from typing import Any, Literal

from stowplan.scheduler.inspection.records import Record
from stowplan.ui.plan import NodeRow, Plan, PlanChange, PodRow

#: Pods per part: 25 ms of work on either side.
PODS_OF_PART = 6000


class NodesRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Nodes as columns of equal length, and the lists that three of them refer to."""

    name: tuple[str, ...]
    labels: tuple[int, ...]
    taints: tuple[int, ...]
    allocatable: tuple[int, ...]
    unschedulable: tuple[bool, ...]
    label_sets: tuple[dict[str, str], ...]
    #: Each taint is [key, value, effect].
    taint_sets: tuple[tuple[tuple[str, str, str], ...], ...]
    amount_sets: tuple[dict[str, int], ...]


class PodsRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Pods as columns of equal length, and the lists that some of them refer to."""

    key: tuple[str, ...]
    #: Indexes into `node_names`, whose first entry is "": no node.
    node: tuple[int, ...]
    nominated_node: tuple[int, ...]
    workload: tuple[int, ...]
    labels: tuple[int, ...]
    requests: tuple[int, ...]
    priority: tuple[int, ...]
    created: tuple[int, ...]
    #: Not a column: the rows of pods that are being deleted.
    terminating: tuple[int, ...]
    node_names: tuple[str, ...]
    workloads: tuple[str, ...]
    times: tuple[str, ...]
    label_sets: tuple[dict[str, str], ...]
    amount_sets: tuple[dict[str, int], ...]
    #: Indexes into `pod_groups`, whose first entry is "": no group. Files from before there were groups have neither.
    pod_group: tuple[int, ...] = ()
    pod_groups: tuple[str, ...] = ()


class SnapshotMessage(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: Literal["snapshot"] = "snapshot"
    version: int
    nodes: NodesRecord
    pods: PodsRecord
    #: Whether more parts follow.
    more: bool = False


class PartMessage(Record, frozen=True, kw_only=True, omit_defaults=False):
    """More pods of a snapshot. Their node names start with "" and those of its nodes, which are not repeated."""

    kind: Literal["part"] = "part"
    version: int
    pods: PodsRecord
    more: bool


class DeltaMessage(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: Literal["delta"] = "delta"
    version: int
    #: The version that it applies to.
    since: int
    nodes: NodesRecord
    pods: PodsRecord
    gone_nodes: tuple[str, ...]
    gone_pods: tuple[str, ...]


def snapshot(plan: Plan, *, version: int) -> SnapshotMessage:
    return SnapshotMessage(version=version, nodes=_nodes(plan.nodes.values()), pods=_pods(plan.pods.values()))


def snapshot_in_parts(plan: Plan, *, version: int) -> list[Callable[[], SnapshotMessage | PartMessage]]:
    """Functions that build the parts; the plan must not change meanwhile."""
    nodes, pods = plan.nodes.values(), list(plan.pods.values())
    parts = [pods[start : start + PODS_OF_PART] for start in range(0, len(pods), PODS_OF_PART)]
    if len(parts) < 2:
        return [partial(snapshot, plan, version=version)]
    known = positions_of(plan.nodes)
    more = (partial(part, rows, known, version=version, more=rows is not parts[-1]) for rows in parts)
    return [partial(first_part, nodes, version=version), *more]


def positions_of(nodes: Iterable[str]) -> dict[str, int]:
    """Indexes of node names for the parts of a snapshot."""
    return {name: position for position, name in enumerate(("", *nodes))}


def first_part(nodes: Collection[NodeRow], *, version: int) -> SnapshotMessage:
    """The first part of a snapshot."""
    return SnapshotMessage(version=version, nodes=_nodes(nodes), pods=_pods(()), more=True)


def part(pods: Collection[PodRow], known: Mapping[str, int], *, version: int, more: bool) -> PartMessage:
    return PartMessage(version=version, pods=_pods(pods, known), more=more)


def delta(change: PlanChange, *, version: int) -> DeltaMessage:
    """A change that leads to this version of the plan."""
    return DeltaMessage(
        version=version,
        since=version - 1,
        nodes=_nodes(change.nodes.values()),
        pods=_pods(change.pods.values()),
        gone_nodes=change.gone_nodes,
        gone_pods=change.gone_pods,
    )


class _Positions(dict[Any, int]):
    """Distinct values with their indexes."""

    def __missing__(self, value: Hashable) -> int:
        position = self[value] = len(self)
        return position

    def column(self, values: Iterable[Hashable]) -> tuple[int, ...]:
        """For values that cache their hash, like strings."""
        return tuple(map(self.__getitem__, values))

    def shared(self, values: Sequence[Hashable]) -> tuple[int, ...]:
        """For values shared by many rows, so that each is hashed once."""
        ids = list(map(id, values))
        positions = {number: self[value] for number, value in dict(zip(ids, values, strict=True)).items()}
        return tuple(map(positions.__getitem__, ids))

    def dicts(self) -> tuple[dict[str, Any], ...]:
        return tuple(map(dict, self))


def _nodes(rows: Collection[NodeRow]) -> NodesRecord:
    labels, taints, amounts = _Positions(), _Positions(), _Positions()
    fields: Any = NodeRow(*_columns(rows, len(NodeRow._fields)))
    return NodesRecord(
        name=fields.name,
        labels=labels.shared(fields.labels),
        taints=taints.shared(fields.taints),
        allocatable=amounts.shared(fields.allocatable),
        unschedulable=fields.unschedulable,
        label_sets=labels.dicts(),
        taint_sets=tuple(taints),
        amount_sets=amounts.dicts(),
    )


def _pods(rows: Collection[PodRow], known: Mapping[str, int] | None = None) -> PodsRecord:
    """`known`: indexes of node names that are not listed."""
    names = _Positions(known or {"": 0})
    workloads, times, labels, amounts = _Positions(), _Positions(), _Positions(), _Positions()
    groups = _Positions({"": 0})
    fields: Any = PodRow(*_columns(rows, len(PodRow._fields)))
    return PodsRecord(
        key=fields.key,
        node=names.column(fields.node),
        nominated_node=names.column(fields.nominated_node),
        workload=workloads.column(fields.workload),
        labels=labels.shared(fields.labels),
        requests=amounts.shared(fields.requests),
        priority=fields.priority,
        created=times.column(fields.created),
        terminating=tuple(compress(count(), fields.terminating)),
        node_names=tuple(islice(names, len(known or ()), None)),
        workloads=tuple(workloads),
        times=tuple(times),
        label_sets=labels.dicts(),
        amount_sets=amounts.dicts(),
        pod_group=groups.column(fields.group),
        pod_groups=tuple(groups),
    )


def _columns(rows: Collection[Any], count: int) -> Any:
    """One tuple per field of the rows."""
    return zip(*rows, strict=True) if rows else ((),) * count


# -- decoding ----------------------------------------------------------------------------------------------------------


def change_of(message: DeltaMessage) -> PlanChange:
    """The change that `delta` encoded, except for the pods' UIDs."""
    return PlanChange(
        {row.name: row for row in _node_rows(message.nodes)},
        {row.key: row for row in _pod_rows(message.pods)},
        message.gone_nodes,
        message.gone_pods,
    )


def _node_rows(block: NodesRecord) -> Iterator[NodeRow]:
    labels, amounts = _sorted_items(block.label_sets), _sorted_items(block.amount_sets)
    taints = [tuple((key, value, effect) for key, value, effect in taint_set) for taint_set in block.taint_sets]
    columns = zip(block.name, block.labels, block.taints, block.unschedulable, block.allocatable, strict=True)
    for name, label, taint, unschedulable, allocatable in columns:
        yield NodeRow(name, labels[label], taints[taint], unschedulable, amounts[allocatable])


def _pod_rows(block: PodsRecord) -> Iterator[PodRow]:
    labels, amounts = _sorted_items(block.label_sets), _sorted_items(block.amount_sets)
    terminating = set(block.terminating)
    for i, key in enumerate(block.key):
        yield PodRow(
            key,
            "",
            block.node_names[block.node[i]],
            block.node_names[block.nominated_node[i]],
            block.workloads[block.workload[i]],
            labels[block.labels[i]],
            amounts[block.requests[i]],
            block.priority[i],
            block.times[block.created[i]],
            i in terminating,
            block.pod_groups[block.pod_group[i]] if block.pod_group else "",
        )


def _sorted_items(found: Iterable[dict[str, Any]]) -> list[Any]:
    return [tuple(sorted(one.items())) for one in found]
