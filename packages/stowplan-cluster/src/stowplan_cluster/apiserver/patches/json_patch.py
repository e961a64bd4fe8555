"""JSON patch, of which all operations apply or none, and JSON merge patch.

RFC 6902 with the deviations of the library that the API server uses: "replace" of a missing key of an object sets it,
"copy" of one copies null, an absent "value" is null, indices may be negative, and a pointer may start with any text
before its first slash. The error for a patch that does not apply never says why.

Upstream: gopkg.in/evanphx/json-patch.v4, k8s.io/apiserver/pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from stowplan.kube.api import api_errors
from stowplan.kube.api.field_errors import go_json, go_quote
from stowplan.kube.api.merge_patches import copy_of, merge_patched
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject, json_type, same
from stowplan_cluster.apiserver.patches.nesting import bounded

MAX_OPERATIONS = 10_000
#: Limit on what the "copy" operations of one patch may add: otherwise forty of them exhaust memory.
MAX_COPIED_BYTES = 3 * 1024 * 1024

_INDEX = re.compile(r"[+-]?[0-9]{1,18}\Z", re.ASCII)
_REFUSED = "the server rejected our request due to an error in our request"


class _DoesNotApplyError(Exception):
    """An operation does not fit the document."""


class _Document(PlainStruct):
    root: Any
    copied_bytes: int = 0


@bounded
def apply_json_patch(obj: JsonObject, patch: object) -> JsonObject:
    operations = _operations_of(patch)
    document = _Document(copy_of(obj))
    try:
        for operation in operations:
            _OPERATIONS.get(operation.get("op") or "", _unknown)(document, operation)
    except _DoesNotApplyError:
        raise api_errors.Invalid(_REFUSED, details=api_errors.StatusDetails()) from None
    return object_of(document.root)


def object_of(patched: object) -> JsonObject:
    """Check that the result of a patch is an object."""
    if isinstance(patched, dict):
        return patched
    why = f"json: cannot unmarshal {json_type(patched)} into Go value of type map[string]interface {{}}"
    message = f"Invalid value: {go_quote(go_json(patched))}: {why}"
    raise api_errors.invalid("", "", "", [api_errors.FieldError(api_errors.INVALID, "patch", message)])


def _operations_of(patch: object) -> list[JsonObject]:
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise _undecodable(f"json: cannot unmarshal {json_type(patch)} into Go value of type []handlers.jsonPatchOp")
    for operation in patch:
        _check_operation(operation)
    if len(patch) > MAX_OPERATIONS:
        limit = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise api_errors.RequestEntityTooLarge(f"Request entity too large: {limit}")
    return [operation or {} for operation in patch]


def _check_operation(operation: object) -> None:
    if operation is None:
        return
    if not isinstance(operation, dict):
        raise _undecodable(f"json: cannot unmarshal {json_type(operation)} into Go value of type handlers.jsonPatchOp")
    for name in ("op", "path", "from"):
        value = operation.get(name)
        if value is not None and not isinstance(value, str):
            where = f"Go struct field jsonPatchOp.{name} of type string"
            raise _undecodable(f"json: cannot unmarshal {json_type(value)} into {where}")


def _undecodable(why: str) -> api_errors.BadRequest:
    return api_errors.BadRequest(f"error decoding patch: {why}")


def _unknown(document: _Document, operation: JsonObject) -> None:
    raise _DoesNotApplyError


def _pointer(operation: JsonObject, name: str) -> str:
    pointer = operation.get(name)
    if pointer is None:
        raise _DoesNotApplyError
    return str(pointer)


def _find(document: _Document, pointer: str) -> tuple[Any, str]:
    """Resolve a pointer to its container and the key in it."""
    parts = pointer.split("/")
    if len(parts) < 2:
        raise _DoesNotApplyError
    container = document.root
    for part in parts[1:-1]:
        container = _get(container, _unescape(part))
        if not isinstance(container, dict | list):
            raise _DoesNotApplyError
    return container, _unescape(parts[-1])


def _unescape(part: str) -> str:
    # In one pass, so that "~01" becomes "~1".
    return "~".join(piece.replace("~1", "/") for piece in part.split("~0")) if "~" in part else part


def _index(key: str, *, length: int) -> int:
    """Parse a list index; negative ones count from the end."""
    if not _INDEX.match(key):
        raise _DoesNotApplyError
    index = int(key)
    if not -length <= index < length:
        raise _DoesNotApplyError
    return index + length if index < 0 else index


def _get(container: Any, key: str) -> Any:
    # Parity: a missing key of an object reads as null, a missing index is an error.
    return container.get(key) if isinstance(container, dict) else container[_index(key, length=len(container))]


def _put(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(key, length=len(container) + 1), value)


def _take(container: Any, key: str) -> Any:
    if isinstance(container, list):
        return container.pop(_index(key, length=len(container)))
    if key not in container:
        raise _DoesNotApplyError
    return container.pop(key)


def _add(document: _Document, operation: JsonObject) -> None:
    _put(*_find(document, _pointer(operation, "path")), copy_of(operation.get("value")))


def _remove(document: _Document, operation: JsonObject) -> None:
    _take(*_find(document, _pointer(operation, "path")))


def _replace(document: _Document, operation: JsonObject) -> None:
    pointer, value = _pointer(operation, "path"), copy_of(operation.get("value"))
    if not pointer:
        if not isinstance(value, dict | list):
            raise _DoesNotApplyError
        document.root = value
        return
    container, key = _find(document, pointer)
    container[key if isinstance(container, dict) else _index(key, length=len(container))] = value


def _move(document: _Document, operation: JsonObject) -> None:
    value = _take(*_find(document, _pointer(operation, "from")))
    _put(*_find(document, _pointer(operation, "path")), value)


def _copy(document: _Document, operation: JsonObject) -> None:
    value = _get(*_find(document, _pointer(operation, "from")))
    container, key = _find(document, _pointer(operation, "path"))
    document.copied_bytes += len(msgspec.json.encode(value)) if value is not None else 0
    if document.copied_bytes > MAX_COPIED_BYTES:
        raise _DoesNotApplyError
    _put(container, key, copy_of(value))


def _test(document: _Document, operation: JsonObject) -> None:
    pointer = _pointer(operation, "path")
    found = _get(*_find(document, pointer)) if pointer else document.root
    if not same(found, operation.get("value")):
        raise _DoesNotApplyError


_OPERATIONS: dict[str, Callable[[_Document, JsonObject], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


# JSON merge patch: set what the patch names, remove what it sets to null, replace lists.
#
# Upstream: gopkg.in/evanphx/json-patch.v4/merge.go (RFC 7396), k8s.io/apiserver/pkg/endpoints/handlers/patch.go.


@bounded
def apply_merge_patch(obj: JsonObject, patch: object) -> JsonObject:
    if patch is None:
        raise api_errors.BadRequest("Invalid JSON Patch")
    if not isinstance(patch, dict):
        why = f"json: cannot unmarshal {json_type(patch)} into Go value of type map[string]interface {{}}"
        raise api_errors.BadRequest(f"error decoding patch: {why}")
    return merge_patched(obj, patch)
