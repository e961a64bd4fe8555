"""What a rebalancing is for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from stowplan.ask.offline import ClusterError
from stowplan.ask.rebalance.emptied_nodes import empty_nodes
from stowplan.ask.rebalance.evened_nodes import even_out
from stowplan.ask.rebalance.made_room import make_room
from stowplan.ask.rebalance.misplaced_pods import misplaced_pods
from stowplan.ask.rebalance.moves import Moves, Outcome
from stowplan.ask.rebalance.weights import UNWEIGHED, Pursued, Weights, as_far_as_worthwhile, weights_of
from stowplan.ask.what_if.hypothetical_changes import Change
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.framework.explanations.formatting import count

_NO_PLAN = "no plan was found that empties more than"

#: (done, of how many)
Progress = Callable[[int, int], None]


class Result(PlainStruct):
    """What a goal adds to its moves."""

    met: bool = True
    #: Nodes that are cordoned before the first move, and those of them that are uncordoned after the last.
    cordon: list[str] = field(default_factory=list)
    uncordon: list[str] = field(default_factory=list)
    placed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Goal(ABC):
    """What moves are for; derive from it to make one of your own.

    Examples:
        >>> FreeNodes(2).text
        '2 empty nodes'
    """

    @property
    @abstractmethod
    def text(self) -> str:
        """A description."""

    @abstractmethod
    def pursue(self, moves: Moves, progress: Progress) -> Result:
        """Make moves in the caller's transaction."""


@dataclass(frozen=True)
class Mend(Goal):
    """Pods whose node would not take them any more get another one.

    Examples:
        >>> rebalance(cluster, Mend()).met
        True
    """

    text = "pods that their nodes would not take any more"

    def pursue(self, moves: Moves, progress: Progress) -> Result:
        stays = 0
        moved = True
        while moved:
            # What has moved may have made room for others, or left others alone.
            moved, stays = False, 0
            pods = moves.cluster.state.placed_pods()
            for number, (info, why) in enumerate(misplaced_pods(moves.cluster, moves.is_stopped)):
                outcome = moves.move(info, why)
                moved |= outcome is Outcome.MOVED
                stays += outcome is not Outcome.MOVED
                progress(number, len(pods))
                if outcome is Outcome.TOTAL_LIMIT:
                    return Result(met=False)
        return Result(met=not stays and not moves.stopped)


@dataclass(frozen=True)
class Pack(Goal):
    """As few nodes as possible have pods; the others can be given back.

    Examples:
        >>> rebalance(cluster, Pack()).after.empty_nodes
        2
    """

    weights: Weights = UNWEIGHED
    text = "as few nodes as possible"

    def pursue(self, moves: Moves, progress: Progress) -> Result:
        def all_of_it() -> Pursued:
            cordon, _ = empty_nodes(moves, None, progress)
            # A node's pods leave it one after the other.
            pods = Counter(move.from_ for move in moves.made).values()
            return Pursued(cordon, [(last, emptied) for emptied, last in enumerate(accumulate(pods), 1)])

        cordon, uncordon = as_far_as_worthwhile(moves, self.weights, all_of_it)
        return Result(cordon=cordon, uncordon=uncordon)


@dataclass(frozen=True)
class FreeNodes(Goal):
    """So many nodes have no pods, and can be given back.

    Examples:
        >>> rebalance(cluster, FreeNodes(5)).notes
        ('no plan was found that empties more than 2 nodes',)
    """

    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or self.count < 1:
            raise ClusterError(f"FreeNodes: want a number of nodes, 1 or more, got {self.count!r}")

    @property
    def text(self) -> str:
        return f"{count(self.count, 'empty node')}"

    def pursue(self, moves: Moves, progress: Progress) -> Result:
        cordon, emptied = empty_nodes(moves, self.count, progress)
        if emptied < self.count:
            return Result(met=False, cordon=cordon, notes=[f"{_NO_PLAN} {count(emptied, 'node')}"])
        moves.forget_kept()
        return Result(cordon=cordon)


@dataclass(frozen=True)
class Spread(Goal):
    """The nodes are used evenly.

    Examples:
        >>> rebalance(cluster, Spread()).moves
        ()
    """

    weights: Weights = UNWEIGHED
    text = "nodes that are used evenly"

    def pursue(self, moves: Moves, progress: Progress) -> Result:
        as_far_as_worthwhile(moves, self.weights, lambda: Pursued([], even_out(moves, progress)))
        sources = [move.from_ for move in moves.made if move.cordons]
        moves.uncordon(sources)
        return Result(uncordon=sources)


#: What `goal_named` reads.
GOALS = "mend|spread|pack|free-nodes=N"


def goal_named(text: str, weights: Mapping[str, float] | None = None) -> Goal | None:
    """The goal; None if there is none of this name. Raises ClusterError."""
    weighing = {"spread": Spread, "pack": Pack}.get(text)
    if weighing is not None:
        return weighing(weights_of(weights or {}))
    if weights:
        raise ClusterError(f"weights: {text}: it is reached or not; only spread and pack have degrees")
    name, _, value = text.partition("=")
    if name == "free-nodes" and value.isdecimal() and int(value):
        return FreeNodes(int(value))
    return Mend() if text == "mend" else None


@dataclass(frozen=True)
class RoomFor(Goal):
    """There is room for all the pods that a change adds.

    Examples:
        >>> rebalance(cluster, RoomFor(Put((a_pod("web-9", "shop").requests(cpu="500m").obj(),)))).placed
        {'shop/web-9': 'node-b2'}
    """

    change: Change

    @property
    def text(self) -> str:
        return f"room after: {self.change.text}"

    def pursue(self, moves: Moves, progress: Progress) -> Result:
        pending = moves.cluster.state.pending
        known = {info.key: info for info in pending.values()}
        self.change.apply(moves.cluster)
        wanted = [info.pod for info in pending.values() if known.get(info.key) is not info]
        if not wanted:
            raise ClusterError(f"{self.text}: that adds no pod that waits for a node")
        room = make_room(moves, wanted)
        if room.why_not:
            return Result(met=False, notes=[f"no room for all: {room.why_not}"])
        moves.forget_kept()
        left = {move.from_ for move in moves.made}
        return Result(uncordon=[name for name in room.nodes if name in left], placed=room.placed)
