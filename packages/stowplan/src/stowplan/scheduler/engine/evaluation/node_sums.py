"""Results that depend on a node's resource sums, shared by all pods with equal requests.

Whether a node has room, and how full it would be, does not depend on a pod's affinity or labels. Pods of different
templates with equal requests get the same results from such plugins (`Reads.NODE_SUMS`). So each distinct question has
one column over all rows, updated when it is read; usually one or two rows have changed. Since nodes of one kind pass
through the same states, the results for even those rows are often cached.

Evaluations hold references to the columns that they read; a column is freed with the last of them.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.boundary import Raised, call
from stowplan.scheduler.framework.status import Status, typed

if TYPE_CHECKING:
    from collections.abc import Hashable

    import numpy.typing as npt

    from stowplan.scheduler.cluster.objects import ObjectWatch
    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.framework.cycle_state import CycleState
    from stowplan.scheduler.framework.interface import FilterPlugin, ScorePlugin
    from stowplan.scheduler.framework.runtime.framework import Framework

#: Up to this many changed rows are updated one by one as Python numbers, which is cheaper than array operations.
FEW = 16
#: Maximum number of cached row states over all columns.
_MAX_STATES = 1 << 17


class NodeSums:
    """The columns of one profile."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self.cluster = framework.handle.cluster
        self._columns: WeakValueDictionary[tuple[Any, ...], _Column] = WeakValueDictionary()
        #: Joint results of several columns (`joint_sums.py`).
        self.joint: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
        #: State of a row -> its number, used as a key in all columns.
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._next_number = count()
        #: Row -> the number of its state, with the versions of nodes and pods at that time.
        self._states: dict[int, int] = {}
        self._generation = -1
        self._position = -1

    def refused(self, plugin: FilterPlugin, pod: PodInfo) -> RefusedColumn:
        """Rows that a Filter rejects for pods with this pod's question."""
        key = ("filter", plugin.name, _question(plugin, pod))
        found = self._columns.get(key)
        if not isinstance(found, RefusedColumn):
            found = self._columns[key] = RefusedColumn(self, self._framework, plugin, pod)
        return found

    def scored(self, plugin: ScorePlugin, pod: PodInfo) -> ScoredColumn:
        """Every row's raw score for pods with this pod's question."""
        key = ("score", plugin.name, _question(plugin, pod))
        found = self._columns.get(key)
        if not isinstance(found, ScoredColumn):
            found = self._columns[key] = ScoredColumn(self, self._framework, plugin, pod)
        return found

    def states_of(self, rows: list[int]) -> list[int]:
        """The states of some rows, as numbers: rows with equal numbers have equal sums."""
        cluster, states = self.cluster, self._states
        position = cluster.changes.position
        if position != self._position or self._generation != cluster.table.generation:
            changed = cluster.changes.since(self._position) if self._generation == cluster.table.generation else None
            if changed is None:
                states.clear()
            else:
                for row in changed:
                    states.pop(row, None)
            self._generation, self._position = cluster.table.generation, position
        return [self._state_of(row) if (found := states.get(row)) is None else found for row in rows]

    def _state_of(self, row: int) -> int:
        if len(self._numbers) > _MAX_STATES:
            # Columns cache by these numbers, which are never reused.
            self._numbers.clear()
        sums = self.cluster.table.sums(row)
        found = self._numbers.get(sums)
        if found is None:
            found = self._numbers[sums] = next(self._next_number)
        self._states[row] = found
        return found

    @property
    def max_states(self) -> int:
        """Maximum number of states that a column may cache."""
        return _MAX_STATES // max(1, len(self._columns))


def _question(plugin: FilterPlugin | ScorePlugin, pod: PodInfo) -> Hashable:
    found = call(plugin.sums_question, pod, check=_hashable, required=True, failed=Raised)
    if isinstance(found, Raised):
        raise RuntimeError(f'running SumsQuestion of plugin "{plugin.name}": {typed(found.cause)}') from found.cause
    return found


def _hashable(answer: Hashable) -> Hashable:
    hash(answer)
    return answer


class _Column:
    """One question's results, by row."""

    __slots__ = (
        "__weakref__",
        "_cluster",
        "_epoch",
        "_framework",
        "_generation",
        "_known",
        "_objects",
        "_plugin",
        "_position",
        "_states",
        "_sums",
        "_values",
    )

    def __init__(self, sums: NodeSums, framework: Framework, plugin: Any, pod: PodInfo) -> None:
        self._sums = sums
        self._framework = framework
        self._cluster = framework.handle.cluster
        self._plugin = plugin
        #: Read-only, and valid until pods change.
        self._values: npt.NDArray[Any] = np.zeros(0, np.int64)
        #: Generation of the nodes, and the lookup objects, that the values are valid for.
        self._generation = -1
        self._objects: ObjectWatch = framework.watch_objects(pod, plugin)
        self._epoch = 0
        self._position = -1
        #: States of the rows if there are few of them; otherwise empty.
        self._states: list[int] = []
        #: State of a row -> its result.
        self._known: dict[int, Any] = {}

    def epoch(self, pod: PodInfo) -> int:
        """Changes when a lookup object changed that the results depend on; they are outdated then."""
        if self._objects.changed():
            # The set of looked-up objects may depend on those that changed.
            self._objects, self._generation = self._framework.watch_objects(pod, self._plugin), -1
            self._epoch += 1
        return self._epoch

    def values(self, state: CycleState, pod: PodInfo) -> npt.NDArray[Any] | Status:
        """The results of all rows, for one of the pods with this question."""
        rows = self._outdated(pod)
        if rows is not None and not rows:
            return self._values
        nodes = Nodes(self._cluster, None if rows is None else np.array(rows, np.intp))
        answer = self._ask(state, pod, nodes)
        if isinstance(answer, Status):
            # The values are not updated: the next call recomputes all rows.
            self._generation = -1
            return answer
        return self._take_over(rows, answer)

    def _ask(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> npt.NDArray[Any] | Status:
        raise NotImplementedError

    def _outdated(self, pod: PodInfo) -> list[int] | None:
        """Rows to recompute, None for all. A few rows with known states are updated here."""
        cluster = self._cluster
        changes, table = cluster.changes, cluster.table
        self.epoch(pod)
        rows = changes.since(self._position) if self._generation == table.generation else None
        self._position = changes.position
        self._states = states = []
        if rows is None or len(rows) > table.n // 8 + 1:
            self._generation = table.generation
            return None
        if len(rows) > FEW:
            return rows
        unknown = []
        for row, state in zip(rows, self._sums.states_of(rows), strict=True):
            known = self._known.get(state)
            if known is None:
                unknown.append(row)
                states.append(state)
            else:
                self._values[row] = known
        return unknown

    def _take_over(self, rows: list[int] | None, answer: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Store the results of some rows (None: all) and return the whole column."""
        if rows is None:
            self._values = answer.copy()
            self._known.clear()
            return self._values
        self._values[rows] = answer
        if self._states:
            if len(self._known) >= self._sums.max_states:
                self._known.clear()
            self._known.update(zip(self._states, answer.tolist(), strict=True))
        return self._values


class RefusedColumn(_Column):
    __slots__ = ()

    def _ask(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> npt.NDArray[Any] | Status:
        answer = self._framework.run_filter(self._plugin, state, pod, nodes)
        if answer is None:
            return np.zeros(len(nodes), np.bool_)
        return answer if isinstance(answer, Status) else answer.mask


class ScoredColumn(_Column):
    __slots__ = ()

    def _ask(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> npt.NDArray[Any] | Status:
        return self._framework.run_score(self._plugin, state, pod, nodes)
