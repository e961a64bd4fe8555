"""Encode Events for `events.k8s.io/v1`, or `v1` on clusters without it.

The older form has no action and no related object, counts in `count`, and names its author in `source`.

Upstream: staging/src/k8s.io/client-go/tools/events/event_recorder.go; tools/record/event.go for the older form.
"""

from __future__ import annotations

from typing import Any, Protocol

from stowplan.kube.api.meta import ApiStruct, micro_timestamp, timestamp
from stowplan.kube.api.types import CoreEvent, Event, EventSeries, EventSource, ObjectMeta, ObjectReference
from stowplan.net.client.events.event_series import RecordedEvent


class EventForm(Protocol):
    @property
    def kind(self) -> type[ApiStruct]: ...

    def create(self, event: RecordedEvent, *, series: bool) -> ApiStruct:
        """The object, with a count if it is already a series."""

    def patch(self, event: RecordedEvent) -> dict[str, Any]:
        """The strategic merge patch with the new count."""


class EventsV1:
    kind = Event

    def create(self, event: RecordedEvent, *, series: bool) -> Event:
        key = event.key
        return Event(
            metadata=_metadata(event),
            event_time=micro_timestamp(event.time),
            series=_series(event) if series else None,
            reporting_controller=key.reporting_controller,
            reporting_instance=key.reporting_instance,
            action=key.action,
            reason=key.reason,
            regarding=key.regarding,
            related=key.related,
            note=event.note,
            type=key.type,
        )

    def patch(self, event: RecordedEvent) -> dict[str, Any]:
        series = {"count": event.count, "lastObservedTime": micro_timestamp(event.last_observed)}
        return {"series": series}


class CoreV1:
    kind = CoreEvent

    def create(self, event: RecordedEvent, *, series: bool) -> CoreEvent:
        key = event.key
        return CoreEvent(
            metadata=_metadata(event),
            involved_object=key.regarding,
            reason=key.reason,
            message=event.note,
            source=EventSource(component=key.reporting_controller),
            first_timestamp=timestamp(event.time),
            last_timestamp=timestamp(event.last_observed if series else event.time),
            count=event.count if series else 1,
            type=key.type,
            reporting_component=key.reporting_controller,
        )

    def patch(self, event: RecordedEvent) -> dict[str, Any]:
        return {"count": event.count, "lastTimestamp": timestamp(event.last_observed)}


def namespace_of_event(regarding: ObjectReference) -> str:
    """The namespace of an event about an object."""
    return regarding.namespace or "default"


def _metadata(event: RecordedEvent) -> ObjectMeta:
    return ObjectMeta(name=event.name, namespace=namespace_of_event(event.key.regarding))


def _series(event: RecordedEvent) -> EventSeries:
    return EventSeries(count=event.count, last_observed_time=micro_timestamp(event.last_observed))
