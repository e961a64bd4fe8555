"""Lookup objects with in-flight writes, which take precedence over what the watch reports.

Writing a decision may take several requests about one object, and others may change the object in between; what was
decided must hold all along, or two decisions take the same thing. So whoever decides holds a copy here, and releases it
when nothing comes of the decision. Once the last request was answered the copy is the written object; it goes when the
watch tells of that version or a later one, or of the object's end.

`AssumedObjects` is for decisions of a single request: there a copy goes with any news of the object.

Upstream: the in-flight allocations and the assume cache of pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stowplan.cluster.object_dependencies import key_of
from stowplan.cluster.transaction import CopiedBeforeChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stowplan.cluster.objects import ObjectStore

T = TypeVar("T")


class _Held(NamedTuple):
    obj: Any
    #: Whose decision it is: the first is to write it, the others share it.
    holders: tuple[str, ...]
    #: Whether it stands so in the API server.
    written: bool


class InFlightObjects(CopiedBeforeChange):
    def __init__(self, objects: ObjectStore) -> None:
        super().__init__()
        self._objects = objects
        self._held: dict[tuple[type[Any], str], _Held] = {}
        #: Called when a copy that several hold was written, or given up by one of them: kind and key.
        self.settled: list[Callable[[type[Any], str], None]] = []
        objects.replacing.append(self._replacing)

    def __len__(self) -> int:
        return len(self._held)

    def keys(self, kind: type[Any]) -> list[str]:
        return [key for held_kind, key in self._held if held_kind is kind]

    def newest(self, kind: type[T], key: str) -> T | None:
        """The object as it will be."""
        held = self._held.get((kind, key))
        return self._objects.get(kind, key) if held is None else held.obj

    def latest(self, kind: type[T], key: str) -> T | None:
        """The object as the API server has it, as far as that is known."""
        held = self._held.get((kind, key))
        return held.obj if held is not None and held.written else self._objects.get(kind, key)

    def is_held(self, kind: type[Any], key: str) -> bool:
        """Whether a decision about the object is being written."""
        held = self._held.get((kind, key))
        return held is not None and not held.written

    def held(self, kind: type[T], key: str) -> tuple[T, tuple[str, ...]] | None:
        """The copy that is being written, and who holds it; None if nobody does."""
        held = self._held.get((kind, key))
        return None if held is None or held.written else (held.obj, held.holders)

    def hold(self, key: str, obj: Any, holder: str) -> None:
        """Let the object be this copy until the holder releases it; `key` need not be of an object that exists."""
        self._set(type(obj), key, _Held(obj, (holder,), written=False))

    def share(self, kind: type[Any], key: str, holder: str) -> None:
        """Add a holder of a copy; the one that has held it longest writes it."""
        held = self._held[kind, key]
        if holder not in held.holders:
            self._set(kind, key, held._replace(holders=(*held.holders, holder)))

    def wrote(self, obj: Any, *, created: bool = False) -> None:
        """The object stands so in the API server; `created`: the watch need not have told of it at all."""
        kind, key = type(obj), key_of(obj.metadata)
        watched = self._objects.get(kind, key)
        known = not created if watched is None else not _is_older(watched, obj)
        self._set(kind, key, None if known else _Held(obj, (), written=True))

    def release(self, kind: type[Any], key: str, holder: str) -> None:
        """Nothing comes of the holder's decision. No-op if it is written, or held by others only."""
        held = self._held.get((kind, key))
        if held is None or held.written or holder not in held.holders:
            return
        left = tuple(other for other in held.holders if other != holder)
        self._set(kind, key, held._replace(holders=left) if left else None)

    def _set(self, kind: type[Any], key: str, held: _Held | None) -> None:
        if self._uncopied:
            self._copy_now()
        before = self.newest(kind, key)
        shared = (known := self._held.get((kind, key))) is not None and len(known.holders) > 1
        if held is None:
            self._held.pop((kind, key), None)
        else:
            self._held[kind, key] = held
        after = self.newest(kind, key)
        if before is not after:
            # Readers of the object see it come, change or go.
            self._objects.retouched(
                key, before if before is not None else after, after if after is not None else before
            )
        if shared:
            for listener in self.settled:
                listener(kind, key)

    def _replacing(self, kind: type[Any], key: str, new: Any) -> None:
        held = self._held.get((kind, key))
        if held is not None and held.written and (new is None or not _is_older(new, held.obj)):
            self._set(kind, key, None)

    # -- as a participant of transactions -----------------------------------------------------------------------------

    def _copied(self) -> dict[tuple[type[Any], str], _Held]:
        return dict(self._held)

    def _restore(self, copy: dict[tuple[type[Any], str], _Held]) -> None:
        # The store winds back what its readers go by.
        self._held = copy

    def changed_nodes(self, mark: Any) -> tuple[str, ...] | None:
        # What an object says may concern any node.
        return None if mark.copied else ()

    def dump(self) -> list[Any]:
        """Objects that are written; while one is not, a decision is under way and nothing can be dumped."""
        return [held.obj for held in self._held.values()]

    def load(self, dumped: list[Any]) -> None:
        for kind, key in list(self._held):
            self._set(kind, key, None)
        for obj in dumped:
            self.wrote(obj, created=True)

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Invariants that do not hold."""
        for (kind, key), held in self._held.items():
            watched = self._objects.get(kind, key)
            if held.written and watched is not None and not _is_older(watched, held.obj):
                yield f"{kind.__name__} {key} is kept as it was written, and the watch knows as much"


def _is_older(watched: Any, written: Any) -> bool:
    """Whether the watch has not come up to what was written."""
    seen, wanted = watched.metadata.resource_version, written.metadata.resource_version
    if not wanted.isdecimal():
        # Without versions the watch is taken at its word.
        return False
    return not seen.isdecimal() or int(seen) < int(wanted)
