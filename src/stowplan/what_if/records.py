"""Answers to what-if questions as records.

Pods are named `namespace/name`. See `inspection/records.py` for what all records have in common.
"""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.inspection.records import Record, document


class Answer(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Unlike other records these show every field, so that a script need not ask whether there is one."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return document(self)


# -- fit --------------------------------------------------------------------------------------------------------------


class LimitRecord(Answer, frozen=True, kw_only=True):
    """Why nodes take no more."""

    plugin: str
    reason: str
    nodes: int
    #: Zone -> nodes; empty where nodes have no zone.
    zones: dict[str, int] = {}


class NodesToAddRecord(Answer, frozen=True, kw_only=True):
    """Nodes of one kind that would make all pods fit."""

    like: str
    count: int
    #: Pods that such a node takes; None if that depends on the other nodes.
    each: int | None = None
    #: Of all of them together.
    price: float | None = None


class MixRecord(Answer, frozen=True, kw_only=True):
    """The cheapest nodes of several kinds that would make all pods fit."""

    nodes: dict[str, int]
    price: float


class FitRecord(Answer, frozen=True, kw_only=True):
    kind: str = "Fit"
    pod: str
    #: Pods that were asked for; None: as many as there is room for.
    wanted: int | None
    #: How many more fit.
    fits: int
    #: Node -> pods; nodes that take none are left out.
    per_node: dict[str, int]
    per_zone: dict[str, int]
    #: What keeps the next one off, the reason of most nodes first.
    limited_by: tuple[LimitRecord, ...]
    #: For the pods that do not fit: one entry for each kind of node that was asked about, the fewest (or cheapest)
    #: first. Kinds that cannot help are left out.
    nodes_to_add: tuple[NodesToAddRecord, ...]
    cheapest: MixRecord | None = None
    notes: tuple[str, ...] = ()


class GroupFitRecord(Answer, frozen=True, kw_only=True):
    kind: str = "FitGroup"
    pod_group: str
    #: Pods of one group.
    pods_each: int
    #: Groups that were asked for; None: as many as there is room for.
    wanted: int | None
    #: How many more groups fit whole.
    fits: int
    #: Node -> pods.
    per_node: dict[str, int]
    #: Value of the topology label -> pods; empty without one.
    per_domain: dict[str, int]
    #: Why the next one does not fit.
    limited_by: str
    nodes_to_add: tuple[NodesToAddRecord, ...]
    notes: tuple[str, ...]


# -- drain and survive ------------------------------------------------------------------------------------------------


class MoveRecord(Answer, frozen=True, kw_only=True):
    pod: str
    from_: str = msgspec.field(name="from")
    to: str


class StrandedRecord(Answer, frozen=True, kw_only=True):
    """A pod that would find no node."""

    pod: str
    from_: str = msgspec.field(name="from")
    reason: str


class BlockRecord(Answer, frozen=True, kw_only=True):
    """A pod that a disruption budget keeps on its node."""

    pod: str
    node: str
    budget: str
    reason: str


class LeftRecord(Answer, frozen=True, kw_only=True):
    """A pod that does not move: why not."""

    pod: str
    node: str
    reason: str


class DrainRecord(Answer, frozen=True, kw_only=True):
    kind: str = "Drain"
    #: In the order in which they are best drained.
    nodes: tuple[str, ...]
    moves: tuple[MoveRecord, ...]
    stranded: tuple[StrandedRecord, ...]
    blocked_by: tuple[BlockRecord, ...]
    #: Pods that nobody makes anew: they would be gone.
    lost: tuple[str, ...]
    #: Pods that go with their node, as those of a DaemonSet.
    stay: int
    #: Pods elsewhere that pods of these nodes would evict, whatever became of them.
    displaced: tuple[str, ...]
    notes: tuple[str, ...] = ()


class LossRecord(Answer, frozen=True, kw_only=True):
    """What the loss of some nodes would cost."""

    #: The node, or the value of the label.
    lost: str
    nodes: int
    pods: int
    #: Pods that find another node.
    moved: int
    stranded: tuple[StrandedRecord, ...]
    #: Pods that nobody makes anew.
    gone: tuple[str, ...]
    displaced: tuple[str, ...]


class SurviveRecord(Answer, frozen=True, kw_only=True):
    kind: str = "Survive"
    #: "node", or the label that was gone by.
    by: str
    #: Worst first.
    losses: tuple[LossRecord, ...]
    notes: tuple[str, ...] = ()


# -- what-if ----------------------------------------------------------------------------------------------------------


class SideRecord(Answer, frozen=True, kw_only=True):
    """The cluster once the scheduler has done what it can."""

    nodes: int
    pods: int
    pending: tuple[str, ...]
    #: Reason -> pods that wait for it.
    reasons: dict[str, int]


class WhatIfRecord(Answer, frozen=True, kw_only=True):
    kind: str = "WhatIf"
    changes: tuple[str, ...]
    before: SideRecord
    after: SideRecord
    #: Pods that get a node by the changes -> the node.
    placed: dict[str, str]
    #: Pods that lose their node by the changes -> where they go instead; "": nowhere.
    displaced: dict[str, str]
    #: Pods that would be placed either way, but elsewhere -> (before, after).
    elsewhere: dict[str, tuple[str, str]]
    notes: tuple[str, ...] = ()
