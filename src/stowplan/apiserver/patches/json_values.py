"""JSON values as the API machinery tells them apart, copies and prints them.

Python takes 1, 1.0 and True for equal; a patch does not. Messages show values as Go's `%v` and `%T` do.
"""

from __future__ import annotations

import json
from typing import Any

_GO_TYPES = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}
_JSON_TYPES = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}


def copy_of(value: Any) -> Any:
    """A copy that shares no dict and no list with the value."""
    if isinstance(value, dict):
        return {key: copy_of(child) for key, child in value.items()}
    if isinstance(value, list):
        return [copy_of(child) for child in value]
    return value


def same(left: object, right: object) -> bool:
    """Whether two values are the same JSON: `1`, `1.0` and `true` are three."""
    if left.__class__ is not right.__class__:
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(child, right[key]) for key, child in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def identity(value: object) -> object:
    """What a value is found by in a dict; `same` values have the same."""
    plain = json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value
    return value.__class__, plain


def go_type(value: object) -> str:
    return _GO_TYPES.get(value.__class__, "%!s(<nil>)")


def json_type(value: object) -> str:
    """As decoding errors call it: `array`, `object`, `number`."""
    return _JSON_TYPES.get(value.__class__, "null")


def go_string_verb(value: object) -> str:
    """What `%s` makes of a value that is no string."""
    return "%!s(<nil>)" if value is None else f"%!s({go_type(value)}={go_text(value)})"


def go_text(value: object) -> str:
    """A decoded value printed with `%v`."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _go_float(value)
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    return str(value)


def _go_float(value: float) -> str:
    text = repr(value)
    if "e" not in text and abs(value) >= 1e21:
        return f"{value:e}"
    return text.removesuffix(".0")
