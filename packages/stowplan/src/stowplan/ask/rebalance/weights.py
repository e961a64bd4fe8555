"""How much is done for a goal: a plan ends where going on would cost more than it gains.

Every beginning of a plan is a plan, too. Of all of them, the one of the largest value is kept, the longest of equals:

    cost × what is gained - disruption × pods moved - time × steps

The whole plan does not depend on the weights. Hence a higher weight on disruption never moves more pods, one on time
never takes more steps, and one on cost never gains less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite

from stowplan.ask.offline import ClusterError
from stowplan.ask.rebalance.measures import is_empty
from stowplan.ask.rebalance.moves import Moves, Outcome
from stowplan.ask.rebalance.plan_records import PlannedMoveRecord
from stowplan.ask.what_if.hypothetical_nodes import cordoned, node_named
from stowplan.kube.structs import PlainStruct


@dataclass(frozen=True)
class Weights:
    """What a gain is worth, and what a move and a step cost.

    Examples:
        >>> Pack(Weights(disruption=0.1)).weights.time
        0
    """

    disruption: float = 0
    #: A node that is emptied, or for `Spread` one percent less of standard deviation.
    cost: float = 1
    time: float = 0

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value < 0:
                raise ClusterError(f"weights: {one.name}: want a number, 0 or more, got {value!r}")


#: All that a goal can gain.
UNWEIGHED = Weights()


def weights_of(given: Mapping[str, float]) -> Weights:
    known = [one.name for one in fields(Weights)]
    for name in given:
        if name not in known:
            raise ClusterError(f"weights: {name}: want one of {', '.join(known)}")
    return Weights(**given)


class Pursued(PlainStruct):
    """The whole plan for a goal."""

    #: Nodes to cordon before the first move.
    cordon: list[str]
    #: Where it may end: the number of moves until then, and what they gain.
    ends: list[tuple[int, float]]


def as_far_as_worthwhile(moves: Moves, weights: Weights, pursue: Callable[[], Pursued]) -> tuple[list[str], list[str]]:
    """Make the moves that are worthwhile. The nodes to cordon, and those of them that were not emptied then."""
    with moves.attempt() as attempt:
        found, made = pursue(), moves.made
        kept = _best(made, found.ends, weights)
        if kept == len(made):
            attempt.succeed()
    if attempt.succeeded:
        return found.cordon, []
    return found.cordon, _made_again(moves, made[:kept], found.cordon)


def _best(made: Sequence[PlannedMoveRecord], ends: Sequence[tuple[int, float]], weights: Weights) -> int:
    def value(moved: int, gained: float) -> float:
        steps = made[moved - 1].step if moved else 0
        return weights.cost * gained - weights.disruption * moved - weights.time * steps

    return max((value(*end), end[0]) for end in ((0, 0.0), *ends))[1]


def _made_again(moves: Moves, made: Sequence[PlannedMoveRecord], cordon: Sequence[str]) -> list[str]:
    """Where pods go depends on the nodes that are cordoned: also those that are not emptied any more."""
    cluster = moves.cluster
    before = {name: node_named(cluster, name) for name in cordon}
    for node in before.values():
        cluster.add(cordoned(node))
    for move in made:
        if move.cordons:
            moves.cordon(move.from_)
        if moves.move(cluster.pod(move.pod), move.reason) is not Outcome.MOVED:
            # With percentageOfNodesToScore, a search starts where the last one ended, and may find other nodes.
            break
    filled = [name for name in cordon if not is_empty(cluster, cluster.state.table.row_of[name])]
    uncordon = [name for name in filled if not before[name].spec.unschedulable]
    for name in uncordon:
        cluster.add(before[name])
    return uncordon
