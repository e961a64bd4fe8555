"""Handle standard streams that are closed, unread, or on a full disk.

What such a stream could not write stays in its buffer. Python tries once more when the process ends, and if that fails,
too, the exit code is 120, whatever the command had returned.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def open_closed() -> None:
    """Replace standard streams that were closed when the process started, for which Python has None."""
    sys.stdout = sys.stdout or _nothing()
    sys.stderr = sys.stderr or _nothing()


def _nothing() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def answer(text: str) -> int:
    """Write what the command was asked for; its exit code."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Whoever reads has seen enough.
        return 0
    except OSError as error:
        complain(f"Error: standard output: {error.strerror}")
        return 1
    return 0


def complain(text: str) -> None:
    """Write to standard error; where that takes nothing, the exit code has to do."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def give_up_unwritable() -> None:
    """To be called when nothing more is to be said."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            into_nothing(stream)


def into_nothing(stream: TextIO) -> None:
    """Whatever the stream holds, and gets from now on, is lost."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)
