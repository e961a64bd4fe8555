"""Decode arguments of out-of-tree plugins into their declared types.

Strict: unknown fields and values of the wrong type are errors. Fields are named as the type encodes them
(`rename="camel"` of a msgspec struct gives camelCase). `apiVersion` and `kind` are allowed, as in the arguments of any
plugin. `args_classes.py` says what can be set in other classes. The reference has no such arguments, so messages are
our own.
"""

import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

import msgspec
from msgspec import inspect

from stowplan.kube.api.field_errors import child, go_quote
from stowplan.kube.config.args_classes import make_plain, mirror_of_plain, set_defaults, settable_fields
from stowplan.kube.config.config_errors import ConfigError
from stowplan.kube.config.walk import json_kind

_HEADER = frozenset({"apiVersion", "kind"})
#: Types of JSON objects with known fields, and of all JSON objects.
_RECORDS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType, inspect.NamedTupleType)
_OBJECTS = (*_RECORDS, inspect.DictType, inspect.CustomType)


def decode_typed_args(type_: type[Any], raw: Any, *, plugin: str, path: str) -> Any:
    """An instance of the type; raises ConfigError with the field, the plugin and what is expected."""
    value = {} if raw is None else raw
    if isinstance(value, dict):
        declared = {field.encode_name for field in _fields(inspect.type_info(type_))}
        value = {key: element for key, element in value.items() if key in declared or key not in _HEADER}
    unknown = next(_unknown_fields(inspect.type_info(type_), value, path), None)
    if unknown is not None:
        raise ConfigError(f"{unknown} (plugin {plugin})")
    try:
        return _converted(type_, value)
    except ValueError as error:
        raise ConfigError(f"{_with_path(str(error), path)} (plugin {plugin})") from None
    except Exception as error:
        text = f"{type_.__name__} raised {type(error).__name__}: {error}"
        raise ConfigError(f"{path}: {text} (plugin {plugin})") from error


def _converted(type_: Any, value: Any) -> Any:
    found = msgspec.convert(value, type_, str_keys=True, dec_hook=_plain)
    _complete(found)
    return found


def _plain(type_: Any, value: Any) -> Any:
    """An instance of a class that msgspec does not know."""
    mirror = mirror_of_plain(type_)
    if mirror is None or not isinstance(value, dict):
        expected = type_.__name__ if mirror is None else "object"
        raise ValueError(f"Expected {expected}, got {json_kind(value)}")
    try:
        checked = _converted(mirror, value)
    except msgspec.ValidationError as error:
        # msgspec adds the path of this value to any other error alone.
        raise ValueError(str(error)) from None
    return make_plain(type_, {name: getattr(checked, name) for name in value})


def _complete(value: Any) -> None:
    match value:
        case msgspec.Struct():
            inner = [getattr(value, name) for name in value.__struct_fields__]
        case dict():
            inner = list(value.values())
        case list() | tuple() | set() | frozenset():
            inner = list(value)
        case _ if is_dataclass(value):
            set_defaults(value)
            inner = [getattr(value, name) for name in settable_fields(type(value)) or ()]
        case _:
            return
    for element in inner:
        _complete(element)


def _with_path(text: str, path: str) -> str:
    """Convert `Expected int, got str - at $.a[0].b` to start with the path; plain classes add inner paths."""
    below = "".join(reversed(_PLACE.findall(text)))
    message = _PLACE.sub("", text)
    return f"{path}{below}: {message[:1].lower()}{message[1:].replace('`', '')}"


_PLACE = re.compile(r" - at (?:`key` in )?`\$([^`]*)`")


# --- unknown fields


def _fields(type_: inspect.Type) -> tuple[inspect.Field, ...]:
    if isinstance(type_, inspect.CustomType):
        mirror = mirror_of_plain(type_.cls)
        return () if mirror is None else _fields(inspect.type_info(mirror))
    if isinstance(type_, inspect.DataclassType):
        given = settable_fields(type_.cls) or ()
        return tuple(field for field in type_.fields if field.name in given)
    return type_.fields if isinstance(type_, _RECORDS) else ()


def _unknown_fields(type_: inspect.Type, value: Any, path: str) -> Iterator[str]:
    """Unknown fields of a value according to its type; wrong types are left to the conversion."""
    if isinstance(type_, inspect.UnionType):
        type_ = _member_for(type_, value)
    if isinstance(value, dict):
        yield from _unknown_members(type_, value, path)
    elif isinstance(value, list):
        for i, element in enumerate(value):
            yield from _unknown_fields(_element_type(type_, i), element, f"{path}[{i}]")


def _unknown_members(type_: inspect.Type, value: dict[str, Any], path: str) -> Iterator[str]:
    if isinstance(type_, inspect.DictType):
        for key, element in value.items():
            yield from _unknown_fields(type_.value_type, element, f"{path}[{go_quote(key)}]")
        return
    fields = {field.encode_name: field.type for field in _fields(type_)}
    if not isinstance(type_, _RECORDS) and not fields:
        return
    tag = type_.tag_field if isinstance(type_, inspect.StructType) else None
    for key, element in value.items():
        if key in fields:
            yield from _unknown_fields(fields[key], element, child(path, key))
        elif key != tag:
            known = ", ".join(fields) or "none"
            yield f"{child(path, key)}: unknown field; known fields: {known}"


def _element_type(type_: inspect.Type, position: int) -> inspect.Type:
    match type_:
        case inspect.TupleType(item_types=items):
            return items[position] if position < len(items) else inspect.AnyType()
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return item
        case inspect.SetType(item_type=item) | inspect.FrozenSetType(item_type=item):
            return item
        case _:
            return inspect.AnyType()


def _member_for(union: inspect.UnionType, value: Any) -> inspect.Type:
    """The member of a union for a value; msgspec allows one for objects, or several structs with tags."""
    for member in union.types:
        if isinstance(value, dict):
            if isinstance(member, inspect.StructType) and member.tag_field is not None:
                if value.get(member.tag_field) == member.tag:
                    return member
            elif isinstance(member, _OBJECTS):
                return member
        elif isinstance(value, list) and not isinstance(_element_type(member, 0), inspect.AnyType):
            return member
    return inspect.AnyType()
