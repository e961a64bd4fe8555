"""Exponential backoff with jitter.

The n-th delay is `initial · factor^n`, at most `cap`, plus a random share of up to `jitter`, so that clients that
failed together do not retry together. It is reset after `reset_after` seconds without a failure.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/wait/backoff.go (Backoff, DelayWithReset).
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.kube.structs import PlainStruct


class BackoffPolicy(PlainStruct, frozen=True, kw_only=True):
    #: Seconds.
    initial: float
    cap: float
    factor: float = 2.0
    jitter: float = 1.0
    reset_after: float = float("inf")


#: Of upstream's reflector: the final delays are between 30 and 60 seconds.
WATCHING = BackoffPolicy(initial=0.8, cap=30.0, reset_after=120.0)
#: Between the tries of one request.
REQUESTING = BackoffPolicy(initial=0.1, cap=10.0)


class Backoff:
    def __init__(self, policy: BackoffPolicy, *, clock: Callable[[], float], random: Callable[[], float]) -> None:
        self._policy = policy
        self._clock = clock
        #: Uniform in [0, 1).
        self._random = random
        self._base = policy.initial
        self._last_failure: float | None = None

    def next(self) -> float:
        """Record a failure; return the delay in seconds."""
        policy, now = self._policy, self._clock()
        if self._last_failure is not None and now - self._last_failure > policy.reset_after:
            self._base = policy.initial
        self._last_failure = now
        wait = self._base * (1.0 + policy.jitter * self._random())
        self._base = min(self._base * policy.factor, policy.cap)
        return wait

    def reset(self) -> None:
        """Reset to the initial delay."""
        self._base = self._policy.initial
