"""Pods that leave the fullest nodes where that makes the nodes' use more even.

The scheduler chooses where they go: with a configuration that packs, nothing becomes more even. A node that pods leave
is cordoned meanwhile, and one that got a pod keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.ask.rebalance.measures import share_of, use_of_nodes
from stowplan.ask.rebalance.moves import Moves, Outcome
from stowplan.scheduler.cluster.arrays import Floats

#: Nodes whose use is above the mean by less are left alone.
_MARGIN = 0.05
#: A move makes the standard deviation smaller by this part of a pod's share, or is not worth it.
_WORTH = 0.01


def even_out(moves: Moves, progress: Callable[[int, int], None]) -> list[tuple[int, float]]:
    """After each move: how many there were, and by how much they have lowered the standard deviation, in percent."""
    cluster, done, gains = moves.cluster, set[str](), list[tuple[int, float]]()
    start = _unevenness(use_of_nodes(cluster), moves)
    while True:
        use = use_of_nodes(cluster)
        names, valid = cluster.state.table.names, cluster.state.table.valid
        mean = float(use[valid[: len(use)]].mean()) if len(use) else 0.0
        above = [row for row in (-use).argsort().tolist() if use[row] > mean + _MARGIN and names[row] not in done]
        progress(len(done), len(done) + len(above))
        outcome = Outcome.TOTAL_LIMIT
        if above:
            with moves.attempt() as attempt:
                moves.cordon(names[above[0]])
                outcome = _relieve(moves, above[0], use)
                if outcome is Outcome.MOVED:
                    attempt.succeed()
        if outcome is Outcome.TOTAL_LIMIT:
            return gains
        if outcome is Outcome.MOVED:
            gains.append((len(moves.made), 100 * (start - _unevenness(use_of_nodes(cluster), moves))))
            done.add(moves.made[-1].to)
        else:
            done.add(names[above[0]])


def _relieve(moves: Moves, row: int, use: Floats) -> Outcome:
    """Move one pod off a node."""
    cluster = moves.cluster
    name, before = cluster.state.table.names[row], _unevenness(use, moves)
    reason = f"{name} is {use[row]:.0%} full"
    pods = [(share_of(cluster, info, row), info) for info in cluster.state.row_pods[row] if moves.is_movable(info)]
    for share, info in sorted(pods, key=lambda item: (item[1].priority, -item[0], item[1].key)):

        def worthwhile(to: str, share: float = share) -> str:
            saved = before - _unevenness(use_of_nodes(cluster), moves)
            return "" if saved > _WORTH * share / len(use) else f"on {to} it would make the nodes no more even"

        outcome = moves.move(info, reason, worthwhile) if share else Outcome.KEPT
        if outcome is not Outcome.KEPT:
            return outcome
    return Outcome.KEPT


def _unevenness(use: Floats, moves: Moves) -> float:
    return float(use[moves.cluster.state.table.valid[: len(use)]].std())
