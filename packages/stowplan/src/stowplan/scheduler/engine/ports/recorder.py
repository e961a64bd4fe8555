"""Event recorder for plugins and the engine; events are effects."""

from __future__ import annotations

from typing import Protocol

from stowplan.kube.api.meta import ApiStruct, reference_to
from stowplan.scheduler.engine.effects import EmitEvent


class EventSink(Protocol):
    """Accepts an Event."""

    def emit_event(self, event: EmitEvent, /) -> None: ...


class EffectRecorder:
    """A `framework.handle.EventRecorder` of one profile."""

    def __init__(self, sink: EventSink, profile: str) -> None:
        self._sink = sink
        self._profile = profile

    def event(
        self, regarding: ApiStruct, *, type_: str, reason: str, action: str, note: str, related: ApiStruct | None = None
    ) -> None:
        self._sink.emit_event(
            EmitEvent(
                profile=self._profile,
                regarding=reference_to(regarding),
                type_=type_,
                reason=reason,
                action=action,
                note=note,
                related=None if related is None else reference_to(related),
            )
        )
