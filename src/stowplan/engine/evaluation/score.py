"""One Score plugin's part of the totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from stowplan.framework.interface import ScorePlugin

    Ints = npt.NDArray[np.int64]


@dataclass(eq=False)
class Score:
    """Scores of all rows, updated in place."""

    plugin: ScorePlugin
    weight: int
    raw: Ints
    normal: Ints
    #: Normalized, times the weight.
    weighted: Ints
