"""Aggregate repeated Events into a series.

Two events are equal if everything but the note and the time is. As `regarding` contains the object's resourceVersion, a
series only forms while the object is unchanged. Counts are stored here; what has to be sent is returned. An active
series is sent again every half hour. Six minutes after the last event, a series is sent for the last time and dropped,
and so are single events.

At most `MAX_REMEMBERED` are stored; beyond that the oldest is dropped, and the next equal event is a new one.

Upstream: staging/src/k8s.io/client-go/tools/events/event_broadcaster.go (eventCache).
"""

from __future__ import annotations

from typing import NamedTuple

from stowplan.kube.api.types import ObjectReference

#: Seconds without another event after which a series ends; also the interval of the check.
FINISH_TIME = 360.0
#: Seconds between updates of active series.
REFRESH_TIME = 1800.0
MAX_REMEMBERED = 10_000


class EventKey(NamedTuple):
    type: str
    action: str
    reason: str
    reporting_controller: str
    reporting_instance: str
    regarding: ObjectReference
    related: ObjectReference | None


class RecordedEvent:
    """An event and its count."""

    __slots__ = (
        "again",
        "attempted",
        "count",
        "final",
        "key",
        "last_observed",
        "name",
        "nanoseconds",
        "note",
        "sending",
        "time",
    )

    def __init__(self, key: EventKey, note: str, time: float, nanoseconds: int) -> None:
        self.key = key
        self.note = note
        #: Seconds since the epoch.
        self.time = time
        #: A unique timestamp.
        self.nanoseconds = nanoseconds
        #: Its name in the API, set when it is first sent.
        self.name = ""
        self.count = 1
        self.last_observed = time
        #: Whether its creation was tried, successfully or not.
        self.attempted = False
        #: Whether the next update is the last one.
        self.final = False
        #: Whether it is being sent, and whether there is more to send afterwards.
        self.sending = False
        self.again = False

    @property
    def is_series(self) -> bool:
        return self.count > 1


class EventSeries:
    def __init__(self) -> None:
        self._events: dict[EventKey, RecordedEvent] = {}

    def __len__(self) -> int:
        return len(self._events)

    def observe(self, key: EventKey, note: str, *, time: float, nanoseconds: int) -> RecordedEvent | None:
        """Record an event; return what has to be sent for it, if anything."""
        known = self._events.get(key)
        if known is None:
            new = self._events[key] = RecordedEvent(key, note, time, nanoseconds)
            return new
        known.count += 1
        known.last_observed = time
        known.final = False
        return known if known.count == 2 else None

    def excess(self) -> RecordedEvent | None:
        """Drop the oldest event if there are too many; return it if it is a series, whose count has to be sent."""
        if len(self._events) <= MAX_REMEMBERED:
            return None
        oldest = self._events.pop(next(iter(self._events)))
        return oldest if oldest.is_series else None

    def refresh(self) -> list[RecordedEvent]:
        """All active series."""
        return [event for event in self._events.values() if event.is_series and not event.final]

    def finish(self, now: float) -> list[RecordedEvent]:
        """Drop single events that have ended; return series that have, to be sent and then dropped."""
        over = [event for event in self._events.values() if event.last_observed < now - FINISH_TIME]
        for event in over:
            if event.is_series:
                event.final = True
            else:
                del self._events[event.key]
        return [event for event in over if event.final]

    def forget(self, event: RecordedEvent) -> None:
        if self._events.get(event.key) is event:
            del self._events[event.key]
