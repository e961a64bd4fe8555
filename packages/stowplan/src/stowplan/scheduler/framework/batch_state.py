"""A plugin's results for equal pods that are placed one after the other (`CountsPods.batch_state`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Codes, Ints, Mask


class BatchFilterState(ABC):
    """The domains that a Filter refuses to the next of the pods; updated with each of them."""

    #: The domain of each row.
    codes: Codes
    #: Whether a domain is refused to the next pod, by domain.
    refused: Mask

    @abstractmethod
    def place(self, row: int) -> Sequence[int]:
        """Count a pod on this row; return the domains for which `refused` changed."""


class BatchScoreState(ABC):
    """The scores of the next of the pods; updated with each of them. Nodes of a class have the same score."""

    #: The class of each row. A pod may take its row to another class, which may be new.
    classes: Codes
    #: The number of classes.
    size: int

    @abstractmethod
    def place(self, row: int) -> int:
        """Count a pod on this row; return the row's class from now on."""

    @abstractmethod
    def by_class(self, feasible: Ints) -> Ints:
        """The normalized score of each class.

        `feasible`: the number of feasible nodes of each class; not all are 0. Classes without any do not matter.
        """


class BatchState(PlainStruct, frozen=True, eq=False):
    """The Filter refuses what any of `refusals` does."""

    refusals: Sequence[BatchFilterState] = ()
    #: None: the pods do not change the scores.
    scores: BatchScoreState | None = None

    @property
    def changes_nothing(self) -> bool:
        return not self.refusals and self.scores is None
