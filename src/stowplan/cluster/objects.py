"""Objects that plugins look up by name: services, claims, disruption budgets, namespaces, …

Plain dictionaries with a version a kind, so that whatever was derived from a kind can be kept until it changes.

Upstream: the shared informers' listers.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

from stowplan.api import types as t
from stowplan.api.custom_objects import CustomObject

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

#: Kinds that plugins read through the store (pods and nodes have rooms of their own).
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
    t.PriorityClass,
    t.ResourceClaim,
    t.ResourceSlice,
    t.DeviceClass,
    #: A kind for each custom resource.
    CustomObject,
)
_NO_LABELS: dict[str, str] = {}


def key_of(metadata: t.ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


class ObjectStore:
    """Type -> key (`name` or `namespace/name`) -> object."""

    def __init__(self) -> None:
        self._objects: dict[type[Any], dict[str, Any]] = defaultdict(dict)
        self._versions: dict[type[Any], int] = defaultdict(int)
        #: Moves with every change of any object.
        self.total_version = 0

    def put(self, obj: Any) -> None:
        self._objects[type(obj)][key_of(obj.metadata)] = obj
        self._moved(type(obj))

    def _moved(self, kind: type[Any]) -> None:
        self._versions[kind] += 1
        self.total_version += 1

    def remove(self, obj: Any) -> None:
        if self._objects[type(obj)].pop(key_of(obj.metadata), None) is not None:
            self._moved(type(obj))

    def get(self, kind: type[T], key: str) -> T | None:
        return self._objects[kind].get(key)

    def all(self, kind: type[T]) -> Iterator[T]:
        return iter(self._objects[kind].values())

    def count(self, kind: type[Any]) -> int:
        return len(self._objects[kind])

    def version(self, kind: type[Any]) -> int:
        """Moves with every change of an object of the kind."""
        return self._versions[kind]

    def namespace_labels(self, name: str) -> dict[str, str]:
        """Labels of a namespace; none when it is unknown."""
        namespace = self.get(t.Namespace, name)
        return _NO_LABELS if namespace is None else namespace.metadata.labels
