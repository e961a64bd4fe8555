"""Nodes that are emptied, to be given back.

The emptiest nodes come first. A node is cordoned, and all its pods move, or none. Nodes that are empty already are
cordoned first: the scheduler would fill them. So would it fill those that are emptied next, being the emptiest, and a
pod moves only once. Therefore as many as could be empty are cordoned together and tried; those that cannot be emptied
are taken out, and the others tried again from the start, since less is cordoned then. At last the remaining nodes are
tried one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stowplan.ask.rebalance.measures import is_empty, share_of, use_of_nodes
from stowplan.ask.rebalance.moves import Moves, Outcome
from stowplan.ask.what_if.hypothetical_nodes import cordoned, node_at, node_named, pods_on
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.scheduler.cluster.node_table import NodeTable

#: Nodes that nobody gives back.
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"

#: How often nodes are tried together.
_ROUNDS = 5


def empty_nodes(moves: Moves, most: int | None, progress: Callable[[int, int], None]) -> tuple[list[str], int]:
    """Empty nodes until `most` of the cluster are, None: as many as possible.

    Those to cordon before the first move, and how many are empty in the end.
    """
    cluster = moves.cluster
    use, table = use_of_nodes(cluster), cluster.state.table
    rows = [row for row in table.row_of.values() if _CONTROL_PLANE not in node_at(cluster, row).metadata.labels]
    empty = [row for row in rows if is_empty(cluster, row)]
    # Those first that get no pods as it is.
    empty.sort(key=lambda row: not node_at(cluster, row).spec.unschedulable)
    found = [table.names[row] for row in empty[:most]]
    _cordon(moves, found)
    occupied = sorted((row for row in rows if not is_empty(cluster, row)), key=lambda row: (use[row], table.names[row]))
    wanted = len(occupied) if most is None else min(most - len(found), len(occupied))
    names = [table.names[row] for row in occupied]
    together = _emptied_together(moves, names[: min(wanted, _most_by_sums(table, occupied))], progress)
    emptied, done = len(together), set(together)
    for number, name in enumerate(moves.until_stopped(name for name in names if name not in done)):
        if emptied >= wanted:
            break
        emptied += _emptied(moves, name)
        progress(number + 1, len(names))
    return found + together, len(found) + emptied


def _cordon(moves: Moves, names: Sequence[str]) -> None:
    for name in names:
        moves.cluster.add(cordoned(node_named(moves.cluster, name)))


def _most_by_sums(table: NodeTable, rows: Sequence[int]) -> int:
    """How many of the rows, the first ones, could be empty if only sums counted."""
    taken = table.requested[:, rows].cumsum(axis=1)
    free = (table.allocatable - table.requested)[:, table.valid].clip(min=0).sum(axis=1, keepdims=True)
    free_here = (table.allocatable - table.requested)[:, rows].clip(min=0).cumsum(axis=1)
    fits = (taken <= free - free_here) | (taken == 0)
    return int(np.logical_and.accumulate(fits.all(axis=0)).sum())


def _emptied_together(moves: Moves, names: list[str], progress: Callable[[int, int], None]) -> list[str]:
    for _ in range(_ROUNDS):
        done = []
        with moves.attempt() as attempt:
            _cordon(moves, names)
            for number, name in enumerate(moves.until_stopped(names)):
                if _emptied(moves, name):
                    done.append(name)
                progress(number + 1, len(names))
            if len(done) == len(names):
                attempt.succeed()
        if attempt.succeeded:
            return names
        names = done
    return []


def _emptied(moves: Moves, name: str) -> bool:
    """Empty a node, or leave it as it is."""
    cluster, row = moves.cluster, moves.cluster.state.table.row_of[name]
    leaving = [info for info in pods_on(cluster, name) if eviction_outcome(info.pod) in _IN_THE_WAY]
    if not moves.may_make(len(leaving)) or not all(map(moves.is_movable, leaving)):
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
