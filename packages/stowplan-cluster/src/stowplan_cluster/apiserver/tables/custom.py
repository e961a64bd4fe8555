"""Tables of custom resources, with additionalPrinterColumns.

Upstream: apiextensions-apiserver/pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

from stowplan.kube.api.whole_numbers import whole_number
from stowplan_cluster.apiserver.objects import JsonObject, go_number, sorted_json
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.tables.cells import AGE, NAME, Cell, Column, Printer, time_since

# The JSONPath subset used by printer columns, scale paths and selectable fields.
#
# `.spec.containers[0].image`, `.status.conditions[?(@.type=="Ready")].status`, `['a.b']`, `[1:3]`, `[*]`, `..name`
# and unions. A path is a list of steps, each of which maps a list of values to another. A missing field gives no
# value; an index out of range or a comparison of different types is an error.
#
# Upstream: k8s.io/client-go/util/jsonpath, without `range` and templates.

Values = list[Any]
Step = Callable[[Values], Values]

_TERMINATORS = frozenset(" \t\r\n.,[]$@{}")
_DICT_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_LITERAL = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([+-]?\d+(?:\.\d*)?)|(true|false))\s*""")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JsonPathError(ValueError):
    """A path that is invalid, or that does not apply to the object."""


class JsonPath:
    """A parsed path; `find` may be called any number of times."""

    def __init__(self, path: str) -> None:
        self._steps = _Parser(path).steps()

    def find(self, obj: object) -> Values:
        """All values at the path, in order; raise JsonPathError if it does not apply to the object."""
        return _run(self._steps, [obj])


@lru_cache(maxsize=4096)
def compile_path(path: str) -> JsonPath:
    return JsonPath(path)


def _run(steps: list[Step], values: Values) -> Values:
    for step in steps:
        values = step(values)
    return values


class _Parser:
    def __init__(self, path: str) -> None:
        self._text = path
        self._at = 0

    def steps(self) -> list[Step]:
        steps: list[Step] = []
        while self._at < len(self._text):
            steps += self._next()
        return steps

    def _next(self) -> list[Step]:
        if self._text.startswith("[?(", self._at):
            return [self._filter()]
        if self._text.startswith("..", self._at):
            return self._recursive()
        char = self._text[self._at]
        self._at += 1
        if char in " @$":
            return []
        if char == "[":
            return [self._brackets()]
        if char == ".":
            return [self._field()]
        raise JsonPathError(f"unexpected {char!r} at position {self._at} of {self._text!r}")

    def _recursive(self) -> list[Step]:
        self._at += 2
        following = self._text[self._at : self._at + 1]
        return [_descend, self._field()] if following.isalnum() or following == "_" else [_descend]

    def _field(self) -> Step:
        name = ""
        while self._at < len(self._text) and self._text[self._at] not in _TERMINATORS:
            if self._text[self._at] == "\\":
                self._at += 1
            name += self._text[self._at : self._at + 1]
            self._at += 1
        return _wildcard if name == "*" else _field_step(name)

    def _brackets(self) -> Step:
        inside, bracket, _ = self._text[self._at :].partition("]")
        if not bracket:
            raise JsonPathError(f"unterminated array in {self._text!r}")
        self._at += len(inside) + 1
        parts = inside.split(",")
        steps = [self._element(part.strip()) for part in parts]
        return steps[0] if len(steps) == 1 else lambda values: [found for step in steps for found in step(values)]

    def _element(self, text: str) -> Step:
        if key := _DICT_KEY.fullmatch(text):
            return _field_step(key[1].replace("\\", ""))
        match = _SLICE.fullmatch(":" if text == "*" else text)
        if match is None or not text:
            raise JsonPathError(f"invalid array index {text} in {self._text!r}")
        if match[2] is None:
            return _index_step(_integer(match[1]))
        return _slice_step(*(_bound(part) for part in match.groups()))

    def _filter(self) -> Step:
        end = self._end_of_filter()
        condition = self._text[self._at + 3 : end]
        self._at = end + 2
        comparison = _COMPARISON.fullmatch(condition)
        if comparison is None:
            steps = JsonPath(condition)
            return lambda values: [item for item in _items(values) if _exists(steps, item)]
        compare = _COMPARE.get(comparison[2])
        if compare is None:
            raise JsonPathError(f"unrecognized filter operator {comparison[2]} in {self._text!r}")
        left, right = _operand(comparison[1]), _operand(comparison[3])
        return lambda values: [item for item in _items(values) if _holds(compare, left(item), right(item))]

    def _end_of_filter(self) -> int:
        quote = ""
        for at in range(self._at + 3, len(self._text)):
            char = self._text[at]
            if quote:
                quote = "" if char == quote and self._text[at - 1] != "\\" else quote
            elif char in "\"'":
                quote = char
            elif char == ")":
                if self._text[at + 1 : at + 2] != "]":
                    raise JsonPathError(f"unclosed array, expected ] in {self._text!r}")
                return at
        raise JsonPathError(f"unterminated filter in {self._text!r}")


def _field_step(name: str) -> Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _wildcard(values: Values) -> Values:
    found: Values = []
    for value in values:
        if isinstance(value, dict):
            found += value.values()
        elif isinstance(value, list):
            found += value
    return found


def _descend(values: Values) -> Values:
    found: Values = []
    waiting = list(reversed(values))
    while waiting:
        value = waiting.pop()
        found.append(value)
        waiting += reversed(_wildcard([value]))
    return found


def _lists(values: Values) -> list[Values]:
    for value in values:
        if value is not None and not isinstance(value, list):
            raise JsonPathError(f"{type(value).__name__} is not array or slice")
    return [value for value in values if value is not None]


def _items(values: Values) -> Values:
    if None in values:
        raise JsonPathError("null is not array or slice and cannot be filtered")
    return [item for value in _lists(values) for item in value]


def _index_step(index: int) -> Step:
    def step(values: Values) -> Values:
        found = []
        for value in _lists(values):
            if not -len(value) <= index < len(value):
                raise JsonPathError(f"array index out of bounds: index {index}, length {len(value)}")
            found.append(value[index])
        return found

    return step


def _bound(text: str | None) -> int | None:
    digits = (text or "").removeprefix(":")
    return _integer(digits) if digits else None


def _integer(text: str) -> int:
    """The number with its sign; raises JsonPathError if there is none, or if it has more than 64 bits."""
    number = whole_number(text.lstrip("+-"))
    if number is None:
        raise JsonPathError(f"invalid number {text}")
    return -number if text.startswith("-") else number


def _slice_step(start: int | None, end: int | None, step: int | None) -> Step:
    if step is not None and step <= 0:
        raise JsonPathError("step must be > 0")
    return lambda values: [item for value in _lists(values) for item in _sliced(value, start, end)[::step]]


def _sliced(value: Values, start: int | None, end: int | None) -> Values:
    length = len(value)
    first = 0 if start is None else start + length if start < 0 else start
    last = length if end is None else end + length if end < 0 else end
    if first == last:
        return []
    if not 0 <= first < length or not first <= last <= length:
        raise JsonPathError(f"array index out of bounds: slice {first}:{last}, length {length}")
    return value[first:last]


def _operand(text: str) -> Callable[[Any], Values]:
    if literal := _LITERAL.fullmatch(text):
        value = _literal(literal)
        return lambda item: [value]
    path = JsonPath(text.strip())
    return path.find


def _literal(match: re.Match[str]) -> str | int | float | bool:
    double, single, digits, boolean = match.groups()
    if digits is not None:
        return float(digits) if "." in digits else _integer(digits)
    if boolean is not None:
        return bool(boolean == "true")
    return re.sub(r"\\(.)", r"\1", double if double is not None else single)


def _exists(path: JsonPath, item: object) -> bool:
    try:
        return bool(path.find(item))
    except JsonPathError:
        return False


def _holds(compare: Callable[[Any, Any], bool], left: Values, right: Values) -> bool:
    if not left or not right:
        return False
    if len(left) > 1 or len(right) > 1:
        raise JsonPathError("can only compare one element at a time")
    if type(left[0]) is not type(right[0]) or isinstance(left[0], dict | list | None):
        raise JsonPathError("incompatible types for comparison")
    return bool(compare(left[0], right[0]))


_AGE = {
    "name": "Age",
    "type": "date",
    "description": AGE.description,
    "jsonPath": ".metadata.creationTimestamp",
}


def custom_printer(resource: Resource) -> Printer:
    columns = [NAME]
    paths: list[tuple[str, JsonPath]] = []
    for definition in resource.printer_columns or (_AGE,):
        try:
            path = compile_path(str(definition["jsonPath"]))
        except JsonPathError:
            # Parity: an invalid column drops it and all later ones.
            break
        columns.append(_column(definition))
        paths.append((columns[-1].type, path))
    return Printer(tuple(columns), partial(_cells, paths))


def _column(definition: Mapping[str, Any]) -> Column:
    shown = f"Custom resource definition column (in JSONPath format): {definition['jsonPath']}"
    return Column(
        definition["name"],
        definition["type"],
        definition.get("description") or shown,
        format=definition.get("format") or "",
        priority=definition.get("priority") or 0,
    )


def _cells(paths: Iterable[tuple[str, JsonPath]], obj: JsonObject, now: float) -> list[Cell]:
    return [_cell(type, path, obj, now) for type, path in paths]


def _cell(type: str, path: JsonPath, obj: JsonObject, now: float) -> Cell:
    try:
        found = path.find(obj)
    except JsonPathError:
        return None
    if not found:
        return None
    return _string(found[0]) if type == "string" else _typed(type, found[0], now)


def _string(value: Any) -> str:
    if isinstance(value, dict | list):
        return sorted_json(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return go_number(value)
    return "<no value>" if value is None else str(value)


def _typed(type: str, value: Any, now: float) -> Cell:
    """The cell; None if the value does not have the column's type."""
    if type == "boolean":
        return value if isinstance(value, bool) else None
    if type == "date":
        return time_since(value, now) if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if type == "integer" else float(value)
