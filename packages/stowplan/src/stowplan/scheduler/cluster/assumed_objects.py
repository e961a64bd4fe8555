"""Assumed objects: lookup objects with the scheduler's pending writes applied.

Two pods must not get the same volume, even before the API server and the watch know about the first. So a decision
replaces an object by an assumed copy for readers of this class; the `ObjectStore` has what the watch delivered. A copy
is based on one resourceVersion: it is dropped when the watch delivers another version or the deletion, and its owner
removes it if the decision fails.

To readers of the store's versions, logs and indexes, adding and dropping copies are changes of the object.

Upstream: AssumeCache of pkg/scheduler/util/assumecache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from stowplan.kube.compiled import mypyc_attr
from stowplan.scheduler.cluster.objects import ObjectStore, key_of
from stowplan.scheduler.cluster.transaction import CopiedBeforeChange

T = TypeVar("T")
_Copies = dict[tuple[type[Any], str], Any]


@mypyc_attr(native_class=False)
class AssumeError(ValueError):
    """The object cannot be assumed: it was deleted or replaced."""


class AssumedObjects(CopiedBeforeChange):
    def __init__(self, objects: ObjectStore) -> None:
        super().__init__()
        self._objects = objects
        self._copies: _Copies = {}
        objects.replacing.append(self._replacing)

    def __len__(self) -> int:
        return len(self._copies)

    def __bool__(self) -> bool:
        return bool(self._copies)

    def get(self, kind: type[T], key: str) -> T | None:
        """The assumed object if there is one, otherwise the one that the watch delivered."""
        copy: T | None = self._copies.get((kind, key))
        return self._objects.get(kind, key) if copy is None else copy

    def assume(self, obj: Any) -> None:
        """Assume this copy of an object; it must be based on the version that the watch delivered last."""
        kind, key = type(obj), key_of(obj.metadata)
        watched = self._objects.get(kind, key)
        if watched is None:
            raise AssumeError(f'could not find object "{key}"')
        stored, assumed = watched.metadata.resource_version, obj.metadata.resource_version
        # The decision was made on another version, which may have had room that is gone.
        if stored != assumed:
            raise AssumeError(f'"{key}" is out of sync (stored: {stored}, assume: {assumed})')
        self._set(kind, key, obj)

    def forget(self, obj: Any) -> None:
        """Drop the assumed copy if it still has this version. No-op if there is none."""
        kind, key = type(obj), key_of(obj.metadata)
        copy = self._copies.get((kind, key))
        if copy is not None and copy.metadata.resource_version == obj.metadata.resource_version:
            self._set(kind, key, None)

    def _set(self, kind: type[Any], key: str, copy: Any) -> None:
        """A copy of None removes it."""
        if self._uncopied:
            self._copy_now()
        watched = self._objects.get(kind, key)
        # What readers saw up to now, and from now on: to them it is an update of the object.
        before = self._copies.pop((kind, key), watched)
        if copy is not None:
            self._copies[kind, key] = copy
        self._objects.notify_changed(key, before, watched if copy is None else copy)

    def _replacing(self, kind: type[Any], key: str, new: Any) -> None:
        """The watch delivers an object (or None: its deletion)."""
        copy = self._copies.get((kind, key))
        if copy is None:
            return
        version = copy.metadata.resource_version
        # Without a resourceVersion, versions cannot be compared.
        if new is None or not version or new.metadata.resource_version != version:
            self._set(kind, key, None)

    # -- as a participant of transactions -----------------------------------------------------------------------------

    def _copied(self) -> _Copies:
        return dict(self._copies)

    def _restore(self, copy: _Copies) -> None:
        # The store rewinds the versions that its readers compare.
        self._copies = copy

    def changed_nodes(self, mark: Any) -> tuple[str, ...] | None:
        # A change of an object may affect any node.
        return None if mark.copied else ()

    def dump(self) -> list[Any]:
        return list(self._copies.values())

    def load(self, dumped: list[Any]) -> None:
        for kind, key in list(self._copies):
            self._set(kind, key, None)
        for obj in dumped:
            self.assume(obj)

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Violated invariants."""
        for (kind, key), copy in self._copies.items():
            watched = self._objects.get(kind, key)
            if watched is None:
                yield f"{kind.__name__} {key} is assumed, and there is none"
            elif watched.metadata.resource_version != copy.metadata.resource_version:
                yield f"{kind.__name__} {key} is assumed at a version that is not the watched one"
