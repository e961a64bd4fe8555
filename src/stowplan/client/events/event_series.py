"""Aggregate repeated Events into a series.

Two events are the same if they agree in everything but the note and the time. As `regarding` carries the object's
resourceVersion, a series forms only while the object stays as it is. What counts is remembered here; what is to be
sent is returned. Series that go on are sent again every half hour; those that ended are sent a last time and
forgotten, as single events are, six minutes after the last of them.

At most `MAX_REMEMBERED` are remembered; beyond that the oldest is forgotten, and one more like it is an event anew.

Upstream: staging/src/k8s.io/client-go/tools/events/event_broadcaster.go (eventCache).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from stowplan.api.types import ObjectReference

#: Seconds without another event after which one is over, and between looks for such.
FINISH_TIME = 360.0
#: Seconds between reminders of series that go on.
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
    """An event and how often it happened."""

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
        #: The same as no other event has it.
        self.nanoseconds = nanoseconds
        #: Its name in the API; given when it is sent first.
        self.name = ""
        self.count = 1
        self.last_observed = time
        #: Whether its creation has been tried, with whatever success.
        self.attempted = False
        #: Whether what is to be sent is the last of it.
        self.final = False
        #: Whether somebody is sending it, and whether there is more to send after that.
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
        """Note an event; return what is to be sent for it, if anything."""
        known = self._events.get(key)
        if known is None:
            new = self._events[key] = RecordedEvent(key, note, time, nanoseconds)
            return new
        known.count += 1
        known.last_observed = time
        known.final = False
        return known if known.count == 2 else None

    def excess(self) -> RecordedEvent | None:
        """Forget the oldest event if there are too many; return it if it is a series, whose count is to be sent."""
        if len(self._events) <= MAX_REMEMBERED:
            return None
        oldest = self._events.pop(next(iter(self._events)))
        return oldest if oldest.is_series else None

    def refresh(self) -> list[RecordedEvent]:
        """All series that go on."""
        return [event for event in self._events.values() if event.is_series and not event.final]

    def finish(self, now: float) -> list[RecordedEvent]:
        """Forget single events that are over; return the series that are, to be sent and then forgotten."""
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
