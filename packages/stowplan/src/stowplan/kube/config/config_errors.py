"""Configuration errors in the reference's wording.

Users who migrate a configuration file from kube-scheduler search for its messages, so the text of an error is part of
the contract. Each problem is one string; several are joined like in Go's aggregate.

Upstream: k8s.io/apimachinery/pkg/util/validation/field.
"""

import errno
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from stowplan.kube.api.durations import Duration
from stowplan.kube.api.field_errors import go_json, go_quote


class ConfigError(ValueError):
    """A configuration that the reference would reject; `str()` is its message, `hints` are our own."""

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message)
        self.hints = hints
        for hint in hints:
            self.add_note(f"hint: {hint}")

    def prefixed(self, prefix: str) -> "ConfigError":
        return type(self)(f"{prefix}{self}", *self.hints)

    def with_hints(self, hints: Iterable[str]) -> "ConfigError":
        """The same error with additional hints."""
        return type(self)(str(self), *dict.fromkeys((*self.hints, *hints)))


class ConfigFileError(ConfigError):
    """A file that cannot be read; the message contains its name."""


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
    """A rejected value: plain scalars unchanged, everything else as JSON."""
    if isinstance(value, str | Duration):
        return go_quote(str(value))
    return go_json(value)


def os_error_text(operation: str, path: str, error: OSError) -> str:
    """The failed operation and the file, in the format of Go's os package."""
    reason = error.strerror or str(error)
    if error.errno == errno.ENOSPC:
        # Whatever the operation was, writing failed.
        operation = "write"
    return f"{operation} {path}: {reason[:1].lower()}{reason[1:]}"


# Suggest names similar to an unknown one.

_CUTOFF = 0.6


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The most similar known name, ignoring case; None if there is none."""
    by_lower = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=_CUTOFF)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> Iterator[str]:
    found = nearest(name, known)
    if found is not None:
        yield f"did you mean {found}?"
