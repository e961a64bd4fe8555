"""Compare two objects path by path.

Equal subtrees are skipped with one comparison in C, so a small change of a large object costs little more than
comparing it. The result is two sets: changed fields, which include added ones, as both make the writer their owner; and
removed fields.

Upstream: sigs.k8s.io/structured-merge-diff/v6/typed/compare.go.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from stowplan_cluster.apiserver.managed_fields.field_sets import MEMBER, FieldSet, element_of, in_order
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.schema.type_model import ATOMIC, UNTYPED, ListType, MapType, Scalar, Struct, Type

# Fields of built-in types that are always present, even if absent in JSON.
#
# Upstream compares Go structs. Fields that a struct holds by value, and lists and maps that are encoded even when
# nil, are always present, so setting them does not add them. So a pod's creator owns `.spec.containers[name="web"]`
# and everything in it but not `.spec`, and owns `.resources` of each container though nobody set it. Custom resources
# are plain JSON: absent means absent.
#
# Upstream: the types.go of k8s.io/api; sigs.k8s.io/structured-merge-diff/v6/value (reflectcache.go).

_EVERYWHERE = ("metadata", "spec", "status")
#: Other fields held by value, as (kind, field); required fields need no entry.
_BY_VALUE = frozenset(
    {
        ("AllocationResult", "devices"),
        ("Container", "resources"),
        ("ContainerStatus", "lastState"),
        ("ContainerStatus", "state"),
        ("CustomResourceDefinitionStatus", "acceptedNames"),
        ("DaemonSetSpec", "updateStrategy"),
        ("DeploymentSpec", "strategy"),
        ("EphemeralContainer", "resources"),
        ("Event", "deprecatedSource"),
        ("Event", "regarding"),
        ("Event", "source"),
        ("NodeDaemonEndpoints", "kubeletEndpoint"),
        ("NodeStatus", "daemonEndpoints"),
        ("NodeStatus", "nodeInfo"),
        ("PersistentVolumeClaimSpec", "resources"),
        ("PodTemplate", "template"),
        ("ReplicaSetSpec", "template"),
        ("ResourceClaimSpec", "devices"),
        ("ServiceStatus", "loadBalancer"),
        ("StatefulSetSpec", "updateStrategy"),
    }
)
#: Exceptions to `_EVERYWHERE`: pointers upstream.
_OPTIONAL = frozenset({("CustomResourceSubresources", "status")})


@lru_cache(maxsize=4096)
def never_absent(type: Struct) -> dict[str, Any]:
    """The fields of a type that are never absent, with their empty values."""
    kind = type.name.rpartition(".")[2]
    found: dict[str, Any] = {}
    for name, field in type.fields.items():
        by_value = isinstance(field, Struct) and (name in _EVERYWHERE or (kind, name) in _BY_VALUE)
        by_value = by_value and (kind, name) not in _OPTIONAL
        if kind and not isinstance(field, Scalar) and (by_value or name in type.required):
            found[name] = [] if isinstance(field, ListType) else {}
    return found


_ABSENT = object()


class Changes(NamedTuple):
    #: Added, or set to another value.
    changed: FieldSet
    removed: FieldSet


def compare(old: JsonObject, new: JsonObject, type: Struct) -> Changes:
    changes = Changes({}, {})
    _compare_fields(old, new, type, changes)
    return changes


def type_of_field(type: Struct | MapType, name: str, value: object) -> Type:
    """The type of a field; for an undeclared field it is deduced from the value."""
    if isinstance(type, MapType):
        return type.value
    found = type.fields.get(name)
    return found if found is not None else (UNTYPED if isinstance(value, dict) else Scalar.ANY)


def is_leaf(type: Type) -> bool:
    """Whether values of the type are owned as a whole."""
    if isinstance(type, ListType):
        return type.kind == ATOMIC
    return isinstance(type, Scalar) or type.atomic


def everything(value: Any, type: Type) -> FieldSet:
    """The set of all paths in a value that is added or removed as a whole."""
    if isinstance(value, dict) and isinstance(type, Struct | MapType) and not type.atomic:
        return _all_fields(value, type)
    if isinstance(value, list) and value and isinstance(type, ListType) and type.kind != ATOMIC:
        return _all_elements(value, type)
    return {}


def _all_fields(value: JsonObject, type: Struct | MapType) -> FieldSet:
    if isinstance(type, Struct):
        always = never_absent(type)
        if always and not always.keys() <= value.keys():
            value = {**always, **value}
    if not value:
        return {}
    node: FieldSet = {MEMBER: {}}
    for name in sorted(value):
        child = value[name]
        # Fast path: most fields are scalars.
        plain = child.__class__ is not dict and child.__class__ is not list
        node["f:" + name] = {} if plain else everything(child, type_of_field(type, name, child))
    return node


def _all_elements(value: list[Any], type: ListType) -> FieldSet:
    found = _by_element(value, type)
    node: FieldSet = {MEMBER: {}}
    for step in in_order(found):
        items = found[step]
        # Duplicate elements are owned together.
        node[step] = everything(items[0], type.element) if len(items) == 1 else {}
    return node


def _by_element(value: list[Any], type: ListType) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in value:
        found.setdefault(element_of(item, type), []).append(item)
    return found


def _compare_fields(old: JsonObject, new: JsonObject, type: Struct | MapType, into: Changes) -> None:
    names = [name for name, value in new.items() if name not in old or old[name] != value]
    names += [name for name in old if name not in new]
    always = never_absent(type) if isinstance(type, Struct) else {}
    for name in sorted(names):
        absent = always.get(name, _ABSENT)
        before, after = old.get(name, absent), new.get(name, absent)
        # An undeclared field is an object if either side is one.
        sample = before if after is _ABSENT or before.__class__ is dict else after
        _compare_step("f:" + name, before, after, type_of_field(type, name, sample), into)


def _compare_step(step: str, old: Any, new: Any, type: Type, into: Changes) -> None:
    if old is _ABSENT:
        into.changed[step] = everything(new, type)
    elif new is _ABSENT:
        into.removed[step] = everything(old, type)
    elif is_leaf(type) or not (old or new):
        if old != new:
            into.changed[step] = {}
    else:
        _compare_inside(step, old, new, type, into)


def _compare_inside(step: str, old: Any, new: Any, type: Type, into: Changes) -> None:
    """Compare two containers; null stands for an empty one."""
    below = Changes({}, {})
    if isinstance(type, ListType) and _is_container(old, list) and _is_container(new, list):
        _compare_elements(old or [], new or [], type, below)
    elif isinstance(type, Struct | MapType) and _is_container(old, dict) and _is_container(new, dict):
        _compare_fields(old or {}, new or {}, type, below)
    else:
        _compare_unlike(old, new, type, below)
    if below.changed:
        into.changed[step] = _leaf_if_alone(below.changed)
    if below.removed:
        into.removed[step] = _leaf_if_alone(below.removed)


def _is_container(value: object, kind: type) -> bool:
    return value is None or value.__class__ is kind


def _compare_unlike(old: Any, new: Any, type: Type, into: Changes) -> None:
    """Compare values of different JSON types; the schema allows both."""
    into.changed[MEMBER] = {}
    into.changed.update(everything(new, type))
    into.removed.update({step: node for step, node in everything(old, type).items() if step != MEMBER})


def _leaf_if_alone(node: FieldSet) -> FieldSet:
    return {} if len(node) == 1 and MEMBER in node else node


def _compare_elements(old: list[Any], new: list[Any], type: ListType, into: Changes) -> None:
    before, after = _by_element(old, type), _by_element(new, type)
    for step in in_order(before.keys() | after.keys()):
        mine, theirs = before.get(step, []), after.get(step, [])
        if mine == theirs:
            continue
        if len(mine) < 2 and len(theirs) < 2:
            one, other = (*mine, _ABSENT)[0], (*theirs, _ABSENT)[0]
            _compare_step(step, one, other, type.element, into)
        else:
            _compare_twins(step, mine, theirs, type, into)


def _compare_twins(step: str, old: list[Any], new: list[Any], type: ListType, into: Changes) -> None:
    """Compare duplicates: elements with the same path are owned as a whole while there are several of them."""
    if len(new) < 2:
        into.removed[step] = {}
        if new:
            into.changed[step] = everything(new[0], type.element)
        return
    into.changed[step] = {}
    if len(old) == 1:
        into.removed[step] = everything(old[0], type.element)
