"""Outputs for the rows of a simulation: a folder, written continuously, or memory for a caller in Python."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from stowplan.scheduler.inspection.records import Record
from stowplan.ui.timeline_file import NAME as TIMELINE
from stowplan_lab.simulation.results.simulation_records import UNITS, DecisionRow, SampleRow, SummaryRecord
from stowplan_lab.simulation.scenario_errors import ScenarioError

DECISIONS, SERIES, SUMMARY, REPORT = "decisions.jsonl", "series.jsonl", "summary.json", "report.html"
_FILES = (DECISIONS, SERIES, SUMMARY, REPORT, TIMELINE, "decisions.parquet", "series.parquet")
#: Rows per group of a Parquet file, and bytes per write of a text file.
_ROWS, _BYTES = 50_000, 1 << 16


#: Receives a row, and the line of its JSON.
Sink = Callable[[DecisionRow, bytes], object]


def discard(row: DecisionRow, line: bytes) -> None:
    """Discard the row."""


class Digest:
    """Forwards rows, and computes a digest of all of them."""

    def __init__(self) -> None:
        #: Rows from before the sink is known.
        self._early: list[tuple[DecisionRow, bytes]] = []
        self._sink: Sink = lambda *row: self._early.append(row)
        self._digest = hashlib.sha256()
        self._encode = msgspec.json.Encoder(order="deterministic").encode

    def go_to(self, sink: Sink) -> None:
        """Set the sink, which also gets all earlier rows."""
        for row, line in self._early:
            sink(row, line)
        self._sink = sink

    def decision(self, row: DecisionRow) -> None:
        line = self._encode(row) + b"\n"
        self._digest.update(line)
        self._sink(row, line)

    @property
    def text(self) -> str:
        return self._digest.hexdigest()


class Folder:
    """A folder with the files of one simulation; earlier ones are replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            strange = sorted(one.name for one in path.iterdir() if one.name not in _FILES)
            if strange and not (path / SUMMARY).exists():
                raise ScenarioError(f"{path}: holds other files ({strange[0]}…): name a new folder, or an empty one")
            for name in _FILES:
                (path / name).unlink(missing_ok=True)
            self._lines = (path / DECISIONS).open("wb", buffering=_BYTES)
        except OSError as error:
            raise ScenarioError(f"{path}: {error.strerror}") from None
        self._table = _ParquetTable.where_there_is_one(path / "decisions.parquet")

    def decision(self, row: DecisionRow, line: bytes) -> None:
        try:
            self._lines.write(line)
        except OSError as error:
            raise ScenarioError(f"{self.path / DECISIONS}: {error.strerror}") from None
        if self._table is not None:
            try:
                self._table.add(_decision_columns(row))
            except OSError as error:
                raise ScenarioError(f"{self._table.path}: {error.strerror or error}") from None

    def finish(self, series: Iterable[SampleRow], summary: SummaryRecord, report: str) -> None:
        """Write the rest; whatever was received so far is kept on any error."""
        rows = list(series)
        try:
            self._lines.close()
            (self.path / SERIES).write_bytes(b"".join(_line(row) for row in rows))
            (self.path / SUMMARY).write_bytes(msgspec.json.format(_line(summary), indent=2) + b"\n")
            (self.path / REPORT).write_text(report, encoding="utf-8")
            if self._table is not None:
                self._table.close()
                table = _ParquetTable.where_there_is_one(self.path / "series.parquet")
                if table is not None:
                    for row in rows:
                        table.add(_series_columns(row))
                    table.close()
        except OSError as error:
            where = getattr(error, "filename", None) or self.path
            raise ScenarioError(f"{where}: {error.strerror or error}") from None

    def abandon(self) -> None:
        """Keep what has been written so far after an error elsewhere."""
        with suppress(OSError):
            self._lines.close()
        if self._table is not None:
            with suppress(OSError):
                self._table.close()


def _line(record: Record) -> bytes:
    return msgspec.json.encode(record, order="deterministic") + b"\n"


# -- Parquet, if pyarrow is installed ----------------------------------------------------------------------------------


class _ParquetTable:
    """Rows written in groups, so that memory is bounded."""

    def __init__(self, pyarrow: Any, parquet: Any, path: Path) -> None:
        self._pyarrow = pyarrow
        self._parquet = parquet
        self.path = path
        self._writer: Any = None
        self._rows: list[dict[str, Any]] = []

    @classmethod
    def where_there_is_one(cls, path: Path) -> _ParquetTable | None:
        try:
            return cls(import_module("pyarrow"), import_module("pyarrow.parquet"), path)
        except ImportError:
            return None

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        schema = None if self._writer is None else self._writer.schema
        table = self._pyarrow.Table.from_pylist(self._rows, schema=schema)
        if self._writer is None:
            table = table.cast(self._pyarrow.schema([_with_unit(one) for one in table.schema]))
            self._writer = self._parquet.ParquetWriter(str(self.path), table.schema)
        self._writer.write_table(table)
        self._rows.clear()

    def close(self) -> None:
        self._flush()
        if self._writer is not None:
            self._writer.close()


def _with_unit(column: Any) -> Any:
    unit = UNITS.get(column.name)
    return column if unit is None else column.with_metadata({"unit": unit})


def _text(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


def _decision_columns(row: DecisionRow) -> dict[str, Any]:
    """The fields of the JSON lines, all in every row, as nullable numbers or text: one type in each group of rows."""
    times = ("placed", "evicted", "ended")
    return {name: float("nan") if name in times and value is None else value for name, value in _columns(row)}


def _series_columns(row: SampleRow) -> dict[str, Any]:
    return dict(_columns(row))


def _columns(row: Record) -> Iterator[tuple[str, Any]]:
    for name, written in zip(row.__struct_fields__, row.__struct_encode_fields__, strict=True):
        value = getattr(row, name)
        yield written, _text(value) if isinstance(value, dict) else value
