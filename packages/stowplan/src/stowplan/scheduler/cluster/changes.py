"""Change logs that readers follow from their last position."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T", int, str)


class ChangeLog(Generic[T]):
    """Rows (or names) in the order of their changes; the oldest entries are dropped.

    Each change has a unique number, which is never reused, not even after the change was undone. A reader whose
    position was undone therefore has to check everything.
    """

    def __init__(self, limit: int = 8192) -> None:
        self._limit = limit
        self._rows: list[T] = []
        #: The number of each change, ascending.
        self._numbers: list[int] = []
        #: The position before the first entry.
        self._start = 0
        self._last = 0
        #: The position after the last entry, or the start if there is none.
        self.position = 0
        #: The last query (from, to) and its result: several readers have the same position.
        self._cached_range: tuple[int, int] = (-1, -1)
        self._cached_rows: list[T] | None = None

    def append(self, row: T) -> None:
        self._last = self.position = self._last + 1
        self._rows.append(row)
        self._numbers.append(self._last)
        if len(self._rows) > self._limit:
            self._drop(max(1, self._limit // 2))

    def extend(self, rows: Sequence[T]) -> None:
        self._rows += rows
        self._numbers += range(self._last + 1, self._last + 1 + len(rows))
        if rows:
            self._last = self.position = self._numbers[-1]
        if len(self._rows) > self._limit:
            self._drop(len(self._rows) - self._limit // 2)

    def _drop(self, entries: int) -> None:
        """Drop the oldest entries."""
        self._start = self._numbers[entries - 1]
        del self._rows[:entries], self._numbers[:entries]

    def since(self, position: int) -> list[T] | None:
        """The distinct rows that changed since, ascending and read-only; None if the log does not reach so far."""
        here = self.position
        if position == here:
            return []
        if self._cached_range != (position, here):
            after = self._after(position)
            self._cached_rows = None if after is None else sorted(set(self._rows[after:]))
            self._cached_range = (position, here)
        return self._cached_rows

    def forget(self) -> None:
        """Readers of any earlier position have to examine all rows."""
        self._last += 1
        self._start = self.position = self._last
        self._rows.clear()
        self._numbers.clear()

    def rewind(self, position: int) -> None:
        """Drop later entries: their changes were undone."""
        after = self._after(position)
        if after is None:
            # The position was dropped, so all remaining entries are later. The state is what it was at the position, so
            # a reader there is up to date.
            self._rows.clear()
            self._numbers.clear()
            self._start = position
        else:
            del self._rows[after:], self._numbers[after:]
        self.position = self._numbers[-1] if self._numbers else self._start

    def _after(self, position: int) -> int | None:
        """Index of the first change after a position; None if the position is not in the log."""
        if position == self._start:
            return 0
        # If nothing was undone since, the numbers are consecutive.
        i = len(self._numbers) - (self.position - position)
        if 0 < i <= len(self._numbers) and self._numbers[i - 1] == position:
            return i
        i = bisect_left(self._numbers, position)
        return i + 1 if i < len(self._numbers) and self._numbers[i] == position else None
