"""The delivered objects of a watcher, to turn lists and events into changes.

A change consists of the last delivered object and the current one. An object that was deleted and recreated under its
name is two changes: receivers that track UIDs must not mistake the second for the first.

`Known` is plain state: it holds references to objects that their receiver holds as well.

Upstream: staging/src/k8s.io/client-go/tools/cache/delta_fifo.go (Replace), shared_informer.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from stowplan.kube.api.meta import ApiStruct, ObjectMeta
from stowplan.kube.api.port import Change

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
        """Store the current version of an object."""
        meta = metadata_of(obj)
        key = (meta.namespace, meta.name)
        old = self._objects.get(key)
        if old is None:
            self._objects[key] = obj
            return [Change(None, obj)]
        before = metadata_of(old)
        if before.uid == meta.uid and before.resource_version == meta.resource_version:
            # The delivered object is kept, or there would be two versions after a list.
            return []
        self._objects[key] = obj
        return [Change(old, obj)] if before.uid == meta.uid else [Change(old, None), Change(None, obj)]

    def remove(self, key: Key) -> list[Change[T]]:
        old = self._objects.pop(key, None)
        return [] if old is None else [Change(old, None)]


class Relist(Generic[T]):
    """The difference between the known objects and a paginated list."""

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
        """Keep an object that exists but could not be decoded in its known version."""
        self._unseen.discard(key)

    def end(self) -> list[Change[T]]:
        """After the last page: everything that was not listed is deleted."""
        gone = [key for key in self._known if key in self._unseen]
        return [change for key in gone for change in self._known.remove(key)]
