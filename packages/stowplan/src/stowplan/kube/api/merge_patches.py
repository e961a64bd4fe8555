"""JSON merge patch (RFC 7396), as an API server applies it.

Upstream: gopkg.in/evanphx/json-patch.v4/merge.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patched(current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The patched object, which shares no dict and no list with the others."""
    merged = dict(current)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = replacement(current.get(key), value)
    return {key: value if key in patch else copy_of(value) for key, value in merged.items()}


def replacement(current: object, value: Any) -> Any:
    """What a field becomes that a patch sets to the value, which is not null."""
    if not isinstance(current, Mapping):
        return _without_nulls(value)
    if isinstance(value, Mapping):
        return merge_patched(current, value)
    # Parity: nulls inside a list are removed if it replaces another list, and kept if it replaces an object.
    return copy_of(value)


def copy_of(value: Any) -> Any:
    """A copy that shares no dict and no list with the value."""
    if isinstance(value, dict):
        return {key: copy_of(child) for key, child in value.items()}
    if isinstance(value, list):
        return [copy_of(child) for child in value]
    return value


def _without_nulls(value: Any) -> Any:
    """Remove null fields of objects; null elements of lists are kept."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [_without_nulls(child) for child in value]
    return value
