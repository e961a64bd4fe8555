"""Node labels as columns of integer codes.

A plugin that groups nodes by zone, or selects nodes with disk=ssd, needs an array of small integers, one per node. A
column is created when its key is first used, and updated from then on, so unused labels cost nothing. Code 0 means that
the node lacks the label (or that the row has no node). Codes of values that no node has any more are reused, and
columns of keys that no node has are dropped when there are many: pods may select any number of such labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count

import numpy as np

from stowplan.scheduler.cluster.arrays import Codes
from stowplan.scheduler.cluster.columns import grown

#: Number of columns that are kept though no node has their label.
_MAX_ABSENT = 256

#: Versions of columns; never reused, not even when a transaction rewinds a column.
_versions = count(1)


class LabelColumn:
    """One label key over all rows."""

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        #: Changes whenever a row's value changes.
        self.version = next(_versions)
        #: Code of the row's value, 0 without the label; shape (capacity,); intp, so that it can be used as an index.
        self.codes: Codes = np.zeros(capacity, np.intp)
        #: Code -> value; index 0 is a placeholder.
        self.values: list[str] = [""]
        self._code_of: dict[str, int] = {}
        #: Code -> number of nodes.
        self._population: list[int] = [0]
        self._free: list[int] = []
        #: Number of codes that two or more nodes share; while 0, every domain is a single node.
        self._shared = 0
        #: Number of nodes with the label.
        self._having = 0

    @property
    def size(self) -> int:
        """The largest code in use plus one: the length of an array indexed by code."""
        return len(self.values)

    @property
    def unique(self) -> bool:
        return self._shared == 0

    def everywhere(self, nodes: int) -> bool:
        """Whether all of this number of nodes have the label."""
        return self._having == nodes

    def code(self, value: str) -> int:
        """The code of a value, 0 if no node has it."""
        return self._code_of.get(value, 0)

    def items(self) -> Iterator[tuple[str, int]]:
        return iter(self._code_of.items())

    def set(self, row: int, value: str | None) -> None:
        old = int(self.codes[row])
        if value is not None and old and self.values[old] == value:
            return
        if value is None and not old:
            return
        self.version = next(_versions)
        if old:
            self._leave(old)
        self.codes[row] = self._join(value) if value is not None else 0

    def saved(self) -> Callable[[], None]:
        """A function that restores the column's current state."""
        codes, copy, version = self.codes, self.codes.copy(), self.version
        lists = list(self.values), list(self._population), list(self._free)
        code_of, counts = dict(self._code_of), (self._shared, self._having)

        def restore() -> None:
            # In place: readers may hold a reference to the array.
            codes[:] = copy
            if self.codes is not codes:
                self.codes[: len(copy)], self.codes[len(copy) :] = copy, 0
            self.values, self._population, self._free = lists
            self._code_of = code_of
            self._shared, self._having = counts
            self.version = version

        return restore

    def _join(self, value: str) -> int:
        code = self._code_of.get(value, 0)
        if not code:
            code = self._allocate(value)
        self._population[code] += 1
        self._having += 1
        self._shared += self._population[code] == 2
        return code

    def _allocate(self, value: str) -> int:
        if self._free:
            code = self._free.pop()
            self.values[code] = value
        else:
            code = len(self.values)
            self.values.append(value)
            self._population.append(0)
        self._code_of[value] = code
        return code

    def _leave(self, code: int) -> None:
        self._population[code] -= 1
        self._having -= 1
        self._shared -= self._population[code] == 1
        if not self._population[code]:
            del self._code_of[self.values[code]]
            self._free.append(code)


class LabelColumns:
    """The label columns in use."""

    def __init__(self) -> None:
        self._columns: dict[str, LabelColumn] = {}

    def get(self, key: str) -> LabelColumn | None:
        return self._columns.get(key)

    def create(self, key: str, capacity: int, labels: Iterable[dict[str, str] | None]) -> LabelColumn:
        """The new column of a key; `labels` has those of each row's node."""
        self._drop_absent()
        column = self._columns[key] = LabelColumn(key, capacity)
        for row, of_node in enumerate(labels):
            if of_node is not None and key in of_node:
                column.set(row, of_node[key])
        return column

    def _drop_absent(self) -> None:
        """Drop the columns of labels that no node has, if there are too many of them.

        Who holds such a column reads zeros from it, which is true until a node object changes.
        """
        absent = [key for key, column in self._columns.items() if column.everywhere(0)]
        if len(absent) >= _MAX_ABSENT:
            for key in absent:
                del self._columns[key]

    def set_row(self, row: int, labels: dict[str, str]) -> None:
        for key, column in self._columns.items():
            column.set(row, labels.get(key))

    def grow(self, capacity: int) -> None:
        for column in self._columns.values():
            column.codes = grown(column.codes, capacity)

    def saved(self) -> Callable[[], None]:
        """A function that restores the current state of all columns; columns created later are dropped."""
        columns = dict(self._columns)
        restore_columns = [column.saved() for column in columns.values()]

        def restore() -> None:
            self._columns = columns
            for restore_column in restore_columns:
                restore_column()

        return restore
