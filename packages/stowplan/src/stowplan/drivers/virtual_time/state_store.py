"""A writable store over the objects of a cluster's state.

Writes are stored here until the engine has received them, and are part of the state from then on. So known pods need
not be added, and nothing is stored twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stowplan.drivers.virtual_time.object_store import Key, ObjectStore
from stowplan.kube.api.meta import ApiStruct
from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.cluster.pod_names import PodNames
from stowplan.scheduler.cluster.state import ClusterState

#: Later than the resource versions of any cluster that objects were read from.
_FIRST_VERSION = 10**15


class StateStore(ObjectStore):
    def __init__(self, state: ClusterState, names: PodNames) -> None:
        """`names`: which pod has a name."""
        super().__init__()
        self.version = _FIRST_VERSION
        self._state = state
        self._names = names

    def forget(self) -> None:
        """The engine has received everything that was written."""
        for view in self._objects.values():
            view.written.clear()

    def _kept(self, kind: type[ApiStruct]) -> _View:
        return _View(self, kind)

    def _remove(self, old: Any) -> Change[Any]:
        if type(old) is Pod:
            self._names.remove(f"{old.metadata.namespace or 'default'}/{old.metadata.name}")
        return super()._remove(old)

    def known(self, kind: type[ApiStruct], key: Key) -> Any:
        """The object in the state."""
        namespace, name = key
        if kind is Pod:
            full = f"{namespace or 'default'}/{name}"
            info = self._state.pending.get(full) or self._state.placed(self._names.get(full) or "")
            return None if info is None else info.pod
        if kind is Node:
            row = self._state.table.row_of.get(name)
            return None if row is None else self._state.table.nodes[row]
        return self._state.objects.get(kind, f"{namespace}/{name}" if namespace else name)

    def known_keys(self, kind: type[ApiStruct]) -> list[Key]:
        state = self._state
        if kind is Pod:
            infos = (*state.pending.values(), *state.placed_pods())
            return [(info.namespace, info.pod.metadata.name) for info in infos]
        if kind is Node:
            return [("", name) for name in state.table.row_of]
        found: Iterator[Any] = state.objects.all(kind)
        return [(obj.metadata.namespace, obj.metadata.name) for obj in found]


class _View:
    """Objects of one kind by namespace and name: written ones take precedence over the state's."""

    __slots__ = ("_kind", "_store", "written")

    def __init__(self, store: StateStore, kind: type[ApiStruct]) -> None:
        self._store = store
        self._kind = kind
        #: None for deleted objects.
        self.written: dict[Key, Any] = {}

    def get(self, key: Key) -> Any:
        key = key[0] or "default" if self._kind is Pod else key[0], key[1]
        return self.written[key] if key in self.written else self._store.known(self._kind, key)

    def __getitem__(self, key: Key) -> Any:
        return self.get(key)

    def __contains__(self, key: Key) -> bool:
        return self.get(key) is not None

    def __setitem__(self, key: Key, obj: Any) -> None:
        self.written[key[0] or "default" if self._kind is Pod else key[0], key[1]] = obj

    def __delitem__(self, key: Key) -> None:
        self[key] = None

    def __iter__(self) -> Iterator[Key]:
        keys = dict.fromkeys((*self._store.known_keys(self._kind), *self.written))
        return (key for key in keys if self.get(key) is not None)
