"""The thread that carries out the steps of TLS handshakes, and the order in which it does.

A step signs, which takes up to a millisecond, and anyone can ask for it. One thread does all of them, so that many of
them delay neither the lease nor responses. If a thousand clients connect at once, a health probe behind them would wait
for a second. So the client that came last and the client that has waited longest take turns: most probes are served
within milliseconds, and nobody waits for more than twice the steps ahead of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

from OpenSSL import SSL


class Handshakes:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "TLS handshakes")
        #: In order of arrival. Each has one run of `_do_one`, whichever it takes.
        self._waiting: deque[tuple[SSL.Connection, Future[SSL.Error | None]]] = deque()
        self._newest = False

    def step(self, tls: SSL.Connection) -> asyncio.Future[SSL.Error | None]:
        """What OpenSSL misses for the end of the handshake, or why it fails; None: it is complete."""
        outcome: Future[SSL.Error | None] = Future()
        self._waiting.append((tls, outcome))
        self._thread.submit(self._do_one)
        return asyncio.wrap_future(outcome)

    def _do_one(self) -> None:
        self._newest = not self._newest
        tls, outcome = self._waiting.pop() if self._newest else self._waiting.popleft()
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            outcome.set_result(_step(tls))
        except BaseException as error:
            outcome.set_exception(error)


def _step(tls: SSL.Connection) -> SSL.Error | None:
    """A raised error would stay in the future, and refer to the connection through its traceback: a cycle that keeps
    all that a client has sent until the next garbage collection, which is rare (`timing/garbage.py`)."""
    try:
        tls.do_handshake()
    except SSL.Error as error:
        return error.with_traceback(None)
    return None
