"""Calls: which overload computes one, when arguments are evaluated, and what it costs.

Arguments after one that fails are still evaluated where the reference does so, because that costs.

Upstream: interpreter/interpretable.go, planner.go, runtimecost.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.cel import costs
from stowplan.cel import values as v
from stowplan.cel.errors import ValueProblem
from stowplan.cel.values import ABSENT, NONE, Optional, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan.cel.checker import Resolution
    from stowplan.cel.declarations import Implementation
    from stowplan.cel.frames import Closure, Frame


def dispatched(resolution: Resolution) -> Callable[[tuple[Value, ...]], Value]:
    """What computes a call: its only overload, or the one that the arguments fit."""
    function, overloads = resolution.function, resolution.overloads
    if function.implementation is not None:
        return _by_function(function.name, function.implementation, function.takes_first)
    candidates = overloads if len(overloads) == 1 else function.overloads

    def dispatch(args: tuple[Value, ...]) -> Value:
        for overload in candidates:
            if overload.implementation is not None and overload.takes(args):
                return overload.implementation(*args)
        if not function.is_guarded:
            raise ValueProblem("no such overload")
        names = ", ".join(v.type_name(arg) for arg in args)
        raise ValueProblem(f"no such overload: {function.name}({names})")

    return dispatch


def _by_function(
    name: str, implementation: Implementation, takes_first: Callable[[Value], bool] | None
) -> Callable[[tuple[Value, ...]], Value]:
    if takes_first is None:
        return lambda args: implementation(*args)

    def compute(args: tuple[Value, ...]) -> Value:
        if not takes_first(args[0]):
            # Values with methods of their own are asked by the reference whether they know this one.
            has_methods = isinstance(args[0], str | v.Timestamp | v.Duration)
            raise ValueProblem("no such overload" if has_methods else f"no such overload: {name}")
        return implementation(*args)

    return compute


def _charged(frame: Frame, cost: costs.CallCost | None, args: Sequence[Value], result: Value) -> None:
    if cost is None:
        frame.cost += 1
    else:
        frame.cost += cost(args, result)
        frame.check_limit()


def costing(cost: int, make: Closure) -> Closure:
    def closure(frame: Frame) -> Value:
        try:
            return make(frame)
        finally:
            frame.cost += cost

    return closure


def unary(compute: Callable[[tuple[Value, ...]], Value], arg: Closure, cost: costs.CallCost | None) -> Closure:
    def call(frame: Frame) -> Value:
        value: Value = ABSENT
        result: Value = ABSENT
        try:
            value = arg(frame)
            result = compute((value,))
        finally:
            _charged(frame, cost, (value,), result)
        return result

    return call


def binary(
    compute: Callable[[tuple[Value, ...]], Value], left: Closure, right: Closure, cost: costs.CallCost | None
) -> Closure:
    def call(frame: Frame) -> Value:
        first: Value = ABSENT
        second: Value = ABSENT
        result: Value = ABSENT
        try:
            try:
                first = left(frame)
            except ValueProblem as error:
                second = _error_or_value(right, frame)
                raise error from None
            second = right(frame)
            result = compute((first, second))
        finally:
            _charged(frame, cost, (first, second), result)
        return result

    return call


def _error_or_value(closure: Closure, frame: Frame) -> Value:
    """For its cost: another argument has failed already."""
    try:
        return closure(frame)
    except ValueProblem:
        return ABSENT


def n_ary(
    compute: Callable[[tuple[Value, ...]], Value], closures: list[Closure], cost: costs.CallCost | None
) -> Closure:
    def call(frame: Frame) -> Value:
        args = tuple(closure(frame) for closure in closures)
        result: Value = ABSENT
        try:
            result = compute(args)
        finally:
            _charged(frame, cost, args, result)
        return result

    return call


def _and(left: Closure, right: Closure) -> Closure:
    return _logical(left, right, decides=False)


def _or(left: Closure, right: Closure) -> Closure:
    return _logical(left, right, decides=True)


def _logical(left: Closure, right: Closure, *, decides: bool) -> Closure:
    """`&&` and `||`: one side that decides is enough, whatever is wrong with the other."""

    def term(closure: Closure, frame: Frame) -> bool | ValueProblem:
        try:
            value = closure(frame)
        except ValueProblem as error:
            return error
        return value if isinstance(value, bool) else ValueProblem("no such overload")

    def evaluate(frame: Frame) -> Value:
        first = term(left, frame)
        if first is decides:
            return decides
        second = term(right, frame)
        if second is decides:
            return decides
        for outcome in (first, second):
            if isinstance(outcome, ValueProblem):
                raise outcome
        return not decides

    return evaluate


def _not_strictly_false(arg: Closure) -> Closure:
    def evaluate(frame: Frame) -> Value:
        try:
            return arg(frame) is not False
        except ValueProblem:
            return True
        finally:
            frame.cost += 1

    return evaluate


def _or_value(left: Closure, right: Closure) -> Closure:
    """`a.orValue(b)`: `b` is evaluated only if `a` has no value."""

    def evaluate(frame: Frame) -> Value:
        value = left(frame)
        if type(value) is not Optional:
            return value
        return right(frame) if value is NONE else value.value

    return evaluate


def _optional_or(left: Closure, right: Closure) -> Closure:
    def evaluate(frame: Frame) -> Value:
        value = left(frame)
        return right(frame) if value is NONE else value

    return evaluate


#: Functions that do not evaluate all their arguments first.
SPECIAL: dict[str, Callable[..., Closure]] = {
    "_&&_": _and,
    "_||_": _or,
    "@not_strictly_false": _not_strictly_false,
    "or": _optional_or,
    "orValue": _or_value,
}
