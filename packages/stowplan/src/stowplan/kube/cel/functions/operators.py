"""Operators, `size`, `in` and functions common to all libraries. Upstream: common/stdlib, common/types."""

from __future__ import annotations

import math

from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import CostLimitExceeded, ValueProblem
from stowplan.kube.cel.declarations import Function, Implementation, Overload, function, member, overload
from stowplan.kube.cel.time_text import DURATION_MAX, TIMESTAMP_MAX, TIMESTAMP_MIN
from stowplan.kube.cel.values import Duration, Timestamp, UInt, Value

#: Maximum sizes of values, whether or not creating them has a cost: visiting larger ones once would exceed the cost
#: limit.
_MAX_TEXT, _MAX_LIST = 10_000_000, 1_000_000


def bounded_text(size: int) -> None:
    """Raise if a string of this size is too large."""
    if size > _MAX_TEXT:
        raise CostLimitExceeded


def bounded_list(size: int) -> None:
    """Raise if a list of this size is too large."""
    if size > _MAX_LIST:
        raise CostLimitExceeded


def no_such_overload() -> ValueProblem:
    return ValueProblem("no such overload")


# --- Arithmetic. Results are checked for the range of their type.


def _int(number: int) -> int:
    if not v.INT_MIN <= number <= v.INT_MAX:
        raise ValueProblem("integer overflow")
    return number


def _uint(number: int) -> UInt:
    if not 0 <= number <= v.UINT_MAX:
        raise ValueProblem("unsigned integer overflow")
    return UInt(number)


def _duration(nanoseconds: int) -> Duration:
    if abs(nanoseconds) > DURATION_MAX:
        raise ValueProblem("integer overflow")
    return Duration(nanoseconds)


def _timestamp(nanoseconds: int) -> Timestamp:
    if not TIMESTAMP_MIN <= nanoseconds <= TIMESTAMP_MAX:
        raise ValueProblem("timestamp overflow")
    return Timestamp(nanoseconds)


def add(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind is type(right):
        match left, right:
            case UInt(), UInt():
                return _uint(int(left) + int(right))
            case int(), int():
                return _int(left + right)
            case float(), float():
                return left + right
            case str(), str():
                bounded_text(len(left) + len(right))
                return left + right
            case bytes(), bytes():
                bounded_text(len(left) + len(right))
                return left + right
            case Duration(), Duration():
                return _duration(left.nanoseconds + right.nanoseconds)
    match left, right:
        case list(), list():
            return _joined(left, right)
        case Duration(), Timestamp():
            return _timestamp(left.nanoseconds + right.nanoseconds)
        case Timestamp(), Duration():
            return _timestamp(left.nanoseconds + right.nanoseconds)
    raise no_such_overload()


def _joined(left: list[Value], right: list[Value]) -> Value:
    bounded_list(len(left) + len(right))
    if type(left) is not list:
        # The accumulator of a comprehension is modified in place.
        left.extend(right)
        return left
    return left + right


def _subtract(left: Value, right: Value) -> Value:
    match left, right:
        case Timestamp(), Timestamp():
            return _duration(left.nanoseconds - right.nanoseconds)
        case Timestamp(), Duration():
            return _timestamp(left.nanoseconds - right.nanoseconds)
        case Duration(), Duration():
            return _duration(left.nanoseconds - right.nanoseconds)
    if type(left) is not type(right):
        raise no_such_overload()
    match left, right:
        case UInt(), UInt():
            return _uint(int(left) - int(right))
        case int(), int():
            return _int(left - right)
        case float(), float():
            return left - right
    raise no_such_overload()


def _multiply(left: Value, right: Value) -> Value:
    if type(left) is type(right):
        match left, right:
            case UInt(), UInt():
                return _uint(int(left) * int(right))
            case int(), int():
                return _int(left * right)
            case float(), float():
                return left * right
    raise no_such_overload()


def _divide(left: Value, right: Value) -> Value:
    if type(left) is type(right):
        match left, right:
            case float(), float():
                return _float_quotient(left, right)
            case int(), int():
                if right == 0:
                    raise ValueProblem("division by zero")
                quotient = abs(left) // abs(right)
                signed = quotient if (left < 0) == (right < 0) else -quotient
                return _uint(signed) if type(left) is UInt else _int(signed)
    raise no_such_overload()


def _float_quotient(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _modulo(left: Value, right: Value) -> Value:
    if type(left) is type(right) and isinstance(left, int) and isinstance(right, int):
        if right == 0:
            raise ValueProblem("modulus by zero")
        if left == v.INT_MIN and right == -1:
            raise ValueProblem("integer overflow")
        remainder = abs(left) % abs(right)
        return UInt(remainder) if type(left) is UInt else -remainder if left < 0 else remainder
    raise no_such_overload()


def _negate(value: Value) -> Value:
    match value:
        case bool() | UInt():
            raise no_such_overload()
        case int():
            return _int(-value)
        case float():
            return -value
        case Duration():
            return _duration(-value.nanoseconds)
    raise no_such_overload()


def _not(value: Value) -> Value:
    if isinstance(value, bool):
        return not value
    raise no_such_overload()


# --- Relations.


def _less(left: Value, right: Value) -> Value:
    return v.compare(left, right) < 0


def _less_equals(left: Value, right: Value) -> Value:
    return v.compare(left, right) <= 0


def _greater(left: Value, right: Value) -> Value:
    return v.compare(left, right) > 0


def _greater_equals(left: Value, right: Value) -> Value:
    return v.compare(left, right) >= 0


def _not_equals(left: Value, right: Value) -> Value:
    return not v.is_equal(left, right)


def _in(element: Value, container: Value) -> Value:
    match container:
        case list():
            return v.member(element, container)
        case dict():
            return v.contains_key(container, element)
    raise no_such_overload()


def _size(value: Value) -> Value:
    return v.cost_size(value)


def _is_sized(value: Value) -> bool:
    return isinstance(value, str | bytes | list | dict) or v.has_size(value)


def _is_of(*kinds: type) -> Implementation:
    return lambda value: type(value) in kinds


_ADDERS = _is_of(int, UInt, float, str, bytes, Duration, Timestamp)
_SUBTRACTORS = _is_of(int, UInt, float, Duration, Timestamp)


def _adds(value: Value) -> bool:
    return isinstance(value, list) or bool(_ADDERS(value))


def _subtracts(value: Value) -> bool:
    return bool(_SUBTRACTORS(value))


def _multiplies(value: Value) -> bool:
    return type(value) in (int, UInt, float)


def _divides_whole(value: Value) -> bool:
    return type(value) in (int, UInt)


def _negates(value: Value) -> bool:
    return type(value) in (int, float, bool, Duration)


def _relation(name: str, id: str, implementation: Implementation) -> Function:
    def of(suffix: str, left: str, right: str) -> Overload:
        return overload(f"{id}_{suffix}", f"{left}, {right} -> bool")

    return function(
        name,
        of("bool", "bool", "bool"),
        of("int64", "int", "int"),
        of("int64_double", "int", "double"),
        of("int64_uint64", "int", "uint"),
        of("uint64", "uint", "uint"),
        of("uint64_double", "uint", "double"),
        of("uint64_int64", "uint", "int"),
        of("double", "double", "double"),
        of("double_int64", "double", "int"),
        of("double_uint64", "double", "uint"),
        of("string", "string", "string"),
        of("bytes", "bytes", "bytes"),
        of("timestamp", "timestamp", "timestamp"),
        of("duration", "duration", "duration"),
        implementation=implementation,
        takes_first=v.is_comparable,
    )


FUNCTIONS = [
    function("_?_:_", overload("conditional", "bool, A, A -> A")),
    function("_&&_", overload("logical_and", "bool, bool -> bool")),
    function("_||_", overload("logical_or", "bool, bool -> bool")),
    function("!_", overload("logical_not", "bool -> bool"), implementation=_not),
    function("@not_strictly_false", overload("not_strictly_false", "bool -> bool")),
    function("_==_", overload("equals", "A, A -> bool"), implementation=v.equal),
    function("_!=_", overload("not_equals", "A, A -> bool"), implementation=_not_equals),
    function(
        "_+_",
        overload("add_bytes", "bytes, bytes -> bytes"),
        overload("add_double", "double, double -> double"),
        overload("add_duration_duration", "duration, duration -> duration"),
        overload("add_duration_timestamp", "duration, timestamp -> timestamp"),
        overload("add_timestamp_duration", "timestamp, duration -> timestamp"),
        overload("add_int64", "int, int -> int"),
        overload("add_list", "list(A), list(A) -> list(A)"),
        overload("add_string", "string, string -> string"),
        overload("add_uint64", "uint, uint -> uint"),
        implementation=add,
        takes_first=_adds,
    ),
    function(
        "_-_",
        overload("subtract_double", "double, double -> double"),
        overload("subtract_duration_duration", "duration, duration -> duration"),
        overload("subtract_int64", "int, int -> int"),
        overload("subtract_timestamp_duration", "timestamp, duration -> timestamp"),
        overload("subtract_timestamp_timestamp", "timestamp, timestamp -> duration"),
        overload("subtract_uint64", "uint, uint -> uint"),
        implementation=_subtract,
        takes_first=_subtracts,
    ),
    function(
        "_*_",
        overload("multiply_double", "double, double -> double"),
        overload("multiply_int64", "int, int -> int"),
        overload("multiply_uint64", "uint, uint -> uint"),
        implementation=_multiply,
        takes_first=_multiplies,
    ),
    function(
        "_/_",
        overload("divide_double", "double, double -> double"),
        overload("divide_int64", "int, int -> int"),
        overload("divide_uint64", "uint, uint -> uint"),
        implementation=_divide,
        takes_first=_multiplies,
    ),
    function(
        "_%_",
        overload("modulo_int64", "int, int -> int"),
        overload("modulo_uint64", "uint, uint -> uint"),
        implementation=_modulo,
        takes_first=_divides_whole,
    ),
    function(
        "-_",
        overload("negate_double", "double -> double"),
        overload("negate_int64", "int -> int"),
        implementation=_negate,
        takes_first=_negates,
    ),
    _relation("_<_", "less", _less),
    _relation("_<=_", "less_equals", _less_equals),
    _relation("_>_", "greater", _greater),
    _relation("_>=_", "greater_equals", _greater_equals),
    function(
        "_[_]",
        overload("index_list", "list(A), int -> A"),
        overload("index_map", "map(A, B), A -> B"),
        overload("optional_list_index_int", "optional(list(V)), int -> optional(V)"),
        overload("optional_map_index_value", "optional(map(K, V)), K -> optional(V)"),
    ),
    function(
        "@in",
        overload("in_list", "A, list(A) -> bool"),
        overload("in_map", "A, map(A, B) -> bool"),
        implementation=_in,
    ),
    function(
        "size",
        overload("size_bytes", "bytes -> int"),
        member("bytes_size", "bytes -> int"),
        overload("size_list", "list(A) -> int"),
        member("list_size", "list(A) -> int"),
        overload("size_map", "map(A, B) -> int"),
        member("map_size", "map(A, B) -> int"),
        overload("size_string", "string -> int"),
        member("string_size", "string -> int"),
        implementation=_size,
        takes_first=_is_sized,
    ),
]
