"""Server-side apply: merge a configuration into the live object and take ownership of its fields.

Fields that the manager applied before and no longer applies are removed, unless another manager owns them. Changing a
value that another manager owns is a conflict, unless forced. Nothing is changed in place, so a rejected apply has no
effect.

The manager kubectl may take over the fields that its last-applied annotation shows it applied client-side, and keeps
the annotation up to date, so that users can go back. This applies to no other manager.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal (structuredmerge.go, skipnonapplied.go,
lastappliedmanager.go, lastappliedupdater.go),
sigs.k8s.io/structured-merge-diff/v6/merge/update.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.api_errors import ApiError, BadRequest, Conflict, StatusCause, StatusDetails
from stowplan.kube.api.field_errors import go_json, go_quote
from stowplan.kube.api.merge_patches import copy_of
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.managed_fields.conformance import complaints_text
from stowplan_cluster.apiserver.managed_fields.field_sets import (
    BadElementError,
    FieldSet,
    Path,
    difference,
    element_of,
    has,
    intersection,
    ordered,
    path_text,
    paths,
    union,
    without,
)
from stowplan_cluster.apiserver.managed_fields.managers import (
    APPLY,
    UPDATE,
    ManagedEntry,
    ManagerKey,
    Managers,
    capped,
    key_of,
    read_sent,
    written,
)
from stowplan_cluster.apiserver.managed_fields.object_comparison import compare, is_leaf, type_of_field
from stowplan_cluster.apiserver.managed_fields.owned_fields import (
    SERVERS_OWN,
    fields_of,
    reconciled,
    remove_items,
    reset_fields,
    with_named_fields,
)
from stowplan_cluster.apiserver.managed_fields.updates import after_update, owned_changes, remaining_managers
from stowplan_cluster.apiserver.objects import JsonObject, metadata_of, same
from stowplan_cluster.apiserver.patches.nesting import bounded
from stowplan_cluster.apiserver.schema.type_model import ListType, MapType, Struct, Type

# Merge a configuration into a live object: its values win, nothing is removed.
#
# Merged lists keep the live order, except that elements in both lists follow the configuration's order.
#
# Upstream: sigs.k8s.io/structured-merge-diff/v6/typed/merge.go.


def merge(live: JsonObject, applied: JsonObject, type: Struct) -> JsonObject:
    """The merged object, a deep copy."""
    return _merge_fields(live, applied, type)


def _merge_fields(live: JsonObject, applied: JsonObject, type: Struct | MapType) -> JsonObject:
    merged: JsonObject = {}
    for name, value in live.items():
        merged[name] = _merge_value(value, applied[name], type, name) if name in applied else copy_of(value)
    for name, value in applied.items():
        if name not in live:
            merged[name] = copy_of(value)
    return merged


def _merge_value(live: Any, applied: Any, parent: Struct | MapType, name: str) -> Any:
    return _merge(live, applied, type_of_field(parent, name, applied))


def _merge(live: Any, applied: Any, type: Type) -> Any:
    if is_leaf(type) or not (live or applied):
        return copy_of(applied)
    if isinstance(type, ListType) and _is_kind(list, live, applied):
        return _merge_elements(live or [], applied or [], type)
    if isinstance(type, Struct | MapType) and _is_kind(dict, live, applied):
        return _merge_fields(live or {}, applied or {}, type)
    return copy_of(applied)


def _is_kind(kind: type, *values: object) -> bool:
    """Whether all values are of this type or null, which counts as empty."""
    return all(value is None or value.__class__ is kind for value in values)


def _merge_elements(live: list[Any], applied: list[Any], type: ListType) -> list[Any]:
    steps = [element_of(item, type) for item in live]
    theirs = {element_of(item, type): item for item in applied}
    mine: dict[str, Any] = {}
    for step, item in zip(steps, live, strict=True):
        # Duplicates in the live list cannot be merged: the configuration's element replaces them.
        mine[step] = item if step not in mine else None
    merged = []
    for place, step in _order(steps, list(theirs)):
        if place is not None:
            merged.append(copy_of(live[place]))
        elif mine.get(step) is None:
            merged.append(copy_of(theirs[step]))
        else:
            merged.append(_merge(mine[step], theirs[step], type.element))
    return merged


def _order(live: list[str], applied: list[str]) -> Iterator[tuple[int | None, str]]:
    """The merged order: (index in the live list or None, step). The index is set for elements only in the live list.

    New elements of the configuration go before the next element that both lists have.
    """
    in_live, in_applied, done = set(live), set(applied), set[str]()
    shared = iter([step for step in applied if step in in_live])
    expected = next(shared, None)
    left = right = 0
    while left < len(live) or right < len(applied):
        mine = live[left] if left < len(live) else None
        theirs = applied[right] if right < len(applied) else None
        if mine is not None and mine not in in_applied:
            yield left, mine
            left += 1
            continue
        if mine is not None and theirs is not None and mine != theirs and expected not in (None, mine):
            # In both lists, but not next in the configuration's order.
            left += 1
            continue
        if mine is not None and (mine == theirs or mine in done):
            left += 1
        if theirs is not None:
            yield None, theirs
            done.add(theirs)
            right += 1
            if theirs == expected:
                expected = next(shared, None)


# Conflicts: fields of an applied configuration that other managers own.
#
# Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal/conflict.go.

FIELD_MANAGER_CONFLICT = "FieldManagerConflict"


class FieldConflict(NamedTuple):
    owner: ManagerKey
    path: Path


def conflict_error(conflicts: Sequence[FieldConflict]) -> Conflict:
    """The error for a conflicting apply; conflicts are grouped by owner."""
    causes = [
        StatusCause(
            reason=FIELD_MANAGER_CONFLICT,
            message=f"conflict with {_owner_text(owner)}",
            field=path_text(path),
        )
        for owner, path in conflicts
    ]
    return Conflict(_message(conflicts), details=StatusDetails(causes=tuple(causes)))


def _message(conflicts: Sequence[FieldConflict]) -> str:
    if len(conflicts) == 1:
        owner, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {_owner_text(owner)}: {path_text(path)}"
    lines = []
    for owner, contested in groupby(conflicts, key=lambda conflict: conflict.owner):
        lines += [f"conflicts with {_owner_text(owner)}:", *(f"- {path_text(path)}" for _, path in contested)]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _owner_text(owner: ManagerKey) -> str:
    text = go_quote(owner.manager)
    if owner.subresource:
        text += f" with subresource {go_quote(owner.subresource)}"
    return f"{text} using {owner.api_version}" if owner.operation == UPDATE else text


#: The manager that owns fields set before managed fields were tracked.
_BEFORE_FIRST_APPLY = "before-first-apply"


class _Application(PlainStruct, frozen=True):
    """The inputs of one apply."""

    live: JsonObject
    applied: JsonObject
    type: Struct
    key: ManagerKey
    api_version: str
    reset: FieldSet
    managers: Managers


class _Outcome(PlainStruct, frozen=True):
    merged: JsonObject
    managers: Managers
    conflicts: list[FieldConflict]


@bounded
def apply(
    *,
    live: JsonObject | None,
    applied: JsonObject,
    type: Struct,
    manager: str,
    force: bool,
    subresource: str,
    api_version: str,
    time: str,
    reset: FieldSet | None = None,
) -> JsonObject:
    """The object after a server-side apply, including its managed fields; `live` is None for a new object.

    Defaults are not set yet, and nulls of the configuration are kept.
    """
    _check_applied(live, applied, type, api_version)
    base = {} if live is None else copy_of(live)
    metadata_of(base).pop("managedFields", None)
    try:
        application = _Application(
            live=base,
            applied=applied,
            type=type,
            key=key_of(manager=manager, operation=APPLY, api_version=api_version, subresource=subresource),
            api_version=api_version,
            reset=reset_fields(type, subresource) if reset is None else reset,
            managers=_managers_of(live, type),
        )
        if live is not None and not application.managers:
            application = _with_first_owner(application, time)
        outcome = _applied(application, manager, force=force)
    except BadElementError as error:
        raise ApiError(f"failed to create typed live object ({_described(base)}): {error}") from None
    return _finished(application, outcome, manager, time)


def _check_applied(live: JsonObject | None, applied: JsonObject, type: Struct, api_version: str) -> None:
    if not isinstance(applied, dict):
        raise BadRequest("error decoding YAML: the configuration is not an object")
    kind = live.get("kind") if live else type.name.rpartition(".")[2]
    if applied.get("apiVersion") != api_version or (kind and applied.get("kind") != kind):
        raise BadRequest(f"invalid object type: {_described_type(applied)}")
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    if complaints := complaints_text(applied, type):
        raise ApiError(f"failed to create typed patch object ({_described(applied)}): {complaints}")


def _described(obj: JsonObject) -> str:
    metadata = obj.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    return f"{names.get('namespace') or ''}/{names.get('name') or ''}; {_described_type(obj)}"


def _described_type(obj: JsonObject) -> str:
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind') or ''}"


def _managers_of(live: JsonObject | None, type: Struct) -> Managers:
    if live is None:
        return {}
    try:
        managers = read_sent(metadata_of(live).get("managedFields"))
    except ValueError as error:
        raise ApiError(f"failed to decode managed fields: {error}") from None
    if type.name:
        return managers
    return {key: replace(entry, fields=reconciled(entry.fields, type)) for key, entry in managers.items()}


def _with_first_owner(application: _Application, time: str) -> _Application:
    changes = owned_changes({}, application.live, application.type, application.reset)
    key = key_of(
        manager=_BEFORE_FIRST_APPLY,
        operation=UPDATE,
        api_version=application.api_version,
        subresource=application.key.subresource,
    )
    managers = after_update({}, changes, key=key, api_version=application.api_version, time=time)
    return replace(application, managers=capped(managers))


def _applied(application: _Application, manager: str, *, force: bool) -> _Outcome:
    outcome = _attempted(application)
    conflicts = [] if force else outcome.conflicts
    if conflicts and manager == KUBECTL:
        mine = fields_applied_before(application.live, application.type, api_version=application.api_version)
        conflicts = [conflict for conflict in conflicts if not has(mine, conflict.path)]
    if conflicts:
        raise conflict_error(conflicts)
    return outcome


def _attempted(application: _Application) -> _Outcome:
    """Merge and prune as if forced; the outcome lists the conflicts."""
    key, type = application.key, application.type
    merged = merge(application.live, application.applied, type)
    owned = without(fields_of(application.applied, type), application.reset)
    before = application.managers.get(key)
    others = {other: entry for other, entry in application.managers.items() if other != key}
    if before is not None:
        claimed = reduce(union, (entry.fields for entry in others.values()), owned)
        merged = _pruned(merged, before.fields, claimed, type)
    changes = owned_changes(application.live, merged, type, application.reset)
    conflicts = [
        FieldConflict(other, path)
        for other in sorted(others)
        for path in paths(intersection(others[other].fields, changes.changed))
    ]
    managers = remaining_managers(others, changes)
    managers[key] = ManagedEntry(application.api_version, owned, before.time if before is not None else "")
    return _Outcome(merged, managers, conflicts)


def _pruned(merged: JsonObject, last: FieldSet, claimed: FieldSet, type: Struct) -> JsonObject:
    """Remove fields that were applied last time and have no owner now.

    Parents of owned fields remain, and so do fields that never had an owner.
    """
    last, claimed = with_named_fields(last, type), with_named_fields(claimed, type)
    all_fields = with_named_fields(fields_of(merged, type), type)
    left = _named_fields_of(remove_items(merged, last, type), type)
    gone = difference(all_fields, union(left, claimed))
    left = _named_fields_of(remove_items(merged, gone, type), type)
    pruned: JsonObject = remove_items(merged, intersection(difference(all_fields, left), last), type)
    return pruned


def _named_fields_of(obj: JsonObject, type: Struct) -> FieldSet:
    return with_named_fields(fields_of(obj, type), type)


def _finished(application: _Application, outcome: _Outcome, manager: str, time: str) -> JsonObject:
    managers = dict(outcome.managers)
    entry = managers.pop(application.key)
    fields = ordered(difference(entry.fields, SERVERS_OWN))
    unchanged = same(outcome.merged, application.live)
    if fields:
        # Parity: an apply that changes no value keeps the time, even if it is the manager's first.
        managers[application.key] = replace(entry, fields=fields, time=entry.time if unchanged else time)
    result = outcome.merged
    if manager == KUBECTL:
        update_annotation(result, application.applied)
    if managers:
        metadata_of(result)["managedFields"] = written(managers)
    return result


KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

#: Limit on the total size of an object's annotations.
_MAX_ANNOTATION_BYTES = 256 * 1024


def fields_applied_before(live: JsonObject, type: Struct, *, api_version: str) -> FieldSet:
    """The fields that the annotation says were applied and that still have the applied value."""
    text = _annotations(live).get(LAST_APPLIED)
    if not isinstance(text, str) or not text:
        return {}
    try:
        applied = msgspec.json.decode(text)
        if not isinstance(applied, dict) or applied.get("apiVersion") != api_version or complaints_text(applied, type):
            return {}
        changes = compare(applied, live, type)
        return difference(fields_of(applied, type), union(changes.changed, changes.removed))
    except (msgspec.DecodeError, BadElementError, RecursionError):
        return {}


def update_annotation(obj: JsonObject, applied: JsonObject) -> None:
    """Update the annotation to the applied configuration, if the object has one."""
    annotations = _annotations(obj)
    if not annotations.get(LAST_APPLIED):
        return
    annotations[LAST_APPLIED] = _annotation_text(applied)
    size = sum(len(name.encode()) + len(str(value).encode()) for name, value in annotations.items())
    if size > _MAX_ANNOTATION_BYTES:
        del annotations[LAST_APPLIED]


def _annotations(obj: JsonObject) -> dict[str, Any]:
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def _annotation_text(applied: JsonObject) -> str:
    """The configuration without the annotation itself, as Go writes unstructured JSON."""
    annotations = _annotations(applied)
    if LAST_APPLIED in annotations:
        kept = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
        applied = {**applied, "metadata": {**applied["metadata"], "annotations": kept}}
    return go_json(json.loads(json.dumps(applied, sort_keys=True))) + "\n"
