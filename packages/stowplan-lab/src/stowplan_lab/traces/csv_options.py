"""Options of CSV traces (`trace:` in a scenario): the column mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from stowplan.kube.config.errors import did_you_mean
from stowplan_lab.traces.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T", bound="_Options")


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class Amount(_Options, frozen=True):
    """A resource: the column, and the suffix that turns its numbers into a quantity, such as m or Mi."""

    column: str
    suffix: str = ""


class Nodes(_Options, frozen=True, kw_only=True):
    """The nodes of a trace, one row each."""

    file: str
    name: str
    resources: dict[str, str | Amount]
    labels: dict[str, str] = {}
    #: Default for nodes without a value.
    pods: int = 110


class CsvOptions(_Options, frozen=True, kw_only=True):
    """The pods of a trace, one row each; names are those of columns."""

    file: str
    time: str
    name: str
    namespace: str = "default"
    #: When the pod ended, or how long it ran; at most one of them. Without it, or with an empty cell, forever.
    end: str | None = None
    lifetime: str | None = None
    #: Unit of all times.
    unit: Literal["s", "ms", "us", "ns", "rfc3339"] = "s"
    #: The time that becomes 0; by default that of the first row.
    start: float | str | None = None
    resources: dict[str, str | Amount] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    priority: str | None = None
    #: Only rows in which the column has one of these values.
    where: dict[str, tuple[str, ...]] = {}
    #: Whether rows may be unordered in time; otherwise that is an error.
    sort: bool = False
    #: How to handle an invalid row.
    bad_rows: Literal["refuse", "skip"] = "refuse"
    delimiter: str = ","
    nodes: Nodes | None = None


def read_options(given: Mapping[str, Any]) -> CsvOptions:
    """Raises TraceError, which names the field."""
    _check_names(given, CsvOptions, "")
    if isinstance(given.get("nodes"), dict):
        _check_names(given["nodes"], Nodes, "nodes.")
    try:
        options = msgspec.convert(given, CsvOptions)
    except msgspec.ValidationError as e:
        text, _, place = str(e).partition(" - at `$")
        raise TraceError(f"{place.rstrip('`').lstrip('.')}: {text}" if place else text) from None
    if options.end is not None and options.lifetime is not None:
        raise TraceError("end, lifetime: give one of them")
    if len(options.delimiter) != 1:
        raise TraceError(f"delimiter: want one character, got {options.delimiter!r}")
    return options


def _check_names(given: Mapping[str, Any], type_: type[_Options], path: str) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(type_)]
    for name in given:
        if name not in names:
            hint = next(did_you_mean(str(name), names), f"there are {', '.join(names)}")
            raise TraceError(f"{path}{name}: there is no such field; {hint}")
