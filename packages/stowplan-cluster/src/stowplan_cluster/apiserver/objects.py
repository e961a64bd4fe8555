"""Kubernetes objects as the embedded API handles them: JSON-shaped dicts, owned by one writer at a time.

Comparison of JSON values and status conditions are here too.
"""

from __future__ import annotations

import json
import math
from typing import Any

from stowplan.kube.api.field_errors import go_json, go_quote

#: A decoded JSON object. The store keeps encoded bytes, so whoever receives a dict may change it.
JsonObject = dict[str, Any]


def metadata_of(obj: JsonObject) -> JsonObject:
    """The object's metadata, created if missing."""
    metadata: JsonObject | None = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    return metadata


def value_at(obj: JsonObject, path: str) -> Any:
    """The value at a path such as `.spec.replicas`; None if absent."""
    value: Any = obj
    for name in path.removeprefix(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def keep(new: JsonObject, old: JsonObject, *names: str) -> None:
    """Restore fields to their old values."""
    for name in names:
        if old.get(name) is None:
            new.pop(name, None)
        else:
            new[name] = old[name]


# Compare, copy and print JSON values as the API machinery does.
#
# JSON has one number type, Go's decoder two: integers within 64 bits become int64, all others float64. Python treats
# 1, 1.0 and True as equal; a patch does not. Messages print values as Go's `%v` and `%T` do.

_GO_TYPES = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}
_JSON_TYPES = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(left: object, right: object) -> bool:
    """Whether two values are the same JSON: `1`, `1.0` and `true` are three."""
    if left.__class__ is not right.__class__:
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(child, right[key]) for key, child in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def equal(left: Any, right: Any) -> bool:
    """Deep equality in which true is not 1; whole floats equal integers."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


def identity(value: object) -> object:
    """A hashable key of a value; `same` values have equal keys."""
    plain = json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value
    return value.__class__, plain


def go_type(value: object) -> str:
    return _GO_TYPES.get(value.__class__, "%!s(<nil>)")


def json_type(value: object) -> str:
    """The type's name in decoding errors: `array`, `object`, `number`."""
    return _JSON_TYPES.get(value.__class__, "null")


def go_string_verb(value: object) -> str:
    """A value that is not a string, formatted with `%s`."""
    return "%!s(<nil>)" if value is None else f"%!s({go_type(value)}={go_text(value)})"


def go_text(value: object) -> str:
    """A decoded value printed with `%v`."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return go_number(value)
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    return str(value)


def go_number(value: float) -> str:
    """A number as `%v` prints it: the shortest digits that read back, without a trailing `.0`."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = _parts(value)
    if not -4 <= exponent < 6:
        return f"{sign}{_mantissa(digits)}e{exponent:+03d}" if digits else f"{sign}0"
    return sign + _plain(digits, exponent)


def _json_number(value: float) -> str:
    """A number as Go's JSON encoder prints it, which switches to exponents later than `%v`."""
    if isinstance(value, int):
        return str(value)
    sign, digits, exponent = _parts(value)
    if digits and (exponent < -6 or exponent >= 21):
        return f"{sign}{_mantissa(digits)}e{exponent:+d}"
    return sign + _plain(digits, exponent)


def _parts(value: float) -> tuple[str, str, int]:
    """Sign, significant digits, decimal exponent of the first of them."""
    mantissa, _, exponent = repr(value).partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    return sign, digits.rstrip("0"), point - 1 if digits else 0


def _mantissa(digits: str) -> str:
    return f"{digits[0]}.{digits[1:]}" if digits[1:] else digits


def _plain(digits: str, exponent: int) -> str:
    if not digits:
        return "0"
    if exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def go_value(value: Any) -> str:
    """A value as field errors print it."""
    if isinstance(value, float):
        return go_number(value)
    return go_quote(value) if isinstance(value, str) else sorted_json(value)


def sorted_json(value: Any) -> str:
    """Compact JSON with sorted keys, as Go writes maps."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{go_json(key)}:{sorted_json(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(sorted_json, value)) + "]"
    return _json_number(value) if isinstance(value, float) else go_json(value)


# Status conditions: lookup by type; lastTransitionTime changes only with the status.
#
# Upstream: k8s.io/apimachinery/pkg/api/meta/conditions.go, pkg/api/v1/pod/util.go.


def condition_of(status: JsonObject, type_: str) -> JsonObject | None:
    return next((one for one in status.get("conditions") or () if one.get("type") == type_), None)


def is_true(status: JsonObject, type_: str) -> bool:
    condition = condition_of(status, type_)
    return condition is not None and condition.get("status") == "True"


def set_condition(status: JsonObject, condition: JsonObject, *, now: str, probed: bool = False) -> bool:
    """Set a condition; return whether that changed anything. Pods' conditions also carry a `lastProbeTime`."""
    condition = {**({"lastProbeTime": None} if probed else {}), **condition}
    conditions: list[JsonObject] = status.setdefault("conditions", [])
    for index, known in enumerate(conditions):
        if known.get("type") == condition["type"]:
            same = known.get("status") == condition["status"]
            condition["lastTransitionTime"] = known.get("lastTransitionTime", now) if same else now
            conditions[index] = condition
            return known != condition
    conditions.append({**condition, "lastTransitionTime": now})
    return True
