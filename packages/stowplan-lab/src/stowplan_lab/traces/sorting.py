"""External merge sort of rows in bounded memory."""

from __future__ import annotations

import pickle
from contextlib import ExitStack
from heapq import merge
from itertools import islice
from tempfile import TemporaryFile, gettempdir
from typing import IO, TYPE_CHECKING, Any

from stowplan_lab.traces.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
