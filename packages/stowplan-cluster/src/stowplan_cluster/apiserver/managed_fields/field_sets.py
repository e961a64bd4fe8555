"""Sets of field paths, in the JSON form of fieldsV1.

A set is a trie of path elements ("steps"). A step without children is a member; a step with children is a member only
if they include `MEMBER`. So an empty dict is a leaf below a step, and the empty set at the top. Sets are immutable and
share subtrees.

Upstream: sigs.k8s.io/structured-merge-diff/v6/fieldpath (set.go, serialize.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan_cluster.apiserver.managed_fields.path_elements import MEMBER, canonical, in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

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
