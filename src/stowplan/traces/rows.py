"""Read rows of plain or gzipped CSV files; errors name file and line."""

from __future__ import annotations

import csv
import gzip
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TextIO, cast

from stowplan.config.hints import did_you_mean
from stowplan.traces.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_GZIP = b"\x1f\x8b"


class Row(NamedTuple):
    line: int
    cells: list[str]


class CsvFile:
    """One file and its header, which is read at once."""

    def __init__(self, path: Path, delimiter: str = ",") -> None:
        self._path, self._delimiter = path, delimiter
        with self._opened() as file:
            self.header = next(csv.reader(file, delimiter=delimiter), [])
        if not self.header:
            raise TraceError(f"{path}: line 1: want a line with the names of the columns, the file is empty")

    def column(self, name: str, field: str) -> int:
        """The index of a column that a field of the options names."""
        if name in self.header:
            return self.header.index(name)
        hint = next(did_you_mean(name, self.header), f"columns are {', '.join(self.header)}")
        raise TraceError(f"{field}: {self._path} has no column {name!r}; {hint}")

    def rows(self) -> Iterator[Row]:
        """Rows of the header's length; empty lines are left out."""
        width = len(self.header)
        with self._opened() as file:
            reader = csv.reader(file, delimiter=self._delimiter, strict=True)
            next(reader, None)
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != width:
                    raise self.error(reader.line_num, f"want {width} cells as in the first line, got {len(cells)}")
                yield Row(reader.line_num, cells)

    def error(self, line: int, text: object) -> TraceError:
        return TraceError(f"{self._path}: line {line}: {text}")

    @contextmanager
    def _opened(self) -> Iterator[Iterable[str]]:
        path = self._path
        counted = _Counted()
        try:
            with path.open("rb") as raw:
                packed = raw.read(2) == _GZIP
            with (
                gzip.open(path, "rt", newline="", encoding="utf-8-sig")
                if packed
                else path.open(newline="", encoding="utf-8-sig") as file
            ):
                yield counted.of(cast("TextIO", file))
        except OSError as e:
            # gzip.BadGzipFile has no strerror.
            raise TraceError(f"{path}: cannot be read after line {counted.line}: {e.strerror or e}") from None
        except EOFError:
            raise TraceError(f"{path}: ends in the middle of the packed data, after line {counted.line}") from None
        except UnicodeDecodeError:
            raise TraceError(f"{path}: not UTF-8 text after line {counted.line}") from None
        except csv.Error as e:
            raise TraceError(f"{path}: line {counted.line}: {e}") from None


class _Counted:
    """Counts lines as they are read."""

    def __init__(self) -> None:
        self.line = 0

    def of(self, file: TextIO) -> Iterator[str]:
        for line in file:
            self.line += 1
            yield line
