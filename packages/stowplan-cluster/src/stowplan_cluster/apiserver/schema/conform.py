"""Convert an object to its type, as Go's decoding would.

In place: unknown fields are dropped and reported, nulls are dropped, quantities and times become canonical. Zero values
are dropped or added as by a round trip through Go structs: `hostNetwork: false` is dropped, a container's `resources:
{}` is added (see `Zero`). Lists and maps are never added, although Go encodes some as null: every reader would have to
handle that. A value of the wrong JSON type is rejected with the message of Go's decoder. Wrong values of custom
resources are kept: schema validation reports them better.

This runs for every write, so each struct is compiled to one function with a table: field name -> (the Python type that
needs no further check, function for all other types, whether zero is dropped). A value's position is a chain of tuples,
formatted only for errors.

Upstream: sigs.k8s.io/json, encoding/json, staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NoReturn

from stowplan.kube.api.api_errors import BadRequest
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.quantity import read_quantity
from stowplan.kube.kubernetes_versions import KubernetesVersion
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.schema.parse import built_in
from stowplan_cluster.apiserver.schema.type_model import ListType, MapType, Scalar, Struct, Type, Zero

# Parse and format scalars as the API server does.
#
# Each function takes a JSON value and returns its canonical form; ValueError carries the server's message. They run
# for every write, hence the caches.
#
# Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}.go, pkg/api/resource,
# and Go's time and encoding/base64, whose complaints reach users.

_DATE = (("2006", r"[0-9]{4}"), ("-", "-"), ("01", "[0-9]{2}"), ("-", "-"), ("02", "[0-9]{2}"), ("T", "T"))
_CLOCK = (("15", "[0-9]{2}"), (":", ":"), ("04", "[0-9]{2}"), (":", ":"), ("05", "[0-9]{2}"))
_ZONE = (("Z07:00", "Z|[+-][0-9]{2}:[0-9]{2}"),)
_SECONDS = (*_DATE, *_CLOCK[:-1], ("05", "[0-9]{2}(?:[.,][0-9]+)?"), *_ZONE)
_MICROSECONDS = (*_DATE, *_CLOCK, (".000000", r"\.[0-9]{6}"), *_ZONE)
_RANGES = (("month", 1, 12), ("day", 1, 31), ("hour", 0, 23), ("minute", 0, 59), ("second", 0, 59))
_TIME = "".join(f"(?:{pattern})" for _, pattern in _SECONDS)
_TIME_RE = re.compile(_TIME)
_MICRO_TIME_RE = re.compile("".join(f"(?:{pattern})" for _, pattern in _MICROSECONDS))
_NUMBERS_RE = re.compile(r"[0-9]{4}-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})")
_BASE64_RE = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_BASE64_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


@lru_cache(maxsize=4096, typed=True)
def canonical_quantity(value: str | int | float) -> str:
    """Canonical form of a quantity: `0.5` becomes "500m"."""
    return str(read_quantity(value if isinstance(value, str) else repr(value)))


@lru_cache(maxsize=1024)
def canonical_time(text: str) -> str:
    """Canonical form of a time: UTC, whole seconds."""
    if not _TIME_RE.fullmatch(text):
        raise ValueError(_why_no_time(text, _SECONDS))
    return f"{_utc(text.replace(',', '.')).isoformat(timespec='seconds')}Z"


@lru_cache(maxsize=1024)
def canonical_micro_time(text: str) -> str:
    """Canonical form of a MicroTime: UTC, exactly six fractional digits."""
    if not _MICRO_TIME_RE.fullmatch(text):
        raise ValueError(_why_no_time(text, _MICROSECONDS))
    return f"{_utc(text).isoformat(timespec='microseconds')}Z"


def _utc(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise ValueError(f"parsing time {go_quote(text)}: {_out_of_range(text)} out of range") from None


def _out_of_range(text: str) -> str:
    numbers = _NUMBERS_RE.match(text)
    read = numbers.groups() if numbers else ()
    return next(
        (name for (name, low, high), digits in zip(_RANGES, read, strict=False) if not low <= int(digits) <= high),
        "day",
    )


def _why_no_time(text: str, layout: tuple[tuple[str, str], ...]) -> str:
    words = "".join(word for word, _ in layout)
    rest = text
    for word, pattern in layout:
        found = re.match(pattern, rest)
        if found is None:
            return f'parsing time {go_quote(text)} as "{words}": cannot parse {go_quote(rest)} as "{word}"'
        rest = rest[found.end() :]
    return f"parsing time {go_quote(text)}: extra text: {go_quote(rest)}"


def canonical_base64(text: str) -> str:
    """Canonical form of base64: without line breaks."""
    plain = text.replace("\r", "").replace("\n", "") if "\n" in text or "\r" in text else text
    if len(plain) % 4 or not _BASE64_RE.fullmatch(plain):
        raise ValueError(f"illegal base64 data at input byte {_where_no_base64(text)}")
    return plain


def _where_no_base64(text: str) -> int:
    """The offset of the first error, as Go's decoder reports it."""
    places = [(place, character) for place, character in enumerate(text) if character not in "\r\n"]
    for start in range(0, len(places), 4):
        group = places[start : start + 4]
        for number, (place, character) in enumerate(group):
            if character in _BASE64_CHARACTERS:
                continue
            if character != "=" or number < 2:
                return _bytes_before(text, place)
            return _where_bad_padding(text, places[start + number + 1 :], number)
        if len(group) < 4:
            return _bytes_before(text, len(text)) - len(group)
    return _bytes_before(text, len(text))


def _where_bad_padding(text: str, after: list[tuple[int, str]], number: int) -> int:
    """The offset of an error after the first `=`, which is the third or fourth character of its group."""
    if number == 2:
        if not after:
            return _bytes_before(text, len(text))
        if after[0][1] != "=":
            return _bytes_before(text, after[0][0]) - 1
        after = after[1:]
    return _bytes_before(text, after[0][0] if after else len(text))


def _bytes_before(text: str, place: int) -> int:
    return len(text[:place].encode("utf-8", "surrogatepass"))


#: Maximum nesting of JSON. Code that walks objects recursively relies on it; Go allows 10,000.
MAX_DEPTH = 256
#: Maximum number of reported errors, as upstream.
MAX_COMPLAINTS = 100

JSON_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"

#: Position of a value: (parent, the struct whose field it is or None in lists and maps, name or index, depth).
At = tuple[Any, Struct | None, str | int, int]
#: (value, position, complaints so far) -> the value to keep, None for none.
Check = Callable[[Any, At, list[str]], Any]

_ROOT: At = (None, None, "", 0)
_NUMERIC = (Scalar.INT32, Scalar.INT64, Scalar.NUMBER)
_WORDS = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
_PLAIN: dict[Type, type] = {Scalar.STRING: str, Scalar.DURATION: str, Scalar.BOOL: bool, Scalar.NUMBER: float}
#: Zero values: for nulls in lists and maps, and for unset fields that are always encoded.
_ZERO: dict[Type, Any] = {
    Scalar.STRING: "",
    Scalar.BYTES: "",
    Scalar.BOOL: False,
    Scalar.INT32: 0,
    Scalar.INT64: 0,
    Scalar.NUMBER: 0,
    Scalar.INT_OR_STRING: 0,
    Scalar.QUANTITY: "0",
}
_GO_TYPES: dict[Type, str] = {
    Scalar.BYTES: "[]uint8",
    Scalar.NUMBER: "float64",
    Scalar.QUANTITY: "resource.Quantity",
    Scalar.INT_OR_STRING: "intstr.IntOrString",
    Scalar.TIME: "v1.Time",
    Scalar.MICRO_TIME: "v1.MicroTime",
}


class _Undecodable(Exception):
    """A decoding error, with the decoder's message."""


def conform(type: Struct, obj: JsonObject) -> list[str]:
    """Return complaints such as `unknown field "spec.foo"`; raise BadRequest if a value has the wrong type."""
    complaints: list[str] = []
    try:
        _check_of(type)(obj, _ROOT, complaints)
    except _Undecodable as error:
        raise BadRequest(_cannot_be_handled(type, obj, str(error))) from None
    return complaints


def _cannot_be_handled(type: Struct, obj: JsonObject, why: str) -> str:
    kind, version = obj.get("kind"), obj.get("apiVersion")
    name = kind if kind and isinstance(kind, str) else type.name.rpartition(".")[2]
    version = version.rpartition("/")[2] if isinstance(version, str) else ""
    return f"{name} in version {go_quote(version)} cannot be handled as a {name}: {why}"


def _check_of(type: Type, *, lenient: bool = False) -> Check:
    """`lenient` keeps wrong values: for custom resources, whose validation reports them."""
    if isinstance(type, Struct):
        if type.check is None:
            type.check = _struct_check(type)
        return type.check
    if isinstance(type, ListType):
        return _list_check(type, lenient=lenient)
    if isinstance(type, MapType):
        return _map_check(type, lenient=lenient)
    return _any if lenient else _SCALAR_CHECKS[type]


def _struct_check(struct: Struct) -> Check:
    lenient = not struct.name
    table: dict[str, tuple[type | None, Check, bool]] = {}
    always: list[tuple[str, Any, Check | None]] = []
    nulls: set[str] = set()

    def check(value: Any, at: At, complaints: list[str]) -> Any:
        if type(value) is not dict:
            return value if lenient else _refuse(value, struct, at)
        if not table:
            # Compiled on first use, as types can be recursive.
            table.update(_table(struct))
            always.extend(_always(struct))
            nulls.update(name for name, zero, empty in always if zero is None and empty is None)
        depth = _deeper(at)
        gone = []
        for name, item in value.items():
            known = table.get(name)
            if known is None:
                if struct.preserve_unknown:
                    _any(item, (at, None, name, depth), complaints)
                    continue
                gone.append(name)
                if len(complaints) < MAX_COMPLAINTS:
                    complaints.append(f"unknown field {go_quote(_path((at, None, name, depth)))}")
            elif type(item) is known[0]:
                if not item and known[2]:
                    gone.append(name)
            elif item is not None:
                left = known[1](item, (at, struct, name, depth), complaints)
                if left is None or (not left and known[2]):
                    gone.append(name)
                elif left is not item:
                    value[name] = left
            elif not lenient and name not in nulls:
                gone.append(name)
        for name in gone:
            del value[name]
        for name, zero, empty in always:
            if name not in value:
                value[name] = zero if empty is None else empty({}, (at, struct, name, depth), complaints)
        return value

    return check


def _table(struct: Struct) -> Iterator[tuple[str, tuple[type | None, Check, bool]]]:
    lenient = not struct.name
    for name, each in struct.fields.items():
        goes = struct.zeros.get(name) is Zero.DROPPED
        yield name, (_PLAIN.get(each), _check_of(each, lenient=lenient), goes)


def _always(struct: Struct) -> Iterator[tuple[str, Any, Check | None]]:
    """Fields to add if missing, each with its zero value, or for structs the check that completes an empty one."""
    for name, each in struct.fields.items():
        if struct.zeros.get(name) is Zero.ALWAYS and not isinstance(each, ListType | MapType):
            yield name, _ZERO.get(each), _check_of(each) if isinstance(each, Struct) else None


def _list_check(of: ListType, *, lenient: bool) -> Check:
    return _items_check(of, of.element, list, enumerate, lenient=lenient)


def _map_check(of: MapType, *, lenient: bool) -> Check:
    return _items_check(of, of.value, dict, dict.items, lenient=lenient)


def _items_check(
    of: Type, inner: Type, kind: type[Any], items: Callable[[Any], Iterable[Any]], *, lenient: bool
) -> Check:
    """`items`: places in a value of this kind, and what is there."""
    plain, check = _PLAIN.get(inner), _check_of(inner, lenient=lenient)

    def check_items(value: Any, at: At, complaints: list[str]) -> Any:
        if type(value) is not kind:
            return value if lenient else _refuse(value, of, at)
        depth = _deeper(at)
        for place, item in items(value):
            if type(item) is plain:
                continue
            if item is not None:
                left = check(item, (at, None, place, depth), complaints)
                if left is not item:
                    value[place] = left
            elif not lenient:
                value[place] = _zero(inner, check, (at, None, place, depth))
        return value

    return check_items


def _zero(type: Type, check: Check, at: At) -> Any:
    """What null in a list or map decodes to."""
    return check({}, at, []) if isinstance(type, Struct) else _ZERO.get(type)


def _deeper(at: At) -> int:
    depth = at[3] + 1
    if depth > MAX_DEPTH:
        raise _Undecodable("exceeded max depth")
    return depth


def _any(value: Any, at: At, complaints: list[str]) -> Any:
    level, depth = [value], at[3]
    while True:
        level = [
            item
            for node in level
            if type(node) is dict or type(node) is list
            for item in (node.values() if type(node) is dict else node)
        ]
        if not level:
            return value
        depth += 1
        if depth > MAX_DEPTH:
            raise _Undecodable("exceeded max depth")


def _integer(scalar: Scalar, bits: int) -> Check:
    high = (1 << bits - 1) - 1
    low = -high - 1

    def check(value: Any, at: At, complaints: list[str]) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        return _refuse(value, scalar, at)

    return check


def _number(value: Any, at: At, complaints: list[str]) -> Any:
    return value if type(value) is int else _refuse(value, Scalar.NUMBER, at)


def _int_or_string(value: Any, at: At, complaints: list[str]) -> Any:
    if type(value) is str:
        return value
    return _int32(value, at, complaints)


def _refused(scalar: Scalar) -> Check:
    """The check of a scalar whose valid values the table already accepts by Python type."""

    def check(value: Any, at: At, complaints: list[str]) -> Any:
        return _refuse(value, scalar, at)

    return check


def _text(scalar: Scalar, canonical: Callable[[str], str]) -> Check:
    def check(value: Any, at: At, complaints: list[str]) -> Any:
        if type(value) is not str:
            return _refuse(value, scalar if scalar is Scalar.BYTES else Scalar.STRING, at)
        try:
            return canonical(value)
        except ValueError as error:
            raise _Undecodable(str(error)) from None

    return check


def _quantity(value: Any, at: At, complaints: list[str]) -> Any:
    try:
        return canonical_quantity(value if type(value) in (str, int, float) else repr(value))
    except ValueError as error:
        raise _Undecodable(str(error)) from None


def _schema_or_list(value: Any, at: At, complaints: list[str]) -> Any:
    if type(value) is dict:
        return _json_schema(value, at)
    if type(value) is not list:
        return None
    for index, item in enumerate(value):
        value[index] = {} if item is None else _json_schema(item, (at, None, index, _deeper(at)))
    return value


def _schema_or_bool(value: Any, at: At, complaints: list[str]) -> Any:
    if type(value) is bool:
        return value
    if type(value) is not dict:
        raise _Undecodable("boolean or JSON schema expected")
    return _json_schema(value, at)


def _schema_or_names(value: Any, at: At, complaints: list[str]) -> Any:
    if type(value) is dict:
        return _json_schema(value, at)
    return _names(value, at, complaints) if type(value) is list else None


def _json_schema(value: Any, at: At) -> Any:
    # Parity: unknown fields in here are dropped silently.
    return _check_of(built_in().structs[JSON_SCHEMA])(value, (None, None, "", at[3]), [])


_int32 = _integer(Scalar.INT32, 32)
_SCALAR_CHECKS: dict[Scalar, Check] = {
    **{scalar: _refused(scalar) for scalar in (Scalar.STRING, Scalar.DURATION, Scalar.BOOL)},
    Scalar.NUMBER: _number,
    Scalar.INT32: _int32,
    Scalar.INT64: _integer(Scalar.INT64, 64),
    Scalar.INT_OR_STRING: _int_or_string,
    Scalar.QUANTITY: _quantity,
    Scalar.TIME: _text(Scalar.TIME, canonical_time),
    Scalar.MICRO_TIME: _text(Scalar.MICRO_TIME, canonical_micro_time),
    Scalar.BYTES: _text(Scalar.BYTES, canonical_base64),
    Scalar.ANY: _any,
    Scalar.SCHEMA_OR_LIST: _schema_or_list,
    Scalar.SCHEMA_OR_BOOL: _schema_or_bool,
    Scalar.SCHEMA_OR_NAMES: _schema_or_names,
}
_names = _list_check(ListType(Scalar.STRING), lenient=False)


def _refuse(value: Any, wanted: Type, at: At) -> NoReturn:
    word = _WORDS[type(value)]
    if word == "number" and wanted in _NUMERIC:
        word = f"number {value}"
    struct = _struct_around(at)
    where = f"struct field {struct.name.rpartition('.')[2]}.{_field_path(at)}" if struct is not None else "value"
    raise _Undecodable(f"json: cannot unmarshal {word} into Go {where} of type {_go_type(wanted)}")


def _struct_around(at: At | None) -> Struct | None:
    while at is not None:
        if at[1] is not None:
            return at[1]
        at = at[0]
    return None


def _field_path(at: At) -> str:
    """The path of field names only, as Go's decoder prints it: with the names of embedded structs."""
    return ".".join(_go_field(node[1], str(node[2])) for node in _chain(at) if node[1] is not None)


def _go_field(struct: Struct, name: str) -> str:
    for each in struct.wire.values():
        if not each.name and isinstance(each.type, Struct) and name in each.type.fields:
            embedded = each.type.name.rpartition(".")[2]
            return f"{'EphemeralContainerCommon' if embedded == 'Container' else embedded}.{name}"
    return name


def _path(at: At) -> str:
    parts = [f"[{node[2]}]" if isinstance(node[2], int) else f".{node[2]}" for node in _chain(at)]
    return "".join(parts).removeprefix(".")


def _chain(at: At) -> list[At]:
    """The positions from the outermost to this one."""
    chain = []
    node: At | None = at
    while node is not None and node[0] is not None:
        chain.append(node)
        node = node[0]
    return chain[::-1]


def _go_type(type: Type) -> str:
    if isinstance(type, Struct):
        return ".".join(type.name.split(".")[-2:])
    if isinstance(type, ListType):
        return f"[]{_go_type(type.element)}"
    if isinstance(type, MapType):
        return "v1.ResourceList" if type.value is Scalar.QUANTITY else f"map[string]{_go_type(type.value)}"
    return _GO_TYPES.get(type, type.value)


def drop_newer(type: Type, value: Any, version: KubernetesVersion, at: str = "") -> list[str]:
    """Drop fields of later versions of Kubernetes from a conforming value; the complaints about them."""
    found: list[str] = []
    if isinstance(type, Struct) and isinstance(value, dict):
        for name in tuple(value):
            path = f"{at}.{name}" if at else name
            if name in type.since and version < type.since[name]:
                del value[name]
                found.append(f'unknown field "{path}"')
            elif name in type.fields:
                found += drop_newer(type.fields[name], value[name], version, path)
    elif isinstance(type, ListType):
        for i, element in enumerate(value or ()):
            found += drop_newer(type.element, element, version, f"{at}[{i}]")
    elif isinstance(type, MapType):
        for name, element in (value or {}).items():
            found += drop_newer(type.value, element, version, f"{at}.{name}")
    return found
