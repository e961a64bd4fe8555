"""Configuration errors in the reference's wording.

A user who moves a configuration file from kube-scheduler greps for its messages, so the text of an error is part of
the contract. Each problem is one string; the raiser joins several of them the way Go's aggregate does it.

Upstream: k8s.io/apimachinery/pkg/util/validation/field.
"""

import errno
from collections.abc import Iterable

from stowplan.api.durations import Duration
from stowplan.api.field_errors import go_json, go_quote


class ConfigError(ValueError):
    """A configuration that the reference would refuse; `str()` is its message, `hints` are our own."""

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message)
        self.hints = hints
        for hint in hints:
            self.add_note(f"hint: {hint}")

    def prefixed(self, prefix: str) -> "ConfigError":
        return type(self)(f"{prefix}{self}", *self.hints)

    def with_hints(self, hints: Iterable[str]) -> "ConfigError":
        """The same with more of our own words."""
        return type(self)(str(self), *dict.fromkeys((*self.hints, *hints)))


class ConfigFileError(ConfigError):
    """A file that cannot be read; its name is in the message."""


def strict_error(errors: list[str]) -> str:
    return f"strict decoding error: {', '.join(errors)}"


def invalid(path: str, value: object, detail: str) -> str:
    return f"{path}: Invalid value: {_shown(value)}: {detail}"


def required(path: str, detail: str = "") -> str:
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def forbidden(path: str, detail: str) -> str:
    return f"{path}: Forbidden: {detail}"


def duplicate(path: str, value: object) -> str:
    return f"{path}: Duplicate value: {_shown(value)}"


def _shown(value: object) -> str:
    """Render a rejected value: plain scalars as they are, everything else as JSON."""
    if isinstance(value, str | Duration):
        return go_quote(str(value))
    return go_json(value)


def os_error_text(operation: str, path: str, error: OSError) -> str:
    """Say what failed on which file, as Go's os package does."""
    reason = error.strerror or str(error)
    if error.errno == errno.ENOSPC:
        # Whatever was asked for, it was the writing that failed.
        operation = "write"
    return f"{operation} {path}: {reason[:1].lower()}{reason[1:]}"
