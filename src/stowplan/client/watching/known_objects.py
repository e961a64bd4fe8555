"""The objects a watcher has been told about, to turn lists and events into changes.

A change leads from the object that was last delivered to the one of now. An object that was deleted and made again
under its name is two changes: whoever counts pods by uid must not take the second for the first.

`Known` is plain state: it keeps the objects themselves, which their receiver keeps as well, and nothing more.

Upstream: staging/src/k8s.io/client-go/tools/cache/delta_fifo.go (Replace), shared_informer.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from stowplan.api.changes import Change
from stowplan.api.meta import ApiStruct, ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T", bound=ApiStruct)

Key = tuple[str, str]


def metadata_of(obj: ApiStruct) -> ObjectMeta:
    return cast("ObjectMeta", cast("Any", obj).metadata)


class Known(Generic[T]):
    def __init__(self) -> None:
        #: By namespace and name.
        self._objects: dict[Key, T] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._objects)

    def objects(self) -> list[T]:
        return list(self._objects.values())

    def put(self, obj: T) -> list[Change[T]]:
        """Take note of an object as it is now."""
        meta = metadata_of(obj)
        key = (meta.namespace, meta.name)
        old = self._objects.get(key)
        if old is None:
            self._objects[key] = obj
            return [Change(None, obj)]
        before = metadata_of(old)
        if before.uid == meta.uid and before.resource_version == meta.resource_version:
            # The object that was delivered stays the one that is kept, or there would be two of each after a list.
            return []
        self._objects[key] = obj
        return [Change(old, obj)] if before.uid == meta.uid else [Change(old, None), Change(None, obj)]

    def remove(self, key: Key) -> list[Change[T]]:
        old = self._objects.pop(key, None)
        return [] if old is None else [Change(old, None)]


class Relist(Generic[T]):
    """The difference between what is known and a list that comes page by page."""

    def __init__(self, known: Known[T]) -> None:
        self._known = known
        self._unseen = set(known)

    def page(self, items: Iterable[T]) -> list[Change[T]]:
        changes: list[Change[T]] = []
        unseen = self._unseen
        for obj in items:
            changes += self._known.put(obj)
            if unseen:
                meta = metadata_of(obj)
                unseen.discard((meta.namespace, meta.name))
        return changes

    def keep(self, key: Key) -> None:
        """Note that an object exists, though not what it is: it stays what it was."""
        self._unseen.discard(key)

    def end(self) -> list[Change[T]]:
        """Once the list is complete: whatever it did not hold is gone."""
        gone = [key for key in self._known if key in self._unseen]
        return [change for key in gone for change in self._known.remove(key)]
