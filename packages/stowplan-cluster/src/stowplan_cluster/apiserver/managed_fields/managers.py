"""Read, write, sort and cap metadata.managedFields.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal (managedfields.go, capmanagers.go).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from stowplan.kube.api.meta import parse_timestamp
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.managed_fields.field_sets import FieldSet, decoded, ordered, union
from stowplan_cluster.apiserver.objects import JsonObject

APPLY = "Apply"
UPDATE = "Update"

#: Maximum number of Update entries per object; older ones are merged.
MAX_UPDATE_MANAGERS = 10
_OLDEST_CHANGES = "ancient-changes"


class ManagerKey(NamedTuple):
    """The identity of an entry. For Apply, `api_version` is not part of it."""

    manager: str
    operation: str
    api_version: str
    subresource: str


class ManagedEntry(PlainStruct, frozen=True):
    api_version: str
    fields: FieldSet
    time: str = ""


Managers = dict[ManagerKey, ManagedEntry]


def key_of(*, manager: str, operation: str, api_version: str, subresource: str) -> ManagerKey:
    return ManagerKey(manager or "unknown", operation, "" if operation == APPLY else api_version, subresource)


def read_own(entries: object) -> Managers:
    """Decode the entries of a stored object, which `written` produced, without validation."""
    return _read(entries, lambda fields: fields or {})


def read_sent(entries: object) -> Managers:
    """Decode the entries that a client sent; raise ValueError if they are invalid."""
    return _read(entries, decoded)


def _read(entries: object, fields_of: Callable[[Any], FieldSet]) -> Managers:
    if entries is None:
        return {}
    if not isinstance(entries, list):
        raise ValueError("managedFields is not a list")
    managers: Managers = {}
    for i, entry in enumerate(entries):
        _check(entry, i)
        operation, api_version = entry["operation"], entry["apiVersion"]
        key = ManagerKey(
            entry.get("manager") or "",
            operation,
            "" if operation == APPLY else api_version,
            entry.get("subresource") or "",
        )
        managers[key] = ManagedEntry(api_version, fields_of(entry.get("fieldsV1")), entry.get("time") or "")
    return managers


def _check(entry: Any, index: int) -> None:
    if not isinstance(entry, dict):
        raise ValueError(f"managed fields entry {index} is not an object")
    if entry.get("operation") not in (APPLY, UPDATE):
        raise ValueError("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise ValueError("apiVersion must not be empty")
    kind = entry.get("fieldsType")
    if not kind:
        raise ValueError(f"missing fieldsType in managed fields entry {index}")
    if kind != "FieldsV1":
        raise ValueError(f'invalid fieldsType "{kind}" in managed fields entry {index}')
    for name in ("apiVersion", "manager", "subresource", "time"):
        if not isinstance(entry.get(name) or "", str):
            raise ValueError(f"{name} of managed fields entry {index} is not a string")


def written(managers: Managers) -> list[JsonObject]:
    """Encode the entries in order: Apply first, then by time."""
    in_order = sorted(managers.items(), key=_entry_order) if len(managers) > 1 else managers.items()
    return [_entry(key, entry) for key, entry in in_order]


def _entry_order(item: tuple[ManagerKey, ManagedEntry]) -> tuple[str, float, str, str, str]:
    key, entry = item
    return key.operation, _seconds(entry.time), key.manager, entry.api_version, key.subresource


def _seconds(time: str) -> float:
    if not time:
        return 0
    try:
        return parse_timestamp(time) // 1
    except ValueError:
        return 0


def _entry(key: ManagerKey, entry: ManagedEntry) -> JsonObject:
    shown: JsonObject = {
        "manager": key.manager,
        "operation": key.operation,
        "apiVersion": entry.api_version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": entry.fields,
        "subresource": key.subresource,
    }
    return {name: value for name, value in shown.items() if value or name == "fieldsV1"}


def capped(managers: Managers) -> Managers:
    """Merge the oldest Update entries of each version into one entry until the maximum is met."""
    updaters = [key for key in managers if key.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return managers
    managers = dict(managers)
    first_of: dict[str, ManagerKey] = {}
    for key in sorted(updaters, key=lambda key: (_seconds(managers[key].time), key)):
        if excess <= 0:
            break
        entry = managers[key]
        first = first_of.setdefault(entry.api_version, key)
        if first == key:
            continue
        bucket = ManagerKey(_OLDEST_CHANGES, UPDATE, entry.api_version, "")
        merged = union(managers.pop(first).fields, entry.fields)
        del managers[key]
        if bucket in managers:
            merged = union(merged, managers[bucket].fields)
        # The merged entry has the latest of the times.
        managers[bucket] = replace(entry, fields=ordered(merged))
        first_of[entry.api_version] = bucket
        excess -= 1
    return managers
