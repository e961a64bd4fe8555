"""Lists and sets: Kubernetes' list library, and cel-go's for lists, sets and two-variable comprehensions.

Upstream: k8s.io/apiserver/pkg/cel/library/lists.go, ext/lists.go, ext/sets.go, ext/comprehensions.go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise

from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.declarations import Function, Implementation, function, member, overload
from stowplan.kube.cel.functions.operators import add, bounded_list, no_such_overload
from stowplan.kube.cel.values import Duration, UInt, Value

_Values = list[Value]


def _is_sorted(values: _Values) -> Value:
    _check_comparable(values)
    return not any(_is_after(first, second) for first, second in pairwise(values))


def _check_comparable(values: _Values) -> None:
    if not all(map(v.is_comparable, values)):
        raise no_such_overload()


def _is_after(first: Value, second: Value) -> bool:
    try:
        return v.compare(first, second) > 0
    except ValueProblem:
        return False


def _sum(zero: Value) -> Implementation:
    def compute(values: _Values) -> Value:
        total = zero
        for value in values:
            total = add(total, value)
        return total

    return compute


def _extreme(name: str, sign: int) -> Implementation:
    def compute(values: _Values) -> Value:
        if not values:
            raise ValueProblem(f"{name} called on empty list")
        _check_comparable(values)
        best = values[0]
        for value in values[1:]:
            if _is_after(value, best) if sign > 0 else _is_after(best, value):
                best = value
        return best

    return compute


def _index_of(values: _Values, wanted: Value) -> Value:
    return next((index for index, value in enumerate(values) if v.is_equal(value, wanted)), -1)


def _last_index_of(values: _Values, wanted: Value) -> Value:
    return next((index for index in reversed(range(len(values))) if v.is_equal(values[index], wanted)), -1)


def _slice(values: _Values, start: int, end: int) -> Value:
    if start < 0 or end < 0:
        raise ValueProblem(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise ValueProblem(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise ValueProblem(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: _Values, depth: int = 1) -> Value:
    if depth < 0:
        raise ValueProblem("level must be non-negative")
    flat: _Values = []
    for value in values:
        if isinstance(value, list) and depth:
            flat.extend(_flatten(value, depth - 1))  # type: ignore[arg-type] # a list, as this returns one
        else:
            flat.append(value)
        bounded_list(len(flat))
    return flat


def _sorted(values: _Values) -> Value:
    return _sorted_by(values, values)


def _sorted_by(values: _Values, keys: _Values) -> Value:
    if len(values) != len(keys):
        raise ValueProblem(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list,"
            f" but got {len(values)} and {len(keys)} elements respectively"
        )
    if not keys:
        return values
    if not v.is_comparable(keys[0]):
        raise ValueProblem("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise ValueProblem("list elements must have the same type")

    def compared(first: int, second: int) -> int:
        return _order(keys[first], keys[second])

    return [values[index] for index in sorted(range(len(keys)), key=cmp_to_key(compared))]


def _order(first: Value, second: Value) -> int:
    try:
        return v.compare(first, second)
    except ValueProblem:
        return 0


def _range(count: int) -> Value:
    bounded_list(count)
    return list(range(count))


def _distinct(values: _Values) -> Value:
    found: _Values = []
    for value in values:
        if not v.member(value, found):
            found.append(value)
    return found


def _contains(values: _Values, wanted: _Values) -> bool:
    return all(v.member(value, values) for value in wanted)


def _equivalent(first: _Values, second: _Values) -> Value:
    return _contains(first, second) and _contains(second, first)


def _intersects(first: _Values, second: _Values) -> Value:
    return any(v.member(value, second) for value in first)


def _insert(target: dict[Value, Value], key: Value, value: Value) -> Value:
    return _insert_all(target, {v.map_key(key): value})


def _insert_all(target: dict[Value, Value], entries: dict[Value, Value]) -> Value:
    # The accumulator of a comprehension is modified in place.
    inserted = dict(target) if type(target) is dict else target
    for key, value in entries.items():
        if key in inserted:
            raise ValueProblem(f"insert failed: key {v.shown(v.key_value(key))} already exists")
        inserted[key] = value
    return inserted


_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_RUN_TIME_NAMES = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}


def _for_comparable(name: str, id: Callable[[str], str], result: str, compute: Implementation) -> Function:
    """A function with an overload for lists of each ordered type; `result` may refer to the type as `*`."""
    overloads = [member(id(type), f"list({type}) -> {result.replace('*', type)}", compute) for type in _COMPARABLE]
    return function(name, *overloads)


FUNCTIONS = [
    _for_comparable("isSorted", lambda type: f"list_{type}_is_sorted_bool", "bool", _is_sorted),
    _for_comparable("max", lambda type: f"list_{type}_max_{type}", "*", _extreme("max", 1)),
    _for_comparable("min", lambda type: f"list_{type}_min_{type}", "*", _extreme("min", -1)),
    _for_comparable("sort", lambda type: f"list_{_RUN_TIME_NAMES.get(type, type)}_sort", "list(*)", _sorted),
    function(
        "sum",
        member("list_int_sum_int", "list(int) -> int", _sum(0)),
        member("list_uint_sum_uint", "list(uint) -> uint", _sum(UInt(0))),
        member("list_double_sum_double", "list(double) -> double", _sum(0.0)),
        member("list_duration_sum_duration", "list(duration) -> duration", _sum(Duration(0))),
    ),
    function("indexOf", member("list_a_index_of_int", "list(A), A -> int", _index_of)),
    function("lastIndexOf", member("list_a_last_index_of_int", "list(A), A -> int", _last_index_of)),
    function("slice", member("list_slice", "list(T), int, int -> list(T)", _slice)),
    function(
        "flatten",
        member("list_flatten", "list(list(T)) -> list(T)", _flatten),
        member("list_flatten_int", "list(dyn), int -> list(dyn)", _flatten),
    ),
    function(
        "@sortByAssociatedKeys",
        *[
            member(
                f"list_{_RUN_TIME_NAMES.get(type, type)}_sortByAssociatedKeys",
                f"list(T), list({type}) -> list(T)",
                _sorted_by,
            )
            for type in _COMPARABLE
        ],
    ),
    function("lists.range", overload("lists_range", "int -> list(int)", _range)),
    function("reverse", member("list_reverse", "list(T) -> list(T)", lambda values: values[::-1])),
    function("distinct", member("list_distinct", "list(T) -> list(T)", _distinct)),
    function("sets.contains", overload("list_sets_contains_list", "list(T), list(T) -> bool", _contains)),
    function("sets.equivalent", overload("list_sets_equivalent_list", "list(T), list(T) -> bool", _equivalent)),
    function("sets.intersects", overload("list_sets_intersects_list", "list(T), list(T) -> bool", _intersects)),
    function(
        "cel.@mapInsert",
        overload("@mapInsert_map_key_value", "map(K, V), K, V -> map(K, V)", _insert),
        overload("@mapInsert_map_map", "map(K, V), map(K, V) -> map(K, V)", _insert_all),
    ),
]
