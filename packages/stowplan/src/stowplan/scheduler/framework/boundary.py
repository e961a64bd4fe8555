"""The boundary between the scheduler and plugins: all code of a plugin, ours or a user's, is called through here.

A plugin may raise anything, at any point, and may return anything. Only what it was called for fails: an attempt gets
an Error that names the plugin (`raised`), a declaration does not hold (`declares`). The exception itself never gets
past the call, with two exceptions:

* Ctrl-C (`NEVER_CAUGHT`) is the user's, whatever code it interrupts.
* A generator of ours that is closed while it waits within a plugin's steps gets a GeneratorExit, and a coroutine's task
  may be cancelled. So `call_steps` lets GeneratorExit through, and `call_coroutine` what the driver names: only that
  knows whether it has cancelled the task. In a plain call, both are the plugin's own.

What comes back is checked within the call, so that an invalid result is reported as the plugin's failure, with the
place where its method is defined. Results of user plugins are also copied where they are kept
(`runtime.answers`), and their calls interrupted if they hang (`drivers.hang_guard`); both wrap the methods called here.

Upstream: none. Plugins of kube-scheduler are compiled into it, and end it when they panic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from inspect import isgenerator
from typing import Any, Literal, Protocol, TypeVar, TypeVarTuple, cast, overload

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.cycle_state import CallTimes
from stowplan.scheduler.framework.extender import ClusterChangedError
from stowplan.scheduler.framework.interface import awaited
from stowplan.scheduler.framework.status import SKIP, Status, described, raised, well_formed

R = TypeVar("R")
C = TypeVar("C")
F = TypeVar("F")
Y = TypeVar("Y")
Args = TypeVarTuple("Args")

#: Exceptions that no call of a plugin turns into its failure.
NEVER_CAUGHT = (KeyboardInterrupt,)


class Raised(PlainStruct):
    """In place of a call's result: what was raised, and the method that was called."""

    cause: BaseException
    by: Callable[..., Any]

    def __str__(self) -> str:
        return described(self.cause)


class Ended(PlainStruct):
    """In place of what steps wait for: they have returned this."""

    value: Any


@overload
def call(
    method: Callable[[*Args], R], /, *args: *Args, times: CallTimes | None = ..., at: tuple[str, str] = ...
) -> R | Status: ...
@overload
def call(
    method: Callable[[*Args], R],
    /,
    *args: *Args,
    check: None,
    failed: Callable[[BaseException, Callable[..., Any]], F],
    times: CallTimes | None = ...,
    at: tuple[str, str] = ...,
) -> R | F: ...
@overload
def call(
    method: Callable[[*Args], Any],
    /,
    *args: *Args,
    check: Callable[[Any], C],
    required: Literal[True],
    times: CallTimes | None = ...,
    at: tuple[str, str] = ...,
) -> C | Status: ...
@overload
def call(
    method: Callable[[*Args], Any],
    /,
    *args: *Args,
    check: Callable[[Any], C],
    required: Literal[True],
    failed: Callable[[BaseException, Callable[..., Any]], F],
    times: CallTimes | None = ...,
    at: tuple[str, str] = ...,
) -> C | F: ...
@overload
def call(
    method: Callable[[*Args], Any],
    /,
    *args: *Args,
    check: Callable[[Any], C],
    times: CallTimes | None = ...,
    at: tuple[str, str] = ...,
) -> C | Status | None: ...
def call(  # type: ignore[misc]  # mypy does not match `*args: Any` with `*args: *Args`
    method: Callable[..., Any],
    /,
    *args: Any,
    check: Callable[[Any], Any] | None = well_formed,
    required: bool = False,
    failed: Callable[[BaseException, Callable[..., Any]], Any] = raised,
    times: CallTimes | None = None,
    at: tuple[str, str] = ("", ""),
) -> Any:
    """Call code of a plugin, and return its checked result, or what `failed` makes of an exception.

    `check` returns the result to use, or raises; by default, that must be a Status; None: the caller checks it. Unless
    a result is `required`, None and SKIP are always valid. `times`: of a sampled cycle; the call counts as one of the
    extension point and the plugin `at`.
    """
    try:
        answer = method(*args) if times is None else times.time(*at, method, *args)
        # Most results are None or SKIP; a check would cost as much as many a plugin.
        if check is None or ((answer is None or answer is SKIP) and not required):
            return answer
        return check(answer)
    except NEVER_CAUGHT:
        raise
    except BaseException as e:
        return failed(e, method)


def no(cause: BaseException, by: Callable[..., Any]) -> bool:
    """For `failed`: a declaration does not hold."""
    return False


def nothing(cause: BaseException, by: Callable[..., Any]) -> None:
    """For `failed`: there is no result; another call of the plugin will fail and be reported."""


class _Declares(Protocol):
    def __call__(self, promise: Callable[[*Args], object], /, *args: *Args) -> bool: ...


#: Whether a plugin's declaration about itself holds; if it raises, it does not. A function would cost another call, and
#: several declarations are asked for with every pod.
declares = cast("_Declares", partial(call, check=None, failed=no))


# -- steps and coroutines ---------------------------------------------------------------------------------------------


def resume(steps: Generator[Y, Any, Any] | Coroutine[Y, Any, Any], outcome: object) -> Y | Ended | Raised:
    """Resume a generator with an outcome: what it waits for next, or how it ended."""
    return call(_send, steps, outcome, check=None, failed=Raised)


def _send(steps: Generator[Y, Any, Any] | Coroutine[Y, Any, Any], outcome: object) -> Y | Ended:
    try:
        return steps.send(outcome)
    except StopIteration as end:
        return Ended(end.value)


def close(steps: Generator[Any, Any, Any] | Coroutine[Any, Any, Any]) -> Raised | None:
    """Close a generator or coroutine where it waits; what it raises in doing so."""
    return call(steps.close, check=None, failed=Raised)


def call_steps(
    method: Callable[..., Any],
    *args: Any,
    check: Callable[[Any], R],
    failed: Callable[[BaseException, Callable[..., Any]], F],
    waits: bool,
) -> Generator[Any, Any, R | F]:
    """`call` for a method that may return a generator if it `waits`: yields what that yields."""
    answer = call(method, *args, check=None, failed=Raised)
    if isinstance(answer, Raised):
        return failed(answer.cause, method)
    try:
        if waits and isgenerator(answer):
            answer = yield from answer
        return check(answer)
    except (*NEVER_CAUGHT, GeneratorExit, ClusterChangedError):
        # Closed, or to be repeated from the start.
        raise
    except BaseException as e:
        return failed(e, method)


async def call_coroutine(
    method: Callable[..., Awaitable[Any]],
    *args: Any,
    check: Callable[[Any], R],
    cancelled: tuple[type[BaseException], ...],
    times: CallTimes | None,
    at: tuple[str, str],
) -> R | Status:
    """`call` for a method that must be `async def`. `cancelled`: what the driver's own cancelling raises in it."""
    try:
        if times is None:
            return check(await awaited(method, *args))
        return check(await times.time_awaited(*at, awaited, method, *args))
    except BaseException as e:
        if isinstance(e, (*NEVER_CAUGHT, *cancelled)):
            raise
        # If the coroutine is being closed (GeneratorExit), nobody reads this result.
        return raised(e, method)
