"""Calls: selection of the overload, evaluation order of arguments, and costs.

Arguments after a failing one are still evaluated where the reference does so, because that costs.

Upstream: interpreter/interpretable.go, planner.go, runtimecost.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from stowplan.kube.cel import costs
from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.checker import Resolution
from stowplan.kube.cel.declarations import Implementation
from stowplan.kube.cel.frames import Closure, Frame
from stowplan.kube.cel.values import ABSENT, NONE, Optional, Value

#: Computes a call from all of its arguments.
Compute: TypeAlias = Callable[[tuple[Value, ...]], Value]


def dispatched(resolution: Resolution) -> Compute:
    """The function that computes a call: its only overload, or the one that matches the arguments."""
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


def _by_function(name: str, implementation: Implementation, takes_first: Callable[[Value], bool] | None) -> Compute:
    if takes_first is None:
        return lambda args: implementation(*args)

    def compute(args: tuple[Value, ...]) -> Value:
        if not takes_first(args[0]):
            # For values that define methods, the reference checks whether the value has this one.
            has_methods = isinstance(args[0], str | v.Timestamp | v.Duration)
            raise ValueProblem("no such overload" if has_methods else f"no such overload: {name}")
        return implementation(*args)

    return compute


def costing(cost: int, make: Closure) -> Closure:
    def closure(frame: Frame) -> Value:
        try:
            return make(frame)
        finally:
            frame.cost += cost

    return closure


def unary(compute: Compute, arg: Closure, cost: costs.CallCost | None) -> Closure:
    computed = _charging(compute, cost)

    def call(frame: Frame) -> Value:
        try:
            value = arg(frame)
        except ValueProblem:
            _charge_failed(frame, cost, (ABSENT,))
            raise
        return computed(frame, (value,))

    return call


def binary(compute: Compute, left: Closure, right: Closure, cost: costs.CallCost | None) -> Closure:
    computed = _charging(compute, cost)

    def call(frame: Frame) -> Value:
        try:
            first = left(frame)
        except ValueProblem as error:
            _charge_failed(frame, cost, (ABSENT, _value_or_absent(right, frame)))
            raise error from None
        try:
            second = right(frame)
        except ValueProblem:
            _charge_failed(frame, cost, (first, ABSENT))
            raise
        return computed(frame, (first, second))

    return call


def n_ary(compute: Compute, closures: list[Closure], cost: costs.CallCost | None) -> Closure:
    """Calls with no argument or more than two; evaluation ends with the first that fails, and the call is free."""
    computed = _charging(compute, cost)

    def call(frame: Frame) -> Value:
        return computed(frame, tuple(closure(frame) for closure in closures))

    return call


def _charging(compute: Compute, cost: costs.CallCost | None) -> Callable[[Frame, tuple[Value, ...]], Value]:
    """`compute` with its cost, which is added first if possible, so that too costly calls are not executed."""
    if cost is None:

        def at_one(frame: Frame, args: tuple[Value, ...]) -> Value:
            frame.charge(1)
            return compute(args)

        return at_one
    if not costs.needs_result(cost):

        def before(frame: Frame, args: tuple[Value, ...]) -> Value:
            frame.charge(cost(args, ABSENT))
            return compute(args)

        return before

    def after(frame: Frame, args: tuple[Value, ...]) -> Value:
        try:
            result = compute(args)
        except ValueProblem:
            _charge_failed(frame, cost, args)
            raise
        frame.charge(cost(args, result))
        return result

    return after


def _charge_failed(frame: Frame, cost: costs.CallCost | None, args: tuple[Value, ...]) -> None:
    """A call that fails, or has a failed argument, costs as if its values had no size."""
    frame.charge(1 if cost is None else cost(args, ABSENT))


def _value_or_absent(closure: Closure, frame: Frame) -> Value:
    """Evaluated for its cost only: another argument has already failed."""
    try:
        return closure(frame)
    except ValueProblem:
        return ABSENT


def _and(left: Closure, right: Closure) -> Closure:
    return _logical(left, right, decides=False)


def _or(left: Closure, right: Closure) -> Closure:
    return _logical(left, right, decides=True)


def _logical(left: Closure, right: Closure, *, decides: bool) -> Closure:
    """`&&` and `||`: one deciding side is sufficient, whatever the error of the other."""

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
