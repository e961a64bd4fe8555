"""Kubernetes objects as the embedded API handles them: JSON-shaped dicts, owned by one writer at a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

#: An object as JSON has it. What is stored is encoded bytes; whoever gets a dict may change it freely.
JsonObject = dict[str, Any]


def metadata_of(obj: JsonObject) -> JsonObject:
    """The object's metadata, made if it is missing."""
    metadata: JsonObject = obj.setdefault("metadata", {})
    return metadata


def timestamp(seconds: float) -> str:
    """metav1.Time: RFC 3339 in whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(seconds: float) -> str:
    """metav1.MicroTime: RFC 3339 in microseconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch; ValueError if it is no RFC 3339 time."""
    return datetime.fromisoformat(text).timestamp()
