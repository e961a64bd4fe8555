"""JSON merge patch: set what the patch names, remove what it sets to null, replace lists.

Upstream: gopkg.in/evanphx/json-patch.v4/merge.go (RFC 7396), k8s.io/apiserver/pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.kube.api.api_errors import BadRequest
from stowplan_cluster.apiserver.objects import copy_of, json_type
from stowplan_cluster.apiserver.patches.nesting import bounded

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


@bounded
def apply_merge_patch(obj: JsonObject, patch: object) -> JsonObject:
    if patch is None:
        raise BadRequest("Invalid JSON Patch")
    if not isinstance(patch, dict):
        why = f"json: cannot unmarshal {json_type(patch)} into Go value of type map[string]interface {{}}"
        raise BadRequest(f"error decoding patch: {why}")
    return _merged(obj, patch)


def _merged(current: JsonObject, patch: JsonObject) -> JsonObject:
    merged = dict(current)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _replacement(current.get(key), value)
    return {key: value if key in patch else copy_of(value) for key, value in merged.items()}


def _replacement(current: object, value: Any) -> Any:
    if not isinstance(current, dict):
        return _without_nulls(value)
    if isinstance(value, dict):
        return _merged(current, value)
    # Parity: nulls inside a list are removed if it replaces another list, and kept if it replaces an object.
    return copy_of(value)


def _without_nulls(value: Any) -> Any:
    """Remove null fields of objects; null elements of lists are kept."""
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [_without_nulls(child) for child in value]
    return value
