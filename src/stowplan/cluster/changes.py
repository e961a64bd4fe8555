"""Change logs that readers follow from their last position."""

from __future__ import annotations

from bisect import bisect_left
from typing import Generic, TypeVar

T = TypeVar("T", int, str)


class ChangeLog(Generic[T]):
    """Rows (or names) in the order of their changes; the oldest entries are dropped.

    Each change has a unique number, which is never reused, not even after an undone change. So a reader whose position
    was undone has to look at everything.
    """

    def __init__(self, limit: int = 8192) -> None:
        self._limit = limit
        self._rows: list[T] = []
        #: Number of each change, rising.
        self._numbers: list[int] = []
        #: Where a reader stands that knows of none of these.
        self._start = 0
        self._last = 0
        #: Where a reader that knows everything stands: the last number here, or the start.
        self.position = 0
        #: What was asked last, from which position to which, and the answer: several readers stand at the same place.
        self._asked: tuple[int, int] = (-1, -1)
        self._answer: list[T] | None = None

    def append(self, row: T) -> None:
        self._last = self.position = self._last + 1
        self._rows.append(row)
        self._numbers.append(self._last)
        if len(self._rows) > self._limit:
            dropped = max(1, self._limit // 2)
            self._start = self._numbers[dropped - 1]
            del self._rows[:dropped], self._numbers[:dropped]

    def since(self, position: int) -> list[T] | None:
        """Distinct rows that changed since, ascending, not to be written to; None when there is no telling."""
        here = self.position
        if position == here:
            return []
        if self._asked != (position, here):
            after = self._after(position)
            self._answer = None if after is None else sorted(set(self._rows[after:]))
            self._asked = (position, here)
        return self._answer

    def forget(self) -> None:
        """Whoever reads next has to look at everything."""
        self._last += 1
        self._start = self.position = self._last
        self._rows.clear()
        self._numbers.clear()

    def rewind(self, position: int) -> None:
        """Forget what came after: the changes were undone."""
        after = self._after(position)
        if after is None:
            # The position was dropped, so all that is left came after it. What was then is now, so a reader that stood
            # there knows everything.
            self._rows.clear()
            self._numbers.clear()
            self._start = position
        else:
            del self._rows[after:], self._numbers[after:]
        self.position = self._numbers[-1] if self._numbers else self._start

    def _after(self, position: int) -> int | None:
        """Index of the first change after a position; None when the position is not kept."""
        if position == self._start:
            return 0
        # As long as nothing was undone since, numbers follow one another.
        i = len(self._numbers) - (self.position - position)
        if 0 < i <= len(self._numbers) and self._numbers[i - 1] == position:
            return i
        i = bisect_left(self._numbers, position)
        return i + 1 if i < len(self._numbers) and self._numbers[i] == position else None
