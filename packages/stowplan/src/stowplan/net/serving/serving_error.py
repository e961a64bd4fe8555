"""Errors that prevent the secure port from opening."""

from __future__ import annotations

import os


class ServingError(Exception):
    """The text names the problem like upstream's: a flag, a file, the address."""


def go_error(operation: str, error: OSError) -> str:
    """In Go's format: `open /nope: no such file or directory`."""
    path = f" {error.filename}" if error.filename else ""
    return f"{operation}{path}: {reason_of(error)}"


def reason_of(error: OSError) -> str:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return reason[:1].lower() + reason[1:]
