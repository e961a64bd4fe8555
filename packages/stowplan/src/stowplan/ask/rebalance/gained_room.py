"""What moving pods would gain: room for pods of a shape for which there is enough free, but not on one node.

For each such shape of which few fit, room for one more than these is made by trial, so each gain is a plan that
`rebalance` would print.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.ask.explain.text.tables import Block
from stowplan.ask.offline import Cluster
from stowplan.ask.rebalance.goals import RoomFor
from stowplan.ask.rebalance.rebalance import rebalance
from stowplan.ask.what_if.answer_records import PagedAnswer
from stowplan.ask.what_if.hypothetical_changes import Put
from stowplan.scheduler.framework.explanations.formatting import amount
from stowplan.scheduler.inspection.records import Record
from stowplan.scheduler.inspection.room import BROKEN, RoomRecord, ShapeRoomRecord, room_of

#: Shapes that are tried, and how many pods of them may fit already, which are placed in the trial.
_TRIED, _FEW = 3, 8


class GainRecord(Record, frozen=True, kw_only=True):
    """Room for one more pod of a shape."""

    shape: str
    #: Whether moves make room, and how many.
    gained: bool
    moves: int
    #: Where pods have to leave.
    nodes: tuple[str, ...] = ()
    why_not: str = ""


class RoomAnswer(PagedAnswer, frozen=True, kw_only=True):
    room: RoomRecord
    gains: tuple[GainRecord, ...] = ()
    notes: tuple[str, ...] = ()

    def page(self) -> list[Block]:
        from stowplan.ask.rebalance.plan_text import room_page

        return room_page(self)


def room(cluster: Cluster) -> RoomAnswer:
    """How many more pods of common shapes fit, and for which of them moving pods would make room.

    Examples:
        >>> [(shape.name, shape.fits, shape.together) for shape in room(cluster).room.shapes][:2]
        [('1 nvidia.com/gpu', 2, 2), ('2 nvidia.com/gpu on a node', 0, 1)]
    """
    found = room_of(cluster.state)
    return RoomAnswer(room=found, gains=tuple(_gains(cluster, found)))


def _gains(cluster: Cluster, found: RoomRecord) -> Iterator[GainRecord]:
    lost = [shape for shape in found.shapes if shape.pods == 1 and shape.fits < min(shape.together, _FEW + 1)]
    # Those first that do not fit at all, and lose the largest share.
    for shape in sorted(lost, key=lambda one: (one.fits / one.together, one.name))[:_TRIED]:
        yield _gain(cluster, shape)


def _gain(cluster: Cluster, shape: ShapeRoomRecord) -> GainRecord:
    pods = tuple(_pod_of(cluster, shape, f"room-{number}") for number in range(shape.fits + 1))
    plan = rebalance(cluster, RoomFor(Put(pods)))
    if not plan.met:
        return GainRecord(shape=shape.name, gained=False, moves=0, why_not=next(iter(plan.notes), ""))
    left = tuple(dict.fromkeys(move.from_ for move in plan.moves))
    return GainRecord(shape=shape.name, gained=True, moves=len(plan.moves), nodes=left)


def _pod_of(cluster: Cluster, shape: ShapeRoomRecord, name: str) -> dict[str, object]:
    """A pod that tolerates every taint but those of nodes that take no pods."""
    nodes = (node for node in cluster.state.table.nodes if node is not None)
    keys = sorted({taint.key for node in nodes for taint in node.spec.taints if taint.key not in BROKEN})
    requests = {name: amount(name, number) for name, number in shape.requests.items()}
    container = {"name": "room", "image": "room", "resources": {"requests": requests, "limits": requests}}
    spec = {"containers": [container], "tolerations": [{"key": key, "operator": "Exists"} for key in keys]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
