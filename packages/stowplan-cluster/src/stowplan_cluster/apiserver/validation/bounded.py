"""Lists and maps with a size limit; items are not validated if the limit is exceeded.

Upstream: pkg/apis/resource/validation (validateSlice, validateSet, validateMap).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from stowplan_cluster.apiserver.validation.fields import Errors, duplicate, too_many

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

T = TypeVar("T")


def check_list(
    errors: Errors, path: str, items: Sequence[T] | None, limit: int, check: Callable[[Errors, str, T], None]
) -> None:
    items = items or []
    if len(items) > limit:
        errors.append(too_many(path, len(items), limit))
        return
    for index, item in enumerate(items):
        check(errors, f"{path}[{index}]", item)


def check_set(
    errors: Errors,
    path: str,
    items: Sequence[T] | None,
    limit: int,
    check: Callable[[Errors, str, T], None],
    key_of: Callable[[T], Hashable],
) -> None:
    """A list with unique keys."""
    check_list(errors, path, items, limit, check)
    if items is None or len(items) > limit:
        return
    seen: set[Hashable] = set()
    for index, item in enumerate(items):
        key = key_of(item)
        if key in seen:
            errors.append(duplicate(f"{path}[{index}]", key))
        seen.add(key)


def check_map(
    errors: Errors,
    path: str,
    entries: Mapping[str, T],
    limit: int,
    check_key: Callable[[Errors, str, str], None],
    check_value: Callable[[Errors, str, T], None] | None = None,
) -> None:
    if len(entries) > limit:
        errors.append(too_many(path, len(entries), limit))
        return
    for key, value in entries.items():
        check_key(errors, path, key)
        if check_value is not None:
            check_value(errors, f"{path}[{key}]", value)
