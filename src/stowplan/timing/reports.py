"""Rate-limited reports of repeated problems.

When a server is away, thousands of requests fail for the same reason; one line says it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between two reports of the same problem.
BETWEEN_REPORTS = 10.0


class Reports:
    """Problems are the same if their first words are; there must be few of those."""

    def __init__(self, report: Callable[[str], None], *, clock: Callable[[], float]) -> None:
        self._report = report
        self._clock = clock
        #: Problem -> when it was reported last.
        self._last: dict[str, float] = {}
        #: Problem -> times since then.
        self._more: dict[str, int] = {}

    def say(self, problem: str, detail: str) -> None:
        now = self._clock()
        last = self._last.get(problem)
        if last is not None and now - last < BETWEEN_REPORTS:
            self._more[problem] = self._more.get(problem, 0) + 1
            return
        self._last[problem] = now
        more = self._more.pop(problem, 0)
        self._report(f"{problem}: {detail}" + (f" (and {more} more since the last report)" if more else ""))

    def close(self) -> None:
        """Report what is left."""
        for problem, more in self._more.items():
            self._report(f"{problem}: {more} more since the last report")
        self._more.clear()
