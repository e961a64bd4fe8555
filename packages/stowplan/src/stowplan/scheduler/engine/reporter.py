"""Report problems that are not part of any result, such as a failing Unreserve."""

from __future__ import annotations

from stowplan.kube.klog import get_logger

_log = get_logger(__name__)


class Reporter:
    def report(self, problem: str) -> None:
        """Log a problem in one line."""
        _log.warning(problem)
