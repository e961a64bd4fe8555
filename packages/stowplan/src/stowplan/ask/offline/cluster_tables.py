"""A cluster's nodes and pods as rows for data frames, and its nodes as a heat map for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from stowplan.ask.loading.workloads import workload_of
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import group_key
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.explanations.formatting import amount, count, taint_text
from stowplan.scheduler.inspection.room import ZONE, taking_pods

#: From little to much; dark colors have light text.
_COLORS = (
    ("#d7e6ee", "#16283c"),
    ("#a5c8dc", "#16283c"),
    ("#6fa5c4", "#16283c"),
    ("#3a7ca5", "#fff"),
    ("#15507a", "#fff"),
)


def node_rows(state: ClusterState) -> Iterator[dict[str, Any]]:
    """A row per node by name: what it has, what is requested of it and what is free, in the scheduler's integers."""
    table, taking = state.table, taking_pods(state.table)
    for name, row in sorted(table.row_of.items()):
        node = table.nodes[row]
        assert node is not None
        found: dict[str, Any] = {
            "node": name,
            "takes_pods": bool(taking[row]),
            "taints": ", ".join(map(taint_text, node.spec.taints)),
            "pods": int(table.pod_count[row]),
        }
        for resource, index in table.resources.items():
            have, requested = int(table.allocatable[index, row]), int(table.requested[index, row])
            found |= {
                f"{resource}.allocatable": have,
                f"{resource}.requested": requested,
                f"{resource}.free": max(0, have - requested) if taking[row] else 0,
            }
        yield found | {f"labels.{key}": value for key, value in sorted(node.metadata.labels.items())}


def pod_rows(state: ClusterState) -> Iterator[dict[str, Any]]:
    """A row per pod by key, with its requests and labels."""
    pending = (info for info in state.pending.values() if state.placed(info.uid) is None)
    for info in sorted([*state.placed_pods(), *pending], key=lambda one: one.key):
        pod = info.pod
        found = {
            "pod": info.key,
            "node": info.node_name,
            "workload": "/".join(workload_of(pod) or ()),
            "group": group_key(pod) if pod.spec.scheduling_group is not None else "",
            "priority": info.priority,
            "created": pod.metadata.creation_timestamp or "",
        }
        found |= {f"requests.{name}": number for name, number in info.shape.requests.items() if number}
        yield found | {f"labels.{key}": value for key, value in sorted(pod.metadata.labels.items())}


class Cell(PlainStruct, frozen=True):
    node: str
    requested: int
    allocatable: int
    takes_pods: bool

    @property
    def free(self) -> int:
        return max(0, self.allocatable - self.requested) if self.takes_pods else 0


class HeatMap(PlainStruct, frozen=True):
    """Nodes by the share of a resource that is requested, grouped by a label; a picture in notebooks."""

    resource: str
    #: The label; "" for none.
    by: str
    #: The label's value -> nodes that have the resource, and the number of nodes that do not.
    groups: dict[str, tuple[Cell, ...]]
    without: dict[str, int]

    def __repr__(self) -> str:
        return f"<HeatMap: {'; '.join(map(self._sum, self.groups)) or 'no nodes'}>"

    def _sum(self, group: str) -> str:
        cells, without = self.groups[group], self.without[group]
        free, have = sum(cell.free for cell in cells), sum(cell.allocatable for cell in cells)
        text = f"{amount(self.resource, free)} of {amount(self.resource, have)} {self.resource} free"
        text = text if cells else f"no node has {self.resource}"
        others = f", {count(without, 'node')} without any" if without and cells else ""
        return f"{group}: {text}{others}" if group else text + others

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<p style='margin:6px 0 2px'>{escape(self._sum(group))}</p><div>{''.join(map(self._box, cells))}</div>"
            for group, cells in self.groups.items()
        )
        scale = "".join(_box(f"{20 * i}–{20 * i + 20} %", "", i) for i in range(len(_COLORS)))
        return f"<div><p style='margin:2px 0'>requested: {scale} ⊘ takes no pods</p>{rows}</div>"

    def _box(self, cell: Cell) -> str:
        used, have = (amount(self.resource, number) for number in (cell.requested, cell.allocatable))
        text = amount(self.resource, cell.free) if cell.takes_pods else "⊘"
        step = min(len(_COLORS) - 1, len(_COLORS) * cell.requested // max(1, cell.allocatable))
        return _box(text, f"{cell.node}: {used} of {have} {self.resource} requested", step)


def _box(text: str, title: str, step: int) -> str:
    background, ink = _COLORS[step]
    style = f"display:inline-block;min-width:38px;padding:3px;margin:1px;text-align:center;background:{background}"
    return f"<span title='{escape(title, quote=True)}' style='{style};color:{ink}'>{escape(text)}</span>"


def heat_map(state: ClusterState, resource: str, by: str | None) -> HeatMap:
    """`by`: a label of nodes, "" for none; None: the zone, if nodes have one."""
    table, taking = state.table, taking_pods(state.table)
    index = table.resources.get(resource)
    nodes = [(name, row, table.nodes[row]) for name, row in sorted(table.row_of.items())]
    if by is None:
        by = ZONE if any(node is not None and ZONE in node.metadata.labels for _, _, node in nodes) else ""
    groups: dict[str, list[Cell]] = {}
    without: dict[str, int] = {}
    for name, row, node in nodes:
        group = node.metadata.labels.get(by, "") if node is not None and by else ""
        cells = groups.setdefault(group, [])
        without.setdefault(group, 0)
        have = 0 if index is None else int(table.allocatable[index, row])
        if have:
            cells.append(Cell(name, int(table.requested[index, row]), have, bool(taking[row])))
        else:
            without[group] += 1
    return HeatMap(resource, by, {group: tuple(cells) for group, cells in sorted(groups.items())}, without)
