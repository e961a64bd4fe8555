"""`Explanation`, the base class for a plugin's explanations.

Details are aggregated: nodes with equal values in what a detail depends on share one call, and a group of nodes is
described by its distinct details, the most frequent first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from stowplan.scheduler.cluster.arrays import Mask, Rows, Values
from stowplan.scheduler.framework.explanations.formatting import sentence
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.explanations.remedy import Refusal, Remedy, Way, classes, split
from stowplan.scheduler.framework.status import Reason

Columns = Sequence[Values]


#: Distinct details of a group that are printed, and that are computed.
_SHOWN, _MAX_PARTS = 3, 64


class Explanation:
    """How one plugin's rejections of one pod are explained; the default shows their reasons only."""

    #: Whether its obstacles are listed before those of other plugins, because only a new node resolves them.
    obstacles_first: ClassVar[bool] = False
    #: Whether Filter also rejects every node that PreFilter excluded; if so, remedies are also tried on those.
    filter_repeats_pre_filter: ClassVar[bool] = False

    def __init__(self, inspection: Inspection, plugin: object = None) -> None:
        """`plugin`: whose rejections are explained, for those that need it."""
        self.inspection = inspection

    # -- details ------------------------------------------------------------------------------------------------------

    def detail(self, row: int, reason: Reason) -> str:
        """What a reason means for one node, such as `has zone=a`; "" if there is nothing to add."""
        return ""

    def depends_on(self, reason: Reason) -> Columns | None:
        """Columns (one value per row of the table) that determine the detail; None: it may differ for every node."""
        return None

    def of_node(self, refusal: Refusal, row: int) -> str:
        """All details of one node."""
        return sentence(self.detail(row, reason) for reason in refusal.reasons)

    def of_group(self, refusal: Refusal) -> str:
        """The details of nodes that were rejected for the same reasons."""
        return sentence(self.summary(refusal.rows, reason) for reason in refusal.reasons)

    def summary(self, rows: Rows, reason: Reason) -> str:
        """The distinct details of one reason, most frequent first."""
        columns = self.depends_on(reason)
        parts = list(rows[:_MAX_PARTS, None]) if columns is None else self._parts(rows, columns)
        counts: dict[str, int] = {}
        for part in parts:
            text = self.detail(int(part[0]), reason)
            counts[text] = counts.get(text, 0) + len(part)
        ranked = sorted(((n, text) for text, n in counts.items() if text), key=lambda item: (-item[0], item[1]))
        if not ranked:
            return ""
        if len(counts) == 1:
            number, text = ranked[0]
            return text if number == len(rows) else f"{text}, …"
        shown = [f"{number:,}× {text}" for number, text in ranked[:_SHOWN]]
        return ", ".join([*shown, "…"] if len(ranked) > _SHOWN else shown)

    def _parts(self, rows: Rows, columns: Columns) -> list[Rows]:
        return split(rows, classes([column[rows] for column in columns], len(rows)))[:_MAX_PARTS]

    def reason_text(self, refusal: Refusal) -> str:
        """The reasons of a group of nodes, as one line."""
        return refusal.text

    # -- of every pod --------------------------------------------------------------------------------------------------

    def of_score(self, row: int) -> str:
        """What the score of a node rests on, such as `at 71 % of 40`; "" if there is nothing to add."""
        return ""

    def facts(self) -> Iterable[str]:
        """What is worth knowing of the pod whether it fits or not, such as how its quota stands."""
        return ()

    # -- obstacles and remedies ----------------------------------------------------------------------------------------

    def obstacles(self) -> Iterable[str]:
        """Facts that make every node infeasible, independent of other plugins."""
        return ()

    def remedy(self, mask: Mask) -> Remedy | None:
        """How to resolve the plugin's rejections; `mask` marks the rows that it rejects. None: unknown."""
        return None

    def ways_for_pod(self) -> Sequence[Way]:
        """Ways to resolve a rejection by PreEnqueue or PreFilter."""
        return ()
