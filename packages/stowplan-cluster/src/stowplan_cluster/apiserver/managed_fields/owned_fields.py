"""The fields that a configuration sets, removal of fields from an object, and fields that nobody owns.

A configuration owns its leaves, list elements, map entries and empty values, but not the named fields that only lead to
them. Fields that the server sets have no owner, nor those that an endpoint does not write: a write of the main resource
never owns status, a write of status never owns spec.

Upstream: sigs.k8s.io/structured-merge-diff/v6/typed (tofieldset.go, remove.go),
k8s.io/apimachinery/pkg/util/managedfields/internal/stripmeta.go, GetResetFields of the strategies in pkg/registry
and of custom resources.
"""

from __future__ import annotations

from typing import Any

from stowplan_cluster.apiserver.managed_fields.field_sets import MEMBER, FieldSet, element_of, in_order, is_member
from stowplan_cluster.apiserver.managed_fields.object_comparison import is_leaf, type_of_field
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.schema.type_model import ListType, MapType, Scalar, Struct, Type


def fields_of(obj: JsonObject, type: Struct) -> FieldSet:
    return _fields(obj, type)


def _fields(value: JsonObject, type: Struct | MapType) -> FieldSet:
    named = type.fields if isinstance(type, Struct) else {}
    found: FieldSet = {}
    for name in sorted(value):
        child = value[name]
        below = _below(child, type_of_field(type, name, child))
        if name not in named:
            found["f:" + name] = {MEMBER: {}, **below} if below else {}
        elif below is not None:
            found["f:" + name] = below
    return found


def _below(value: Any, type: Type) -> FieldSet | None:
    """The owned set below a field: {} means the field itself, None nothing."""
    if is_leaf(type) or value is None:
        return {}
    if isinstance(type, ListType):
        # Parity: an empty list that merges has no owner.
        return (_elements(value, type) or None) if isinstance(value, list) else {}
    if isinstance(type, Struct | MapType) and isinstance(value, dict):
        # Neither has an object that contains only such lists.
        return (_fields(value, type) or None) if value else {}
    return {}


def _elements(value: list[Any], type: ListType) -> FieldSet:
    found: dict[str, FieldSet] = {}
    twins: set[str] = set()
    for item in value:
        step = element_of(item, type)
        if step in found:
            twins.add(step)
        below = _below(item, type.element)
        found[step] = {MEMBER: {}, **below} if below else {}
    return {step: {} if step in twins else found[step] for step in in_order(found)}


def with_named_fields(fields: FieldSet, type: Type | None) -> FieldSet:
    """The set plus the named fields that lead to its members."""
    named = type.fields if isinstance(type, Struct) else {}
    result: FieldSet = {}
    for step, node in fields.items():
        if not node:
            result[step] = node
            continue
        below = with_named_fields(node, _type_at(type, step))
        is_named = step[:2] == "f:" and step[2:] in named
        result[step] = {MEMBER: {}, **below} if is_named else below
    return result


def _type_at(type: Type | None, step: str) -> Type | None:
    if isinstance(type, Struct):
        return type.fields.get(step[2:])
    if isinstance(type, MapType):
        return type.value
    return type.element if isinstance(type, ListType) else None


def remove_items(value: Any, unwanted: FieldSet, type: Type) -> Any:
    """Remove the members of a set from a value; containers that become empty stay."""
    if isinstance(value, dict):
        return _remaining_fields(value, unwanted, type)
    if isinstance(value, list):
        return _remaining_elements(value, unwanted, type)
    return value


def _remaining_fields(value: JsonObject, unwanted: FieldSet, type: Type) -> JsonObject:
    if not isinstance(type, Struct | MapType) or type.atomic:
        return {}
    kept: JsonObject = {}
    for name, child in value.items():
        node = unwanted.get("f:" + name)
        if node is None:
            kept[name] = child
        elif not is_member(node):
            kept[name] = remove_items(child, node, type_of_field(type, name, child))
    return kept


def _remaining_elements(value: list[Any], unwanted: FieldSet, type: Type) -> list[Any]:
    if not isinstance(type, ListType) or is_leaf(type):
        return []
    kept = []
    for item in value:
        node = unwanted.get(element_of(item, type))
        if node is None:
            kept.append(item)
        elif not is_member(node):
            kept.append(remove_items(item, node, type.element))
    return kept


def reconciled(fields: FieldSet, type: Type) -> FieldSet:
    """Adapt a set to a type whose parts became atomic: owning anything inside means owning the whole.

    Upstream: sigs.k8s.io/structured-merge-diff/v6/typed/reconcile_schema.go.
    """
    result: FieldSet = {}
    for step, node in fields.items():
        below = _type_at(type, step)
        if not node or below is None or isinstance(below, Scalar):
            result[step] = node
        else:
            result[step] = {} if is_leaf(below) else reconciled(node, below)
    return result


_OF_METADATA = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
#: Never owned by any manager.
SERVERS_OWN: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {".": {}, **{f"f:{name}": {} for name in _OF_METADATA}},
}

#: Fields besides spec that a write of status does not own, by kind.
_KEPT_BY_STATUS: dict[str, FieldSet] = {
    "Deployment": {"f:metadata": {"f:labels": {}}},
    "Pod": {"f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}}},
    "PodGroup": {"f:metadata": {}},
    "ResourceClaim": {"f:metadata": {}},
    "VolumeAttachment": {"f:metadata": {}},
}


def reset_fields(type: Struct, subresource: str) -> FieldSet:
    """The fields that writes to an endpoint do not own. A custom type must have the status subresource."""
    kind = type.name.rpartition(".")[2]
    if subresource == "status":
        return {"f:spec": {}, **(_KEPT_BY_STATUS.get(kind, {}) if kind else {"f:metadata": {}})}
    return {"f:status": {}} if isinstance(type.fields.get("status"), Struct) or not kind else {}
