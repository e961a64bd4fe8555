"""Kubernetes objects as the embedded API handles them: JSON-shaped dicts, owned by one writer at a time."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

#: An object as JSON has it. What is stored is encoded bytes; whoever gets a dict may change it freely.
JsonObject = dict[str, Any]


def metadata_of(obj: JsonObject) -> JsonObject:
    """The object's metadata, made if it is missing."""
    metadata: JsonObject | None = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    return metadata


def value_at(obj: JsonObject, path: str) -> Any:
    """What stands at a path such as `.spec.replicas`; None for nothing."""
    value: Any = obj
    for name in path.removeprefix(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def keep(new: JsonObject, old: JsonObject, *names: str) -> None:
    """Put fields back to what they were."""
    for name in names:
        if old.get(name) is None:
            new.pop(name, None)
        else:
            new[name] = old[name]


def timestamp(seconds: float) -> str:
    """metav1.Time: RFC 3339 in whole seconds."""
    return _whole_seconds(int(seconds))


# Most writes of a second ask for the same one.
@lru_cache(maxsize=64)
def _whole_seconds(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(seconds: float) -> str:
    """metav1.MicroTime: RFC 3339 in microseconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch; ValueError if it is no RFC 3339 time."""
    return datetime.fromisoformat(text).timestamp()
