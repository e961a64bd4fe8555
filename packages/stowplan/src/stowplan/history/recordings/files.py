"""The files of a rotated recording: FILE, FILE.1, FILE.2 and so on.

A higher number is newer, and FILE is the newest. Each file is self-contained. One that begins with a dump continues the
file before it; one without begins a run, because a restarted recorder also rotates the files of the previous run.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stowplan.history.recordings.container import lines_of
from stowplan.kube.config.errors import os_error_text
from stowplan.scheduler.engine.input_log.recording import Header, RecordingError, read_entries, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stowplan.scheduler.engine.input_log.recording import Entry


class OpenedRecording(NamedTuple):
    path: str
    header: Header
    #: The lines, including the header.
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
    """The existing files of the newest run, the oldest first.

    Raises RecordingError.
    """
    files, older = [path], rotated(path)
    while older and header_of(files[0]).dump is not None:
        number, name = older.pop()
        files.insert(0, name)
        if older and older[-1][0] != number - 1:
            # The file before it was removed, which leaves a gap.
            break
    return files


def entries_of(files: Sequence[str]) -> Iterator[Entry]:
    """The recorded entries of all files in order; raises RecordingError."""
    for file in files:
        with opened(file) as found:
            next(found.lines)
            yield from read_entries(found.lines, found.header)


def _literally(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def header_of(path: str) -> Header:
    """The header; raises RecordingError with the file name."""
    with opened(path) as found:
        return found.header


@contextmanager
def opened(path: str) -> Iterator[OpenedRecording]:
    """Open a recording; raises RecordingError with the file name, here or while lines are read."""
    try:
        with open(path, "rb") as file:
            lines = lines_of(file)
            first = next(lines, b"")
            if not first:
                raise RecordingError("the file is empty: the recording ended before its first line was written")
            yield OpenedRecording(path, read_header(first), _from(first, lines))
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
    """The file that covers this moment; None: the newest. Raises RecordingError if it is before all of them."""
    if when is None:
        return path
    began = None
    for candidate in (path, *(older for _, older in reversed(rotated(path)))):
        began = header_of(candidate).now
        if began <= when:
            return candidate
    raise RecordingError(f"{path}: the recording begins at {moment_text(began or 0.0)}, after {moment_text(when)}")


def is_continued(path: str, file: str) -> bool:
    """Whether the next file continues this one. Raises RecordingError."""
    files = [*(older for _, older in rotated(path)), path]
    following = files[files.index(file) + 1 :]
    return bool(following) and header_of(following[0]).dump is not None


def moment_text(when: float) -> str:
    """Seconds since the epoch as readable text, in UTC."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        return f"{when:g}"
