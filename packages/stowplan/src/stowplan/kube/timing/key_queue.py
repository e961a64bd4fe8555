"""Keys that wait for their reconcile: a FIFO queue that holds each key at most once.

A thousand pod changes become one key of their ReplicaSet. The order depends only on the order of the calls, so runs are
reproducible.

Each key has at most one timer: the delay that its last reconcile returned, or, after a failure, a backoff that doubles
up to a minute. The clock is injected.

Upstream: k8s.io/client-go/util/workqueue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

from stowplan.kube.structs import PlainStruct

BACKOFF_BASE_SECONDS = 0.005
BACKOFF_LIMIT_SECONDS = 60.0

K = TypeVar("K", bound=Hashable)


def delay_after(failures: int) -> float:
    """Seconds until the next try, after so many failures in a row."""
    # Bound the exponent: it would overflow a float after a year of failures.
    return min(BACKOFF_LIMIT_SECONDS, BACKOFF_BASE_SECONDS * 2.0 ** min(failures - 1, 32))


class _Failures(PlainStruct):
    count: int = 0
    #: The last problem that was new.
    problem: str = ""


class KeyQueue(Generic[K]):
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: deque[K] = deque()
        self._queued: set[K] = set()
        #: Heap of (time, sequence, key); an entry is stale unless `_due` has the same time.
        self._timers: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._sequence = 0
        self._failures: dict[K, _Failures] = {}

    def put(self, key: K) -> None:
        if key not in self._queued:
            self._queued.add(key)
            self._waiting.append(key)

    def take(self) -> K | None:
        """The next key that is due; None if there is none."""
        self._put_due()
        if not self._waiting:
            return None
        key = self._waiting.popleft()
        self._queued.discard(key)
        return key

    def done(self, key: K, after: float | None = None) -> None:
        """The key is reconciled, and due again after some seconds; None: when it is put."""
        self._failures.pop(key, None)
        self._set_timer(key, after)

    def failed(self, key: K, problem: str = "") -> bool:
        """The key has to be tried again; return whether the problem differs from its last one."""
        failures = self._failures.setdefault(key, _Failures())
        failures.count += 1
        self._set_timer(key, delay_after(failures.count))
        if not problem or problem == failures.problem:
            return False
        failures.problem = problem
        return True

    def next_due(self) -> float | None:
        """When there will be a key to take; None if only after a `put`."""
        if self._waiting:
            return self._clock()
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _put_due(self) -> None:
        now = self._clock()
        while self._timers and self._timers[0][0] <= now:
            when, _, key = heappop(self._timers)
            if self._due.get(key) == when:
                del self._due[key]
                self.put(key)

    def _set_timer(self, key: K, after: float | None) -> None:
        if after is None:
            self._due.pop(key, None)
            return
        when = self._clock() + max(after, 0.0)
        self._due[key] = when
        self._sequence += 1
        heappush(self._timers, (when, self._sequence, key))
