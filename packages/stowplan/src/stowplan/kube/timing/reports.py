"""Rate-limited reports of repeated problems.

If a server is unavailable, thousands of requests fail for the same reason; they are reported in one line.
"""

from __future__ import annotations

from collections.abc import Callable

#: Seconds between two reports of the same problem.
BETWEEN_REPORTS = 10.0


class Reports:
    """Problems are grouped by their first words, of which there must be few."""

    def __init__(self, report: Callable[[str], None], *, clock: Callable[[], float]) -> None:
        self._report = report
        self._clock = clock
        #: Problem -> time of the last report.
        self._last: dict[str, float] = {}
        #: Problem -> number of occurrences since then.
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
        """Report what has not been reported yet."""
        for problem, more in self._more.items():
            self._report(f"{problem}: {more} more since the last report")
        self._more.clear()
