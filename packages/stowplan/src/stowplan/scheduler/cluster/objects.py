"""Objects that plugins look up by name: services, claims, disruption budgets, namespaces, …

Stored in plain dictionaries. Derived values are cached until one of the objects changes, so each change gets a unique
number. It becomes the version of all sets that contain the object: its kind, and those finer sets (an object by its
key, a kind in a namespace, the objects under an index value) that an `ObjectWatch` observes. In a transaction a kind is
copied before its first change, and versions are rewound at the end; numbers are never reused.

A plugin declares what it looks up for a pod (`ObjectDependency`). Its results are reused until one of those objects is
added, changed or deleted; changes of other objects, even of the same kind, do not invalidate them.

Upstream: the shared informers' listers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from stowplan.kube.api import types as t
from stowplan.kube.api.custom_objects import CustomObject
from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.structs import PlainStruct, field
from stowplan.scheduler.cluster.changes import ChangeLog


class ObjectIndex(PlainStruct, frozen=True, eq=False):
    """Finds objects by values that each of them has. Create one per purpose, not one per query."""

    name: str
    #: The values of an object; must depend on the object alone.
    values: Callable[[Any], Iterable[str]]


def key_of(metadata: ObjectMeta) -> str:
    """`name`, or `namespace/name`."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


BY_KEY = ObjectIndex("key", lambda obj: (key_of(obj.metadata),))
#: Objects from files may lack a namespace.
BY_NAMESPACE = ObjectIndex("namespace", lambda obj: (obj.metadata.namespace or "default",))


class ObjectDependency(NamedTuple):
    """A set of lookup objects, including those that do not exist yet."""

    #: Their type; None for all kinds.
    kind: type[Any] | None = None
    #: None for all objects of the kind.
    by: ObjectIndex | None = None
    value: str = ""

    @classmethod
    def of_kind(cls, kind: type[Any]) -> ObjectDependency:
        return cls(kind)

    @classmethod
    def named(cls, kind: type[Any], key: str) -> ObjectDependency:
        """The object with this key: `name`, or `namespace/name`."""
        return cls(kind, BY_KEY, key)

    @classmethod
    def in_namespace(cls, kind: type[Any], namespace: str) -> ObjectDependency:
        return cls(kind, BY_NAMESPACE, namespace)

    @classmethod
    def indexed(cls, kind: type[Any], index: ObjectIndex, value: str) -> ObjectDependency:
        """The objects that `ObjectStore.indexed` returns."""
        return cls(kind, index, value)


ANY_OBJECT = ObjectDependency()


T = TypeVar("T")

#: Kinds that plugins read through the store; pods and nodes are stored elsewhere.
STORED: tuple[type[Any], ...] = (
    t.Namespace,
    t.Service,
    t.ReplicationController,
    t.ReplicaSet,
    t.StatefulSet,
    t.PersistentVolume,
    t.PersistentVolumeClaim,
    t.StorageClass,
    t.CSINode,
    t.CSIDriver,
    t.CSIStorageCapacity,
    t.VolumeAttachment,
    t.PodDisruptionBudget,
    t.PodGroup,
    t.CompositePodGroup,
    t.PriorityClass,
    t.ResourceClaim,
    t.ResourceSlice,
    t.DeviceClass,
    t.DeviceTaintRule,
    #: One kind per custom resource.
    CustomObject,
)
_NO_LABELS: dict[str, str] = {}
_NOTHING: dict[str, Any] = {}


@mypyc_attr(native_class=False)
class _Version:
    """The version of a watched set of objects."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, number: int) -> None:
        self.number = number


class _Mark(PlainStruct):
    """The state of the store at the start of a transaction."""

    outer: _Mark | None
    total_version: int
    versions: dict[type[Any], int]
    #: Positions of the change logs.
    positions: dict[type[Any], int]
    #: Kinds changed since -> their objects at the start.
    before: dict[type[Any], dict[str, Any]] = field(default_factory=dict)
    #: Watched versions changed since -> their numbers at the start.
    watched: dict[_Version, int] = field(default_factory=dict)
    #: Versions that were not watched at the start.
    begun: list[_Version] = field(default_factory=list)


class ObjectStore:
    """Type -> key (`name` or `namespace/name`) -> object."""

    def __init__(self) -> None:
        self._objects: dict[type[Any], dict[str, Any]] = defaultdict(dict)
        self._versions: dict[type[Any], int] = defaultdict(int)
        #: Changes with every change of any object.
        self.total_version = 0
        #: The last version number assigned.
        self._clock = 0
        #: Versions that are watched; dropped with their last watcher.
        self._watched: WeakValueDictionary[tuple[type[Any] | None, ObjectIndex | None, str], _Version] = (
            WeakValueDictionary()
        )
        #: Indexes by which a kind is, or was, watched or looked up.
        self._indexes: dict[type[Any], set[ObjectIndex]] = defaultdict(set)
        #: Index contents, for indexes that were used for a lookup.
        self._found: dict[tuple[type[Any], ObjectIndex], dict[str, dict[str, Any]]] = {}
        #: Keys of changed objects, for kinds whose changes are followed.
        self._logs: dict[type[Any], ChangeLog[str]] = {}
        #: The innermost open transaction.
        self._mark: _Mark | None = None
        #: Called before an object is replaced or deleted (None).
        self.replacing: list[Callable[[type[Any], str, Any], None]] = []

    # -- changes ------------------------------------------------------------------------------------------------------

    def put(self, obj: Any) -> None:
        kind, key = type(obj), key_of(obj.metadata)
        self._changing(kind, key, obj)
        self._objects[kind][key] = obj

    def remove(self, obj: Any) -> None:
        kind, key = type(obj), key_of(obj.metadata)
        if key in self._objects[kind]:
            self._changing(kind, key, None)
            del self._objects[kind][key]

    def _changing(self, kind: type[Any], key: str, new: Any) -> None:
        """Called before an object is replaced (None: deleted)."""
        # Overlays first: they drop copies that are overtaken, and compare those with what is still stored.
        for callback in self.replacing:
            callback(kind, key, new)
        self._move_on(kind, key)
        old = self._objects[kind].get(key)
        for index in self._indexes.get(kind, ()):
            self._reindex(kind, index, key, old, new)

    def _move_on(self, kind: type[Any], key: str) -> None:
        """Advance the versions and logs after an object changed."""
        if self._mark is not None and kind not in self._mark.before:
            self._mark.before[kind] = dict(self._objects[kind])
        self._clock += 1
        self._versions[kind] = self.total_version = self._clock
        self._moved((kind, None, ""))
        log = self._logs.get(kind)
        if log is not None:
            log.append(key)

    def notify_changed(self, key: str, old: Any, new: Any) -> None:
        """Notify readers that the effective object changed, although the stored one did not (`assumed_objects`)."""
        kind = type(old)
        self._move_on(kind, key)
        for index in self._indexes.get(kind, ()):
            try:
                values = {*index.values(old), *index.values(new)}
            except KeyboardInterrupt:
                raise
            except BaseException:
                # As in `_reindex`.
                values = {d[2] for d in self._watched if d[0] is kind and d[1] is index}
            for value in values:
                self._moved((kind, index, value))

    def _reindex(self, kind: type[Any], index: ObjectIndex, key: str, old: Any, new: Any) -> None:
        try:
            before = () if old is None else tuple(index.values(old))
            after = () if new is None else tuple(index.values(new))
        except KeyboardInterrupt:
            raise
        except BaseException:
            # If a plugin's index function raises, drop the index: the next lookup raises the error to its caller.
            self._found.pop((kind, index), None)
            for dependency in [d for d in self._watched if d[0] is kind and d[1] is index]:
                self._moved(dependency)
            return
        for value in {*before, *after}:
            self._moved((kind, index, value))
        found = self._found.get((kind, index))
        if found is not None:
            for value in {*before}.difference(after):
                if (objects := found.get(value)) is not None:
                    objects.pop(key, None)
                    if not objects:
                        # Values such as UIDs of pods never come back.
                        del found[value]
            for value in after:
                found.setdefault(value, {})[key] = new

    def _moved(self, dependency: tuple[type[Any] | None, ObjectIndex | None, str]) -> None:
        # A plain tuple compares equal to the dependency.
        version = self._watched.get(dependency)
        if version is None:
            return
        if self._mark is not None:
            self._mark.watched.setdefault(version, version.number)
        version.number = self._clock

    # -- lookups -------------------------------------------------------------------------------------------------------

    def get(self, kind: type[T], key: str) -> T | None:
        return self._objects[kind].get(key)

    def all(self, kind: type[T]) -> Iterator[T]:
        return iter(self._objects[kind].values())

    def in_namespace(self, kind: type[T], namespace: str) -> Collection[T]:
        return self.indexed(kind, BY_NAMESPACE, namespace)

    def indexed(self, kind: type[T], index: ObjectIndex, value: str) -> Collection[T]:
        """The objects of a kind that have the value."""
        found = self._found.get((kind, index))
        if found is None:
            found = {}
            for key, obj in self._objects[kind].items():
                for of_object in index.values(obj):
                    found.setdefault(of_object, {})[key] = obj
            self._found[kind, index] = found
            self._indexes[kind].add(index)
        return found.get(value, _NOTHING).values()

    def count(self, kind: type[Any]) -> int:
        return len(self._objects[kind])

    def version(self, kind: type[Any]) -> int:
        """Changes with every change of an object of the kind."""
        return self._versions[kind]

    def changes(self, kind: type[Any]) -> ChangeLog[str]:
        """The change log of a kind, by key. Changes are recorded from the first call on."""
        log = self._logs.get(kind)
        if log is None:
            log = self._logs[kind] = ChangeLog()
            if self._mark is not None:
                # Readers may have observed state that was undone.
                log.append("")
        return log

    def namespace_labels(self, name: str) -> dict[str, str]:
        """The labels of a namespace; empty if it is unknown."""
        namespace = self.get(t.Namespace, name)
        return _NO_LABELS if namespace is None else namespace.metadata.labels

    def watched(self, dependency: ObjectDependency) -> _Version:
        """The version of a set of objects of one kind; maintained while there is a reference to it."""
        version = self._watched.get(dependency)
        if version is None:
            assert dependency.kind is not None, "of objects of any kind it is `total_version`"
            if dependency.by is not None:
                self._indexes[dependency.kind].add(dependency.by)
            version = self._watched[dependency] = _Version(self._clock)
            if self._mark is not None:
                self._mark.begun.append(version)
        return version

    # -- as a participant of transactions -----------------------------------------------------------------------------

    def begin(self) -> _Mark:
        positions = {kind: log.position for kind, log in self._logs.items()}
        self._mark = _Mark(self._mark, self.total_version, dict(self._versions), positions)
        return self._mark

    def undo(self, mark: _Mark) -> None:
        self._objects.update(mark.before)
        for kind in mark.before:
            self._versions[kind] = mark.versions.get(kind, 0)
            for index in self._indexes[kind]:
                self._found.pop((kind, index), None)
        for kind, log in self._logs.items():
            if kind in mark.before or kind not in mark.positions:
                log.rewind(mark.positions.get(kind, 0))
                if kind not in mark.positions and mark.outer is not None:
                    # The log was created in this transaction, so what its readers observe now may be undone with the
                    # outer one.
                    log.append("")
        self.total_version = mark.total_version
        for version, number in mark.watched.items():
            version.number = number
        # Watching began inside, so their versions before the transaction are unknown: a new number, which no reader has
        # seen, makes every reader look again.
        self._clock += 1
        for version in mark.begun:
            version.number = self._clock
        if mark.outer is not None:
            mark.outer.begun += mark.begun
        self._mark = mark.outer

    def keep(self, mark: _Mark) -> None:
        if mark.outer is not None:
            for kind, objects in mark.before.items():
                mark.outer.before.setdefault(kind, objects)
            for version, number in mark.watched.items():
                mark.outer.watched.setdefault(version, number)
            mark.outer.begun += mark.begun
        self._mark = mark.outer

    def changed_nodes(self, mark: _Mark) -> tuple[str, ...] | None:
        # A change of an object may affect any node.
        return None if mark.before else ()

    def dump(self) -> list[Any]:
        """The objects by kind, in order."""
        return [obj for objects in self._objects.values() for obj in objects.values()]

    def load(self, dumped: list[Any]) -> None:
        for obj in self.dump():
            self.remove(obj)
        self._objects.clear()
        for obj in dumped:
            self.put(obj)


class ObjectWatch:
    """A set of objects in a store, and whether any of them changed since it was last read."""

    __slots__ = ("_any", "_numbers", "_store", "_total", "_versions")

    def __init__(self, store: ObjectStore, dependencies: Iterable[ObjectDependency]) -> None:
        distinct = dict.fromkeys(dependencies)
        self._store = store
        self._any = any(dependency.kind is None for dependency in distinct)
        self._versions = [store.watched(d) for d in distinct if d.kind is not None]
        self.read()

    def read(self) -> None:
        """Mark the current state as read."""
        self._total = self._store.total_version
        self._numbers = [version.number for version in self._versions]

    @property
    def versions(self) -> tuple[int, ...]:
        """Equal for watches of the same objects that were read in the same state."""
        return (self._total if self._any else -1, *self._numbers)

    def changed(self) -> bool:
        total = self._store.total_version
        if total == self._total:
            return False
        if self._any or self._numbers != [version.number for version in self._versions]:
            return True
        # Only other objects changed: makes the next check cheap.
        self._total = total
        return False
