"""Nodes that are emptied, to be given back.

The emptiest nodes come first. A node is cordoned, and all its pods move, or none. Nodes that are empty already are
cordoned first: the scheduler would fill them.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.ask.rebalance.measures import is_empty, share_of, use_of_nodes
from stowplan.ask.rebalance.moves import Moves, Outcome
from stowplan.ask.what_if.hypothetical_nodes import cordoned, node_at, node_named, pods_on
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome

#: Nodes that nobody gives back.
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def empty_nodes(moves: Moves, most: int | None, progress: Callable[[int, int], None]) -> tuple[list[str], int]:
    """Empty nodes until `most` of the cluster are, None: as many as possible.

    Those that are empty already, and how many are in the end.
    """
    cluster = moves.cluster
    use, table = use_of_nodes(cluster), cluster.state.table
    rows = [row for row in table.row_of.values() if _CONTROL_PLANE not in node_at(cluster, row).metadata.labels]
    found = [table.names[row] for row in rows if is_empty(cluster, row)]
    for name in found:
        cluster.add(cordoned(node_named(cluster, name)))
    emptied = len(found)
    occupied = sorted((float(use[row]), table.names[row]) for row in rows if not is_empty(cluster, row))
    for number, (_, name) in enumerate(occupied):
        if most is not None and emptied >= most:
            break
        emptied += _emptied(moves, name)
        progress(number + 1, len(occupied))
    return found, emptied


def _emptied(moves: Moves, name: str) -> bool:
    """Empty a node, or leave it as it is."""
    cluster, row = moves.cluster, moves.cluster.state.table.row_of[name]
    leaving = [info for info in pods_on(cluster, name) if eviction_outcome(info.pod) in _IN_THE_WAY]
    if len(leaving) > moves.left or not all(map(moves.is_movable, leaving)):
        return False
    # The largest are the hardest to place.
    leaving.sort(key=lambda info: share_of(cluster, info, row), reverse=True)
    with moves.attempt() as attempt:
        moves.cordon(name)
        if all(moves.move(info, f"empties {name}") is Outcome.MOVED for info in leaving):
            attempt.succeed()
    return attempt.succeeded


#: Others stay with the node, or go by themselves.
_IN_THE_WAY = (EvictionOutcome.RECREATED, EvictionOutcome.LOST)
