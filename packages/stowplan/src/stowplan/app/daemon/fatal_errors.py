"""Fatal errors of `kube-scheduler` (exit code 1)."""

from __future__ import annotations

from collections.abc import Sequence


class CommandError(Exception):
    """An error for the user; `hints` are optional suggestions."""

    def __init__(self, message: str, hints: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.hints = tuple(hints)


class LeaseLost(Exception):
    """The lease was lost; another candidate may lead now."""
