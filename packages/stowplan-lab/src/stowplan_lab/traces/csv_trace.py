"""Import pods and nodes from CSV files of any size; the options are the mapping of columns (`trace:` in a scenario).

Pods that are equal except for their name share one specification, so a row costs its parsing and a copy of the
metadata. Rows that are unordered in time are rejected, or sorted on request (`rows.in_order`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from stowplan.ask.loading.admission import admit
from stowplan.kube.api.decode import DecodeError, convert, validate_object
from stowplan.kube.api.meta import parse_timestamp
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config.config_errors import did_you_mean
from stowplan_lab.traces.rows import CsvFile, in_order
from stowplan_lab.traces.trace import Arrival, TraceError

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


_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
#: Specifications that are cached for equal pods.
_KEPT_TEMPLATES = 8192


def open_csv(options: Mapping[str, Any], folder: Path) -> CsvTrace:
    return CsvTrace(read_options(options), folder)


class CsvTrace:
    def __init__(self, options: CsvOptions, folder: Path) -> None:
        """Read headers and check that all columns exist; raises TraceError."""
        self._options = options
        self._file = CsvFile(folder / options.file, options.delimiter)
        self._pods = _Pods(options, self._file)
        self._times = _Times(options, self._file)
        self._wanted = [
            (self._file.column(name, f"where.{name}"), frozenset(values)) for name, values in options.where.items()
        ]
        self._nodes = None
        if options.nodes is not None:
            self._nodes = _NodesOf(options.nodes, CsvFile(folder / options.nodes.file, options.delimiter))
        #: Number of skipped invalid rows.
        self.skipped = 0

    @property
    def count(self) -> int | None:
        # Unknown without reading the whole file.
        return None

    def nodes(self) -> Iterator[Node]:
        return iter(()) if self._nodes is None else self._nodes.read()

    def arrivals(self) -> Iterator[Arrival]:
        self.skipped = 0
        timed = self._timed()
        rows = in_order(timed) if self._options.sort else self._checked(timed)
        start = self._times.start
        for at, line, cells, lifetime in rows:
            start = at if start is None else start
            try:
                if at < start:
                    raise ValueError(f"time {at:g} is before start, {start:g}")
                pod = self._pods.read(cells)
            except ValueError as e:
                self._refuse(line, e)
                continue
            # To the microsecond: differences of large floats are noisy beyond that.
            yield Arrival(round(at - start, 6), pod, lifetime)

    def _timed(self) -> Iterator[tuple[float, int, list[str], float | None]]:
        """(time, line, cells, lifetime) of the selected rows."""
        for line, cells in self._file.rows():
            if any(cells[column] not in values for column, values in self._wanted):
                continue
            try:
                at, lifetime = self._times.read(cells)
            except ValueError as e:
                self._refuse(line, e)
                continue
            yield at, line, cells, lifetime

    def _checked(
        self, rows: Iterator[tuple[float, int, list[str], float | None]]
    ) -> Iterator[tuple[float, int, list[str], float | None]]:
        last = None
        for row in rows:
            at, line, *_ = row
            if last is not None and at < last:
                # Skipping would not help: after a row with a time far in the future, all following rows would be
                # skipped.
                raise self._file.error(line, f"time {at:g} is before that of an earlier row, {last:g}; set sort: true")
            last = at
            yield row

    def _refuse(self, line: int, problem: ValueError) -> None:
        """Raise for an invalid row, or count it as skipped."""
        if self._options.bad_rows == "refuse":
            raise self._file.error(line, f"{problem} (badRows: skip leaves such rows out)") from None
        self.skipped += 1


class _Times:
    """Arrival and run times of pods."""

    def __init__(self, options: CsvOptions, file: CsvFile) -> None:
        self._unit = options.unit
        self._time = options.time, file.column(options.time, "time")
        self._end = None if options.end is None else (options.end, file.column(options.end, "end"))
        self._lifetime = (
            None if options.lifetime is None else (options.lifetime, file.column(options.lifetime, "lifetime"))
        )
        try:
            self.start = None if options.start is None else self._moment("start", str(options.start))
        except ValueError as e:
            raise TraceError(str(e)) from None

    def read(self, cells: list[str]) -> tuple[float, float | None]:
        name, column = self._time
        at = self._moment(name, cells[column])
        if self._end is not None and cells[self._end[1]]:
            end = self._moment(self._end[0], cells[self._end[1]])
            if end < at:
                raise ValueError(f"{self._end[0]} {end:g} is before {name} {at:g}")
            return at, round(end - at, 6)
        if self._lifetime is not None and cells[self._lifetime[1]]:
            name, text = self._lifetime[0], cells[self._lifetime[1]]
            seconds = _number(name, text) * _SECONDS.get(self._unit, 1.0)
            if seconds < 0:
                raise ValueError(f"{name}: {text!r} is less than 0")
            return at, seconds
        return at, None

    def _moment(self, name: str, text: str) -> float:
        if self._unit != "rfc3339":
            return _number(name, text) * _SECONDS[self._unit]
        try:
            return parse_timestamp(text)
        except ValueError:
            raise ValueError(f"{name}: want a time such as 2026-01-01T00:00:00Z, got {text!r}") from None


class _Pods:
    """Converts rows to pods."""

    def __init__(self, options: CsvOptions, file: CsvFile) -> None:
        self._name = options.name, file.column(options.name, "name")
        self._namespace = options.namespace
        self._resources = _Resources(options.resources, file, "resources")
        self._labels = _columns(options.labels, file, "labels")
        self._annotations = _columns(options.annotations, file, "annotations")
        self._priority = None if options.priority is None else file.column(options.priority, "priority")
        #: What pods can differ in besides their name.
        priority = [] if self._priority is None else [self._priority]
        self._varying = [*self._resources.columns, *self._labels.values(), *self._annotations.values(), *priority]
        self._template = lru_cache(_KEPT_TEMPLATES)(self._make)

    def read(self, cells: list[str]) -> Pod:
        column, index = self._name
        name = cells[index]
        if not name:
            raise ValueError(f"{column}: a name is missing")
        template = self._template(tuple(cells[i] for i in self._varying))
        return replace(template, metadata=replace(template.metadata, name=name))

    def _make(self, varying: tuple[str, ...]) -> Pod:
        cells = dict(zip(self._varying, varying, strict=True))
        amounts = self._resources.read(cells)
        spec: dict[str, Any] = {"containers": [{"name": "main", "image": "main", "resources": {"requests": amounts}}]}
        if self._priority is not None and cells[self._priority]:
            spec["priority"] = int(_number("priority", cells[self._priority]))
        metadata = {
            "name": "template",
            "namespace": self._namespace,
            "labels": _filled(self._labels, cells),
            "annotations": _filled(self._annotations, cells),
        }
        try:
            pod = convert({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, Pod)
            validate_object(pod)
        except DecodeError as e:
            raise ValueError(str(e)) from None
        (admitted,) = admit([pod]).objects
        assert isinstance(admitted, Pod)
        return admitted


class _NodesOf:
    """Converts rows to nodes."""

    def __init__(self, options: Nodes, file: CsvFile) -> None:
        self._file = file
        self._name = options.name, file.column(options.name, "nodes.name")
        self._resources = _Resources(options.resources, file, "nodes.resources")
        self._labels = _columns(options.labels, file, "nodes.labels")
        self._pods = options.pods

    def read(self) -> Iterator[Node]:
        lines: dict[str, int] = {}
        for line, cells in self._file.rows():
            column, index = self._name
            name = cells[index]
            try:
                if not name:
                    raise ValueError(f"{column}: a name is missing")
                first = lines.setdefault(name, line)
                if first != line:
                    raise ValueError(f"{column}: node {name!r} is already in line {first}")
                yield self._node(name, dict(enumerate(cells)))
            except ValueError as e:
                raise self._file.error(line, e) from None

    def _node(self, name: str, cells: dict[int, str]) -> Node:
        amounts = {"pods": str(self._pods)} | self._resources.read(cells)
        labels = {"kubernetes.io/hostname": name} | _filled(self._labels, cells)
        status = {"capacity": amounts, "allocatable": amounts}
        try:
            return convert({"metadata": {"name": name, "labels": labels}, "status": status}, Node)
        except DecodeError as e:
            raise ValueError(str(e)) from None


class _Resources:
    """Amounts of resources from columns; an empty cell is omitted."""

    def __init__(self, given: Mapping[str, str | Amount], file: CsvFile, field: str) -> None:
        amounts = {name: Amount(one) if isinstance(one, str) else one for name, one in given.items()}
        self._of = {
            name: (one.column, file.column(one.column, f"{field}.{name}"), one.suffix) for name, one in amounts.items()
        }
        self.columns = [column for _, column, _ in self._of.values()]

    def read(self, cells: Mapping[int, str]) -> dict[str, str]:
        return {
            name: _quantity(title, cells[column] + suffix)
            for name, (title, column, suffix) in self._of.items()
            if cells[column]
        }


def _quantity(column: str, text: str) -> str:
    try:
        if parse_quantity(text) >= 0:
            return text
    except ValueError:
        raise ValueError(f"{column}: {text!r} is not a quantity") from None
    raise ValueError(f"{column}: {text!r} is less than 0")


def _columns(given: Mapping[str, str], file: CsvFile, field: str) -> dict[str, int]:
    return {key: file.column(column, f"{field}.{key}") for key, column in given.items()}


def _filled(columns: Mapping[str, int], cells: Mapping[int, str]) -> dict[str, str]:
    return {key: cells[column] for key, column in columns.items() if cells[column]}


def _number(name: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not isfinite(found):
        raise ValueError(f"{name}: {text!r} is not a number" if text else f"{name}: the cell is empty")
    return found
