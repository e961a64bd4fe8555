"""Optional values. Upstream: cel/library.go, optional types."""

from __future__ import annotations

from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.declarations import function, member, overload
from stowplan.kube.cel.values import NONE, Optional, Value


def _of_non_zero(value: Value) -> Value:
    is_zero = value is None or value is NONE
    match value:
        case bool() | int() | float() | str() | bytes() | list() | dict():
            is_zero = not value
        case v.Duration():
            is_zero = value.nanoseconds == 0
    return NONE if is_zero else Optional(value)


def _value(optional: Optional) -> Value:
    if optional is NONE:
        raise ValueProblem("optional.none() dereference")
    return optional.value


def _has_value(optional: Optional) -> Value:
    return optional is not NONE


def _none() -> Value:
    return NONE


def _unwrapped(optionals: list[Value]) -> Value:
    return [optional.value for optional in optionals if isinstance(optional, Optional) and optional is not NONE]


def _first(values: list[Value]) -> Value:
    return Optional(values[0]) if values else NONE


def _last(values: list[Value]) -> Value:
    return Optional(values[-1]) if values else NONE


FUNCTIONS = [
    function("optional.of", overload("optional_of", "V -> optional(V)", Optional)),
    function("optional.ofNonZeroValue", overload("optional_ofNonZeroValue", "V -> optional(V)", _of_non_zero)),
    function("optional.none", overload("optional_none", "-> optional(V)", _none)),
    function("value", member("optional_value", "optional(V) -> V", _value)),
    function("hasValue", member("optional_hasValue", "optional(V) -> bool", _has_value)),
    function("or", member("optional_or_optional", "optional(V), optional(V) -> optional(V)")),
    function("orValue", member("optional_orValue_value", "optional(V), V -> V")),
    function("_?._", overload("select_optional_field", "dyn, string -> optional(V)")),
    function(
        "_[?_]",
        overload("list_optindex_optional_int", "list(V), int -> optional(V)"),
        overload("optional_list_optindex_optional_int", "optional(list(V)), int -> optional(V)"),
        overload("map_optindex_optional_value", "map(K, V), K -> optional(V)"),
        overload("optional_map_optindex_optional_value", "optional(map(K, V)), K -> optional(V)"),
    ),
    function("first", member("list_first", "list(V) -> optional(V)", _first)),
    function("last", member("list_last", "list(V) -> optional(V)", _last)),
    function("optional.unwrap", overload("optional_unwrap", "list(optional(V)) -> list(V)", _unwrapped)),
    function("unwrapOpt", member("optional_unwrapOpt", "list(optional(V)) -> list(V)", _unwrapped)),
]
