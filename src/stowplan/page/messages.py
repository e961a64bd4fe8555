"""The messages to a page: a snapshot of the plan, and deltas from one version of it to the next.

Rows are sent as columns. What many rows have in common (labels, amounts, workloads) is listed once per block, and the
column holds positions in that list. Every block is complete in itself: a client needs no list of an earlier message.
A row in a delta replaces the row with its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.inspection.records import Record
from stowplan.page.plan import NodeRow, PlanChange, PodRow

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator

    from stowplan.page.plan import Plan


class NodesRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Nodes as columns of equal length, and the lists that three of them point into."""

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
    """Pods as columns of equal length, and the lists that some of them point into."""

    key: tuple[str, ...]
    uid: tuple[str, ...]
    #: Positions in `node_names`, whose first one is "": no node.
    node: tuple[int, ...]
    nominated_node: tuple[int, ...]
    workload: tuple[int, ...]
    labels: tuple[int, ...]
    requests: tuple[int, ...]
    priority: tuple[int, ...]
    created: tuple[str, ...]
    terminating: tuple[bool, ...]
    node_names: tuple[str, ...]
    workloads: tuple[str, ...]
    label_sets: tuple[dict[str, str], ...]
    amount_sets: tuple[dict[str, int], ...]


class SnapshotMessage(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "snapshot"
    version: int
    nodes: NodesRecord
    pods: PodsRecord


class DeltaMessage(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "delta"
    version: int
    #: The version that it changes.
    since: int
    nodes: NodesRecord
    pods: PodsRecord
    gone_nodes: tuple[str, ...]
    gone_pods: tuple[str, ...]


def snapshot(plan: Plan, *, version: int) -> SnapshotMessage:
    return SnapshotMessage(version=version, nodes=_nodes(plan.nodes.values()), pods=_pods(plan.pods.values()))


def delta(change: PlanChange, *, version: int) -> DeltaMessage:
    """A change that leads to the plan of this version."""
    return DeltaMessage(
        version=version,
        since=version - 1,
        nodes=_nodes(change.nodes.values()),
        pods=_pods(change.pods.values()),
        gone_nodes=change.gone_nodes,
        gone_pods=change.gone_pods,
    )


class _Positions:
    """Distinct values, each with its position."""

    def __init__(self, *first: Hashable) -> None:
        self._positions: dict[Any, int] = {value: i for i, value in enumerate(first)}
        self._met: dict[int, int] = {}

    def column(self, values: Iterable[Hashable]) -> tuple[int, ...]:
        """Of values that rows hold, so that none of them goes meanwhile: one that is met again is not hashed again."""
        positions, met, found = self._positions, self._met, []
        for value in values:
            position = met.get(id(value))
            if position is None:
                position = met[id(value)] = positions.setdefault(value, len(positions))
            found.append(position)
        return tuple(found)

    def values(self) -> tuple[Any, ...]:
        return tuple(self._positions)

    def dicts(self) -> tuple[dict[str, Any], ...]:
        return tuple(dict(value) for value in self._positions)


def _nodes(rows: Collection[NodeRow]) -> NodesRecord:
    labels, taints, amounts = _Positions(), _Positions(), _Positions()
    fields: Any = NodeRow(*_columns(rows, len(NodeRow._fields)))
    return NodesRecord(
        name=fields.name,
        labels=labels.column(fields.labels),
        taints=taints.column(fields.taints),
        allocatable=amounts.column(fields.allocatable),
        unschedulable=fields.unschedulable,
        label_sets=labels.dicts(),
        taint_sets=taints.values(),
        amount_sets=amounts.dicts(),
    )


def _pods(rows: Collection[PodRow]) -> PodsRecord:
    names, workloads, labels, amounts = _Positions(""), _Positions(), _Positions(), _Positions()
    fields: Any = PodRow(*_columns(rows, len(PodRow._fields)))
    return PodsRecord(
        key=fields.key,
        uid=fields.uid,
        node=names.column(fields.node),
        nominated_node=names.column(fields.nominated_node),
        workload=workloads.column(fields.workload),
        labels=labels.column(fields.labels),
        requests=amounts.column(fields.requests),
        priority=fields.priority,
        created=fields.created,
        terminating=fields.terminating,
        node_names=names.values(),
        workloads=workloads.values(),
        label_sets=labels.dicts(),
        amount_sets=amounts.dicts(),
    )


def _columns(rows: Collection[Any], count: int) -> Any:
    """Rows as a tuple for each field."""
    return zip(*rows, strict=True) if rows else ((),) * count


# -- read again -------------------------------------------------------------------------------------------------------


def change_of(message: DeltaMessage) -> PlanChange:
    """The change that `delta` made a message of."""
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
    for i, key in enumerate(block.key):
        yield PodRow(
            key,
            block.uid[i],
            block.node_names[block.node[i]],
            block.node_names[block.nominated_node[i]],
            block.workloads[block.workload[i]],
            labels[block.labels[i]],
            amounts[block.requests[i]],
            block.priority[i],
            block.created[i],
            block.terminating[i],
        )


def _sorted_items(found: Iterable[dict[str, Any]]) -> list[Any]:
    return [tuple(sorted(one.items())) for one in found]
