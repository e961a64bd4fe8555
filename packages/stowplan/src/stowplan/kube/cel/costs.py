"""Run-time costs of calls, by function, overload and the sizes of arguments and result.

CEL's rules, overridden by those of Kubernetes' and cel-go's libraries. Most calls cost 1.

Upstream: interpreter/runtimecost.go, k8s.io/apiserver/pkg/cel/library/cost.go, ext/lists.go, ext/sets.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import EvaluationStopped
from stowplan.kube.cel.values import Value, cost_size

IDENT = 1
LIST = 10
MAP = 30

#: Of strings, per character.
_TRAVERSAL = 0.1
#: For regular expressions, per character; one counts as four characters long.
_REGEX = 0.25

CallCost = Callable[[Sequence[Value], Value], int]


def call_cost(function: str, overload: str) -> CallCost | None:
    """The rule for calls of a function; `overload` is empty if the checker could not determine it. None: 1."""
    return _BY_OVERLOAD_FIRST.get(overload) or _BY_FUNCTION.get(function) or _BY_OVERLOAD.get(overload)


def needs_result(cost: CallCost) -> bool:
    """Whether a rule depends on the result, so that it can only be applied afterwards."""
    return cost in (_result, _list_result)


def traversal(size: int, times: int = 1) -> int:
    """The cost of traversing a string, optionally several times."""
    return math.ceil(size * times * _TRAVERSAL)


def _text(times: int = 1) -> CallCost:
    return lambda args, _result: traversal(cost_size(args[0]), times)


def _result(_args: Sequence[Value], result: Value) -> int:
    return traversal(cost_size(result), 2)


def _whole(args: Sequence[Value], _result: Value) -> int:
    """The cost of traversing a whole value."""
    return _all_of(args[0])


def _all_of(value: Value) -> int:
    if isinstance(value, str):
        return int(len(value.encode(errors="surrogatepass")) * _TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * _TRAVERSAL)
    if isinstance(value, list):
        return sum(map(_all_of, value))
    if isinstance(value, dict):
        return sum(_all_of(v.key_value(key)) + _all_of(item) for key, item in value.items())
    return 1


def _smaller(args: Sequence[Value], _result: Value) -> int:
    return traversal(min(cost_size(args[0]), cost_size(args[1])))


def _both(args: Sequence[Value], _result: Value) -> int:
    return traversal(cost_size(args[0]) + cost_size(args[1]))


def _product(args: Sequence[Value], _result: Value) -> int:
    return traversal(cost_size(args[0])) * traversal(cost_size(args[1]))


def _search(args: Sequence[Value], _result: Value) -> int:
    return math.ceil((1 + cost_size(args[0])) * _TRAVERSAL) * math.ceil(cost_size(args[1]) * _REGEX)


def _list_length(args: Sequence[Value], _result: Value) -> int:
    return cost_size(args[1])


def _allocated(size: float) -> int:
    return int(size) + 1 + LIST


def _list_result(_args: Sequence[Value], result: Value) -> int:
    return _allocated(cost_size(result))


def _crash(wanted: str) -> EvaluationStopped:
    """Parity: the rules of some list functions crash on a failed argument, which ends the evaluation."""
    return EvaluationStopped(f"internal error: interface conversion: *types.Err is not {wanted}")


def _flatten(args: Sequence[Value], _result: Value) -> int:
    depth = args[1] if len(args) == 2 else 1
    if not isinstance(depth, int):
        raise _crash("types.Int")
    return _allocated(cost_size(args[0]) * max(0, depth))


def _self_compared(index: int) -> CallCost:
    """Compares every element of a list with every other one."""

    def cost(args: Sequence[Value], _result: Value) -> int:
        elements = args[index]
        if not isinstance(elements, list):
            raise _crash("traits.Lister: missing method Add")
        size = len(elements)
        is_text = bool(elements) and isinstance(elements[0], str | bytes)
        return _allocated(size * size * (2 + _TRAVERSAL if is_text else 2))

    return cost


def _sets(factor: int) -> CallCost:
    return lambda args, _result: 1 + cost_size(args[0]) * cost_size(args[1]) * factor


def _contains_ip(args: Sequence[Value], _result: Value) -> int:
    return traversal(cost_size(args[0]), 2) + (traversal(cost_size(args[1])) if isinstance(args[1], str) else 0)


def _contains_cidr(args: Sequence[Value], _result: Value) -> int:
    cidr = cost_size(args[0])
    return traversal(cidr, 2) + traversal(cidr) + 1 + (traversal(cost_size(args[1])) if isinstance(args[1], str) else 0)


_FORMAT_SIZES: dict[str, int] = {}


def register_format(name: str, regex_size: int) -> None:
    """Set the assumed length of the regular expression of a named format."""
    _FORMAT_SIZES[name] = regex_size


def _validate(args: Sequence[Value], _result: Value) -> int:
    size = _FORMAT_SIZES.get(getattr(args[0], "name", ""), 0)
    return math.ceil((1 + cost_size(args[1])) * _TRAVERSAL) * math.ceil(size * _REGEX)


#: Rules for one overload that override those for its function.
_BY_OVERLOAD_FIRST: dict[str, CallCost] = {
    "cidr_ip": lambda _args, _result: 1,
    "list_slice": _list_result,
    "lists_range": _list_result,
    "list_reverse": _list_result,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_distinct": _self_compared(0),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
for _type in (
    "int",
    "uint",
    "double",
    "bool",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "string",
    "bytes",
):
    _BY_OVERLOAD_FIRST[f"list_{_type}_sort"] = _self_compared(0)
    _BY_OVERLOAD_FIRST[f"list_{_type}_sortByAssociatedKeys"] = _self_compared(1)

_BY_FUNCTION: dict[str, CallCost] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _whole),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _text()),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _text(2)),
    "join": _result,
    "find": _search,
    "findAll": _search,
    **dict.fromkeys(("ip", "cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _text()),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _smaller,
    "_!=_": _smaller,
}

_BY_OVERLOAD: dict[str, CallCost] = {
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string", "strings_quote"), _text()
    ),
    "string_format": _text(),
    "in_list": _list_length,
    **dict.fromkeys(
        [
            f"{name}_{type}"
            for name in ("less", "greater", "less_equals", "greater_equals")
            for type in ("string", "bytes")
        ],
        _smaller,
    ),
    "add_string": _both,
    "add_bytes": _both,
    "matches_string": _search,
    "contains_string": _product,
}
