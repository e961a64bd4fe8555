"""How much room there is for pods of a size, and how much of the free room is of no use to them.

Free resources may be spread over nodes so that a pod that needs more than one of them has fits nowhere: eight GPUs are
free, and no node has two. So for each *shape* of pods we count how many more fit, and how many would if everything that
is free were together. The shapes are one unit of each extended resource, as many as a whole node has, gangs that fill
four such nodes in one rack (or zone), and the most frequent requests of the pods that there are.

Resources alone are compared, on nodes that take pods: labels, taints of users, ports and claims are ignored, so the
real room may be less. It is a few operations on columns, cheap enough for a metric; `stowplan fit` asks the scheduler
about one pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stowplan.kube.api.eviction_outcomes import belongs_to_node
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.framework.explanations.formatting import amount
from stowplan.scheduler.inspection.records import Record

if TYPE_CHECKING:
    from stowplan.scheduler.cluster.node_table import NodeTable
    from stowplan.scheduler.cluster.pod_info import PodShape
    from stowplan.scheduler.cluster.state import ClusterState

#: Number of nodes that a gang fills, and of the most frequent requests that are shapes.
GANG, MOST_SEEN = 4, 5
#: Labels of domains for gangs: the first that nodes have.
_RACK, ZONE = "rack", "topology.kubernetes.io/zone"
#: Nodes with such a taint run no new pods, whatever these tolerate.
BROKEN = frozenset(
    f"node.kubernetes.io/{name}" for name in ("not-ready", "unreachable", "out-of-service", "unschedulable")
)


class Shape(PlainStruct, frozen=True, kw_only=True):
    name: str
    #: Resource -> amount of one pod, in the scheduler's integers.
    requests: Mapping[str, int]
    #: Number of pods, and the label whose value their nodes share; "" for single pods.
    pods: int = 1
    domain: str = ""
    #: Number of pods with exactly these requests.
    seen: int = 0


class ShapeRoomRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The room for pods, or gangs, of a shape."""

    name: str
    requests: dict[str, int]
    pods: int
    domain: str
    seen: int
    #: How many more fit, and how many would if all that is free were on one node, or in one domain.
    fits: int
    together: int

    @property
    def lost(self) -> float:
        """The share of the room that is not where such a pod fits."""
        return 1 - self.fits / self.together if self.together else 0.0


class RoomRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "Room"
    #: Nodes that take pods.
    nodes: int
    shapes: tuple[ShapeRoomRecord, ...]
    #: Resource -> share of what is free that is on nodes where a typical pod does not fit.
    fragmentation: dict[str, float]


def room_of(state: ClusterState) -> RoomRecord:
    """The room now. Visits shapes of pods rather than pods, and those without a node."""
    table = state.table
    numbers = Counter(info.shape for info in state.pending.values() if state.placed(info.uid) is None)
    for shape in state.matches.shapes:
        numbers[shape] += shape.refs
    sizes = sizes_of(numbers)
    shapes = [*standard_shapes(table), *_seen(sizes)]
    typical = [(float(number), dict(size)) for size, number in sizes.most_common(32)]
    return RoomRecord(
        nodes=int(taking_pods(table).sum()),
        shapes=tuple(room_for(table, shapes)),
        fragmentation=fragmentation(table, typical),
    )


def sizes_of(numbers: Mapping[PodShape, int]) -> Counter[tuple[tuple[str, int], ...]]:
    """What pods of these shapes request, with their number; without those that belong to their node."""
    found: Counter[tuple[tuple[str, int], ...]] = Counter()
    # A shape's pods have the same requests, and pods of a DaemonSet share theirs with no others.
    for shape, number in numbers.items():
        size = tuple(sorted((name, wanted) for name, wanted in shape.requests.items() if wanted))
        if size and not belongs_to_node(shape.pod):
            found[size] += number
    return found


def standard_shapes(table: NodeTable) -> Iterator[Shape]:
    """Of each extended resource."""
    domain = table.memo("room: domain", lambda: _domain(table))
    for name, index in sorted(table.resources.items()):
        amounts = table.allocatable[index, : table.n]
        if "/" not in name or not amounts.any():
            continue
        yield Shape(name=f"1 {name}", requests={name: 1})
        values, numbers = np.unique(amounts[amounts > 0], return_counts=True)
        whole = int(values[numbers.argmax()])
        if whole > 1:
            yield Shape(name=f"{whole} {name} on a node", requests={name: whole})
        if domain:
            where = domain.rpartition("/")[2]
            gang = f"{GANG} × {whole} {name} in a {where}"
            yield Shape(name=gang, requests={name: whole}, pods=GANG, domain=domain)


def _domain(table: NodeTable) -> str:
    keys = Counter(key for node in table.nodes if node is not None for key in node.metadata.labels)
    racks = sorted(key for key in keys if key.rpartition("/")[2].endswith(_RACK))
    return racks[0] if racks else ZONE if ZONE in keys else ""


def _seen(sizes: Counter[tuple[tuple[str, int], ...]]) -> Iterator[Shape]:
    for size, number in sorted(sizes.items(), key=lambda one: (-one[1], one[0]))[:MOST_SEEN]:
        yield Shape(name=requests_text(dict(size)), requests=dict(size), seen=number)


def requests_text(requests: Mapping[str, int]) -> str:
    return ", ".join(f"{amount(name, number)} {name}" for name, number in requests.items())


def room_for(table: NodeTable, shapes: Collection[Shape]) -> Iterator[ShapeRoomRecord]:
    taking = taking_pods(table)
    slots = np.maximum(table.allowed_pods[: table.n] - table.pod_count[: table.n], 0)
    for shape in shapes:
        free, rows = _free(table, shape.requests, taking)
        wanted = np.array(list(shape.requests.values()), np.int64)
        each = np.minimum((free // wanted[:, None]).min(axis=0), slots[rows]) if len(wanted) else slots[rows]
        whole = int(min([*(free.sum(axis=1) // wanted).tolist(), int(slots[rows].sum())]))
        yield ShapeRoomRecord(
            name=shape.name,
            requests=dict(shape.requests),
            pods=shape.pods,
            domain=shape.domain,
            seen=shape.seen,
            fits=_gangs(table, shape, each, rows) if shape.domain else int(each.sum()),
            together=whole // shape.pods,
        )


def _gangs(table: NodeTable, shape: Shape, each: Ints, rows: Ints) -> int:
    pods: Counter[str] = Counter()
    for row, number in zip(rows.tolist(), each.tolist(), strict=True):
        node = table.nodes[row]
        value = "" if node is None else node.metadata.labels.get(shape.domain, "")
        if value:
            pods[value] += number
    return sum(number // shape.pods for number in pods.values())


def taking_pods(table: NodeTable) -> Mask:
    """Rows of nodes that take pods."""
    found = table.valid[: table.n] & ~table.unschedulable[: table.n]
    broken = [
        number
        for number, taints in enumerate(table.taint_sets.values)
        if any(taint.key in BROKEN and taint.effect != "PreferNoSchedule" for taint in taints)
    ]
    return found & ~np.isin(table.taint_set[: table.n], broken)


def _free(table: NodeTable, requests: Mapping[str, int], taking: Mask) -> tuple[Ints, Ints]:
    """Of the nodes that have all of these resources, by resource; and their rows."""
    indices = [table.resources.get(name, -1) for name in requests]
    if -1 in indices:
        return np.zeros((len(indices), 0), np.int64), np.zeros(0, np.intp)
    have = table.allocatable[indices, : table.n]
    rows = np.flatnonzero(taking & (have > 0).all(axis=0))
    return np.maximum(have[:, rows] - table.requested[indices][:, rows], 0), rows


def fragmentation(table: NodeTable, typical: Sequence[tuple[float, Mapping[str, int]]]) -> dict[str, float]:
    """Resource -> share of the free amount that is on nodes where a typical pod does not fit.

    `typical`: sizes of pods with their weights; the result is the mean over those that request the resource.
    Resources that no node has are ignored.
    """
    n = table.n
    free = np.maximum(table.allocatable[:, :n] - table.requested[:, :n], 0)
    slots = table.valid[:n] & (table.allowed_pods[:n] > table.pod_count[:n])
    known = {name: index for name, index in table.resources.items() if table.allocatable[index, :n].any()}
    stranded: dict[str, float] = {}
    weights: dict[str, float] = {}
    for weight, size in typical:
        fits = slots.copy()
        for name, number in size.items():
            if name in known:
                fits &= free[known[name]] >= number
        for name in size:
            if name in known:
                whole = int(free[known[name]].sum())
                share = 1.0 - int(free[known[name]][fits].sum()) / whole if whole else 0.0
                stranded[name] = stranded.get(name, 0.0) + weight * share
                weights[name] = weights.get(name, 0.0) + weight
    return {name: round(stranded[name] / weights[name], 6) for name in sorted(stranded)}
