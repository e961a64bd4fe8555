"""Client-side rate limiting: one token bucket with a priority lane per kind of request.

`qps` tokens per second fill a bucket of `burst`; each request takes one, and a slot among those in flight. Without one,
requests wait in their lane in FIFO order, and lanes are served in the order bind, default, status, event. With that
order alone, a flood of binds could starve the lease renewal, so:

- every `FAIR_TURN`-th turn that later lanes had to wait for goes to the one whose first request has waited longest. So
  bind, default and status never starve;
- an event gets such a turn only if no bind is waiting: a bind never waits behind an event. Events can thus starve while
  binds take every token. At most `EVENT_QUEUE` wait, further ones are dropped and counted; and they occupy at most half
  of the slots, so that slow ones do not block the rest.

`Lanes` is the pure algorithm with the time as an argument; `RateLimitedLanes` lets coroutines wait for it.

Upstream has one bucket for everything (client-go/util/flowcontrol/throttle.go), which is why an event storm delays
binding there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, get_args

from stowplan.kube.api.port import Lane
from stowplan.net.client.client_errors import RequestDropped

FAIR_TURN = 10
EVENT_QUEUE = 1000
IN_FLIGHT = 64

#: Parity: client-go's defaults for zeros in a configuration.
_DEFAULT_QPS = 5.0
_DEFAULT_BURST = 10

_ORDER: tuple[Lane, ...] = get_args(Lane)


@dataclass(eq=False, slots=True)
class Ticket:
    lane: Lane
    #: Sequence number over all lanes.
    number: int
    state: Literal["waiting", "in flight", "done"] = "waiting"
    #: Set by `RateLimitedLanes`, for waiting tickets.
    granted: asyncio.Future[None] | None = field(default=None, repr=False)
    task: asyncio.Task[object] | None = field(default=None, repr=False)


class Lanes:
    def __init__(
        self,
        *,
        qps: float,
        burst: int,
        now: float,
        in_flight: int = IN_FLIGHT,
        event_queue: int = EVENT_QUEUE,
    ) -> None:
        #: Negative: unlimited.
        self._qps = qps or _DEFAULT_QPS
        self._burst = float(burst or _DEFAULT_BURST)
        self._tokens = self._burst
        self._filled_at = now
        self._places = in_flight
        self._event_places = max(1, in_flight // 2)
        self._event_queue = event_queue
        self._lanes: dict[Lane, deque[Ticket]] = {lane: deque() for lane in _ORDER}
        self._waiting = 0
        self._flying = 0
        self._flying_events = 0
        self._arrivals = 0
        #: RateLimitedLanes since the last fair one that a later lane waited for.
        self._passed_over = 0
        #: Events dropped because their lane was full.
        self.dropped = 0

    @property
    def waiting(self) -> Mapping[Lane, int]:
        return {lane: len(queue) for lane, queue in self._lanes.items()}

    @property
    def in_flight(self) -> int:
        return self._flying

    def enter(self, lane: Lane) -> Ticket:
        """Enter the queue; raises RequestDropped if the lane is full."""
        queue = self._lanes[lane]
        if lane == "event" and len(queue) >= self._event_queue:
            self.dropped += 1
            raise RequestDropped(f"{len(queue)} events wait to be sent already; this one is dropped")
        self._arrivals += 1
        ticket = Ticket(lane, self._arrivals)
        queue.append(ticket)
        self._waiting += 1
        return ticket

    def lift_limit(self) -> None:
        """Remove the rate limit; the number of slots stays limited."""
        self._qps = -1.0

    def waiting_in(self, lane: Lane) -> tuple[Ticket, ...]:
        return tuple(self._lanes[lane])

    def leave(self, ticket: Ticket) -> None:
        """Stop waiting, or release the slot."""
        if ticket.state == "waiting":
            self._lanes[ticket.lane].remove(ticket)
            self._waiting -= 1
        elif ticket.state == "in flight":
            self._flying -= 1
            self._flying_events -= ticket.lane == "event"
        ticket.state = "done"

    def grant(self, now: float) -> list[Ticket]:
        """Grant requests in turn, as far as slots and tokens allow."""
        granted: list[Ticket] = []
        if not self._waiting:
            return granted
        self._fill(now)
        while self._flying < self._places and (self._qps < 0 or self._tokens >= 1.0):
            lane = self._next_lane()
            if lane is None:
                break
            granted.append(self._dispatch(lane))
        return granted

    def seconds_to_next(self, now: float) -> float | None:
        """Seconds until a token is available for waiting requests; None if they do not wait for a token."""
        if self._qps < 0 or not self._waiting:
            return None
        self._fill(now)
        if self._tokens >= 1.0:
            return None
        # Slightly more, so that rounding does not wake us up just before the token is available.
        return (1.0 - self._tokens) / self._qps + 1e-6

    def _fill(self, now: float) -> None:
        if now > self._filled_at:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * max(self._qps, 0.0))
            self._filled_at = now

    def _dispatch(self, lane: Lane) -> Ticket:
        ticket = self._lanes[lane].popleft()
        ticket.state = "in flight"
        self._waiting -= 1
        self._flying += 1
        self._flying_events += lane == "event"
        if self._qps > 0:
            self._tokens -= 1.0
        return ticket

    def _next_lane(self) -> Lane | None:
        ready = [lane for lane in _ORDER if self._lanes[lane] and self._has_free_slot(lane)]
        if not ready:
            return None
        later = [lane for lane in ready[1:] if lane != "event" or ready[0] != "bind"]
        if not later:
            return ready[0]
        self._passed_over += 1
        if self._passed_over < FAIR_TURN:
            return ready[0]
        self._passed_over = 0
        return min(later, key=lambda lane: self._lanes[lane][0].number)

    def _has_free_slot(self, lane: Lane) -> bool:
        return lane != "event" or self._flying_events < self._event_places


class RateLimitedLanes:
    """Coroutines that wait for their turn; a task wakes them when the next token is available."""

    def __init__(
        self, lanes: Lanes, *, clock: Callable[[], float], sleep: Callable[[float], Awaitable[object]]
    ) -> None:
        self.lanes = lanes
        self._clock = clock
        self._sleep = sleep
        self._pump: asyncio.Task[None] | None = None

    def turn(self, lane: Lane) -> _Turn:
        """A context manager that waits for a turn and holds a slot; entering raises RequestDropped."""
        return _Turn(self, lane)

    def grant(self) -> None:
        """Wake all requests whose turn it is, and schedule the next wake-up."""
        wait = self._grant()
        if wait is not None and (self._pump is None or self._pump.done()):
            self._pump = asyncio.get_running_loop().create_task(self._pumping(wait))

    def _grant(self) -> float | None:
        """Grant turns; return the seconds until the next token if requests wait for one.

        Both use one reading of the clock: otherwise a token that becomes available in between would wake nobody.
        """
        now = self._clock()
        for ticket in self.lanes.grant(now):
            # A cancelled waiter still holds its place; it passes the slot on when it leaves.
            if ticket.granted is not None and not ticket.granted.done():
                ticket.granted.set_result(None)
        return self.lanes.seconds_to_next(now)

    def give_up(self, lane: Lane) -> None:
        """Cancel the tasks that wait in a lane, whose requests were not sent; remove the limit for the others."""
        for ticket in self.lanes.waiting_in(lane):
            if ticket.task is not None:
                ticket.task.cancel()
        self.lanes.lift_limit()
        self.grant()

    async def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            with suppress(asyncio.CancelledError):
                await self._pump

    async def _pumping(self, wait: float) -> None:
        left: float | None = wait
        while left is not None:
            await self._sleep(left)
            left = self._grant()


class _Turn:
    """One request's turn, an asynchronous context. Used by every request; a generator would cost 1 µs more."""

    __slots__ = ("_lane", "_ticket", "_turns")

    def __init__(self, turns: RateLimitedLanes, lane: Lane) -> None:
        self._turns = turns
        self._lane = lane

    async def __aenter__(self) -> None:
        turns = self._turns
        ticket = self._ticket = turns.lanes.enter(self._lane)
        turns.grant()
        if ticket.state == "waiting":
            ticket.granted = asyncio.get_running_loop().create_future()
            ticket.task = asyncio.current_task()
            try:
                await ticket.granted
            except BaseException:
                self._leave()
                raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._turns.lanes.leave(self._ticket)
        self._turns.grant()
