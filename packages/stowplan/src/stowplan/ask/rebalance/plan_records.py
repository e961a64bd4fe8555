"""A plan of moves as records."""

from __future__ import annotations

import msgspec

from stowplan.ask.explain.text.tables import Block
from stowplan.ask.what_if.answer_records import Answer, PagedAnswer


class PlannedMoveRecord(Answer, frozen=True, kw_only=True):
    pod: str
    from_: str = msgspec.field(name="from")
    to: str
    #: Why the pod leaves its node.
    reason: str
    #: Moves of one step may be made at the same time; the next step begins when all their replacements run.
    step: int
    #: Whether the node is cordoned before this move; the plan says which nodes are uncordoned at its end.
    cordons: bool
    #: Whether data in emptyDir volumes is lost.
    loses_data: bool
    #: Seconds for which a pod that runs to an end (restartPolicy Never or OnFailure) has run; its replacement begins
    #: anew.
    lost_work: int = 0


class RemovalRecord(Answer, frozen=True, kw_only=True):
    """A pod that has ended and is deleted, before the first move; it needs no other node."""

    pod: str
    node: str
    reason: str


class KeptRecord(Answer, frozen=True, kw_only=True):
    """A pod that should move and does not."""

    pod: str
    node: str
    #: Why it should.
    reason: str
    #: Why it does not.
    kept: str


class BalanceRecord(Answer, frozen=True, kw_only=True):
    """What the goals are about."""

    #: Nodes, and those of them with no pod but what belongs to the node.
    nodes: int
    empty_nodes: int
    #: The nodes' use is the mean of the shares of cpu and memory that are requested; both in percent.
    mean_use: float
    #: Its standard deviation.
    unevenness: float


class RebalanceRecord(PagedAnswer, frozen=True, kw_only=True):
    kind: str = "Rebalance"
    goal: str
    #: Nodes to cordon before the first move.
    cordon: tuple[str, ...]
    #: In the order in which they are made.
    moves: tuple[PlannedMoveRecord, ...]
    removals: tuple[RemovalRecord, ...] = ()
    #: Nodes to uncordon after the last move; other cordoned ones are meant to be given back.
    uncordon: tuple[str, ...]
    kept: tuple[KeptRecord, ...]
    #: Pending pods that have a node after the last move -> the node.
    placed: dict[str, str]
    before: BalanceRecord
    after: BalanceRecord
    #: Whether the goal is met.
    met: bool
    notes: tuple[str, ...] = ()

    def page(self) -> list[Block]:
        from stowplan.ask.rebalance.plan_text import rebalance_page

        return rebalance_page(self)
