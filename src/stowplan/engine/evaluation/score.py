"""One Score plugin's part of the totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from stowplan.framework.interface import ScorePlugin

    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


@dataclass(eq=False)
class Score:
    """Of all rows; brought up to date in place."""

    plugin: ScorePlugin
    weight: int
    raw: Ints
    normal: Ints
    #: Normalized, times the weight.
    weighted: Ints
    #: Lowest and highest raw score of feasible rows; None: not known.
    bounds: tuple[int, int] | None = None

    def bounds_hold(self, changed: Sequence[int], before: Mask, feasible: Mask) -> bool:
        """Whether lowest and highest are the same of other feasible rows, which these rows tell from those before.

        There are at least two of them. False where that takes more than a look at the rows.
        """
        raw = self.raw
        if self.bounds is None:
            among = raw[before]
            if not len(among):
                return False
            self.bounds = int(among.min()), int(among.max())
        low, high = self.bounds
        for row in changed:
            value = raw.item(row)
            if feasible.item(row):
                if not low <= value <= high:
                    return False
            elif low != high and not low < value < high:
                return False
        return True
