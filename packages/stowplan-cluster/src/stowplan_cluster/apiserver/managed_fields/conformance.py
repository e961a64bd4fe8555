"""Check an applied configuration against its type; reports all errors.

Unlike other writes, server-side apply does not drop unknown fields: they are errors.

Upstream: sigs.k8s.io/structured-merge-diff/v6/typed/validate.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stowplan_cluster.apiserver.managed_fields.field_sets import BadElementError, element_of, path_text
from stowplan_cluster.apiserver.objects import JsonObject, go_text, go_type, is_number
from stowplan_cluster.apiserver.schema.type_model import ATOMIC, ListType, MapType, Scalar, Struct, Type

_NUMBERS = frozenset({Scalar.INT32, Scalar.INT64, Scalar.NUMBER})
#: Of any form: upstream's OpenAPI documents give them no type.
_ANY = frozenset({Scalar.ANY, Scalar.SCHEMA_OR_LIST, Scalar.SCHEMA_OR_BOOL, Scalar.SCHEMA_OR_NAMES})
_TEXTS = frozenset({Scalar.STRING, Scalar.BYTES, Scalar.DURATION})


def complaints_text(obj: JsonObject, type: Struct) -> str:
    """The errors of a configuration, one per line; "" if there are none."""
    found = list(_complaints(obj, type, ""))
    return found[0] if len(found) == 1 else "\n  ".join(["errors:", *found]) if found else ""


def _complaints(value: Any, type: Type, path: str) -> Iterator[str]:
    if value is None or type in _ANY:
        return
    if isinstance(type, ListType):
        if isinstance(value, list):
            yield from _element_complaints(value, type, path)
        else:
            yield _at(path, f"expected list, got &{{{go_text(value)}}}")
    elif isinstance(type, Struct | MapType):
        if isinstance(value, dict):
            yield from _field_complaints(value, type, path)
        else:
            yield _at(path, f"expected map, got &{{{go_text(value)}}}")
    elif why := _scalar_complaint(value, type):
        yield _at(path, why)


def _at(path: str, why: str) -> str:
    return f"{path}: {why}" if path else why


def _scalar_complaint(value: Any, type: Scalar) -> str:
    if type in _NUMBERS:
        return "" if is_number(value) else f"expected numeric (int or float), got {go_type(value)}"
    if type in _TEXTS:
        return "" if isinstance(value, str) else f"expected string, got &value.valueUnstructured{{Value:{_go(value)}}}"
    if type is Scalar.BOOL:
        return "" if isinstance(value, bool) else f"expected boolean, got &{{{go_text(value)}}}"
    return f"expected any scalar, got &{{{go_text(value)}}}" if isinstance(value, dict | list) else ""


def _go(value: Any) -> str:
    """A decoded value other than a string, printed with `%#v`."""
    if isinstance(value, dict | list):
        pairs = sorted(value.items()) if isinstance(value, dict) else [(None, child) for child in value]
        listed = (f'"{name}":{_go_inside(child)}' if name is not None else _go_inside(child) for name, child in pairs)
        return f"{go_type(value)}{{{', '.join(listed)}}}"
    return go_text(value)


def _go_inside(value: Any) -> str:
    if value is None:
        return "interface {}(nil)"
    return f'"{value}"' if isinstance(value, str) else _go(value)


def _field_complaints(value: JsonObject, type: Struct | MapType, path: str) -> Iterator[str]:
    for name, child in value.items():
        below = f"{path}.{name}"
        if isinstance(type, MapType):
            yield from _complaints(child, type.value, below)
        elif name in type.fields:
            yield from _complaints(child, type.fields[name], below)
        elif not type.preserve_unknown:
            yield _at(below, "field not declared in schema")
            return


def _element_complaints(value: list[Any], type: ListType, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        step = f"i:{index}"
        if type.kind != ATOMIC:
            try:
                step = element_of(item, type)
            except BadElementError as error:
                yield _at(path, f"element {index}: {error}")
                return
            if step in seen:
                yield _at(path, f"duplicate entries for key {path_text((step,))}")
            seen.add(step)
        yield from _complaints(item, type.element, path + path_text((step,)))
