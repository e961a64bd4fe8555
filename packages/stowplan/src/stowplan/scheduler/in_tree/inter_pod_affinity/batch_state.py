"""Results for equal pods that are placed one after the other, and repel or attract each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from stowplan.scheduler.cluster.arrays import Ints, Mask
from stowplan.scheduler.cluster.labels import LabelColumn
from stowplan.scheduler.cluster.pod_info import PodShape
from stowplan.scheduler.framework.batch_state import BatchFilterState, BatchScoreState
from stowplan.scheduler.in_tree.common.domain_classes import DomainClasses
from stowplan.scheduler.in_tree.inter_pod_affinity.tables import Table


def representatives(shapes: Collection[PodShape]) -> list[PodShape]:
    """Shapes of one template, one for all that the template's terms do not distinguish."""
    first = next(iter(shapes))
    lists = (
        first.required_affinity,
        first.required_anti_affinity,
        first.preferred_affinity,
        first.preferred_anti_affinity,
    )
    keys = sorted({part.key for terms in lists for term in terms for part in term.selector.requirements})
    return list({tuple(shape.labels.get(key) for key in keys): shape for shape in shapes}.values())


class AffinityBatch(BatchFilterState):
    """Required affinity: domains without a pod to be near are refused."""

    def __init__(self, table: Table, rows: int, *, matched: bool, anywhere: bool) -> None:
        """`matched`: whether the pods match the terms; `anywhere`: the first of them may go to any domain."""
        self.codes = table.column.codes[:rows]
        self.refused = np.zeros(len(table.sums), np.bool_) if anywhere else table.sums <= 0
        self.refused[0] = True
        self._matched = matched
        self._anywhere = anywhere

    def place(self, row: int) -> Sequence[int]:
        code = self.codes.item(row)
        if not self._matched:
            return ()
        if self._anywhere:
            self._anywhere = False
            self.refused[:] = True
            self.refused[code] = not code
            return range(1, len(self.refused))
        if not code or not self.refused.item(code):
            return ()
        self.refused[code] = False
        return (code,)


class AntiAffinityBatch(BatchFilterState):
    """Required anti-affinity, of the pods or against them: domains with such a pod are refused."""

    def __init__(self, column: LabelColumn, refused: Mask, rows: int, *, repels: bool) -> None:
        """`repels`: whether each of the pods keeps the others out of its domain."""
        self.codes = column.codes[:rows]
        self.refused = refused
        self._repels = repels

    def place(self, row: int) -> Sequence[int]:
        code = self.codes.item(row)
        if not self._repels or not code or self.refused.item(code):
            return ()
        self.refused[code] = True
        return (code,)


class SummedCounter(NamedTuple):
    """What attracts the pods to the domains of a topology key."""

    column: LabelColumn
    #: By domain, before the first pod.
    sums: Ints
    #: What each of the pods adds to its domain.
    gain: int


class ScoreCounterBatch(BatchScoreState):
    def __init__(self, counters: Sequence[SummedCounter], classes: DomainClasses) -> None:
        """`classes`: by the counters' columns."""
        self.classes, self.size = classes.of_row, classes.size
        self._raw: Ints = np.zeros(self.size, np.int64)
        for counter, codes in zip(counters, classes.codes, strict=True):
            self._raw += counter.sums.take(codes)
        self._moving = [
            (counter.column.codes, codes, counter.gain)
            for counter, codes in zip(counters, classes.codes, strict=True)
            if counter.gain
        ]

    def place(self, row: int) -> int:
        for of_row, of_class, gain in self._moving:
            code = of_row.item(row)
            if code:
                self._raw[of_class == code] += gain
        return self.classes.item(row)

    def by_class(self, feasible: Ints) -> Ints:
        among = self._raw[feasible > 0]
        return stretched(self._raw, int(among.min()), int(among.max()))


def stretched(raw: Ints, low: int, high: int) -> Ints:
    if low == high:
        return np.zeros(len(raw), np.int64)
    # Parity: divide first, then scale (29 of 50 gives 57, not 58).
    return (100.0 * ((raw - low) / float(high - low))).astype(np.int64)
