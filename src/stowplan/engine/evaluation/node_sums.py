"""Results that depend on a node's resource sums, shared by all pods with equal requests.

Whether a node has room, and how full it would be, does not hang on a pod's affinity or labels: pods of many templates
with equal requests get the same answer from such plugins (`Reads.NODE_SUMS`). So each distinct question has one
column over all rows, brought up to date when somebody asks: usually a single row changed since. And as the nodes of a
kind pass through the same states, even that row's answer is often known.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.cluster.view import Nodes
from stowplan.framework.status import Status

if TYPE_CHECKING:
    import numpy.typing as npt

    from stowplan.cluster.objects import ObjectWatch
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.interface import FilterPlugin, Plugin, ScorePlugin
    from stowplan.framework.runtime import Framework

#: Questions that are kept; each is a column over all nodes.
_MAX_COLUMNS = 32

#: States of a row whose answers a column remembers.
_MAX_STATES = 4096


class NodeSums:
    """The columns of one profile."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._cluster = framework.handle.cluster
        self._columns: OrderedDict[tuple[Any, ...], _Column] = OrderedDict()
        self._last_asked = (-1, -1)
        self._last_state: tuple[Any, ...] = ()

    def refused(self, plugin: FilterPlugin, state: CycleState, pod: PodInfo) -> npt.NDArray[np.bool_] | Status:
        """Rows that a Filter refuses."""
        column = self._column("filter", plugin, pod)
        rows = self._outdated(column, plugin, pod)
        if rows:
            answer = self._framework.run_filter(plugin, state, pod, Nodes(self._cluster, np.array(rows, np.intp)))
        elif rows is None:
            answer = self._framework.run_filter(plugin, state, pod, Nodes(self._cluster))
        else:
            return column.values
        if answer is None:
            return column.take_over(rows, np.zeros(self._cluster.table.n if rows is None else len(rows), np.bool_))
        return column.failed(answer) if isinstance(answer, Status) else column.take_over(rows, answer.mask)

    def scored(self, plugin: ScorePlugin, state: CycleState, pod: PodInfo) -> npt.NDArray[np.int64] | Status:
        """Every row's raw score."""
        column = self._column("score", plugin, pod)
        rows = self._outdated(column, plugin, pod)
        if rows:
            answer = self._framework.run_score(plugin, state, pod, Nodes(self._cluster, np.array(rows, np.intp)))
        elif rows is None:
            answer = self._framework.run_score(plugin, state, pod, Nodes(self._cluster))
        else:
            return column.values
        return column.failed(answer) if isinstance(answer, Status) else column.take_over(rows, answer)

    def _outdated(self, column: _Column, plugin: Plugin, pod: PodInfo) -> list[int] | None:
        """Rows that a column must be told of; None: all. A single row in a state that is known is told at once."""
        cluster, changes = self._cluster, self._cluster.changes
        if column.objects.changed():
            # Which objects are looked up may hang on those that changed.
            column.objects, column.generation = self._framework.watch_objects(pod, plugin), -1
        holds = column.generation == cluster.table.generation
        rows = changes.since(column.position) if holds else None
        column.position = here = changes.position
        if rows is None or len(rows) > cluster.table.n // 8 + 1:
            column.generation, column.state = cluster.table.generation, None
            return None
        if len(rows) == 1:
            column.state = self._state_of(rows[0], here)
            known = column.known.get(column.state)
            if known is not None:
                column.values[rows[0]] = known
                return []
        else:
            column.state = None
        return rows

    def _state_of(self, row: int, position: int) -> tuple[Any, ...]:
        """What a row sums up to at that position of the changes; several columns ask in a cycle."""
        asked = (row, position)
        if self._last_asked != asked:
            self._last_asked, self._last_state = asked, self._cluster.table.sums(row)
        return self._last_state

    def _column(self, point: str, plugin: Plugin, pod: PodInfo) -> _Column:
        key = (point, plugin.name, plugin.sums_question(pod))
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = _Column(self._framework.watch_objects(pod, plugin))
            if len(self._columns) > _MAX_COLUMNS:
                self._columns.popitem(last=False)
        else:
            self._columns.move_to_end(key)
        return found


class _Column:
    """One question's answers, by row."""

    __slots__ = ("generation", "known", "objects", "position", "state", "values")

    def __init__(self, objects: ObjectWatch) -> None:
        #: Not to be written to by readers, and only good until pods move.
        self.values: npt.NDArray[Any] = np.zeros(0, np.int64)
        #: Generation of the nodes, and the lookup objects, that the values hold for.
        self.generation = -1
        self.objects = objects
        self.position = -1
        #: State of the single row that is being asked about.
        self.state: tuple[Any, ...] | None = None
        #: State of a row -> its answer.
        self.known: dict[tuple[Any, ...] | None, Any] = {}

    def failed(self, answer: Status) -> Status:
        """The values stay behind: the next question is about all rows."""
        self.generation = -1
        return answer

    def take_over(self, rows: list[int] | None, answer: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Write the answers for some rows (None: all) down; the whole column."""
        if rows is None:
            self.values = answer.copy()
            self.known.clear()
            return self.values
        self.values[rows] = answer
        if self.state is not None:
            if len(self.known) >= _MAX_STATES:
                self.known.clear()
            self.known[self.state] = answer[0]
        return self.values
