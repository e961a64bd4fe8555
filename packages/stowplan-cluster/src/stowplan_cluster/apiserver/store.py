"""The object store; every write increments its version.

An object is stored as the JSON bytes that readers get, so a list or a watch line is a copy of bytes, and ten watchers
share one. Labels, owners and selectable fields are stored next to the bytes.

Each storage remembers its last changes. A watch is a cursor into them: it owns no buffer, so a slow reader costs
nothing and gets `Expired` once its position has been dropped. Lists at an earlier version are computed by reverting
later changes.

The registry decides who may write what; the store accepts everything and never waits.

Upstream: k8s.io/apiserver/pkg/storage (etcd3 and the watch cache in one).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from stowplan.kube.api.api_errors import Expired
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject

# The recent changes of one storage, bounded in number and bytes.
#
# The oldest changes are dropped first; a watcher that still needs them gets `Expired` and has to list again.
#
# Upstream: k8s.io/apiserver/pkg/storage/cacher/watch_cache.go.


class History:
    def __init__(self, forgotten: int, *, max_changes: int, max_bytes: int) -> None:
        self.events: list[Event] = []
        #: Number of changes dropped so far: the absolute position of the first remembered change.
        self.start = 0
        #: Version of the last dropped change.
        self.forgotten = forgotten
        self.asleep: dict[Cursor, None] = {}
        self._bytes = 0
        self._max_changes = max_changes
        self._max_bytes = max_bytes

    def append(self, event: Event) -> None:
        self.events.append(event)
        self._bytes += len(event.stored.data)
        # Drop an eighth at a time: removing from the front moves all remaining elements.
        if len(self.events) > self._max_changes * 9 // 8 or self._bytes > self._max_bytes * 9 // 8:
            self._trim()
        if self.asleep:
            self._wake()

    def _trim(self) -> None:
        count = max(len(self.events) - self._max_changes, 0)
        size = self._bytes - sum(len(event.stored.data) for event in self.events[:count])
        while size > self._max_bytes and count < len(self.events) - 1:
            size -= len(self.events[count].stored.data)
            count += 1
        self.forgotten = self.events[count - 1].stored.version
        del self.events[:count]
        self.start += count
        self._bytes = size

    def _wake(self) -> None:
        asleep, self.asleep = self.asleep, {}
        for cursor in asleep:
            if cursor.wake is not None:
                cursor.wake()

    def after(self, version: int) -> int:
        """Index of the first remembered change after `version`; raise Expired if some of those were dropped."""
        if version < self.forgotten:
            raise Expired(f"too old resource version: {version} ({self.forgotten})")
        return bisect_right(self.events, version, key=lambda event: event.stored.version)


EventType = Literal["ADDED", "MODIFIED", "DELETED"]

#: Limits of the history per storage, in changes and in bytes; the tighter one applies.
HISTORY_CHANGES = 20_000
HISTORY_BYTES = 64 << 20

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict).decode


class Stored(PlainStruct, frozen=True, eq=False):
    """One object at one version; immutable."""

    resource: str
    namespace: str
    name: str
    uid: str
    version: int
    #: The object as JSON in the storage version, metadata.resourceVersion included.
    data: bytes
    labels: Mapping[str, str]
    #: uids of metadata.ownerReferences
    owners: tuple[str, ...]
    #: Values of the storage's selectable fields, in the order of `field_names`.
    values: tuple[str, ...]
    field_names: tuple[str, ...]

    def field(self, name: str) -> str:
        """The value of a selectable field; "" for any other field."""
        return self.values[self.field_names.index(name)] if name in self.field_names else ""

    @property
    def key(self) -> str:
        """Key in etcd's order, which lists and continue tokens follow."""
        return key_of(self.namespace, self.name)

    def to_dict(self) -> JsonObject:
        """Decode the object; the caller owns the dict."""
        return _decode(self.data)


class Event(PlainStruct, frozen=True, eq=False):
    type: EventType
    #: For a deletion: the last state, with the version of the deletion.
    stored: Stored
    previous: Stored | None


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


class Cursor:
    """A watcher's position in the history of a storage."""

    def __init__(self, history: History, position: int) -> None:
        self._history = history
        self._position = position
        #: Set by the reader; called once when there are changes again after `take` returned none.
        self.wake: Callable[[], None] | None = None

    def take(self, limit: int = 1000) -> list[Event]:
        """The next changes; if there are none, `wake` will be called. Raise Expired if they were dropped."""
        history = self._history
        if self._position < history.start:
            raise Expired(f"too old resource version: the change after it is forgotten ({history.forgotten})")
        begin = self._position - history.start
        events = history.events[begin : begin + limit]
        self._position += len(events)
        if not events:
            history.asleep[self] = None
        return events

    def close(self) -> None:
        self.wake = None
        self._history.asleep.pop(self, None)


class _Table:
    """One storage: its objects, their keys in order, their history."""

    def __init__(self, field_names: tuple[str, ...], history: History) -> None:
        self.objects: dict[str, Stored] = {}
        self.keys: list[str] = []
        self.field_names = field_names
        self.history = history

    def keys_of(self, namespace: str) -> list[str]:
        if not namespace:
            return self.keys
        return self.keys[bisect_left(self.keys, f"{namespace}/") : bisect_left(self.keys, f"{namespace}0")]


class Store:
    def __init__(self, *, history_changes: int = HISTORY_CHANGES, history_bytes: int = HISTORY_BYTES) -> None:
        #: resourceVersion of the last write.
        self.version = 0
        #: Version after `load`. There is no history before it, so watches from earlier versions get Expired.
        self._loaded = 0
        self._history_changes = history_changes
        self._history_bytes = history_bytes
        self._tables: dict[str, _Table] = {}
        self._field_names: dict[str, tuple[str, ...]] = {}
        self._dependents: dict[str, dict[tuple[str, str], None]] = {}
        self._callbacks: dict[object, Callable[[Event], None]] = {}
        #: Events not delivered to callbacks yet, and whether delivery is in progress.
        self._undelivered: deque[Event] = deque()
        self._delivering = False

    def select_fields(self, storage: str, names: tuple[str, ...]) -> None:
        """Set the fields that are indexed for selectors; they may change with a CustomResourceDefinition."""
        if self._field_names.get(storage, ()) == names:
            return
        self._field_names[storage] = names
        table = self._tables.get(storage)
        if table is not None:
            table.field_names = names
            for key, stored in table.objects.items():
                table.objects[key] = _stored(storage, stored.to_dict(), stored.version, names, stored.data)

    # Reading

    def get(self, storage: str, namespace: str, name: str) -> Stored | None:
        table = self._tables.get(storage)
        return None if table is None else table.objects.get(key_of(namespace, name))

    def list(self, storage: str, namespace: str = "") -> Sequence[Stored]:
        """The objects in etcd's order: by the string `namespace/name`."""
        table = self._tables.get(storage)
        if table is None:
            return []
        objects = table.objects
        return [objects[key] for key in table.keys_of(namespace)]

    def list_at(self, storage: str, namespace: str, version: int) -> Sequence[Stored]:
        """The objects at an earlier version; raise Expired if the history does not reach back that far."""
        self._not_from_the_future(version)
        table = self._table(storage)
        changes = table.history.events[table.history.after(version) :]
        if not changes:
            return self.list(storage, namespace)
        then: dict[str, Stored | None] = {event.stored.key: event.previous for event in reversed(changes)}
        objects = {key: table.objects[key] for key in table.keys_of(namespace)} | {
            key: stored for key, stored in then.items() if not namespace or key.startswith(f"{namespace}/")
        }
        return [stored for _, stored in sorted(objects.items()) if stored is not None]

    def count(self, storage: str) -> int:
        table = self._tables.get(storage)
        return 0 if table is None else len(table.keys)

    def storages(self) -> Sequence[str]:
        return [storage for storage, table in self._tables.items() if table.keys]

    def dependents(self, uid: str) -> Sequence[Stored]:
        """The objects whose ownerReferences name this uid."""
        found = self._dependents.get(uid, ())
        return [self._tables[storage].objects[key] for storage, key in found]

    # Writing

    def put(self, storage: str, obj: JsonObject) -> Stored:
        """Create or replace an object by namespace and name. Takes ownership of the dict and sets its version."""
        table = self._table(storage)
        metadata = obj["metadata"]
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        stored = _stored(storage, obj, self.version, table.field_names, _encode(obj))
        self._insert(table, stored)
        return stored

    def remove(self, stored: Stored, last: JsonObject | None = None) -> Stored:
        """Delete the object; `last` is the final state for watchers, by default the stored one."""
        table = self._table(stored.resource)
        obj = stored.to_dict() if last is None else last
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        final = _stored(stored.resource, obj, self.version, table.field_names, _encode(obj))
        self._drop(table, final)
        return final

    def load(self, objects: Iterable[tuple[str, JsonObject]], *, version: int) -> None:
        """Fill an empty store. Watches begin at this version."""
        if self.version:
            raise ValueError("only an empty store can be loaded")
        for storage, obj in objects:
            table = self._table(storage)
            stored = _stored(storage, obj, int(obj["metadata"]["resourceVersion"]), table.field_names, _encode(obj))
            table.objects[stored.key] = stored
            table.keys.append(stored.key)
            self._index(stored)
        for table in self._tables.values():
            table.keys.sort()
            table.history.forgotten = version
        self.version = self._loaded = version

    # Watching

    def on_change(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call a function after each write, in order; it may write. Returns a function that unsubscribes."""
        token = object()
        self._callbacks[token] = callback
        return lambda: self._callbacks.pop(token, None) and None

    def watch(self, storage: str, *, since: int) -> Cursor:
        """Watch changes after a version; raise Expired if some were dropped, or if it is a future version."""
        self._not_from_the_future(since)
        history = self._table(storage).history
        return Cursor(history, history.start + history.after(since))

    def _not_from_the_future(self, version: int) -> None:
        # Unlike etcd, which would wait for the version: here the client knew an earlier store that is gone.
        if version > self.version:
            raise Expired(f"too large resource version: {version}, current: {self.version}")

    def _table(self, storage: str) -> _Table:
        table = self._tables.get(storage)
        if table is None:
            history = History(self._loaded, max_changes=self._history_changes, max_bytes=self._history_bytes)
            table = self._tables[storage] = _Table(self._field_names.get(storage, ()), history)
        return table

    def _insert(self, table: _Table, stored: Stored) -> None:
        key = stored.key
        previous = table.objects.get(key)
        table.objects[key] = stored
        if previous is None:
            insort(table.keys, key)
            self._index(stored)
        elif previous.owners != stored.owners:
            self._unindex(previous)
            self._index(stored)
        self._publish(table, Event("MODIFIED" if previous else "ADDED", stored, previous))

    def _drop(self, table: _Table, final: Stored) -> None:
        key = final.key
        previous = table.objects.pop(key)
        del table.keys[bisect_left(table.keys, key)]
        self._unindex(previous)
        self._publish(table, Event("DELETED", final, previous))

    def _publish(self, table: _Table, event: Event) -> None:
        table.history.append(event)
        self._undelivered.append(event)
        if self._delivering:
            # A callback wrote: deliver its change after all callbacks have seen the earlier ones.
            return
        self._delivering = True
        try:
            while self._undelivered:
                self._notify(self._undelivered.popleft())
        finally:
            self._delivering = False

    def _notify(self, event: Event) -> None:
        for callback in list(self._callbacks.values()):
            callback(event)

    def _index(self, stored: Stored) -> None:
        for owner in stored.owners:
            self._dependents.setdefault(owner, {})[stored.resource, stored.key] = None

    def _unindex(self, stored: Stored) -> None:
        for owner in stored.owners:
            left = self._dependents.get(owner, {})
            left.pop((stored.resource, stored.key), None)
            if not left:
                self._dependents.pop(owner, None)


def stored_of(storage: str, obj: JsonObject, *, version: int) -> Stored:
    """An object as if it were stored, for dry runs."""
    return _stored(storage, obj, version, (), _encode(obj))


def _stored(storage: str, obj: JsonObject, version: int, field_names: tuple[str, ...], data: bytes) -> Stored:
    metadata = obj["metadata"]
    owners = metadata.get("ownerReferences")
    labels = metadata.get("labels")
    return Stored(
        resource=storage,
        namespace=_shared(metadata.get("namespace", "")),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        version=version,
        data=data,
        labels=_labels_of(labels),
        owners=tuple(reference.get("uid", "") for reference in owners) if owners else (),
        values=_values_of(tuple(_text_at(obj, _path(name)) for name in field_names)),
        field_names=field_names,
    )


_NO_LABELS: Mapping[str, str] = {}


#: Values of absent fields for selectors; "" for all others.
_ABSENT: dict[tuple[str, ...], str] = {
    ("spec", "unschedulable"): "false",
    ("spec", "hostNetwork"): "false",
    ("status", "replicas"): "0",
    ("status", "succeeded"): "0",
}


# Pods of a workload have equal labels and strings, so these are interned. Large ones are not: they are rarely repeated,
# and the cache would outlive the object.
_MAX_SHARED_LABELS = 64
_MAX_SHARED_TEXT = 1024


def _labels_of(labels: Mapping[str, str] | None) -> Mapping[str, str]:
    if not labels:
        return _NO_LABELS
    return _shared_labels(tuple(labels.items())) if len(labels) <= _MAX_SHARED_LABELS else dict(labels)


def _values_of(values: tuple[str, ...]) -> tuple[str, ...]:
    return _shared_values(values) if sum(map(len, values)) <= _MAX_SHARED_TEXT else values


@lru_cache(maxsize=4096)
def _shared_labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)


@lru_cache(maxsize=4096)
def _shared_values(values: tuple[str, ...]) -> tuple[str, ...]:
    return values


@lru_cache(maxsize=4096)
def _shared(text: str) -> str:
    return text


@lru_cache(maxsize=1024)
def _path(field: str) -> tuple[str, ...]:
    return tuple(field.removeprefix(".").split("."))


def _text_at(obj: JsonObject, path: tuple[str, ...]) -> str:
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return _ABSENT.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)
