"""Handle standard streams that are closed, unread, or on a full disk.

Unwritten data stays in such a stream's buffer. Python retries at exit, and if that fails, too, the exit code is 120,
whatever the command returned.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def replace_missing_streams() -> None:
    """Replace standard streams that were closed at startup, for which Python has None."""
    sys.stdout = sys.stdout or _nothing()
    sys.stderr = sys.stderr or _nothing()


def _nothing() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def answer(text: str) -> int:
    """Write the command's output; return the exit code."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # The reader has closed the pipe.
        return 0
    except OSError as error:
        print_to_stderr(f"Error: standard output: {error.strerror}")
        return 1
    return 0


def print_to_stderr(text: str) -> None:
    """Write to stderr; if that fails, only the exit code remains."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def discard_unwritable_output() -> None:
    """Call this after the last output."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            discard_output(stream)


def discard_output(stream: TextIO) -> None:
    """Discard the stream's buffer and all further output."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)
