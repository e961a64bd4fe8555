"""One Score plugin's part of the totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from stowplan.scheduler.framework.interface import ScorePlugin

    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


class Score(PlainStruct, eq=False):
    """Scores of all rows; `raw` and `normal` may be the plugin's own arrays, and are replaced, not written."""

    plugin: ScorePlugin
    weight: int
    raw: Ints
    normal: Ints
    #: Normalized, times the weight.
    weighted: Ints
    #: Lowest and highest raw score of the feasible rows; None: not computed.
    bounds: tuple[int, int] | None = None

    def bounds_hold(self, changed: Sequence[int], before: Mask, feasible: Mask) -> bool:
        """Whether lowest and highest are unchanged for other feasible rows that differ from those before in these rows.

        At least two rows are feasible. False if more than these rows would have to be read to tell.
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
