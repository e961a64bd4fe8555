"""Status: a plugin's result code, reasons, and name.

"Does not fit" is a value, not an exception. A `Reason` is a constant with a stable code, upstream's text and
parameters. The text is rendered last, so messages, explanations and metrics share one record.

Upstream: staging/src/k8s.io/kube-scheduler/framework (Status, Code).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from inspect import iscoroutine, unwrap
from typing import Any

from msgspec.structs import replace

from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.structs import PlainStruct


class Code(IntEnum):
    """Names and numbers are upstream's; the names are also metric labels."""

    Success = 0
    Error = 1
    Unschedulable = 2
    UnschedulableAndUnresolvable = 3
    Wait = 4
    Skip = 5
    Pending = 6


REJECTED = frozenset((Code.Unschedulable, Code.UnschedulableAndUnresolvable, Code.Pending))


class Reason(PlainStruct, frozen=True):
    """Why something was rejected: a stable code, upstream's text, and its parameters."""

    code: str
    text: str
    detail: tuple[tuple[str, Any], ...] = ()

    def of(self, **detail: Any) -> Reason:
        """The reason with parameters; the text refers to them by name."""
        return replace(self, text=self.text.format(**detail), detail=tuple(detail.items()))

    def __str__(self) -> str:
        return self.text


@mypyc_attr(native_class=False)
@dataclass(frozen=True, slots=True)
class Status:
    """The result of an extension point. Where a status is optional, None means success."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    error: Exception | None = None
    #: The reasons as records, if they were created from constants.
    records: tuple[Reason, ...] = field(default=(), compare=False)

    @property
    def rejected(self) -> bool:
        return self.code in REJECTED

    @property
    def shown_reasons(self) -> tuple[str, ...]:
        """The error's text, if any, then the reasons."""
        return self.reasons if self.error is None else (str(self.error), *self.reasons)

    @property
    def message(self) -> str:
        return ", ".join(self.shown_reasons)

    @property
    def cause(self) -> Exception:
        """The status as an exception: the one that it wraps, or a new one with its message."""
        return self.error if self.error is not None else RuntimeError(self.message)

    def with_plugin(self, plugin: str) -> Status:
        return Status(self.code, self.reasons, plugin, self.error, self.records)

    def __str__(self) -> str:
        return self.message


SUCCESS = Status(Code.Success)
SKIP = Status(Code.Skip)


def unschedulable(*reasons: str | Reason) -> Status:
    return _status(Code.Unschedulable, reasons)


def unresolvable(*reasons: str | Reason) -> Status:
    """Rejected, and preemption cannot help."""
    return _status(Code.UnschedulableAndUnresolvable, reasons)


#: Exceptions that fail the attempt but not the process, including sys.exit().
RAISED = (Exception, SystemExit)


def error(what: str | BaseException) -> Status:
    if isinstance(what, Exception):
        return Status(Code.Error, error=what)
    if isinstance(what, str):
        return Status(Code.Error, error=RuntimeError(what))
    wrapped = RuntimeError(f"{type(what).__name__}: {what}")
    wrapped.__cause__ = what
    return Status(Code.Error, error=wrapped)


def raised(what: BaseException, by: Callable[..., Any] | None = None) -> Status:
    """The Error for a plugin call that raised; exceptions from user code include type, file and line.

    `by`: the method that was called. If it is user code and the exception is not from there, what it returned is wrong.
    """
    text = described(what)
    if text == str(what) and by is not None and isinstance(what, (TypeError, ValueError)):
        text += _defined(by)
    if text == str(what):
        return error(what)
    wrapped = RuntimeError(text)
    wrapped.__cause__ = what
    return Status(Code.Error, error=wrapped)


def described(what: BaseException) -> str:
    """An exception as text; if user code raised it or let it through, with its type and location.

    In-tree plugins use the reference's messages, which stay unchanged.
    """
    return typed(what) if place_of(what) else str(what)


def typed(what: BaseException) -> str:
    """An exception as text, with its type, and the location in user code if there is one."""
    place = place_of(what)
    text = f"{type(what).__name__}: {what}"
    return f"{text} ({place})" if place else text


#: Packages whose frames are not user code; `importlib` is between us and a module that raises.
_OURS = frozenset(("stowplan", "stowplan_cluster", "stowplan_lab", "importlib"))


def place_of(raised: BaseException) -> str:
    """Where user code raised, or called what raised: the innermost line of the first package that is not ours.

    Frames of libraries that a plugin calls are skipped: its author looks for a line of their own. "" if only our code
    is involved.
    """
    package, place = "", ""
    traceback = raised.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        module = (frame.f_globals.get("__name__") or "").partition(".")[0]
        if module not in _OURS and (not place or module == package):
            package = module
            code = frame.f_code
            # Without the directory, which differs from host to host.
            file = code.co_filename.rpartition("/")[2]
            place = f"{file}:{traceback.tb_lineno} in {code.co_name}"
        traceback = traceback.tb_next
    return place


def _defined(method: Callable[..., Any]) -> str:
    """Where user code defines a method, in parentheses; "" for ours."""
    function = unwrap(method)
    code = getattr(function, "__code__", None)
    if code is None or (function.__module__ or "").partition(".")[0] in _OURS:
        return ""
    return f" ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno} in {code.co_name})"


def well_formed(answer: Any, wanted: str = "a Status or None", by: Callable[..., Any] | None = None) -> Status | None:
    """Raise for an invalid status; plugins are not type-checked. `by`: see `unexpected`."""
    if answer is not None and not isinstance(answer, Status):
        raise unexpected(wanted, answer, by)
    if answer is not None and not isinstance(answer.code, Code):
        raise unexpected("a Code as the code of a Status", answer.code, by)
    return answer


def unexpected(wanted: str, answer: object, by: Callable[..., Any] | None = None) -> TypeError:
    """The error for an invalid result; `by`: the method that returned it, if the caller of `raised` does not know."""
    if iscoroutine(answer):
        # It will never be awaited, which Python would warn about.
        answer.close()
        return TypeError(f"want {wanted}, got a coroutine: this method is not `async def`")
    text = repr(answer)
    # An address would make each message different, and thereby a different event.
    text = f"an object of type {type(answer).__name__}" if " at 0x" in text else text
    return TypeError(f"want {wanted}, got {text}{'' if by is None else _defined(by)}")


def wrapped(text: str, status: Status) -> Status:
    """An Error with a prefix before the text of a failed status."""
    cause = status.cause
    whole = RuntimeError(f"{text}: {cause}")
    whole.__cause__ = cause
    return Status(Code.Error, error=whole)


def _status(code: Code, reasons: tuple[str | Reason, ...]) -> Status:
    records = tuple(r for r in reasons if isinstance(r, Reason))
    return Status(code, tuple(str(r) for r in reasons), records=records)
