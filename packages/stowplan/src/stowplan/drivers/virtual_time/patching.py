"""Patch typed objects: JSON merge patches, and the strategic merge patches that schedulers send.

A patch is merged with the JSON form of the top-level fields that it names; other fields are shared with the unpatched
object. In a strategic merge patch, the conditions of a status are merged by type, and the users of a claim by UID, in
the order that the patch requests. Other lists and directives would require the kind's merge rules, which the structs do
not contain: these are refused.

Upstream: k8s.io/apimachinery/pkg/util/strategicpatch, gopkg.in/evanphx/json-patch.v4 (RFC 7396).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.api_errors import BadRequest, NotFound, UnsupportedMediaType
from stowplan.kube.api.custom_objects import CustomObject
from stowplan.kube.api.decode import DecodeError, convert
from stowplan.kube.api.merge_patches import merge_patched, replacement
from stowplan.kube.api.meta import ApiStruct
from stowplan.scheduler.framework.requests import Patch

T = TypeVar("T", bound=ApiStruct)

#: Lists that a strategic merge patch merges by element, and their merge keys.
_MERGE_KEYS = {"status.conditions": "type", "status.reservedFor": "uid"}
_ELEMENT_ORDER = "$setElementOrder/"
#: Type fields, which a patch may repeat.
_TYPE_FIELDS = ("apiVersion", "kind")


def patched(obj: T, patch: Patch) -> T:
    """The patched object; raises ApiError for an invalid patch."""
    body = patch.body
    if not isinstance(body, Mapping) or patch.type_ == "json":
        raise UnsupportedMediaType("simulated time has no JSON patches: use a merge patch")
    if patch.subresource not in ("", "status"):
        raise NotFound(f"simulated time has no subresource {patch.subresource!r} to patch")
    try:
        if isinstance(obj, CustomObject):
            return _patched_custom(obj, body, patch)
        return _patched(obj, body, patch)
    except DecodeError as error:
        raise BadRequest(f"the patched object cannot be read: {error}") from error


def _patched_custom(obj: T, body: Mapping[str, Any], patch: Patch) -> T:
    if patch.type_ == "strategic":
        # Like an API server, which has no merge keys for them.
        raise UnsupportedMediaType("custom resources have no strategic merge patches: use a merge patch")
    return convert(merge_patched(obj.content, body), type(obj))  # type: ignore[attr-defined]


def _patched(obj: T, body: Mapping[str, Any], patch: Patch) -> T:
    attributes, strategic = _attributes(type(obj)), patch.type_ == "strategic"
    merged = {}
    for name, value in body.items():
        if name in attributes and _applies(name, patch.subresource):
            current = msgspec.to_builtins(getattr(obj, attributes[name]))
            if not strategic:
                merged[name] = None if value is None else replacement(current, value)
            else:
                merged[name] = _merged_field(current, name, value)
    if not merged:
        return obj
    found = convert({name: value for name, value in merged.items() if value is not None}, type(obj))
    return replace(obj, **{attributes[name]: getattr(found, attributes[name]) for name in merged})


def _applies(name: str, subresource: str) -> bool:
    """Whether the subresource includes a field; other fields stay unchanged, as in an API server."""
    return name not in _TYPE_FIELDS and (name == "status") == (subresource == "status")


@cache
def _attributes(kind: type[ApiStruct]) -> dict[str, str]:
    """JSON name -> attribute, for the top-level fields."""
    return dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))


# -- strategic merging -------------------------------------------------------------------------------------------------


def _merged(current: Mapping[str, Any], patch: Mapping[str, Any], path: str) -> dict[str, Any]:
    merged = dict(current)
    for name, value in patch.items():
        where = f"{path}.{name}" if path else name
        if name.startswith("$"):
            _check_directive(name, path)
            continue
        found = _merged_field(current.get(name), where, value)
        if found is None:
            merged.pop(name, None)
        elif where in _MERGE_KEYS:
            order = patch.get(_ELEMENT_ORDER + name, value)
            merged[name] = _arranged(found, order, current.get(name) or (), _MERGE_KEYS[where])
        else:
            merged[name] = found
    return merged


def _check_directive(name: str, path: str) -> None:
    """Refuse directives other than those for the order of a list that can be merged."""
    if not name.startswith(_ELEMENT_ORDER) or f"{path}.{name.removeprefix(_ELEMENT_ORDER)}" not in _MERGE_KEYS:
        raise BadRequest(f"simulated time cannot obey {name} in a strategic merge patch: use a merge patch")


def _merged_field(current: Any, path: str, value: Any) -> Any:
    """The new value of a field; None if it is removed."""
    if isinstance(value, Mapping):
        return _merged(current if isinstance(current, Mapping) else {}, value, path)
    if isinstance(value, list | tuple):
        if path not in _MERGE_KEYS:
            raise BadRequest(f"simulated time cannot merge the list {path} strategically: use a merge patch")
        return _merged_list(current or (), value, path)
    return value


def _merged_list(current: Sequence[Any], patch: Sequence[Any], path: str) -> list[Any]:
    key = _MERGE_KEYS[path]
    merged = {element.get(key): element for element in current}
    for element in patch:
        if not isinstance(element, Mapping) or not element.get(key):
            raise BadRequest(f"map: {element!r} does not contain declared merge key: {key} (in {path})")
        if element.get("$patch") == "delete":
            merged.pop(element[key], None)
            continue
        merged[element[key]] = _merged(merged.get(element[key], {}), element, path)
    return list(merged.values())


def _arranged(merged: Sequence[Any], order: Sequence[Any], live: Sequence[Any], key: str) -> list[Any]:
    """Sort elements in the patch's order; other elements stay in front of the element that followed them."""
    wanted = {element.get(key): place for place, element in enumerate(order)}
    stood = {element.get(key): place for place, element in enumerate(live)}
    named = sorted((one for one in merged if one[key] in wanted), key=lambda one: wanted[one[key]])
    others = [one for one in merged if one[key] not in wanted]
    arranged: list[Any] = []
    for element in named:
        place = stood.get(element[key])
        while place is not None and others and stood[others[0][key]] < place:
            arranged.append(others.pop(0))
        arranged.append(element)
    return arranged + others
