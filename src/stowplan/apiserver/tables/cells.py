"""What the printers of all kinds share: columns, rows, and texts that several kinds show.

A `Printer` is data: its columns, and one function from an object and the present time to the cells.
Rows always have all columns; kubectl hides those of priority 1 without `-o wide`.

Upstream: pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stowplan.api.quantity import QuantityError, read_quantity
from stowplan.api.selectors import IN, LABEL_SELECTOR_OPERATORS, NOT_IN, requirement_errors
from stowplan.apiserver.objects import JsonObject
from stowplan.apiserver.tables.durations import time_since

Cell = str | int | float | bool | None
Rows = Callable[[JsonObject, float], list[Cell]]

NONE = "<none>"
UNSET = "<unset>"
WIDE = 1


@dataclass(frozen=True, slots=True)
class Column:
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


@dataclass(frozen=True, slots=True)
class Printer:
    columns: tuple[Column, ...]
    cells: Rows
    #: What kubectl may hide: pods that are through.
    conditions: Callable[[JsonObject], list[JsonObject]] | None = None


def text(name: str, description: str, *, priority: int = 0) -> Column:
    return Column(name, "string", description, priority=priority)


def number(name: str, description: str) -> Column:
    return Column(name, "integer", description)


def boolean(name: str, description: str) -> Column:
    return Column(name, "boolean", description)


NAME = Column("Name", "string", "What the object is called; unique within its namespace.", format="name")
AGE = text("Age", "How long ago the object was created.")
#: Of whatever has a pod template.
TEMPLATE = (
    text("Containers", "The names of the template's containers.", priority=WIDE),
    text("Images", "The images of the template's containers.", priority=WIDE),
)


def part(obj: Mapping[str, Any], *path: str) -> JsonObject:
    """The object at a path, empty where something on the way is missing or null."""
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
    """The text, or what stands for its absence."""
    return default if value is None or value == "" else str(value)


def template_cells(template: JsonObject) -> list[Cell]:
    containers = part(template, "spec").get("containers") or []
    return [",".join(container.get(key) or "" for container in containers) for key in ("name", "image")]


def format_labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(sorted(f"{key}={value}" for key, value in (labels or {}).items())) or NONE


def format_selector(selector: JsonObject | None) -> str:
    """A LabelSelector as `kubectl -l` takes it; raises ValueError if it is none."""
    labels = (selector or {}).get("matchLabels") or {}
    expressions = (selector or {}).get("matchExpressions") or []
    requirements = [(key, f"{key}={value}") for key, value in labels.items()]
    requirements += [(expression.get("key", ""), _format_expression(expression)) for expression in expressions]
    return ",".join(shown for _, shown in sorted(requirements, key=lambda requirement: requirement[0]))


def _format_expression(expression: JsonObject) -> str:
    key, operator = expression.get("key", ""), expression.get("operator", "")
    values = tuple(expression.get("values") or ())
    if operator not in LABEL_SELECTOR_OPERATORS or requirement_errors(key, operator, values):
        raise ValueError(f"not a label selector requirement: {key} {operator}")
    if operator in (IN, NOT_IN):
        return f"{key} {'in' if operator == IN else 'notin'} ({','.join(sorted(values))})"
    return key if operator == "Exists" else f"!{key}"


def selector_cell(selector: JsonObject | None) -> str:
    try:
        return format_selector(selector) or NONE
    except ValueError:
        return "<error>"


def quantity_cell(value: Any) -> str:
    """A quantity as the API server prints it; an absent one is zero."""
    if value is None:
        return "0"
    try:
        return str(read_quantity(value))
    except QuantityError:
        return str(value)


def condition_of(conditions: Iterable[JsonObject] | None, type: str) -> JsonObject | None:
    """The last condition of that type."""
    found = None
    for condition in conditions or ():
        if condition.get("type") == type:
            found = condition
    return found
