"""Which rows' pods changed, as a log that readers follow from where they last stood."""

from __future__ import annotations

from bisect import bisect_left

_LIMIT = 8192


class ChangeLog:
    """Rows in the order of their changes; the oldest entries are dropped.

    Each change has a number of its own, which is never given again: not even to what comes after an undone change. So
    a reader that stood among changes that were undone is told to look at everything.
    """

    def __init__(self) -> None:
        self._rows: list[int] = []
        #: Number of each change, rising.
        self._numbers: list[int] = []
        #: Where a reader stands that knows of none of these.
        self._start = 0
        self._last = 0

    @property
    def position(self) -> int:
        """Where a reader that knows everything stands."""
        return self._numbers[-1] if self._numbers else self._start

    def append(self, row: int) -> None:
        self._last += 1
        self._rows.append(row)
        self._numbers.append(self._last)
        if len(self._rows) > _LIMIT:
            self._start = self._numbers[_LIMIT // 2 - 1]
            del self._rows[: _LIMIT // 2], self._numbers[: _LIMIT // 2]

    def since(self, position: int) -> list[int] | None:
        """Distinct rows that changed since, ascending; None when there is no telling."""
        if position == self.position:
            return []
        after = self._after(position)
        return None if after is None else sorted(set(self._rows[after:]))

    def rewind(self, position: int) -> None:
        """Forget what came after: the changes were undone."""
        after = self._after(position)
        if after is None:
            self._rows.clear()
            self._numbers.clear()
            # Readers that stood at `position` must look at everything again.
            self._last += 1
            self._start = self._last
        else:
            del self._rows[after:], self._numbers[after:]

    def _after(self, position: int) -> int | None:
        """Index of the first change after a position; None when the position is not kept."""
        if position == self._start:
            return 0
        i = bisect_left(self._numbers, position)
        return i + 1 if i < len(self._numbers) and self._numbers[i] == position else None
