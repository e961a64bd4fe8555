"""The boundary between the scheduler and plugins: all code of a plugin, ours or a user's, is called through here.

A plugin may raise or return anything at any point, or not return at all. Only what it was called for fails: an attempt
gets an Error that names the plugin (`raised`), a declaration does not hold (`declares`). What it raises never gets past
the call, with two exceptions:

* Ctrl-C (`NEVER_CAUGHT`) is the user's, whatever code it interrupts.
* What the caller of steps or of a coroutine names: that the attempt must restart, and the driver's own cancelling, of
  which only the driver knows whether it was the driver's. In any other call, both are the plugin's own.

`call` is the only place that catches them. Steps and coroutines are resumed through it, one call per step, so what is
thrown into them from outside (a driver cancels a task, a cycle is closed) reaches the plugin in between.

What comes back is checked within the call, so that an invalid result is reported as the plugin's failure, with the
place where its method is defined. Calls that say which point of which plugin they are (`at`) are timed in sampled
cycles. If the plugin is a user's, they go through its guard, which interrupts what hangs (`drivers.hang_guard`), and
arguments and results are protected and copied (`answers`).

Upstream: none. Plugins of kube-scheduler are compiled into it, and end it when they panic.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from inspect import isawaitable, isgenerator
from typing import Any, Literal, Protocol, TypeVar, TypeVarTuple, cast, overload

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.answers import protected
from stowplan.scheduler.framework.cycle_state import CallTimes
from stowplan.scheduler.framework.declarations import Plugin
from stowplan.scheduler.framework.extender import ClusterChangedError
from stowplan.scheduler.framework.status import SKIP, Status, described, raised, unexpected, well_formed

R = TypeVar("R")
C = TypeVar("C")
F = TypeVar("F")
Y = TypeVar("Y")
Args = TypeVarTuple("Args")
#: Which call this is: an extension point, or another name, and the plugin.
At = tuple[str, Plugin]
Steps = Generator[Y, Any, Any] | Coroutine[Y, Any, Any]

#: Exceptions that no call of a plugin turns into its failure.
NEVER_CAUGHT = (KeyboardInterrupt,)


class Raised(PlainStruct):
    """In place of a call's result: what was raised, and the method that was called."""

    cause: "BaseException"  # noqa: UP037
    by: Callable[..., Any]

    def __str__(self) -> str:
        return described(self.cause)


class Ended(PlainStruct):
    """In place of what steps wait for: they have returned this."""

    value: Any


@overload
def call(
    method: Callable[[*Args], R], /, *args: *Args, times: CallTimes | None = ..., at: At | None = ...
) -> R | Status: ...
@overload
def call(
    method: Callable[[*Args], R],
    /,
    *args: *Args,
    check: None,
    failed: Callable[[BaseException, Callable[..., Any]], F],
    times: CallTimes | None = ...,
    at: At | None = ...,
) -> R | F: ...
@overload
def call(
    method: Callable[[*Args], Any],
    /,
    *args: *Args,
    check: Callable[[Any], C],
    required: Literal[True],
    times: CallTimes | None = ...,
    at: At | None = ...,
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
    at: At | None = ...,
) -> C | F: ...
@overload
def call(
    method: Callable[[*Args], Any],
    /,
    *args: *Args,
    check: Callable[[Any], C],
    times: CallTimes | None = ...,
    at: At | None = ...,
) -> C | Status | None: ...
def call(  # type: ignore[misc]  # mypy does not match `*args: Any` with `*args: *Args`
    method: Callable[..., Any],
    /,
    *args: Any,
    check: Callable[[Any], Any] | None = well_formed,
    required: bool = False,
    failed: Callable[[BaseException, Callable[..., Any]], Any] = raised,
    times: CallTimes | None = None,
    at: At | None = None,
) -> Any:
    """Call code of a plugin, and return its checked result, or what `failed` makes of an exception.

    `check` returns the result to use, or raises; by default, that must be a Status; None: the caller checks it. Unless
    a result is `required`, None and SKIP are always valid. `at`: whose guard the call goes through, and what it counts
    as in `times`, which are those of a sampled cycle.
    """
    try:
        if at is None or (times is None and at[1].hang_guard is None):
            answer = method(*args)
        else:
            answer = _observed(method, args, times, at)
        # Most results are None or SKIP; a check would cost as much as many a plugin.
        if check is None or ((answer is None or answer is SKIP) and not required):
            return answer
        return check(answer)
    # SystemExit, GeneratorExit and CancelledError of a plugin are failures of the plugin like any other.
    except NEVER_CAUGHT:
        raise
    except BaseException as e:
        return failed(e, method)


def _observed(method: Callable[..., Any], args: tuple[Any, ...], times: CallTimes | None, at: At) -> Any:
    """Call a user's plugin, or any plugin in a sampled cycle."""
    point, plugin = at
    if plugin.hang_guard is not None:
        args = plugin.name, point, protected, point, method, *args
        method = plugin.hang_guard.call
    return method(*args) if times is None else times.time(point, plugin.name, method, *args)


def no(cause: BaseException, by: Callable[..., Any]) -> bool:
    """For `failed`: a declaration does not hold."""
    return False


def nothing(cause: BaseException, by: Callable[..., Any]) -> None:
    """For `failed`: there is no result; another call of the plugin will fail and be reported."""


class _Declares(Protocol):
    def __call__(self, promise: Callable[[*Args], object], /, *args: *Args, at: At) -> bool: ...


#: Whether a plugin's declaration about itself holds; if it raises, it does not. A function would cost another call, and
#: several declarations are asked for with every pod.
declares = cast("_Declares", partial(call, check=None, failed=no))


def listed(function: Callable[..., Any], *args: Any) -> list[Any]:
    """For `call`: all items of a lazy result, which would run outside the call otherwise."""
    return list(function(*args))


# -- steps and coroutines ---------------------------------------------------------------------------------------------


def resume(steps: Steps[Y], outcome: object, at: At | None = None) -> Y | Ended | Raised:
    """Resume a generator with an outcome: what it waits for next, or how it ended."""
    return call(_step, steps.send, outcome, check=None, failed=Raised, at=at)


def _step(go_on: Callable[[Any], Y], value: object) -> Y | Ended:
    try:
        return go_on(value)
    except StopIteration as end:
        return Ended(end.value)


def close(steps: Steps[Any], at: At | None = None) -> Raised | None:
    """Close a generator or coroutine where it waits; what it raises in doing so."""
    return call(steps.close, check=None, failed=Raised, at=at)


def call_steps(
    method: Callable[..., Any],
    *args: Any,
    check: Callable[[Any], R],
    failed: Callable[[BaseException, Callable[..., Any]], F],
    waits: bool,
    at: At,
) -> Generator[Any, Any, R | F]:
    """`call` for a method that may return a generator if it `waits`: yields what that yields."""
    answer = call(method, *args, check=None, failed=Raised, at=at)
    if waits and isgenerator(answer):
        answer = yield from _run(answer, at, (ClusterChangedError,))
    if isinstance(answer, Raised):
        return failed(answer.cause, method)
    return call(check, answer, check=None, failed=lambda cause, by: failed(cause, method))


async def call_coroutine(
    method: Callable[..., Any],
    *args: Any,
    check: Callable[[Any], R],
    cancelled: tuple[type[BaseException], ...],
    at: At,
) -> R | Status:
    """`call` for a method that must be `async def`. `cancelled`: what the driver's own cancelling raises in it."""
    # Only making the coroutine is inside this call; its steps are calls of their own (`_run`).
    coroutine = call(method, *args, check=partial(_awaitable, method), required=True, failed=Raised, at=at)
    if isinstance(coroutine, Raised):
        return raised(coroutine.cause, method)
    (point, plugin), steps = at, coroutine.__await__()
    if (guard := plugin.hang_guard) is None:
        answer = await _run(steps, at, cancelled)
    else:
        answer = await guard.limited(plugin.name, point, _run_awaited(steps, at, cancelled))
    if isinstance(answer, Raised):
        return raised(answer.cause, method)
    return call(check, answer, check=None, failed=lambda cause, by: raised(cause, method))


def _awaitable(method: Callable[..., Any], found: Any) -> Any:
    if not isawaitable(found):
        raise unexpected(f"{method.__name__} to be `async def` or a generator of steps", found)
    return found


async def _run_awaited(steps: Steps[Any], at: At, passing: tuple[type[BaseException], ...]) -> Any:
    """`_run` for the guard, which is not compiled: it cannot await a compiled generator."""
    return await _run(steps, at, passing)


@types.coroutine
def _run(steps: Steps[Any], at: At, passing: tuple[type[BaseException], ...]) -> Generator[Any, Any, Any]:
    """Like `yield from` or `await`, with each step as a call: the result, or what was raised.

    `passing`: exceptions that are not the plugin's failure.
    """
    go_on: Callable[[Any], Any] = steps.send
    value: Any = None
    while True:
        needed = call(_step, go_on, value, check=None, failed=Raised, at=at)
        if isinstance(needed, Ended):
            return needed.value
        if isinstance(needed, Raised):
            if isinstance(needed.cause, passing):
                raise needed.cause
            return needed
        try:
            go_on, value = steps.send, (yield needed)
        except GeneratorExit:
            # Closed by whoever waits: there is nobody left to tell but the log of whoever closes it.
            if (failed := close(steps, at)) is not None:
                raise failed.cause from None
            raise
        except BaseException as thrown:
            # Not the plugin's: the outcome of what it waits for, or that it is cancelled.
            go_on, value = steps.throw, thrown
