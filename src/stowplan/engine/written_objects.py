"""API objects in logs and dumps, each with its kind.

Fields that the scheduler does not read, such as the environment of containers, are not there; nor is what kubectl notes
of them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.api.config_map import ConfigMap
from stowplan.api.custom_objects import CustomObject, custom_resource
from stowplan.api.decode import KINDS, convert

if TYPE_CHECKING:
    from collections.abc import Callable

    from stowplan.api.meta import ApiStruct

#: Where kubectl keeps the object as it was applied, with the fields that are left out here.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@cache
def name_of(kind: type[ApiStruct]) -> str:
    """Custom kinds have a dot in their name; those of objects that are in no namespace begin with a slash."""
    if not issubclass(kind, CustomObject):
        return kind.__name__
    return kind.resource if kind.namespaced else f"/{kind.resource}"


def kind_named(name: str) -> type[ApiStruct]:
    if "." not in name:
        return _STRUCTS[name]
    return custom_resource(name[1:], namespaced=False) if name.startswith("/") else custom_resource(name)


_STRUCTS: dict[str, type[ApiStruct]] = {ConfigMap.__name__: ConfigMap}
_STRUCTS |= {struct.__name__: struct for struct in KINDS.values()}


def writer_of(name: str) -> Callable[[Any], Any]:
    """What JSON is to have of objects whose kind has that name.

    Told by the name: to ask a struct for its class takes longer than to encode a small one.
    """
    return _written_custom if "." in name else _written


def as_written(obj: ApiStruct) -> Any:
    """What JSON is to have of an object."""
    return writer_of(name_of(type(obj)))(obj)


def with_name(obj: ApiStruct) -> tuple[str, Any]:
    """The name of its kind, and what JSON is to have of it."""
    return name_of(type(obj)), as_written(obj)


def _written(obj: Any) -> Any:
    if LAST_APPLIED not in obj.metadata.annotations:
        return obj
    return replace(obj, metadata=replace(obj.metadata, annotations=_without_last_applied(obj)))


def _written_custom(obj: Any) -> Any:
    if LAST_APPLIED not in obj.metadata.annotations:
        return obj.content
    return obj.content | {"metadata": obj.content["metadata"] | {"annotations": _without_last_applied(obj)}}


def _without_last_applied(obj: Any) -> dict[str, str]:
    return {key: value for key, value in obj.metadata.annotations.items() if key != LAST_APPLIED}


def read_object(kind: type[ApiStruct], content: Any) -> ApiStruct:
    """The object that was written, or its decoded JSON."""
    return content if isinstance(content, kind) else convert(content, kind)
