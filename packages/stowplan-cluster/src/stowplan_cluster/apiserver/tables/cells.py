"""Columns, rows and cell formats shared by the printers of several kinds.

A `Printer` is data: columns, and a function from an object and the current time to the cells that are the kind's own.
Rows always have all columns; kubectl hides those of priority 1 without `-o wide`.

Upstream: pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stowplan.kube.api.meta import parse_timestamp
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.selection import format_selector

# Format ages and durations for table cells, with two or three significant figures.
#
# Upstream: k8s.io/apimachinery/pkg/util/duration.HumanDuration.

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human_duration(duration: float) -> str:
    # Clocks differ: up to two seconds in the future count as now.
    seconds = int(duration)
    if seconds < -1:
        return INVALID
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, (_MINUTE, "m"), (1, "s"))
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, (_HOUR, "h"), (_MINUTE, "m"))
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, (_DAY, "d"), (_HOUR, "h"))
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two(seconds, (_YEAR, "y"), (_DAY, "d"))
    return f"{seconds // _YEAR}y"


def _two(seconds: int, large: tuple[int, str], small: tuple[int, str]) -> str:
    whole, rest = divmod(seconds, large[0])
    parts = rest // small[0]
    return f"{whole}{large[1]}{parts}{small[1]}" if parts else f"{whole}{large[1]}"


def time_since(time: object, now: float) -> str:
    """The age of an RFC 3339 time; `<unknown>` where there is none."""
    if not time:
        return UNKNOWN
    try:
        return human_duration(now - parse_timestamp(str(time)))
    except ValueError:
        return INVALID


Cell = str | int | float | bool | None
Rows = Callable[[JsonObject, float], list[Cell]]

NONE = "<none>"
UNSET = "<unset>"
WIDE = 1


class Column(PlainStruct, frozen=True):
    name: str
    type: str
    description: str
    format: str = ""
    priority: int = 0

    def to_dict(self) -> JsonObject:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


class Printer(PlainStruct, frozen=True):
    columns: tuple[Column, ...]
    #: The cells of an object under all columns but NAME and AGE.
    own: Rows = lambda _obj, _now: []
    #: Row conditions: kubectl may hide completed pods.
    conditions: Callable[[JsonObject], list[JsonObject]] | None = None

    def cells(self, obj: JsonObject, now: float) -> list[Cell]:
        own = iter(self.own(obj, now))
        return [
            name_of(obj) if column is NAME else age_of(obj, now) if column is AGE else next(own)
            for column in self.columns
        ]


def text(name: str, description: str, *, priority: int = 0) -> Column:
    return Column(name, "string", description, priority=priority)


def number(name: str, description: str) -> Column:
    return Column(name, "integer", description)


def boolean(name: str, description: str) -> Column:
    return Column(name, "boolean", description)


NAME = Column("Name", "string", "What the object is called; unique within its namespace.", format="name")
AGE = text("Age", "How long ago the object was created.")
#: Columns of kinds with a pod template.
TEMPLATE = (
    text("Containers", "The names of the template's containers.", priority=WIDE),
    text("Images", "The images of the template's containers.", priority=WIDE),
)


def part(obj: Mapping[str, Any], *path: str) -> JsonObject:
    """The object at a path; {} if any part of it is missing or null."""
    for key in path:
        obj = obj.get(key) or {}
    return dict(obj)


def name_of(obj: JsonObject) -> str:
    name: str = part(obj, "metadata").get("name", "")
    return name


def age_of(obj: JsonObject, now: float) -> str:
    return time_since(part(obj, "metadata").get("creationTimestamp"), now)


def is_terminating(obj: JsonObject) -> bool:
    return bool(part(obj, "metadata").get("deletionTimestamp"))


def or_else(value: Any, default: str) -> str:
    """The value as a string, or the default if it is absent or ""."""
    return default if value is None or value == "" else str(value)


def template_cells(template: JsonObject) -> list[Cell]:
    containers = part(template, "spec").get("containers") or []
    return [",".join(container.get(key) or "" for container in containers) for key in ("name", "image")]


def format_labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(sorted(f"{key}={value}" for key, value in (labels or {}).items())) or NONE


def selector_cell(selector: JsonObject | None) -> str:
    try:
        return format_selector(selector) or NONE
    except ValueError:
        return "<error>"
