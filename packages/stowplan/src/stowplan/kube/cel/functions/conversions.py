"""Conversions between types: `int(x)`, `string(x)` and so on. Upstream: common/types, ConvertToType."""

from __future__ import annotations

import math
import re

from stowplan.kube.cel import time_text
from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.declarations import Implementation, function, overload
from stowplan.kube.cel.values import Duration, Timestamp, UInt, Value

_INT_RE = re.compile(r"[+-]?[0-9]+")
_UINT_RE = re.compile(r"[0-9]+")
_FLOAT_RE = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE)
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
#: Longer strings are not 64-bit numbers, and parsing them would be slow.
_MAX_DIGITS = 100


def _identity(value: Value) -> Value:
    return value


def _impossible(value: Value, wanted: str) -> ValueProblem:
    return ValueProblem(f"type conversion error from '{v.type_name(value)}' to '{wanted}'")


def _to_bool(value: str) -> Value:
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise _impossible(value, "bool")


def _to_bytes(value: str) -> Value:
    return value.encode(errors="surrogatepass")


def _to_int(value: Value) -> Value:
    match value:
        case float():
            if math.isnan(value) or not v.INT_MIN < value < v.INT_MAX:
                raise ValueProblem("integer overflow")
            return int(value)
        case str():
            number = int(value) if len(value) < _MAX_DIGITS and _INT_RE.fullmatch(value) else v.INT_MAX + 1
            if v.INT_MIN <= number <= v.INT_MAX:
                return number
            raise _impossible(value, "int")
        case Duration():
            return value.nanoseconds
        case Timestamp():
            return value.nanoseconds // time_text.SECOND
        case int() if value <= v.INT_MAX:
            return int(value)
    raise ValueProblem("integer overflow")


def _to_uint(value: Value) -> Value:
    match value:
        case float():
            if math.isnan(value) or not 0 <= value < 2.0**64:
                raise ValueProblem("unsigned integer overflow")
            return UInt(int(value))
        case str():
            number = int(value) if len(value) < _MAX_DIGITS and _UINT_RE.fullmatch(value) else -1
            if 0 <= number <= v.UINT_MAX:
                return UInt(number)
            raise _impossible(value, "uint")
        case int() if value >= 0:
            return UInt(value)
    raise ValueProblem("unsigned integer overflow")


def _to_double(value: Value) -> Value:
    match value:
        case int():
            return float(value)
        case str() if _FLOAT_RE.fullmatch(value):
            number = float(value)
            # A number that is too large is an error, unlike "Infinity".
            if not math.isinf(number) or "n" in value.lower():
                return number
    raise _impossible(value, "double")


def to_string(value: Value) -> Value:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return v.go_float(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise ValueProblem("invalid UTF-8 in bytes, cannot convert to string") from None
        case Duration():
            return time_text.duration_text(value)
        case Timestamp():
            return time_text.timestamp_text(value)
    return value


def _to_duration(value: Value) -> Value:
    if isinstance(value, int):
        return Duration(value)
    duration = time_text.read_duration(str(value))
    if duration is None:
        raise _impossible(value, "google.protobuf.Duration")
    return duration


def _to_timestamp(value: Value) -> Value:
    if isinstance(value, int):
        if not time_text.TIMESTAMP_MIN <= value * time_text.SECOND <= time_text.TIMESTAMP_MAX:
            raise ValueProblem("timestamp overflow")
        return Timestamp(value * time_text.SECOND)
    timestamp = time_text.read_timestamp(str(value))
    if timestamp is None:
        raise _impossible(value, "google.protobuf.Timestamp")
    return timestamp


def _type(value: Value) -> Value:
    return v.type_of(value)


_TO_STRING: Implementation = to_string

FUNCTIONS = [
    function("type", overload("type", "A -> type(A)"), implementation=_type),
    function("dyn", overload("to_dyn", "A -> dyn"), implementation=_identity),
    function(
        "bool",
        overload("bool_to_bool", "bool -> bool", _identity),
        overload("string_to_bool", "string -> bool", _to_bool),
    ),
    function(
        "bytes",
        overload("bytes_to_bytes", "bytes -> bytes", _identity),
        overload("string_to_bytes", "string -> bytes", _to_bytes),
    ),
    function(
        "double",
        overload("double_to_double", "double -> double", _identity),
        overload("int64_to_double", "int -> double", _to_double),
        overload("string_to_double", "string -> double", _to_double),
        overload("uint64_to_double", "uint -> double", _to_double),
    ),
    function(
        "duration",
        overload("duration_to_duration", "duration -> duration", _identity),
        overload("int64_to_duration", "int -> duration", _to_duration),
        overload("string_to_duration", "string -> duration", _to_duration),
    ),
    function(
        "int",
        overload("int64_to_int64", "int -> int", _identity),
        overload("double_to_int64", "double -> int", _to_int),
        overload("duration_to_int64", "duration -> int", _to_int),
        overload("string_to_int64", "string -> int", _to_int),
        overload("timestamp_to_int64", "timestamp -> int", _to_int),
        overload("uint64_to_int64", "uint -> int", _to_int),
    ),
    function(
        "string",
        overload("string_to_string", "string -> string", _identity),
        overload("bool_to_string", "bool -> string", _TO_STRING),
        overload("bytes_to_string", "bytes -> string", _TO_STRING),
        overload("double_to_string", "double -> string", _TO_STRING),
        overload("duration_to_string", "duration -> string", _TO_STRING),
        overload("int64_to_string", "int -> string", _TO_STRING),
        overload("timestamp_to_string", "timestamp -> string", _TO_STRING),
        overload("uint64_to_string", "uint -> string", _TO_STRING),
    ),
    function(
        "timestamp",
        overload("timestamp_to_timestamp", "timestamp -> timestamp", _identity),
        overload("int64_to_timestamp", "int -> timestamp", _to_timestamp),
        overload("string_to_timestamp", "string -> timestamp", _to_timestamp),
    ),
    function(
        "uint",
        overload("uint64_to_uint64", "uint -> uint", _identity),
        overload("double_to_uint64", "double -> uint", _to_uint),
        overload("int64_to_uint64", "int -> uint", _to_uint),
        overload("string_to_uint64", "string -> uint", _to_uint),
    ),
]
