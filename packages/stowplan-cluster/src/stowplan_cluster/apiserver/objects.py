"""Kubernetes objects as the embedded API handles them: JSON-shaped dicts, owned by one writer at a time."""

from __future__ import annotations

from typing import Any

#: A decoded JSON object. The store keeps encoded bytes, so whoever receives a dict may change it.
JsonObject = dict[str, Any]


def metadata_of(obj: JsonObject) -> JsonObject:
    """The object's metadata, created if missing."""
    metadata: JsonObject | None = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    return metadata


def value_at(obj: JsonObject, path: str) -> Any:
    """The value at a path such as `.spec.replicas`; None if absent."""
    value: Any = obj
    for name in path.removeprefix(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def keep(new: JsonObject, old: JsonObject, *names: str) -> None:
    """Restore fields to their old values."""
    for name in names:
        if old.get(name) is None:
            new.pop(name, None)
        else:
            new[name] = old[name]
