"""Record Events about API objects.

`Recorder.event` takes a few microseconds: it queues the event, and a few workers send queued events in the lane with
the lowest priority. Events are best effort: if the queue is full, the server rejects one, or is unavailable for two
minutes of retries, the event is lost, which is reported and counted.

One worker starts. Another is added whenever all of them wait for a response and more events are waiting; so an
in-process API, whose responses are immediate, gets one worker, and a remote one up to its limit. After each event a
worker yields, so that a long queue does not block the event loop. A worker ends when the queue is empty.

`event_series` determines what is sent and when, `event_forms` its encoding.

Upstream: staging/src/k8s.io/client-go/tools/events. Its queue holds 1,000; ours holds a burst of pods.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import UUID

from stowplan.kube.api.api_errors import AlreadyExists, ApiError, NotFound
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.labels import dns1123_subdomain_errors
from stowplan.kube.api.meta import ApiStruct, reference_to
from stowplan.kube.api.port import Api, Unreachable
from stowplan.kube.api.types import Event
from stowplan.kube.timing.reports import Reports
from stowplan.net.client.client_errors import RequestDropped
from stowplan.net.client.events.event_forms import CoreV1, EventForm, EventsV1, namespace_of_event
from stowplan.net.client.events.event_series import FINISH_TIME, REFRESH_TIME, EventKey, EventSeries, RecordedEvent

if TYPE_CHECKING:
    from stowplan.kube.timing.times import Times


MAX_QUEUED = 10_000
MAX_IN_FLIGHT = 16
TRIES = 12
#: Seconds between retries, and their jitter.
BETWEEN_TRIES, JITTER = 10.0, 0.25

#: Maximum size of an event's note in bytes, and the suffix of a truncated one.
NOTE_LENGTH = 1024
_CUT = " ..."

_TYPES = ("Normal", "Warning")


class EventBroadcaster:
    """Sends the Events of all profiles to the API. `run` it, then `flush` it."""

    def __init__(
        self, api: Api, *, hostname: str, times: Times, report: Callable[[str], None], form: EventForm | None = None
    ) -> None:
        """`form`: the API version of events; None: the one that the cluster serves."""
        self._api = api
        self._hostname = hostname
        self._times = times
        self._reports = Reports(report, clock=times.clock)
        self._series = EventSeries()
        self._queue: WorkQueue[RecordedEvent] = WorkQueue(self._send, limit=MAX_IN_FLIGHT, failed=self._send_failed)
        #: None until the served version is known.
        self._form = form
        self._nanoseconds = 0
        self._last_try = False
        #: Events lost because too many were waiting.
        self.dropped = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is in progress or can start before time passes."""
        return self._queue.idle

    def recorder(self, reporting_controller: str) -> Recorder:
        return Recorder(self, reporting_controller, f"{reporting_controller}-{self._hostname}")

    def record(self, key: EventKey, note: str) -> None:
        if key.type not in _TYPES:
            self._reports.say("An event is of no known type", f"{key.type!r}, reason {key.reason!r}; use {_TYPES}")
            return
        if len(self._queue.waiting) >= MAX_QUEUED:
            self.dropped += 1
            self._reports.say("Too many events wait to be sent; one is dropped", _about(key))
            return
        now = self._times.wall_clock()
        # Used in names, so it must be unique, however coarse the clock is.
        self._nanoseconds = max(int(now * 1e9), self._nanoseconds + 1)
        due = self._series.observe(key, _cut(note), time=now, nanoseconds=self._nanoseconds)
        if due is not None:
            self._queue.put(due)
            forgotten = self._series.excess()
            if forgotten is not None:
                self._queue.put(forgotten)

    async def run(self) -> None:
        """Send until cancelled."""
        self._form = self._form or await self._served_form()
        self._queue.start()
        try:
            await self._tend_series()
        finally:
            await self._queue.halt()

    async def flush(self, seconds: float) -> None:
        """Send waiting events, each with at most one more try, within the time; drop the rest."""
        self._last_try = True
        if self._form is not None:
            await self._queue.finish(self._times.sleep(seconds))
        if self._queue.waiting:
            self._reports.say("Events are lost at the end", str(len(self._queue.waiting)))
        self._reports.close()

    async def _served_form(self) -> EventForm:
        while True:
            try:
                return EventsV1() if await self._api.serves(Event) else CoreV1()
            except (ApiError, Unreachable) as error:
                if isinstance(error, ApiError) and error.status.code < 500:
                    # Without permission to discover, use the version that every server accepts.
                    return CoreV1()
                self._reports.say("It is not known yet which events the cluster serves", str(error))
                await self._pause()

    async def _tend_series(self) -> None:
        slept = 0.0
        while True:
            await self._times.sleep(FINISH_TIME)
            slept += FINISH_TIME
            due = self._series.finish(self._times.wall_clock())
            if slept >= REFRESH_TIME:
                slept = 0.0
                due += self._series.refresh()
            for event in due:
                self._queue.put(event)

    # -- sending ------------------------------------------------------------------------------------------------------

    async def _send(self, event: RecordedEvent) -> None:
        """Send what is due of an event; one worker at a time, so that its parts stay in order."""
        event.again = True
        if event.sending:
            return
        event.sending = True
        try:
            while event.again:
                event.again = False
                await self._attempt(event)
        finally:
            event.sending = False

    def _send_failed(self, event: RecordedEvent, error: Exception) -> None:
        self._reports.say("An event is lost, sending it fails", f"{_about(event.key)}: {error!r}")

    async def _attempt(self, event: RecordedEvent) -> None:
        series = event.attempted and event.is_series
        for tries in range(1, TRIES + 1):
            problem = await self._try(event, series=series)
            if problem is None:
                if event.final:
                    self._series.forget(event)
                break
            if tries == TRIES or self._last_try:
                self._reports.say("An event is lost, the tries are used up", f"{_about(event.key)}: {problem}")
                break
            self._reports.say("Events cannot be sent for now", f"{_about(event.key)}: {problem}")
            await self._queue.rest(self._pause())
        event.attempted = True

    def _pause(self) -> Awaitable[object]:
        return self._times.sleep(BETWEEN_TRIES * (1.0 + JITTER * self._times.random()))

    async def _try(self, event: RecordedEvent, *, series: bool) -> str | None:
        """Send once; return why to retry, if that makes sense."""
        try:
            if series:
                await self._update(event)
            else:
                await self._create(event, series=False)
        except AlreadyExists as error:
            # For a series: it was created concurrently. Otherwise: an earlier try succeeded, or nothing can be done.
            return str(error) if series else None
        except ApiError as error:
            self._reports.say("The server refuses an event", f"{_about(event.key)}: {error}")
        except DecodeError as error:
            self._reports.say("The server's answer to an event cannot be read", f"{_about(event.key)}: {error}")
        except (Unreachable, RequestDropped) as error:
            return str(error)
        return None

    async def _update(self, event: RecordedEvent) -> None:
        form = self._known_form
        namespace = namespace_of_event(event.key.regarding)
        try:
            await self._api.patch(
                form.kind, event.name, form.patch(event), type_="strategic", namespace=namespace, lane="event"
            )
        except NotFound:
            # Events are kept for an hour only; or it was never created.
            await self._create(event, series=True)

    async def _create(self, event: RecordedEvent, *, series: bool) -> None:
        event.name = event.name or self._name(event)
        await self._api.create(self._known_form.create(event, series=series), lane="event")

    @property
    def _known_form(self) -> EventForm:
        assert self._form is not None, "nothing is sent before it is known what the cluster serves"
        return self._form

    def _name(self, event: RecordedEvent) -> str:
        name = f"{event.key.regarding.name}.{event.nanoseconds:x}"
        if not dns1123_subdomain_errors(name):
            return name
        number = 0
        for _ in range(4):
            number = number << 32 | int(self._times.random() * (1 << 32))
        return str(UUID(int=number, version=4))


class Recorder:
    """A `framework.handle.EventRecorder` of one profile."""

    def __init__(self, broadcaster: EventBroadcaster, controller: str, instance: str) -> None:
        self._broadcaster = broadcaster
        self._controller = controller
        self._instance = instance

    def event(
        self, regarding: ApiStruct, *, type_: str, reason: str, action: str, note: str, related: ApiStruct | None = None
    ) -> None:
        key = EventKey(
            type_,
            action,
            reason,
            self._controller,
            self._instance,
            reference_to(regarding),
            None if related is None else reference_to(related),
        )
        self._broadcaster.record(key, note)


def _cut(note: str) -> str:
    """The note, truncated to the API's limit, never within a character."""
    if note.isascii() and len(note) <= NOTE_LENGTH:
        return note
    # JSON cannot encode lone surrogates.
    encoded = note.encode(errors="replace")
    if len(encoded) <= NOTE_LENGTH:
        return encoded.decode()
    return encoded[: NOTE_LENGTH - len(_CUT)].decode(errors="ignore") + _CUT


def _about(key: EventKey) -> str:
    return f"{key.reason} of {key.regarding.kind} {namespace_of_event(key.regarding)}/{key.regarding.name}"


T = TypeVar("T")


class WorkQueue(Generic[T]):
    def __init__(
        self, work: Callable[[T], Awaitable[None]], *, limit: int, failed: Callable[[T, Exception], None]
    ) -> None:
        self._work = work
        self._failed = failed
        self._limit = limit
        self.waiting: deque[T] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Number of busy workers, and of those that are sleeping within an item.
        self._working = 0
        self._resting = 0
        self._started = False

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do before time passes."""
        return self._working == self._resting and (not self.waiting or self._resting == self._limit)

    def put(self, thing: T) -> None:
        self.waiting.append(thing)
        self._start_worker()

    async def rest(self, until: Awaitable[object]) -> None:
        """Sleep within an item."""
        self._resting += 1
        try:
            await until
        finally:
            self._resting -= 1

    def start(self) -> None:
        """Start processing, including items added earlier."""
        self._started = True
        self._start_worker()

    async def halt(self) -> None:
        """Stop immediately; unfinished items are queued again."""
        self._started = False
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A task that never ran has not removed itself from the list.
        self._tasks.clear()

    async def finish(self, time_limit: Awaitable[object]) -> None:
        """Process the queue until it is empty, at most until `time_limit`; then halt. Sleeping items start again."""
        timer = asyncio.ensure_future(time_limit)
        await self.halt()
        self.start()
        try:
            while self._tasks and not timer.done():
                await asyncio.wait({*self._tasks, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            await asyncio.gather(timer, return_exceptions=True)
            await self.halt()

    def _start_worker(self) -> None:
        if self._started and self.waiting and self._working == len(self._tasks) < self._limit:
            self._tasks.add(asyncio.get_running_loop().create_task(self._run()))

    async def _run(self) -> None:
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        try:
            while self.waiting:
                thing = self.waiting.popleft()
                self._working += 1
                if self.waiting:
                    loop.call_soon(self._start_worker)
                try:
                    await self._work(thing)
                except asyncio.CancelledError:
                    self.waiting.appendleft(thing)
                    raise
                except Exception as error:
                    self._failed(thing, error)
                finally:
                    self._working -= 1
                await asyncio.sleep(0)
        finally:
            if me is not None:
                self._tasks.discard(me)
