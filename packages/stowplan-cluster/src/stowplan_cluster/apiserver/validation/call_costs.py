"""Maximum costs of calls, and maximum sizes of their results, by function and overload: see `selector_costs`.

Functions that no device needs, on URLs, addresses and named formats, count as one.

Upstream: checker/cost.go, k8s.io/apiserver/pkg/cel/library/cost.go, ext/lists.go, ext/sets.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from stowplan.kube.cel import static_types as t
from stowplan.kube.cel.costs import LIST
from stowplan.kube.cel.syntax import Literal, Node

OfFunction = Callable[[str, "Argument | None", "list[Argument]"], "Estimate | None"]
OfOverload = Callable[["Argument | None", "list[Argument]"], "Estimate | None"]

#: Effectively infinite; amounts saturate here.
MOST = 2**64 - 1

#: Per character of strings, and of regular expressions.
TRAVERSAL, _REGEX = 0.1, 0.25


class Range(NamedTuple):
    """A size or a cost."""

    least: int
    most: int

    def plus(self, other: Range) -> Range:
        return Range(bounded(self.least + other.least), bounded(self.most + other.most))

    def times(self, other: Range) -> Range:
        return Range(bounded(self.least * other.least), bounded(self.most * other.most))

    def by(self, factor: float) -> Range:
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.least, other.least), max(self.most, other.most))


def bounded(amount: int) -> int:
    return min(amount, MOST)


def _scaled(amount: int, factor: float) -> int:
    # In floating point, like the reference.
    scaled = math.ceil(float(amount) * factor)
    return bounded(scaled)


def exactly(amount: int) -> Range:
    return Range(amount, amount)


ONE = exactly(1)
NOTHING = exactly(0)
UNKNOWN = Range(0, MOST)


#: Maximum lengths of names and values, and numbers of attributes or capacities of a device.
_DRIVER, _DOMAIN, _ID, _VALUE, _ENTRIES = 63, 63, 32, 64, 32


def most_of_a_device(path: tuple[str, ...]) -> int | None:
    """Maximum sizes of the parts of a device. Attributes and maps of them differ in depth."""
    match path:
        case ("device",):
            return 0
        case ("device", "driver"):
            return _DRIVER
        case ("device", "allowMultipleAllocations"):
            return 1
        case ("device", "attributes" | "capacity", *steps):
            return _most_of_values(path[1], tuple(steps))
    return None


def _most_of_values(kind: str, steps: tuple[str, ...]) -> int | None:
    match steps:
        case () | ("@values" | "@items",):
            return _ENTRIES
        case ("@keys",):
            return _DOMAIN
        case ("@values" | "@items", "@keys"):
            return _ID
        case ("@values" | "@items", "@values" | "@items"):
            return _VALUE if kind == "attributes" else 0
        case ("@values" | "@items", _) if kind == "attributes":
            return _VALUE
    return None


class Argument(NamedTuple):
    """An argument of a call."""

    #: None: an element of an argument.
    node: Node | None
    type: t.Type
    path: tuple[str, ...]
    size: Range

    @property
    def element(self) -> Argument | None:
        """An element of a list; None for other types."""
        if not self.type.params:
            return None
        path = (*self.path, "@items") if self.path else ()
        most = most_of_a_device(path)
        return Argument(None, self.type.params[0], path, UNKNOWN if most is None else Range(0, most))


class Estimate(NamedTuple):
    """The estimate of a call, without its arguments."""

    cost: Range
    #: Of the result, if it is a string, list or map.
    size: Range | None = None


def estimate_of(function: str, overload: str, target: Argument | None, args: list[Argument]) -> Estimate:
    if overload in _BY_OVERLOAD:
        found = _BY_OVERLOAD[overload](target, args)
    elif function in _BY_FUNCTION:
        found = _BY_FUNCTION[function](overload, target, args)
    else:
        found = None
    return found or _plain(overload, target, args)


def _plain(overload: str, target: Argument | None, args: list[Argument]) -> Estimate:
    """CEL's own rules."""
    sizes = [arg.size for arg in args]
    match overload:
        case "string_format" if target is not None:
            return Estimate(target.size.by(TRAVERSAL))
        case "string_to_bytes":
            return Estimate(sizes[0].by(TRAVERSAL), Range(sizes[0].least, bounded(sizes[0].most * 4)))
        case "bytes_to_string":
            return Estimate(sizes[0].by(TRAVERSAL), Range(sizes[0].least // 4, sizes[0].most))
        case "strings_quote":
            return Estimate(sizes[0].by(TRAVERSAL), Range(sizes[0].least + 2, bounded(sizes[0].most * 2 + 2)))
        case "starts_with_string" | "ends_with_string":
            return Estimate(sizes[0].by(TRAVERSAL))
        case "in_list":
            return Estimate(sizes[1])
        case "matches_string" if target is not None:
            return Estimate(_searched(target.size, sizes[0]))
        case "contains_string" if target is not None:
            return Estimate(target.size.by(TRAVERSAL).times(sizes[0].by(TRAVERSAL)))
    if overload in _COMPARED:
        most = min(sizes[0].most, sizes[1].most)
        return Estimate(Range(1 if most else 0, most).by(TRAVERSAL))
    return Estimate(ONE)


_COMPARED = frozenset(
    (
        "equals",
        "not_equals",
        *(
            f"{name}_{type}"
            for name in ("less", "greater", "less_equals", "greater_equals")
            for type in ("string", "bytes")
        ),
    )
)


def _searched(text: Range, pattern: Range) -> Range:
    return text.plus(ONE).by(TRAVERSAL).times(pattern.by(_REGEX))


def _of_each(overload: str, target: Argument | None, args: list[Argument]) -> Estimate | None:
    """Visits each element of a list; strings in it are traversed."""
    if target is None:
        return None
    element = target.element
    if element is None:
        return Estimate(target.size.by(TRAVERSAL))
    each = ONE
    if element.type.kind in (t.TypeKind.STRING, t.TypeKind.BYTES):
        each = each.plus(element.size.by(TRAVERSAL))
    return Estimate(target.size.times(each))


def _of_target(overload: str, target: Argument | None, args: list[Argument]) -> Estimate | None:
    return None if target is None else Estimate(target.size.by(TRAVERSAL), target.size)


def _parsed(overload: str, target: Argument | None, args: list[Argument]) -> Estimate | None:
    return Estimate(args[0].size.by(TRAVERSAL)) if args else None


def _replaced(overload: str, target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = target.size, args[0].size, args[1].size
    count_most = kept_most = count_least = kept_least = 0
    if old.least == 0:
        # An empty string is found around every character.
        count_most, kept_most = bounded(size.most + 1), size.most
    elif new.most <= old.least:
        kept_most = size.most
    else:
        count_most = bounded(math.ceil(size.most / old.least))
    if old.most == 0:
        count_least, kept_least = bounded(size.least + 1), size.least
    elif old.most <= new.least:
        kept_least = size.least
    else:
        count_least = math.ceil(size.least / old.most)
    found = Range(count_least, count_most).times(new).plus(Range(kept_least, kept_most))
    return Estimate(size.by(2 * TRAVERSAL), found)


def _split(overload: str, target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    most = target.size.most
    if len(args) > 1 and isinstance(args[1].node, Literal) and isinstance(args[1].node.value, int):
        most = args[1].node.value % (MOST + 1)
    return Estimate(target.size.by(2 * TRAVERSAL), Range(0, most))


def _join(overload: str, target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    size, element = NOTHING, target.element
    if element is not None:
        size = target.size.times(element.size)
    if args:
        separators = Range(max(0, target.size.least - 1), max(0, target.size.most - 1))
        size = size.plus(args[0].size.times(separators))
    return Estimate(size.by(TRAVERSAL), size)


def _found(overload: str, target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None or not args:
        return None
    return Estimate(_searched(target.size, args[0].size), Range(0, target.size.most))


def _equal(overload: str, target: Argument | None, args: list[Argument]) -> Estimate | None:
    of_one_type = len(args) == 2 and args[0].type == args[1].type
    return Estimate(ONE) if of_one_type and args[0].type in (t.QUANTITY, t.SEMVER) else None


#: Kubernetes' functions.
_BY_FUNCTION: dict[str, OfFunction] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _of_each),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _of_target),
    "replace": _replaced,
    "split": _split,
    "join": _join,
    "find": _found,
    "findAll": _found,
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _parsed),
    "_==_": _equal,
}


# -- lists and sets, by overload --------------------------------------------------------------------------------------


def _allocated(factor: float, size: Range) -> Estimate:
    return Estimate(size.by(factor).plus(ONE).plus(exactly(LIST)), size)


def _number(argument: Argument, default: int) -> int:
    if isinstance(argument.node, Literal) and type(argument.node.value) is int:
        return max(0, argument.node.value)
    return default


def _sliced(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None or len(args) != 2:
        return None
    # Parity: modulo 2^64 if the end is before the start.
    size = (_number(args[1], target.size.most) - _number(args[0], 0)) % (MOST + 1)
    return _allocated(1, exactly(size))


def _counted(target: Argument | None, args: list[Argument]) -> Estimate | None:
    return _allocated(1, exactly(_number(args[0], MOST)))


def _reversed(target: Argument | None, args: list[Argument]) -> Estimate | None:
    return None if target is None else _allocated(1, target.size)


def _flattened(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    return _allocated(float(_number(args[0], MOST) if args else 1), target.size)


def _distinct(target: Argument | None, args: list[Argument]) -> Estimate | None:
    return None if target is None else _allocated(2, target.size.times(target.size))


def _sorted(factor: float, *, by: bool) -> OfOverload:
    def estimate(target: Argument | None, args: list[Argument]) -> Estimate | None:
        if target is None or len(args) != by:
            return None
        size = args[0].size if by else target.size
        return _allocated(factor, size.times(size))

    return estimate


def _compared(factor: float) -> OfOverload:
    def estimate(target: Argument | None, args: list[Argument]) -> Estimate | None:
        if len(args) != 2:
            return None
        return Estimate(args[0].size.times(args[1].size).by(factor).plus(ONE))

    return estimate


_BY_OVERLOAD: dict[str, OfOverload] = {
    "list_slice": _sliced,
    "lists_range": _counted,
    "list_reverse": _reversed,
    "list_flatten": _flattened,
    "list_flatten_int": _flattened,
    "list_distinct": _distinct,
    "list_sets_contains_list": _compared(1),
    "list_sets_intersects_list": _compared(1),
    "list_sets_equivalent_list": _compared(2),
    **{
        f"list_{type}_{name}": _sorted(2 + TRAVERSAL * (type in ("string", "bytes")), by=by)
        for type in (
            *("int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp"),
            *("string", "bytes"),
        )
        for name, by in (("sort", False), ("sortByAssociatedKeys", True))
    },
}
