"""Answers to what-if questions as records.

Pods are named `namespace/name`. For conventions of all records see `inspection/records.py`.
"""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from __future__ import annotations

from html import escape
from typing import Any

import msgspec

from stowplan.ask.explain.text.tables import Block, plain
from stowplan.scheduler.inspection.records import QuotaRecord, Record, document

_LINE = "\n"


class Answer(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Unlike other records, these always include every field, which makes them easier to use in scripts."""

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON-able data."""
        return document(self)


class PagedAnswer(Answer, frozen=True, kw_only=True, omit_defaults=False):
    """An answer as a whole. Python shows its first line, notebooks the page that the command prints."""

    def page(self) -> list[Block]:
        """As text."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {plain(self.page()).partition(_LINE)[0]}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(plain(self.page()))}</pre>"


class PartialRecord(Answer, frozen=True, kw_only=True):
    """An answer that had to be given before all was decided, and covers only these pods."""

    decided: int
    of: int

    @property
    def note(self) -> str:
        return f"stopped early: {self.decided:,} of {self.of:,} pods were decided"


def partial_of(decided: int, undecided: int) -> PartialRecord | None:
    return PartialRecord(decided=decided, of=decided + undecided) if undecided else None


# -- fit --------------------------------------------------------------------------------------------------------------


class LimitRecord(Answer, frozen=True, kw_only=True):
    """Why nodes take no more."""

    plugin: str
    reason: str
    nodes: int
    #: Zone -> number of nodes; empty if nodes have no zone.
    zones: dict[str, int] = {}


class NodesToAddRecord(Answer, frozen=True, kw_only=True):
    """Nodes of one kind that would make all pods fit."""

    like: str
    count: int
    #: Number of pods per node; None if that depends on the other nodes.
    each: int | None = None
    #: Of all nodes together.
    price: float | None = None


class MixRecord(Answer, frozen=True, kw_only=True):
    """A combination of nodes that would make all pods fit."""

    nodes: dict[str, int]
    #: None: not all of them have one.
    price: float | None


class FitRecord(PagedAnswer, frozen=True, kw_only=True):
    kind: str = "Fit"
    pod: str
    #: Number of pods requested; None: as many as fit.
    wanted: int | None
    #: Number of pods that fit.
    fits: int
    #: Node -> number of pods; nodes without any are left out.
    per_node: dict[str, int]
    per_zone: dict[str, int]
    #: What rejects the next pod; the reason of most nodes first.
    limited_by: tuple[LimitRecord, ...]
    #: For pods that do not fit: one entry per requested kind of node, the fewest (or cheapest) first. Kinds that do not
    #: help are left out.
    nodes_to_add: tuple[NodesToAddRecord, ...]
    #: With prices, the nodes that cost least, if each node of a kind takes the same number of pods.
    cheapest: MixRecord | None = None
    #: Otherwise, if no kind suffices alone: nodes of several kinds with which all fit. None of them can be left out,
    #: but another combination may cost less.
    mix: MixRecord | None = None
    notes: tuple[str, ...] = ()

    def page(self) -> list[Block]:
        from stowplan.ask.what_if.answer_text import fit_page

        return fit_page(self)


class GroupFitRecord(PagedAnswer, frozen=True, kw_only=True):
    kind: str = "FitGroup"
    pod_group: str
    #: Number of pods per group.
    pods_each: int
    #: Number of groups requested; None: as many as fit.
    wanted: int | None
    #: Number of whole groups that fit.
    fits: int
    #: Node -> number of pods.
    per_node: dict[str, int]
    #: Value of the topology label -> number of pods; empty without one.
    per_domain: dict[str, int]
    #: Why the next one does not fit.
    limited_by: str
    nodes_to_add: tuple[NodesToAddRecord, ...]
    notes: tuple[str, ...]

    def page(self) -> list[Block]:
        from stowplan.ask.what_if.answer_text import group_fit_page

        return group_fit_page(self)


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


class DrainRecord(PagedAnswer, frozen=True, kw_only=True):
    kind: str = "Drain"
    #: In the recommended order of draining.
    nodes: tuple[str, ...]
    moves: tuple[MoveRecord, ...]
    stranded: tuple[StrandedRecord, ...]
    blocked_by: tuple[BlockRecord, ...]
    #: Pods without a controller, which are not recreated.
    lost: tuple[str, ...]
    #: Evicted pods whose data in emptyDir volumes is lost.
    empty_dir: tuple[str, ...]
    #: Number of pods that stay on their node, such as those of a DaemonSet.
    stay: int
    #: Pods elsewhere that pods of these nodes would preempt, whether or not they find another node.
    displaced: tuple[str, ...]
    notes: tuple[str, ...] = ()
    partial: PartialRecord | None = None

    def page(self) -> list[Block]:
        from stowplan.ask.what_if.answer_text import drain_page

        return drain_page(self)


class LossRecord(Answer, frozen=True, kw_only=True):
    """The effect of losing some nodes."""

    #: The node, or the value of the label.
    lost: str
    nodes: int
    pods: int
    #: Number of pods that find another node.
    moved: int
    stranded: tuple[StrandedRecord, ...]
    #: Pods without a controller, which are not recreated.
    gone: tuple[str, ...]
    #: Pods elsewhere that pods of these nodes would preempt, whether or not they find another node.
    displaced: tuple[str, ...]
    #: Whether every pod is known to run again: none is stranded, none is gone.
    survived: bool
    #: Number of pods that were not decided, because the question was stopped.
    undecided: int = 0


class SurviveRecord(PagedAnswer, frozen=True, kw_only=True):
    kind: str = "Survive"
    #: "node", or the label that defines the groups.
    by: str
    #: Worst first.
    losses: tuple[LossRecord, ...]
    notes: tuple[str, ...] = ()
    #: Of all losses together.
    partial: PartialRecord | None = None

    def page(self) -> list[Block]:
        from stowplan.ask.what_if.answer_text import survive_page

        return survive_page(self)


# -- what-if ----------------------------------------------------------------------------------------------------------


class SideRecord(Answer, frozen=True, kw_only=True):
    """The cluster after pending pods were scheduled."""

    nodes: int
    #: Number of pods with a node, those of DaemonSets, too.
    pods: int
    pending: tuple[str, ...]
    #: Reason -> number of pending pods.
    reasons: dict[str, int]
    #: The quotas of plugins.
    quotas: tuple[QuotaRecord, ...] = ()


class WhatIfRecord(PagedAnswer, frozen=True, kw_only=True):
    kind: str = "WhatIf"
    changes: tuple[str, ...]
    before: SideRecord
    after: SideRecord
    #: Pods that get a node because of the changes -> the node.
    placed: dict[str, str]
    #: Pods that lose their node because of the changes -> their new node; "": none.
    displaced: dict[str, str]
    #: Pods that are placed in both cases, but on different nodes -> (before, after).
    elsewhere: dict[str, tuple[str, str]]
    notes: tuple[str, ...] = ()
    #: Of the pods that were pending before, and of those that the changes add or move.
    partial: PartialRecord | None = None

    def page(self) -> list[Block]:
        from stowplan.ask.what_if.answer_text import what_if_page

        return what_if_page(self)


#: The answer to a whole question.
NotedAnswer = FitRecord | GroupFitRecord | DrainRecord | SurviveRecord | WhatIfRecord
