"""Limit how many expensive operations of a kind run at once.

Others of the same kind wait in order of arrival, so that a flood of requests only delays its own kind. A turn may
outlive the task that took it: it ends with the operation.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    def __init__(self, *, most: int) -> None:
        """`most`: per kind at a time."""
        self._most = most
        #: Kind -> active turns; kinds without any are absent.
        self._taken: dict[str, int] = {}
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        """Number of active turns."""
        return sum(self._taken.values())

    async def take(self, kind: str) -> Turn:
        """Wait for a turn, which the caller has to end."""
        if self._taken.get(kind, 0) < self._most:
            self._taken[kind] = self._taken.get(kind, 0) + 1
            return Turn(self, kind)
        line = self._lines.setdefault(kind, deque())
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(waiting)
        try:
            # It was handed over: the number of turns does not change.
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self.ended(kind)
            else:
                self._leave(kind, waiting)
            raise
        return Turn(self, kind)

    def ended(self, kind: str) -> None:
        line = self._lines.get(kind)
        while line:
            following = line.popleft()
            if not line:
                del self._lines[kind]
            if not following.done():
                following.set_result(None)
                return
        self._taken[kind] -= 1
        if not self._taken[kind]:
            del self._taken[kind]

    def _leave(self, kind: str, waiting: asyncio.Future[None]) -> None:
        line = self._lines.get(kind)
        if line is not None and waiting in line:
            line.remove(waiting)
            if not line:
                del self._lines[kind]


class Turn:
    """A turn, ended by `end`, which is idempotent, or with the block that it is the context of."""

    __slots__ = ("_kind", "_turns")

    def __init__(self, turns: Turns, kind: str) -> None:
        self._turns: Turns | None = turns
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.ended(self._kind)
