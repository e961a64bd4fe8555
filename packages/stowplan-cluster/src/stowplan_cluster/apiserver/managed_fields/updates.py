"""Managed fields of plain writes: a changed field moves to the writer.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal (fieldmanager.go, skipnonapplied.go,
managedfieldsupdater.go), sigs.k8s.io/structured-merge-diff/v6/merge/update.go.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan_cluster.apiserver.managed_fields.field_sets import (
    BadElementError,
    FieldSet,
    difference,
    ordered,
    union,
    without,
)
from stowplan_cluster.apiserver.managed_fields.managers import (
    UPDATE,
    ManagedEntry,
    Managers,
    capped,
    key_of,
    read_own,
    read_sent,
    written,
)
from stowplan_cluster.apiserver.managed_fields.object_comparison import Changes, compare
from stowplan_cluster.apiserver.managed_fields.owned_fields import SERVERS_OWN, reconciled, reset_fields
from stowplan_cluster.apiserver.objects import JsonObject, metadata_of
from stowplan_cluster.apiserver.schema import conform
from stowplan_cluster.apiserver.schema.type_model import Struct

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.managed_fields.managers import ManagerKey


def record_update(
    *,
    old: JsonObject | None,
    new: JsonObject,
    type: Struct,
    manager: str,
    subresource: str,
    api_version: str,
    time: str,
    reset: FieldSet | None = None,
) -> None:
    """Set `new.metadata.managedFields` after a create (`old` is None), update or patch.

    `new` is the object to store, in the requested version. Its own managedFields are used if they are valid; an empty
    list drops all of them. `reset` is the set of fields that the endpoint does not own, by default `reset_fields`.
    """
    live = None if old is None else metadata_of(old).get("managedFields")
    sent = metadata_of(new).pop("managedFields", None)
    managers = _managers_before(live, sent, subresource)
    if not managers and old is not None:
        # Not tracked until the first apply.
        return
    try:
        before = _blank(type) if old is None else old
        changes = owned_changes(before, new, type, reset_fields(type, subresource) if reset is None else reset)
    except BadElementError:
        # Parity: an object that cannot be tracked is stored without managed fields.
        return
    key = key_of(manager=manager, operation=UPDATE, api_version=api_version, subresource=subresource)
    managers = capped(after_update(_of_type(managers, type), changes, key=key, api_version=api_version, time=time))
    if managers:
        metadata_of(new)["managedFields"] = written(managers)


@cache
def _blank(type: Struct) -> JsonObject:
    """What a new object is compared with: for built-in kinds, the zero values that are always encoded."""
    obj: JsonObject = {}
    if type.name:
        conform(type, obj)
    return obj


def _managers_before(live: object, sent: object, subresource: str) -> Managers:
    if subresource or sent is None or sent == live:
        return read_own(live)
    if sent in ([], [{}]):
        return {}
    try:
        return read_sent(sent) or read_own(live)
    except (ValueError, RecursionError):
        # Parity: undecodable managed fields are treated as absent.
        return read_own(live)


def _of_type(managers: Managers, type: Struct) -> Managers:
    """Adapt the managers' fields to the current type; only custom types ever change."""
    if type.name:
        return managers
    return {key: replace(entry, fields=reconciled(entry.fields, type)) for key, entry in managers.items()}


def owned_changes(old: JsonObject, new: JsonObject, type: Struct, reset: FieldSet) -> Changes:
    """The changes of a write, without the fields that the endpoint does not own."""
    changes = compare(old, new, type)
    return Changes(without(changes.changed, reset), without(changes.removed, reset)) if reset else changes


def after_update(managers: Managers, changes: Changes, *, key: ManagerKey, api_version: str, time: str) -> Managers:
    """The managers after an update by one of them."""
    managers = remaining_managers(managers, changes)
    taken = difference(changes.changed, SERVERS_OWN)
    if taken:
        before = managers.get(key)
        fields = ordered(union(taken, before.fields)) if before is not None else taken
        managers[key] = ManagedEntry(api_version, fields, time)
    return managers


def remaining_managers(managers: Managers, changes: Changes) -> Managers:
    """The managers without the fields that another manager changed or removed."""
    touched = union(changes.changed, changes.removed)
    if not touched:
        return dict(managers)
    left = {key: replace(entry, fields=difference(entry.fields, touched)) for key, entry in managers.items()}
    return {key: entry for key, entry in left.items() if entry.fields}


# Keep the timestamps of managed fields if nothing else changed.
#
# Upstream: k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/equality.go.


def keep_times(*, old: JsonObject, new: JsonObject) -> None:
    """Copy the old timestamps if nothing else differs, so that the write becomes a no-op."""
    before, after = metadata_of(old).get("managedFields"), metadata_of(new).get("managedFields")
    if before and after and before != after and _timeless(before) == _timeless(after) and _rest_equal(old, new):
        metadata_of(new)["managedFields"] = before


def _timeless(entries: list[JsonObject]) -> list[JsonObject]:
    return [{name: value for name, value in entry.items() if name != "time"} for entry in entries]


def _rest_equal(old: JsonObject, new: JsonObject) -> bool:
    return _without_managed_fields(old) == _without_managed_fields(new)


def _without_managed_fields(obj: JsonObject) -> dict[str, Any]:
    metadata = {name: value for name, value in metadata_of(obj).items() if name != "managedFields"}
    return {**obj, "metadata": metadata}
