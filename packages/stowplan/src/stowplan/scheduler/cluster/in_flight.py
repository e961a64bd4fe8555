"""Lookup objects with in-flight writes, which take precedence over what the watch delivers.

Writing a decision may take several requests for one object, and others may change the object in between. The decision
must stay visible all the time, or two decisions could allocate the same device. The decision's owner holds a copy here,
and releases it if the decision fails. After the last request succeeded, the copy is the written object; it is dropped
when the watch delivers that version, a later one, or the deletion.

`AssumedObjects` is for decisions with a single request: there, any update from the watch drops the copy.

Upstream: the in-flight allocations and the assume cache of pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from stowplan.scheduler.cluster.objects import ObjectStore, key_of
from stowplan.scheduler.cluster.transaction import CopiedBeforeChange

T = TypeVar("T")


class _Held(NamedTuple):
    obj: Any
    #: The decisions that share the copy; the first one writes it.
    holders: tuple[str, ...]
    #: Whether the API server has stored it.
    written: bool


class InFlightObjects(CopiedBeforeChange):
    def __init__(self, objects: ObjectStore, settled: Callable[[type[Any], str], None] | None) -> None:
        """`settled` is called with kind and key when a shared copy was written, or released by one of its holders."""
        super().__init__()
        self._objects = objects
        self._held: dict[tuple[type[Any], str], _Held] = {}
        self._settled = settled
        objects.replacing.append(self._replacing)

    def __len__(self) -> int:
        return len(self._held)

    def __bool__(self) -> bool:
        return bool(self._held)

    def keys(self, kind: type[Any]) -> list[str]:
        return [key for held_kind, key in self._held if held_kind is kind]

    def newest(self, kind: type[T], key: str) -> T | None:
        """The object including pending writes."""
        held = self._held.get((kind, key))
        return self._objects.get(kind, key) if held is None else held.obj

    def latest(self, kind: type[T], key: str) -> T | None:
        """The newest known version in the API server."""
        held = self._held.get((kind, key))
        return held.obj if held is not None and held.written else self._objects.get(kind, key)

    def is_held(self, kind: type[Any], key: str) -> bool:
        """Whether a decision about the object is being written."""
        held = self._held.get((kind, key))
        return held is not None and not held.written

    def held(self, kind: type[T], key: str) -> tuple[T, tuple[str, ...]] | None:
        """The copy that is being written, and its holder; None if there is none."""
        held = self._held.get((kind, key))
        return None if held is None or held.written else (held.obj, held.holders)

    def hold(self, key: str, obj: Any, holder: str) -> None:
        """Use this copy of the object until the holder releases it. The object need not exist yet."""
        self._set(type(obj), key, _Held(obj, (holder,), written=False))

    def share(self, kind: type[Any], key: str, holder: str) -> None:
        """Add a holder to a copy; the earliest holder writes it."""
        held = self._held[kind, key]
        if holder not in held.holders:
            self._set(kind, key, held._replace(holders=(*held.holders, holder)))

    def wrote(self, obj: Any, *, created: bool = False) -> None:
        """The API server has stored the object; `created`: the watch may not have delivered any version of it yet."""
        kind, key = type(obj), key_of(obj.metadata)
        watched = self._objects.get(kind, key)
        known = not created if watched is None else not is_older(watched, obj)
        self._set(kind, key, None if known else _Held(obj, (), written=True))

    def release(self, kind: type[Any], key: str, holder: str) -> None:
        """Release a holder whose decision failed. No-op if the copy is written, or held by others only."""
        held = self._held.get((kind, key))
        if held is None or held.written or holder not in held.holders:
            return
        # The others share the copy: it stays as long as one of them is to be bound with it.
        left = tuple(other for other in held.holders if other != holder)
        self._set(kind, key, held._replace(holders=left) if left else None)

    def _set(self, kind: type[Any], key: str, held: _Held | None) -> None:
        if self._uncopied:
            self._copy_now()
        # As readers saw it, before the change that they are told of.
        before = self.newest(kind, key)
        shared = (known := self._held.get((kind, key))) is not None and len(known.holders) > 1
        if held is None:
            self._held.pop((kind, key), None)
        else:
            self._held[kind, key] = held
        after = self.newest(kind, key)
        if before is not after:
            # For readers, the object is added, changed or deleted.
            self._objects.notify_changed(
                key, before if before is not None else after, after if after is not None else before
            )
        if shared and self._settled is not None:
            self._settled(kind, key)

    def _replacing(self, kind: type[Any], key: str, new: Any) -> None:
        held = self._held.get((kind, key))
        if held is not None and held.written and (new is None or not is_older(new, held.obj)):
            self._set(kind, key, None)

    # -- as a participant of transactions -----------------------------------------------------------------------------

    def _copied(self) -> dict[tuple[type[Any], str], _Held]:
        return dict(self._held)

    def _restore(self, copy: dict[tuple[type[Any], str], _Held]) -> None:
        # The store rewinds the versions that its readers compare.
        self._held = copy

    def changed_nodes(self, mark: Any) -> tuple[str, ...] | None:
        # A change of an object may affect any node.
        return None if mark.copied else ()

    def dump(self) -> list[Any]:
        """The written objects. While a write is pending, a decision is under way and there can be no dump."""
        return [held.obj for held in self._held.values()]

    def load(self, dumped: list[Any]) -> None:
        for kind, key in list(self._held):
            self._set(kind, key, None)
        for obj in dumped:
            self.wrote(obj, created=True)

    # -- invariants ----------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Violated invariants."""
        for (kind, key), held in self._held.items():
            watched = self._objects.get(kind, key)
            if held.written and watched is not None and not is_older(watched, held.obj):
                yield f"{kind.__name__} {key} is kept as it was written, and the watch knows as much"


def is_older(watched: Any, written: Any) -> bool:
    """Whether the watch has not yet delivered what was written."""
    seen, wanted = watched.metadata.resource_version, written.metadata.resource_version
    if not wanted.isdecimal():
        # Without versions, trust the watch.
        return False
    # An object from a file has no version until it is written.
    return not seen.isdecimal() or int(seen) < int(wanted)
