"""The lookup objects that a result depends on: by key, kind, namespace or index.

A plugin declares what it looks up for a pod. Its results are reused until one of those objects is added, changed or
deleted; changes of other objects, even of the same kind, do not invalidate them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.structs import PlainStruct


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
