"""Detect changes between the old and the new object; used by all rules about immutable fields.

Empty counts as absent: the API does not distinguish the two.

Upstream: k8s.io/apimachinery/pkg/api/equality (Semantic), k8s.io/apimachinery/pkg/util/diff.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.kube.api.field_errors import child, go_json
from stowplan_cluster.apiserver.validation.fields import IMMUTABLE, Errors, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan_cluster.apiserver.objects import JsonObject

_SHOWN_CHANGES = 10


def same(new: object, old: object) -> bool:
    """Semantic equality; quantities have to be canonical (`schema.conform`)."""
    if new == old:
        return True
    if isinstance(new, dict) and isinstance(old, dict):
        return all(same(new.get(key), old.get(key)) for key in new.keys() | old.keys())
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(same, new, old))
    return _is_empty(new) and _is_empty(old)


def _is_empty(value: object) -> bool:
    if isinstance(value, dict):
        return all(field is None for field in value.values())
    return value is None or (isinstance(value, list | str) and not value)


def check_immutable(errors: Errors, path: str, new: object, old: object) -> None:
    if not same(new, old):
        errors.append(invalid(path, new, IMMUTABLE))


def check_immutable_fields(errors: Errors, path: str, new: JsonObject, old: JsonObject, *names: str) -> None:
    for name in names:
        check_immutable(errors, child(path, name), new.get(name), old.get(name))


def difference(new: object, old: object) -> str:
    """A human-readable diff, one change per line."""
    lines = [f"  {path or '.'}: -{go_json(before)} +{go_json(after)}" for path, before, after in _changes("", old, new)]
    rest = len(lines) - _SHOWN_CHANGES
    return "\n".join([*lines[:_SHOWN_CHANGES], *([f"  and {rest} more"] if rest > 0 else [])])


def _changes(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if same(new, old):
        return
    if isinstance(new, dict) and isinstance(old, dict):
        for key in sorted(new.keys() | old.keys()):
            yield from _changes(child(path, key), old.get(key), new.get(key))
    elif isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(f"{path}[{index}]", before, after)
    else:
        yield path, old, new
