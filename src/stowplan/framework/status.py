"""What a plugin answers: a code, reasons, and who said so.

"Does not fit" is a value, not an exception. A `Reason` is a constant with a stable code, upstream's words and
parameters; the text is rendered last, so messages, explanations and metrics come from one record.

Upstream: staging/src/k8s.io/kube-scheduler/framework (Status, Code).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any


class Code(IntEnum):
    """Names and numbers are upstream's; the names are metric labels too."""

    Success = 0
    Error = 1
    Unschedulable = 2
    UnschedulableAndUnresolvable = 3
    Wait = 4
    Skip = 5
    Pending = 6


REJECTED = frozenset((Code.Unschedulable, Code.UnschedulableAndUnresolvable, Code.Pending))


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was refused: a stable code, upstream's words, and what they speak of."""

    code: str
    text: str
    detail: tuple[tuple[str, Any], ...] = ()

    def of(self, **detail: Any) -> Reason:
        """The reason about something: its text takes the values by name."""
        return replace(self, text=self.text.format(**detail), detail=tuple(detail.items()))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Status:
    """The outcome of an extension point; success is None wherever a status may be absent."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    error: Exception | None = None
    #: The reasons as records, where they came from constants.
    records: tuple[Reason, ...] = field(default=(), compare=False)

    @property
    def rejected(self) -> bool:
        return self.code in REJECTED

    @property
    def shown_reasons(self) -> tuple[str, ...]:
        """The error's text, if there is one, then the reasons."""
        return self.reasons if self.error is None else (str(self.error), *self.reasons)

    @property
    def message(self) -> str:
        return ", ".join(self.shown_reasons)

    @property
    def cause(self) -> Exception:
        """The status as an exception: the one it carries, or one made of its message."""
        return self.error if self.error is not None else RuntimeError(self.message)

    def with_plugin(self, plugin: str) -> Status:
        return replace(self, plugin=plugin)

    def __str__(self) -> str:
        return self.message


SUCCESS = Status(Code.Success)
SKIP = Status(Code.Skip)


def unschedulable(*reasons: str | Reason) -> Status:
    return _status(Code.Unschedulable, reasons)


def unresolvable(*reasons: str | Reason) -> Status:
    """Rejected, and no eviction can help."""
    return _status(Code.UnschedulableAndUnresolvable, reasons)


#: What a plugin raises costs the attempt, not the process; that goes for sys.exit(), too.
RAISED = (Exception, SystemExit)
#: Synchronous calls of plugins let only these through; a cancellation can only be the plugin's own there.
PROPAGATED = (KeyboardInterrupt, GeneratorExit)


def error(what: str | BaseException) -> Status:
    if isinstance(what, Exception):
        return Status(Code.Error, error=what)
    if isinstance(what, str):
        return Status(Code.Error, error=RuntimeError(what))
    told = RuntimeError(f"{type(what).__name__}: {what}")
    told.__cause__ = what
    return Status(Code.Error, error=told)


def well_formed(answer: Status | None) -> Status | None:
    """Raise for what no plugin may answer: nobody checks the types of users' plugins."""
    if answer is not None and not isinstance(answer, Status):
        raise unexpected("a Status or None", answer)
    return answer


def unexpected(wanted: str, answer: object) -> TypeError:
    return TypeError(f"want {wanted}, got {answer!r}")


def wrapped(text: str, status: Status) -> Status:
    """The Error that a failing status becomes when words are put before its own."""
    cause = status.cause
    whole = RuntimeError(f"{text}: {cause}")
    whole.__cause__ = cause
    return Status(Code.Error, error=whole)


def _status(code: Code, reasons: tuple[str | Reason, ...]) -> Status:
    records = tuple(r for r in reasons if isinstance(r, Reason))
    return Status(code, tuple(str(r) for r in reasons), records=records)
