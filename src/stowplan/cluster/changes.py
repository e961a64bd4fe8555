"""Which rows' pods changed, as a log that readers follow from where they last stood."""

from __future__ import annotations

_LIMIT = 8192


class ChangeLog:
    """Rows in the order of their changes; the oldest entries are dropped."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._start = 0

    @property
    def position(self) -> int:
        """Where a reader that knows everything stands."""
        return self._start + len(self._rows)

    def append(self, row: int) -> None:
        self._rows.append(row)
        if len(self._rows) > _LIMIT:
            del self._rows[: _LIMIT // 2]
            self._start += _LIMIT // 2

    def since(self, position: int) -> list[int] | None:
        """Distinct rows that changed since, ascending; None when that is too long ago to tell."""
        if position < self._start:
            return None
        if position - self._start == len(self._rows):
            return []
        return sorted(set(self._rows[position - self._start :]))

    def rewind(self, position: int) -> None:
        """Forget what came after: the changes were undone."""
        if position < self._start:
            self._rows.clear()
            # Readers that stood at `position` must look at everything again.
            self._start = position + 1
        else:
            del self._rows[position - self._start :]
