"""Strict decoder: walk data along the schema.

There are three kinds of errors:

- a value of the wrong type: decoding continues, and the first one is the result;
- a malformed duration: decoding ends;
- unknown and duplicate fields: collected and reported together, if there is no other error.

Upstream: sigs.k8s.io/json.
"""

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Any

from stowplan.kube.api.durations import parse_duration
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.quantity import QuantityError, parse_quantity
from stowplan.kube.config.config_documents import members_of
from stowplan.kube.config.config_errors import ConfigError
from stowplan.kube.config.schema import (
    BOOL,
    DURATION,
    STRING,
    Map,
    Pointer,
    Raw,
    Scalar,
    Slice,
    StringMap,
    Struct,
    Type,
    go_type,
)

_INT_BITS = {"int32": 32, "int64": 64}
_MAX_STRICT_ERRORS = 100
_MAX_FLOAT32 = 3.4028235677973366e38


class _Abort(Exception):
    """A value at which the reference's decoder stops."""


@dataclass(frozen=True)
class _At:
    """The position: for type errors the innermost struct and the field names, for strict errors the full path."""

    struct: str = ""
    names: tuple[str, ...] = ()
    path: str = ""

    def field(self, struct: str, name: str, via: str) -> "_At":
        return _At(struct, (*self.names, via, name) if via else (*self.names, name), self.member(name))

    def element(self, position: int) -> "_At":
        return _At(self.struct, self.names, f"{self.path}[{position}]")

    def member(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


@dataclass
class _Walk:
    type_error: str = ""
    strict: dict[str, None] = field(default_factory=dict)


def decode_struct(schema: Struct, value: object) -> tuple[dict[str, Any], list[str]]:
    """The fields of a struct, and strict errors."""
    walk = _Walk()
    try:
        fields = _value(walk, schema, value, _At())
    except _Abort as abort:
        raise ConfigError(str(abort)) from None
    if walk.type_error:
        raise ConfigError(walk.type_error)
    return fields or {}, list(walk.strict)[:_MAX_STRICT_ERRORS]


def _value(walk: _Walk, type_: Type, value: Any, at: _At) -> Any:
    """Decode one value; None if it stays unset."""
    if isinstance(type_, Raw):
        return value
    if isinstance(type_, Pointer):
        return None if value is None else _value(walk, type_.item, value, at)
    if type_ is DURATION:
        return _duration(value, at)
    if value is None:
        return None
    match type_:
        case Struct() if isinstance(value, dict):
            return _members(walk, type_, value, at)
        case Slice() if isinstance(value, list):
            return _elements(walk, type_, value, at)
        case StringMap() if isinstance(value, dict):
            return _map(walk, STRING, value, at)
        case Map(item=item) if isinstance(value, dict):
            return _map(walk, item, value, at)
        case Scalar():
            return _scalar(walk, type_, value, at)
        case _:
            return _wrong_type(walk, json_kind(value), type_, at)


def _members(walk: _Walk, struct: Struct, value: dict[str, Any], at: _At) -> dict[str, Any]:
    decoded: dict[str, Any] = {}
    seen = set()
    for key, element in members_of(value):
        known = struct.fields.get(key)
        if known is None:
            walk.strict[f"unknown field {go_quote(at.member(key))}"] = None
            continue
        if key in seen:
            walk.strict[f"duplicate field {go_quote(at.member(key))}"] = None
        seen.add(key)
        result = _value(walk, known.type, element, at.field(struct.name, key, known.via))
        if result is not None:
            decoded[key] = result
    return decoded


def _elements(walk: _Walk, slice_: Slice, value: list[Any], at: _At) -> list[Any]:
    elements = [_value(walk, slice_.item, element, at.element(position)) for position, element in enumerate(value)]
    return [_zero(slice_.item) if element is None else element for element in elements]


def _zero(type_: Type) -> Any:
    if isinstance(type_, Struct):
        return {}
    return 0 if isinstance(type_, Scalar) and type_.kind in ("float32", "float64", "int32", "int64") else ""


def _map(walk: _Walk, item: Type, value: dict[str, Any], at: _At) -> dict[str, Any]:
    decoded: dict[str, Any] = {}
    for key, element in members_of(value):
        if key in decoded:
            walk.strict[f"duplicate field {go_quote(at.member(key))}"] = None
        found = _value(walk, item, element, at)
        decoded[key] = _zero(item) if found is None else found
    return decoded


# --- literals


def _wrong_type(walk: _Walk, found: str, type_: Type, at: _At) -> None:
    walk.type_error = walk.type_error or _type_error(found, go_type(type_), at)


def _type_error(found: str, wanted: str, at: _At) -> str:
    place = f"struct field {at.struct}.{'.'.join(at.names)}" if at.names else "value"
    return f"json: cannot unmarshal {found} into Go {place} of type {wanted}"


def json_kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case dict():
            return "object"
        case _:
            return "array"


def _duration(value: Any, at: _At) -> Any:
    if value is not None and not isinstance(value, str):
        raise _Abort(_type_error(json_kind(value), "string", at))
    try:
        # Parity: an explicit null is decoded as the empty string, which is not a duration.
        return parse_duration(value or "")
    except ValueError as error:
        raise _Abort(str(error)) from None


def _scalar(walk: _Walk, type_: Scalar, value: Any, at: _At) -> Any:
    found = json_kind(value)
    if type_.kind == "bytes" and found == "string":
        return _base64(walk, value)
    if type_.kind == "quantity" and found in ("string", "number"):
        return _quantity(value)
    if (type_.kind, found) == ("string", "string") or (type_ is BOOL and found == "bool"):
        return value
    if found != "number" or type_.kind in {"string", "bool", "bytes"}:
        return _wrong_type(walk, found, type_, at)
    if not _fits(type_.kind, value):
        return _wrong_type(walk, f"number {value}", type_, at)
    return value


def _fits(kind: str, value: float) -> bool:
    if kind == "float64":
        return True
    if kind == "float32":
        return abs(value) <= _MAX_FLOAT32
    return isinstance(value, int) and -(1 << (_INT_BITS[kind] - 1)) <= value < 1 << (_INT_BITS[kind] - 1)


def _quantity(value: str | float) -> str:
    try:
        parse_quantity(value)
    except QuantityError as error:
        raise _Abort(str(error)) from None
    return str(value)


_BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]*")


def _base64(walk: _Walk, text: str) -> bytes | None:
    try:
        return base64.b64decode(re.sub(r"[\r\n]", "", text), validate=True)
    except (binascii.Error, ValueError):
        good = _BASE64.match(text)
        offset = good.end() if good else 0
        walk.type_error = walk.type_error or f"illegal base64 data at input byte {offset}"
        return None
