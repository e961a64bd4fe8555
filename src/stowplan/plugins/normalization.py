"""Raw scores stretched to 0…100 by the largest among the feasible nodes.

Upstream: pkg/scheduler/framework/plugins/helper/normalize_score.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stowplan.framework.interface import MAX_SCORE

if TYPE_CHECKING:
    import numpy.typing as npt


def default_normalize(
    scores: npt.NDArray[np.int64], feasible: npt.NDArray[np.bool_], *, reverse: bool = False
) -> npt.NDArray[np.int64]:
    """Scores in proportion to the largest; reversed, the largest gets nothing."""
    largest = int(scores.max(initial=0, where=feasible))
    if largest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    # Integers are divided as Go does it, towards zero; only user-given negative weights make that differ.
    scaled: npt.NDArray[np.int64] = np.sign(scores) * (MAX_SCORE * np.abs(scores) // largest)
    return MAX_SCORE - scaled if reverse else scaled
