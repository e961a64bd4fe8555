"""Joint results of several columns of sums (`node_sums.py`), and which rows of them changed.

Pods of many templates have the same questions about a node's sums. Each distinct set of questions has one joint column,
for all filters or for all scores: whether any filter refuses a row, or the weighted sum of the scores. Evaluations with
these questions read it instead of the columns of single plugins. A row whose pods changed is looked up once for all of
them, by its state, and an evaluation processes the rows whose joint result changed since it last looked.

Evaluations hold the joint columns that they read; a column is freed with the last of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stowplan.scheduler.cluster.changes import ChangeLog
from stowplan.scheduler.engine.evaluation.node_sums import FEW
from stowplan.scheduler.framework.status import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import numpy.typing as npt

    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.engine.evaluation.node_sums import NodeSums, RefusedColumn, ScoredColumn
    from stowplan.scheduler.framework.cycle_state import CycleState


class _JointColumn:
    """Joint results by row."""

    __slots__ = (
        "__weakref__",
        "_cluster",
        "_columns",
        "_epochs",
        "_generation",
        "_known",
        "_position",
        "_sums",
        "changes",
        "values",
    )

    def __init__(self, sums: NodeSums, columns: tuple[RefusedColumn, ...] | tuple[ScoredColumn, ...]) -> None:
        self._sums = sums
        self._cluster = sums.cluster
        self._columns = columns
        #: Read-only, and valid until pods change.
        self.values: npt.NDArray[Any] = np.zeros(0, np.int64)
        #: Rows whose value changed.
        self.changes: ChangeLog[int] = ChangeLog()
        #: Generation of the nodes, and position in the cluster's change log, that the values are valid for.
        self._generation = -1
        self._position = -1
        #: Epochs of the columns that the values were computed with.
        self._epochs: list[int] = []
        #: State of a row -> its value.
        self._known: dict[int, Any] = {}

    @classmethod
    def _shared(cls, sums: NodeSums, key: Hashable, make: Callable[[], Self]) -> Self:
        """The profile's joint column with this key."""
        found = sums.joint.get(key)
        if not isinstance(found, cls):
            found = sums.joint[key] = make()
        return found

    def update(self, state: CycleState, pod: PodInfo) -> bool:
        """Update the values, for one of the pods with these questions; False if a plugin failed."""
        changes, epochs = self._cluster.changes, [column.epoch(pod) for column in self._columns]
        position, same_nodes = changes.position, self._generation == self._cluster.table.generation
        rows = changes.since(self._position) if same_nodes and epochs == self._epochs else None
        if rows is None or len(rows) > FEW:
            if not self._take_over(state, pod):
                return False
        elif rows and not self._look_up(rows, state, pod):
            return False
        self._position, self._epochs = position, epochs
        return True

    def _look_up(self, rows: list[int], state: CycleState, pod: PodInfo) -> bool:
        """Update a few rows, mostly from the cached results of rows in the same state."""
        known, values = self._known, self.values
        for row, number in zip(rows, self._sums.states_of(rows), strict=True):
            value = known.get(number)
            if value is None:
                value = self._computed(row, state, pod)
                if value is None:
                    return False
                if len(known) >= self._sums.max_states:
                    known.clear()
                known[number] = value
            if values.item(row) != value:
                values[row] = value
                self.changes.append(row)
        return True

    def _computed(self, row: int, state: CycleState, pod: PodInfo) -> Any:
        """The joint result of one row, from the columns; None if a plugin failed."""
        answers = []
        for column in self._columns:
            values = column.values(state, pod)
            if isinstance(values, Status):
                return None
            answers.append(values.item(row))
        return self._joined(answers)

    def _take_over(self, state: CycleState, pod: PodInfo) -> bool:
        """Compute all rows from the columns."""
        table, answers = self._cluster.table, []
        for column in self._columns:
            values = column.values(state, pod)
            if isinstance(values, Status):
                # Compute all rows the next time.
                self._generation = -1
                return False
            answers.append(values)
        fresh = self._joined_arrays(answers, table.n)
        if self._generation == table.generation:
            for row in (fresh != self.values).nonzero()[0].tolist():
                self.changes.append(row)
        else:
            self._generation = table.generation
            self.changes.forget()
        self.values = fresh
        self._known.clear()
        return True

    def _joined(self, answers: list[Any]) -> Any:
        raise NotImplementedError

    def _joined_arrays(self, answers: list[npt.NDArray[Any]], rows: int) -> npt.NDArray[Any]:
        raise NotImplementedError


class JointRefusals(_JointColumn):
    """Whether some filter refuses a row."""

    __slots__ = ()

    @classmethod
    def of(cls, sums: NodeSums, columns: tuple[RefusedColumn, ...]) -> JointRefusals:
        return cls._shared(sums, ("filter", columns), lambda: cls(sums, columns))

    def _joined(self, answers: list[bool]) -> bool:
        return True in answers

    def _joined_arrays(self, answers: list[npt.NDArray[np.bool_]], rows: int) -> npt.NDArray[np.bool_]:
        refused = np.zeros(rows, np.bool_)
        for answer in answers:
            refused |= answer
        return refused


class JointScores(_JointColumn):
    """The weighted sum of scores that are not normalized."""

    __slots__ = ("_weights",)

    def __init__(self, sums: NodeSums, columns: tuple[ScoredColumn, ...], weights: tuple[int, ...]) -> None:
        super().__init__(sums, columns)
        self._weights = weights

    @classmethod
    def of(cls, sums: NodeSums, columns: tuple[ScoredColumn, ...], weights: tuple[int, ...]) -> JointScores:
        return cls._shared(sums, ("score", columns, weights), lambda: cls(sums, columns, weights))

    def _joined(self, answers: list[int]) -> int:
        return sum(answer * weight for answer, weight in zip(answers, self._weights, strict=True))

    def _joined_arrays(self, answers: list[npt.NDArray[np.int64]], rows: int) -> npt.NDArray[np.int64]:
        worth = np.zeros(rows, np.int64)
        for answer, weight in zip(answers, self._weights, strict=True):
            worth += answer * weight
        return worth
