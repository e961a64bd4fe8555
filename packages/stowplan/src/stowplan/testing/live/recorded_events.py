"""Store recorded Events, with series."""

from __future__ import annotations

from stowplan.kube.api.types import Event
from stowplan.net.client.events.event_forms import EventsV1, namespace_of_event
from stowplan.net.client.events.event_series import EventKey, EventSeries, RecordedEvent
from stowplan.scheduler.engine.effects import EmitEvent
from stowplan.scheduler.framework.requests import Create, Patch, Request


class Events:
    def __init__(self) -> None:
        self._series = EventSeries()
        self._form = EventsV1()
        self._nanoseconds = 0

    def record(self, event: EmitEvent, now: float) -> list[Request]:
        """The request that stores a recorded Event."""
        over = [self._again(event) for event in self._series.finish(now)]
        # Used in names, so it must be unique.
        self._nanoseconds = max(int(now * 1e9), self._nanoseconds + 1)
        instance = f"{event.profile}-localhost"
        key = EventKey(event.type_, event.action, event.reason, event.profile, instance, event.regarding, event.related)
        due = self._series.observe(key, event.note, time=now, nanoseconds=self._nanoseconds)
        if due is None:
            return over
        return [*over, self._again(due) if due.is_series else self._new(due)]

    def _new(self, event: RecordedEvent) -> Request:
        event.name = f"{event.key.regarding.name}.{event.nanoseconds:x}"
        return Create(obj=self._form.create(event, series=False))

    def _again(self, event: RecordedEvent) -> Request:
        """How often it has occurred."""
        if event.final:
            self._series.forget(event)
        namespace = namespace_of_event(event.key.regarding)
        return Patch(kind=Event, namespace=namespace, name=event.name, body=self._form.patch(event), type_="merge")
