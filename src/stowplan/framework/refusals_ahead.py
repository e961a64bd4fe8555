"""What a Filter will refuse to equal pods that are placed one after the other (`CountsPods.refusals_ahead`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt


class RefusalsAhead(ABC):
    """The domains that a Filter refuses to the next of the pods; updated with each of them."""

    #: The domain of each row.
    codes: npt.NDArray[np.intp]
    #: Whether a domain is refused to the next pod, by domain.
    refused: npt.NDArray[np.bool_]

    @abstractmethod
    def place(self, row: int) -> Sequence[int]:
        """Count a pod on this row; return the domains for which `refused` changed."""
