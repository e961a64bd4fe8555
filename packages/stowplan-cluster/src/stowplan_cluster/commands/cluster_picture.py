"""A one-screen overview of a cluster: utilization and pods per node."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stowplan.ask.explain.text.tables import Grid
from stowplan.scheduler.framework.explanations.formatting import amount

if TYPE_CHECKING:
    from stowplan.ask.explain.text.tables import Cell
    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.cluster.state import ClusterState

_BAR = 10


def picture(state: ClusterState) -> Grid:
    """One row per node, by name."""
    rows = [
        [((name, "name"),), *_usage(state, row, "cpu"), *_usage(state, row, "memory"), _pods(state, row)]
        for name, row in sorted(state.table.row_of.items())
    ]
    return Grid(rows, ("node", "cpu", "", "memory", "", "pods"), frozenset((2, 4)))


def _usage(state: ClusterState, row: int, resource: str) -> list[Cell]:
    """A bar and a text such as `3500m of 4`."""
    table = state.table
    index = table.resources[resource]
    used, total = int(table.requested[index, row]), int(table.allocatable[index, row])
    filled = round(_BAR * used / total) if total else 0
    bar = (("█" * filled, "full" if filled == _BAR else "bar"), ("░" * (_BAR - filled), "dim"))
    return [bar, f"{amount(resource, used)} of {amount(resource, total)}"]


def _pods(state: ClusterState, row: int) -> Cell:
    """The node's pods, grouped by application."""
    counts = Counter(_app_of(info) for info in state.row_pods[row])
    listed = ", ".join(app if number == 1 else f"{app} ×{number}" for app, number in sorted(counts.items()))
    if state.table.unschedulable[row]:
        return (("cordoned", "pending"),)
    return listed or (("none", "dim"),)


def _app_of(info: PodInfo) -> str:
    return info.labels.get("app") or info.pod.metadata.name
