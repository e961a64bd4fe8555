"""Merge a configuration into a live object: its values win, nothing is removed.

Merged lists keep the live order, except that elements in both lists follow the configuration's order.

Upstream: sigs.k8s.io/structured-merge-diff/v6/typed/merge.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan_cluster.apiserver.json_values import copy_of
from stowplan_cluster.apiserver.managed_fields.comparison import is_leaf, type_of_field
from stowplan_cluster.apiserver.managed_fields.path_elements import element_of
from stowplan_cluster.apiserver.schema.types import ListType, MapType, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.schema.types import Type


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
