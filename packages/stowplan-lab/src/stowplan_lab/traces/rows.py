"""Rows of CSV files, plain or compressed (gzip, bzip2, xz): errors name file and line, sorting is in bounded memory."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from heapq import merge
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any, NamedTuple, TextIO

from stowplan.kube.config.config_errors import did_you_mean
from stowplan_lab.traces.trace import TraceError

#: The first bytes of compressed files -> their opener.
_PACKED: dict[bytes, Callable[..., TextIO]] = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}


class Row(NamedTuple):
    line: int
    cells: list[str]


class CsvFile:
    """One file and its header, which is read immediately."""

    def __init__(self, path: Path, delimiter: str = ",") -> None:
        self._path, self._delimiter = path, delimiter
        with self._opened() as file:
            self.header = next(csv.reader(file, delimiter=delimiter), [])
        if not self.header:
            raise TraceError(f"{path}: line 1: want a line with the names of the columns, the file is empty")

    def column(self, name: str, field: str) -> int:
        """The index of a column that an option names."""
        if name in self.header:
            return self.header.index(name)
        hint = next(did_you_mean(name, self.header), f"columns are {', '.join(self.header)}")
        raise TraceError(f"{field}: {self._path} has no column {name!r}; {hint}")

    def rows(self) -> Iterator[Row]:
        """Rows with the header's length; empty lines are skipped."""
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
                opened = _PACKED.get(raw.read(2), open)
            with opened(path, "rt", newline="", encoding="utf-8-sig") as file:
                yield counted.of(file)
        except EOFError:
            raise TraceError(f"{path}: ends in the middle of the packed data{counted.after}") from None
        except (OSError, zlib.error, lzma.LZMAError) as e:
            # Decompression errors have no strerror.
            raise TraceError(f"{path}: {getattr(e, 'strerror', None) or e}{counted.after}") from None
        except UnicodeDecodeError:
            raise TraceError(f"{path}: not UTF-8 text{counted.after}") from None
        except csv.Error as e:
            raise TraceError(f"{path}: line {counted.line}: {e}") from None


class _Counted:
    """Counts lines as they are read."""

    def __init__(self) -> None:
        self.line = 0

    @property
    def after(self) -> str:
        return f" after line {self.line}" if self.line else ""

    def of(self, file: TextIO) -> Iterator[str]:
        for line in file:
            self.line += 1
            yield line


#: Number of rows that are sorted in memory at a time.
RUN = 200_000
#: Number of rows that are read back at a time.
_BATCH = 1_000
#: Buffer size of each file; Python 3.14's default is 128 KiB.
_BUFFER = 8192


def in_order(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The sorted rows, which must be comparable, and small. Raises TraceError if the disk is full."""
    source = iter(rows)
    with ExitStack() as stack:
        runs: list[Iterator[tuple[Any, ...]]] = []
        while run := sorted(islice(source, RUN)):
            if len(run) < RUN:
                # The last run, and usually the only one.
                runs.append(iter(run))
                break
            try:
                file = stack.enter_context(TemporaryFile(buffering=_BUFFER))
                for start in range(0, len(run), _BATCH):
                    pickle.dump(run[start : start + _BATCH], file, pickle.HIGHEST_PROTOCOL)
                file.seek(0)
            except OSError as error:
                raise TraceError(
                    f"cannot sort in {gettempdir()}: {error.strerror}; TMPDIR names another folder, or sort the file"
                ) from error
            runs.append(_read_back(file))
        yield from merge(*runs)


def _read_back(file: IO[bytes]) -> Iterator[tuple[Any, ...]]:
    while True:
        try:
            yield from pickle.load(file)
        except EOFError:
            return
