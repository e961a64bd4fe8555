"""A plan of moves towards a goal."""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.ask.offline import Cluster
from stowplan.ask.offline.assumptions import assumed
from stowplan.ask.rebalance.goals import Goal, Progress
from stowplan.ask.rebalance.made_room import scheduled_without_preemption
from stowplan.ask.rebalance.measures import balance_of
from stowplan.ask.rebalance.moves import Limits, Moves
from stowplan.ask.rebalance.plan_records import RebalanceRecord
from stowplan.ask.what_if.hypothetical_changes import Change
from stowplan.scheduler.framework.explanations.formatting import count


def _ignored(done: int, of: int) -> None:
    pass


def rebalance(
    cluster: Cluster, goal: Goal, *, limits: Limits | None = None, progress: Progress = _ignored
) -> RebalanceRecord:
    """Which pods to move, in which order, and where the scheduler would put them; nothing is changed.

    Examples:
        >>> plan = rebalance(cluster, FreeNodes(2))
        >>> plan.cordon, [(move.pod, move.from_, move.to) for move in plan.moves]
        (('node-c3', 'gpu-a1'), [('ml/train-0', 'gpu-a1', 'gpu-b1')])
    """
    with cluster.transaction():
        return _rebalanced(Moves(cluster, limits), goal, progress)


@dataclass
class Rebalance(Change):
    """Pods are moved towards a goal, for `what_if`.

    Examples:
        >>> what_if(cluster, Rebalance(FreeNodes(2))).displaced
        {'ml/train-0': 'gpu-b1'}
    """

    goal: Goal
    limits: Limits | None = None
    #: Of the last time that it was made.
    plan: RebalanceRecord | None = None
    stopped: bool = False

    @property
    def text(self) -> str:
        return f"rebalance: {self.goal.text}{', as far as planned when stopped' if self.stopped else ''}"

    def apply(self, cluster: Cluster) -> None:
        moves = Moves(cluster, self.limits)
        self.plan = _rebalanced(moves, self.goal, _ignored)
        self.stopped = moves.stopped


def _rebalanced(moves: Moves, goal: Goal, progress: Progress) -> RebalanceRecord:
    """The moves are made in the caller's transaction."""
    cluster = moves.cluster
    before = balance_of(cluster)
    found = goal.pursue(moves, progress)
    after = balance_of(cluster)
    with cluster.transaction():
        helped = scheduled_without_preemption(cluster, [info.pod for info in cluster.state.pending.values()])
    placed = found.placed | {decision.pod.key: decision.node_name for decision in helped if decision.node_name}
    return RebalanceRecord(
        goal=goal.text,
        cordon=tuple(found.cordon),
        moves=tuple(moves.made),
        removals=tuple(moves.removed),
        uncordon=tuple(found.uncordon),
        kept=tuple(moves.kept),
        placed=placed,
        before=before,
        after=after,
        met=found.met,
        notes=(*found.notes, *assumed(moves.provisions), *_about(moves)),
    )


def _about(moves: Moves) -> list[str]:
    notes = []
    if moves.stopped:
        notes.append("stopped early: there may be more to do")
    if moves.reached_limit is not None:
        notes.append(f"at most {count(moves.reached_limit, 'pod')} may move: there may be more to do")
    if moves.worked_out:
        names = ", ".join(moves.worked_out)
        notes.append(f"without a status, what these budgets allow was computed from the pods: {names}")
    losing = [move.pod for move in moves.made if move.loses_data]
    if losing:
        notes.append(f"the data in emptyDir volumes is lost: {', '.join(losing)}")
    anew = [move for move in moves.made if move.lost_work]
    if anew:
        hours = f"{sum(move.lost_work for move in anew) / 3600:,.1f} hours of work are lost"
        notes.append(
            f"{hours}, as these begin anew (--max-lost-work limits it): {', '.join(move.pod for move in anew)}"
        )
    return notes
