"""API objects in logs and dumps: each with the name of its kind, as the scheduler knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.api.custom_objects import CustomObject, custom_resource
from stowplan.api.decode import KINDS, decode_custom, decode_json, encode_json

if TYPE_CHECKING:
    from stowplan.api.meta import ApiStruct


def name_of(kind: type[ApiStruct]) -> str:
    return kind.resource if issubclass(kind, CustomObject) else kind.__name__


def kind_named(name: str) -> type[ApiStruct]:
    return custom_resource(name) if "." in name else _STRUCTS[name]


_STRUCTS = {struct.__name__: struct for struct in KINDS.values()}


def written_object(obj: Any) -> bytes:
    return msgspec.json.encode(obj.content) if isinstance(obj, CustomObject) else encode_json(obj)


def read_object(kind: type[ApiStruct], content: Any) -> ApiStruct:
    """`content` is decoded JSON."""
    if issubclass(kind, CustomObject):
        return decode_custom(kind, content)
    return decode_json(msgspec.json.encode(content), kind)
