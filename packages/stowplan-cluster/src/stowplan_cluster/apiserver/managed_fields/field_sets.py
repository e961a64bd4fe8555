"""Sets of field paths, in the JSON form of fieldsV1.

A set is a trie of path elements ("steps"). A step without children is a member; a step with children is a member only
if they include `MEMBER`. So an empty dict is a leaf below a step, and the empty set at the top. Sets are immutable and
share subtrees.

Upstream: sigs.k8s.io/structured-merge-diff/v6/fieldpath (set.go, serialize.go).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from stowplan.kube.api.field_errors import go_json, go_quote
from stowplan_cluster.apiserver.objects import go_text
from stowplan_cluster.apiserver.schema.type_model import MAP, ListType

# Path elements of fieldsV1: `f:name`, `k:{"name":"x"}`, `v:"x"`, `i:0`.
#
# Path elements ("steps") are kept as strings, which are canonical: keys are sorted and JSON is compact. They are
# ordered as upstream: field names, keys, values, indices; numbers by value.
#
# Upstream: sigs.k8s.io/structured-merge-diff/v6/fieldpath (element.go, serialize-pe.go).

#: The key by which a path with children is a member itself.
MEMBER = "."

_KINDS = ("f:", "k:", "v:", "i:")
#: Only short steps are cached: they recur, long ones would only fill the caches.
_LONGEST_CACHED = 300


class BadElementError(ValueError):
    """A list element has no path: its keys are missing, or it has the wrong type."""


def element_of(item: object, list_type: ListType) -> str:
    """The step to an element of a merging list: by its keys, or by its value."""
    return _keyed(item, list_type) if list_type.kind == MAP else _valued(item)


def _keyed(item: object, list_type: ListType) -> str:
    if item is None:
        raise BadElementError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise BadElementError("associative list with keys may not have non-map elements")
    keys = list_type.keys
    if len(keys) == 1 and (value := item.get(keys[0])).__class__ is str and len(value) < _LONGEST_CACHED:
        return _named(keys[0], value)
    found = {name: item[name] for name in keys if name in item}
    if len(found) < len(keys):
        found = {**{name: value for name, value in list_type.key_defaults.items() if name in keys}, **found}
    if not found:
        listed = "[" + " ".join(map(go_quote, keys)) + "]"
        why = f"an element that omits all key fields {listed} (and doesn't have default values for any key fields)"
        raise BadElementError(f"associative list with keys has {why}")
    return _with_plain_keys(tuple(found.items())) if all(map(_is_cached, found.values())) else _with_keys(found)


def _is_cached(value: Any) -> bool:
    # 1 and True are the same cache key, but not the same step.
    return value.__class__ is int or (value.__class__ is str and len(value) < _LONGEST_CACHED)


@lru_cache(maxsize=8192)
def _named(name: str, value: str) -> str:
    return _with_keys({name: value})


@lru_cache(maxsize=8192)
def _with_plain_keys(keys: tuple[tuple[str, str | int], ...]) -> str:
    return _with_keys(dict(keys))


def _with_keys(keys: dict[str, Any]) -> str:
    return "k:{" + ",".join(f"{go_json(name)}:{go_json(keys[name])}" for name in sorted(keys)) + "}"


def _valued(item: object) -> str:
    if isinstance(item, dict):
        raise BadElementError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise BadElementError("not supported: associative list with lists as elements")
    if item is None:
        raise BadElementError("associative list without keys has an element that's an explicit null")
    return "v:" + go_json(item)


def canonical(step: str) -> str | None:
    """Normalize a client's step; None for an unknown kind of step."""
    if len(step) < 2:
        raise ValueError("key must be 2 characters long:")
    kind, text = step[:2], step[2:]
    if kind[1] != ":":
        raise ValueError(f"missing colon: {step}")
    if kind not in _KINDS:
        return None
    if kind == "f:":
        return step
    if kind == "i:":
        return f"i:{int(text)}"
    value = json.loads(text)
    if kind == "v:":
        return "v:" + go_json(value)
    if not isinstance(value, dict):
        raise ValueError(f"keys are not an object: {step}")
    return _with_keys(value)


def in_order(steps: Iterable[str]) -> list[str]:
    """Sort the steps of one level; `MEMBER` comes first."""
    ordered = sorted(steps)
    # Fast path: field names sort as strings, and before all other kinds.
    if len(ordered) > 1 and ordered[-1][0] != "f":
        ordered.sort(key=_rank)
    return ordered


def _rank(step: str) -> tuple[int, Any]:
    return _cached_rank(step) if len(step) < _LONGEST_CACHED else _ranked(step)


@lru_cache(maxsize=8192)
def _cached_rank(step: str) -> tuple[int, Any]:
    return _ranked(step)


def _ranked(step: str) -> tuple[int, Any]:
    if step == MEMBER:
        return -1, ""
    kind, text = step[:2], step[2:]
    if kind == "f:":
        return 0, text
    value = json.loads(text)
    if kind == "k:":
        return 1, tuple((name, *_value_rank(value[name])) for name in sorted(value))
    return (2, _value_rank(value)) if kind == "v:" else (3, value)


def _value_rank(value: object) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 1, value
    return (5, "") if value is None else (3 if isinstance(value, list) else 4, go_json(value))


def path_text(path: Iterable[str]) -> str:
    """A path as messages print it: `.spec.containers[name="web"].image`."""
    return "".join(map(_step_text, path))


def _step_text(step: str) -> str:
    kind, text = step[:2], step[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "i:":
        return f"[{text}]"
    value = json.loads(text)
    if kind == "v:":
        return f"[={_value_text(value)}]"
    return "[" + ",".join(f"{name}={_value_text(value[name])}" for name in sorted(value)) + "]"


def _value_text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_value_text, value)) + "]"
    if isinstance(value, dict):
        return "".join(f"{name}={_value_text(value[name])}" for name in sorted(value))
    return go_text(value)


FieldSet = dict[str, Any]
Path = tuple[str, ...]


def is_member(node: FieldSet) -> bool:
    """Whether the path that leads to this node is a member itself."""
    return not node or MEMBER in node


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    merged = dict(left)
    for step, node in right.items():
        ours = merged.get(step)
        merged[step] = node if ours is None else _node_union(ours, node)
    return merged


def _node_union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left:
        return {MEMBER: {}, **right} if right else right
    return union(left, right) if right else {MEMBER: {}, **left}


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of `left` that are not in `right`; children of a removed member are kept."""
    kept: FieldSet = {}
    for step, node in left.items():
        other = right.get(step)
        rest = node if other is None else _node_difference(node, other)
        if rest is not None:
            kept[step] = rest
    return kept


def _node_difference(node: FieldSet, other: FieldSet) -> FieldSet | None:
    if not node:
        return None if is_member(other) else node
    if other:
        return _folded(difference(node, other))
    return _folded({step: child for step, child in node.items() if step != MEMBER})


def _folded(node: FieldSet) -> FieldSet | None:
    """Normalize a node; None if it is empty."""
    if not node:
        return None
    return {} if len(node) == 1 and MEMBER in node else node


def without(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of `left` that are neither in `right` nor below one of its members."""
    kept: FieldSet = {}
    for step, node in left.items():
        other = right.get(step)
        if other is None or (not node and not is_member(other)):
            kept[step] = node
        elif not is_member(other):
            rest = _folded(without(node, other))
            if rest is not None:
                kept[step] = rest
    return kept


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    both: FieldSet = {}
    for step, node in left.items():
        other = right.get(step)
        shared = None if other is None else _node_intersection(node, other)
        if shared is not None:
            both[step] = shared
    return both


def _node_intersection(left: FieldSet, right: FieldSet) -> FieldSet | None:
    if left and right:
        return _folded(intersection(left, right))
    return {} if is_member(left) and is_member(right) else None


def has(fields: FieldSet, path: Path) -> bool:
    for step in path[:-1]:
        fields = fields.get(step, {})
    return path[-1] in fields and is_member(fields[path[-1]])


def paths(fields: FieldSet) -> Iterator[Path]:
    """The members as paths, parents before children."""
    steps = [step for step in in_order(fields) if step != MEMBER]
    for step in steps:
        if is_member(fields[step]):
            yield (step,)
    for step in steps:
        for path in paths(fields[step]):
            yield (step, *path)


def ordered(fields: FieldSet) -> FieldSet:
    """The same set with its steps in the order in which fieldsV1 is encoded."""
    return {step: ordered(fields[step]) if fields[step] else {} for step in in_order(fields)}


def decoded(raw: object) -> FieldSet:
    """Decode and normalize a client's fieldsV1; raise ValueError if it is invalid."""
    fields = {} if raw is None else _decoded_node(raw)
    fields.pop(MEMBER, None)
    return ordered(fields)


def _decoded_node(raw: object) -> FieldSet:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ValueError(f"a set of fields is an object, not {raw!r}")
    node: FieldSet = {}
    for step, below in raw.items():
        plain = step if step == MEMBER else canonical(step)
        # Parity: unknown kinds of steps are dropped, not rejected.
        if plain is not None:
            child = {} if plain == MEMBER else _decoded_node(below)
            node[plain] = _node_union(node[plain], child) if plain in node else child
    return _folded(node) or {}
