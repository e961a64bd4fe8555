"""Problems that are nobody's answer, such as a plugin that fails to give back what it reserved."""

from __future__ import annotations

from stowplan.klog import get_logger

_log = get_logger(__name__)


class Reporter:
    def report(self, problem: str) -> None:
        """Log a problem in one line."""
        _log.warning(problem)
