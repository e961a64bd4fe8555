"""Status: a plugin's result code, reasons, and name.

"Does not fit" is a value, not an exception. A `Reason` is a constant with a stable code, upstream's words and
parameters; the text is rendered last, so messages, explanations and metrics come from one record.

Upstream: staging/src/k8s.io/kube-scheduler/framework (Status, Code).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


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


def raised(what: BaseException) -> Status:
    """The Error of a plugin's call that raised: what a user's code raised comes with its type, file and line."""
    text = described(what)
    if text == str(what):
        return error(what)
    told = RuntimeError(text)
    told.__cause__ = what
    return Status(Code.Error, error=told)


def promised(promise: Callable[[], bool]) -> bool:
    """What a plugin promises of itself; one that fails over it promises nothing."""
    try:
        return promise()
    except PROPAGATED:
        raise
    except BaseException:
        return False


def described(what: BaseException) -> str:
    """An exception in words; one that users' code raised, or let through, with its type and where that was.

    In-tree plugins say what went wrong in the reference's words: theirs stay as they are.
    """
    place = place_of(what)
    return f"{type(what).__name__}: {what} ({place})" if place else str(what)


#: Packages whose frames are not users' code.
_OURS = frozenset(("stowplan", "stowplan_cluster"))


def place_of(raised: BaseException) -> str:
    """Where users' code raised, or called what raised: the innermost line of the first package that is not ours.

    A library that a plugin calls is of no interest: its author looks for a line of their own. "" where nothing but
    our code is involved.
    """
    package, place = "", ""
    traceback = raised.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        module = (frame.f_globals.get("__name__") or "").partition(".")[0]
        if module not in _OURS and (not place or module == package):
            package = module
            code = frame.f_code
            # Without its folder, which differs from host to host.
            file = code.co_filename.rpartition("/")[2]
            place = f"{file}:{traceback.tb_lineno} in {code.co_name}"
        traceback = traceback.tb_next
    return place


def well_formed(answer: Status | None) -> Status | None:
    """Raise for what no plugin may answer: nobody checks the types of users' plugins."""
    if answer is not None and not isinstance(answer, Status):
        raise unexpected("a Status or None", answer)
    return answer


def unexpected(wanted: str, answer: object) -> TypeError:
    if iscoroutine(answer):
        # Nobody will await it, and Python would complain about that.
        answer.close()
        return TypeError(f"want {wanted}, got a coroutine: this method is not `async def`")
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
