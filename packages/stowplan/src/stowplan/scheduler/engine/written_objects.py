"""API objects in recordings and dumps, each with its kind.

Without the fields that the scheduler does not read, such as the environment of containers, and without kubectl's
last-applied annotation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from msgspec.structs import replace

from stowplan.kube.api.custom_objects import CustomObject, custom_resource
from stowplan.kube.api.decode import KINDS, convert
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.users import ConfigMap

#: kubectl's copy of the object as it was applied, including the fields that are left out here.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@cache
def name_of(kind: type[ApiStruct]) -> str:
    """The kind's name. Custom kinds have a dot in it; cluster-scoped ones start with a slash."""
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
    """The function that makes JSON-able values of objects whose kind has this name.

    Selected by name: getting the class of a struct takes longer than encoding a small one.
    """
    return _written_custom if "." in name else _written


def as_written(obj: ApiStruct) -> Any:
    """The JSON-able value of an object."""
    return writer_of(name_of(type(obj)))(obj)


def with_name(obj: ApiStruct) -> tuple[str, Any]:
    """The name of its kind, and its JSON-able value."""
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
    """The object for a JSON-able value, or its decoded JSON."""
    return content if isinstance(content, kind) else convert(content, kind)
