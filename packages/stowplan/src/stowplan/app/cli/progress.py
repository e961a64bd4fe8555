"""Shows the progress of many equal steps, on stderr if it is a terminal that can erase a line."""

from __future__ import annotations

import os
import sys

import click


def on_one_line() -> bool:
    """Whether progress can replace itself: whether stderr is a terminal that can erase a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class Progress:
    def __init__(self, *, quiet: bool = False, unit: str = "runs") -> None:
        self._shown = on_one_line() and not quiet
        self._unit = unit

    def __call__(self, what: str, done: int, of: int) -> None:
        if self._shown:
            click.echo(f"\r\x1b[K{what}: {done} of {of} {self._unit}", err=True, nl=False)

    def close(self) -> None:
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
