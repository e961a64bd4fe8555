"""`Explanation`, the base class for a plugin's explanations.

Details are summed up: nodes that agree in what a detail depends on are asked about once, and a group of nodes is told
by its distinct details, the most frequent first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from stowplan.framework.explanations.formatting import sentence
from stowplan.framework.explanations.grouping import classes, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    import numpy.typing as npt

    from stowplan.framework.explanations.changes import Way
    from stowplan.framework.explanations.grouping import Refusal
    from stowplan.framework.explanations.inspection import Inspection
    from stowplan.framework.explanations.remedy import Remedy
    from stowplan.framework.status import Reason

    Mask = npt.NDArray[np.bool_]
    Rows = npt.NDArray[np.intp]
    Columns = Sequence[npt.NDArray[Any]]

#: Distinct details of a group that are spelled out, and parts of it that are looked at.
_SHOWN, _MAX_PARTS = 3, 64


class Explanation:
    """How one plugin's refusals of one pod are explained; as it stands, by their reasons alone."""

    #: Whether its obstacles are listed before those of other plugins: nothing smaller than a new node lifts them.
    obstacles_first: ClassVar[bool] = False
    #: Whether Filter refuses every node that PreFilter ruled out as well; then remedies are also tried on those.
    filter_repeats_pre_filter: ClassVar[bool] = False

    def __init__(self, inspection: Inspection) -> None:
        self.inspection = inspection

    # -- details ------------------------------------------------------------------------------------------------------

    def detail(self, row: int, reason: Reason) -> str:
        """What exactly one reason means for one node, such as `has zone=a`; "" when there is nothing to add."""
        return ""

    def depends_on(self, reason: Reason) -> Columns | None:
        """Columns (one value per row of the table) that decide the detail; None: every node may have its own."""
        return None

    def of_node(self, refusal: Refusal, row: int) -> str:
        """All details of one node."""
        return sentence(self.detail(row, reason) for reason in refusal.reasons)

    def of_group(self, refusal: Refusal) -> str:
        """The details of nodes that were refused for the same reasons."""
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
        """The reasons of a group of nodes, as a line shows them."""
        return refusal.text

    # -- what stands in the way, and what would help ------------------------------------------------------------------

    def obstacles(self) -> Iterable[str]:
        """Facts that keep the pod off every node, whoever else would take it."""
        return ()

    def remedy(self, mask: Mask) -> Remedy | None:
        """What would lift the plugin's refusals; `mask` marks the rows that it refuses. None: nobody knows."""
        return None

    def ways_for_pod(self) -> Sequence[Way]:
        """Ways to lift a refusal of the pod as a whole, by PreEnqueue or PreFilter."""
        return ()
