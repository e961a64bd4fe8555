"""The Event table, shared by both API groups.

Upstream: pkg/printers/internalversion/printers.go, printEvent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.conversion import core_event
from stowplan_cluster.apiserver.tables.cells import WIDE, Cell, Column, Printer, name_of, part, text
from stowplan_cluster.apiserver.tables.durations import time_since

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


def _source(event: JsonObject) -> str:
    source = part(event, "source")
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _target(event: JsonObject) -> str:
    about = part(event, "involvedObject")
    kind: str = (about.get("kind") or "").lower()
    return f"{kind}/{about['name']}" if about.get("name") else kind


def _cells(obj: JsonObject, now: float) -> list[Cell]:
    event = core_event(obj)
    first = time_since(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = event.get("lastTimestamp")
    series = event.get("series")
    if series is not None:
        last_seen, count = time_since(series.get("lastObservedTime"), now), series.get("count") or 0
    else:
        last_seen, count = time_since(last, now) if last else first, event.get("count") or 1
    return [
        last_seen,
        event.get("type") or "",
        event.get("reason") or "",
        _target(event),
        part(event, "involvedObject").get("fieldPath") or "",
        _source(event),
        (event.get("message") or "").strip(),
        first,
        count,
        name_of(event),
    ]


EVENTS = Printer(
    (
        text("Last Seen", "How long ago it happened last."),
        text("Type", "Normal or Warning."),
        text("Reason", "What happened, in one word."),
        text("Object", "What it happened to."),
        text("Subobject", "Which part of the object, if not all of it.", priority=WIDE),
        text("Source", "Who reports it.", priority=WIDE),
        text("Message", "What happened, in full."),
        text("First Seen", "How long ago it happened first.", priority=WIDE),
        text("Count", "How often it happened.", priority=WIDE),
        Column("Name", "string", "What the event is called.", format="name", priority=WIDE),
    ),
    _cells,
)
