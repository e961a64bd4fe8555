"""Log requests delayed by client-side throttling, at a limited rate.

Upstream: staging/src/k8s.io/client-go/rest/request.go (tryThrottleWithInfo, throttledLogger).
"""

from __future__ import annotations

from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING

from stowplan.kube.klog import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

_log = get_logger(__name__)

#: Seconds; shorter waits are not logged.
LONG = 0.05
_VERY_LONG = 1.0
#: (level, seconds between two lines about very long waits); the first enabled level applies.
_BETWEEN_LINES = ((2, 1.0), (0, 10.0))

_MESSAGE = "Waited before sending request"
_REASON = "client-side throttling, not priority and fairness"


class Throttling:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = -inf

    def log(self, verb: str, url: str, seconds: float) -> None:
        """A request waited for longer than LONG."""
        keys = {"delay": timedelta(seconds=seconds), "reason": _REASON, "verb": verb, "URL": url}
        _log.v(3).info(_MESSAGE, **keys)
        if seconds <= _VERY_LONG:
            return
        level, between = next(each for each in _BETWEEN_LINES if _log.v(each[0]).enabled)
        now = self._clock()
        if now - self._last >= between:
            self._last = now
            _log.v(level).info(_MESSAGE, **keys)
