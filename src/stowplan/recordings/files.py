"""The files of a rotated recording: FILE, FILE.1, FILE.2 and so on.

A higher number is newer, and FILE the newest of all. Each stands alone: it begins with all that is needed. One that
begins with a dump goes on where the file before it ends; one without begins a run, as a recorder that is started again
moves the files of the run before aside, too.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stowplan.config.errors import os_error_text
from stowplan.engine.input_log.recording import Header, RecordingError, read_entries, read_header
from stowplan.recordings.container import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stowplan.engine.input_log.recording import Entry


class Opened(NamedTuple):
    path: str
    header: Header
    #: The lines, the header's included.
    lines: Iterator[bytes]


def rotated(path: str) -> list[tuple[int, str]]:
    """(number, path) of the older files, the oldest first."""
    here = Path(path)
    found = []
    for other in here.parent.glob(f"{_literally(here.name)}.*"):
        number = other.name.removeprefix(f"{here.name}.")
        if number.isascii() and number.isdecimal():
            found.append((int(number), os.path.join(os.path.dirname(path), other.name)))
    return sorted(found)


def files_of_run(path: str) -> list[str]:
    """The files that the newest run was recorded into, as far as they are still there, the oldest first.

    Raise RecordingError.
    """
    files, older = [path], rotated(path)
    while older and header_of(files[0]).dump is not None:
        number, name = older.pop()
        files.insert(0, name)
        if older and older[-1][0] != number - 1:
            # The one before it was taken away, and with it what happened in between.
            break
    return files


def entries_of(files: Sequence[str]) -> Iterator[Entry]:
    """The recorded entries of all files in order; raise RecordingError."""
    for file in files:
        with opened(file) as found:
            next(found.lines)
            yield from read_entries(found.lines, found.header)


def _literally(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def header_of(path: str) -> Header:
    """The header; raise RecordingError with the file's name."""
    with opened(path) as found:
        return found.header


@contextmanager
def opened(path: str) -> Iterator[Opened]:
    """The recording in this file; raise RecordingError, then or while its lines are read, with the file's name."""
    try:
        with open(path, "rb") as file:
            lines = lines_of(file)
            first = next(lines, b"")
            if not first:
                raise RecordingError("nothing is in it: it ended before the first line was written")
            yield Opened(path, read_header(first), _from(first, lines))
    except OSError as error:
        raise RecordingError(os_error_text("open", path, error)) from error
    except RecordingError as error:
        if str(error).startswith(f"{path}: "):
            raise
        raise RecordingError(f"{path}: {error}") from error


def _from(first: bytes, others: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from others


def file_at(path: str, when: float | None) -> str:
    """The one of its files that has this moment; None: the newest. Raise RecordingError if it is before all of them."""
    if when is None:
        return path
    began = None
    for candidate in (path, *(older for _, older in reversed(rotated(path)))):
        began = header_of(candidate).now
        if began <= when:
            return candidate
    raise RecordingError(f"{path}: the recording begins at {moment_text(began or 0.0)}, after {moment_text(when)}")


def is_continued(path: str, file: str) -> bool:
    """Whether the next one of its files goes on where this one ends. Raise RecordingError."""
    files = [*(older for _, older in rotated(path)), path]
    following = files[files.index(file) + 1 :]
    return bool(following) and header_of(following[0]).dump is not None


def moment_text(when: float) -> str:
    """Seconds since the epoch as people write them, in UTC."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        return f"{when:g}"
