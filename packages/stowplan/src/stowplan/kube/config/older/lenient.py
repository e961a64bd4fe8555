"""Lenient decoding: unknown fields are dropped, and case is ignored if there is no exact match.

Upstream: encoding/json, as v1alpha1 configurations and policies were decoded.
"""

from collections.abc import Iterator
from typing import Any

from stowplan.kube.api.field_errors import child
from stowplan.kube.config.documents import members_of
from stowplan.kube.config.schema import Pointer, Slice, Struct, Type


def known_fields(schema: Type, value: Any) -> Any:
    """Copy data without unknown fields, and with the canonical names of the others."""
    match schema:
        case Pointer(item=item):
            return known_fields(item, value)
        case Slice(item=item) if isinstance(value, list):
            return [known_fields(item, element) for element in value]
        case Struct() if isinstance(value, dict):
            pairs = ((_name(schema, key), element) for key, element in members_of(value))
            return {
                name: known_fields(schema.fields[name].type, element) for name, element in pairs if name is not None
            }
        case _:
            return value


def unknown_fields(schema: Type, value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of dropped fields."""
    match schema:
        case Pointer(item=item):
            yield from unknown_fields(item, value, path)
        case Slice(item=item) if isinstance(value, list):
            for i, element in enumerate(value):
                yield from unknown_fields(item, element, f"{path}[{i}]")
        case Struct() if isinstance(value, dict):
            for key, element in members_of(value):
                name = _name(schema, key)
                if name is None:
                    yield child(path, key)
                else:
                    yield from unknown_fields(schema.fields[name].type, element, child(path, key))


def _name(schema: Struct, key: str) -> str | None:
    if key in schema.fields:
        return key
    return next((name for name in schema.fields if name.lower() == key.lower()), None)
