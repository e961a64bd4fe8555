"""Custom resources: metadata, with all other fields kept as decoded.

Only the location of such a kind is known, so each resource has a type of its own that only contains that. It is used
like the types of other kinds: `custom_resource("queues.v1.batch.example.com")`.

Upstream: the dynamic informers of pkg/scheduler/eventhandlers.go, which name a resource in the same way.
"""

from abc import ABC
from functools import cache
from typing import Any, ClassVar, cast

import msgspec

from stowplan.kube.api.meta import ApiStruct, ObjectMeta


class CustomObject(ApiStruct, frozen=True, kw_only=True):
    """An object of a custom resource, which its class identifies."""

    #: `<plural>.<version>.<group>`, which is also its name in plugins' event registrations.
    resource: ClassVar[str] = ""
    plural: ClassVar[str] = ""
    version: ClassVar[str] = ""
    group: ClassVar[str] = ""
    namespaced: ClassVar[bool] = True
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    #: The whole object as decoded JSON, including metadata; shared by all readers, so read-only.
    content: dict[str, Any] = msgspec.field(default_factory=dict)


class UntypedObject(ABC):  # noqa: B024 - not for its methods, but to count custom objects among its instances
    """The type that decoders expect in place of a custom object: any object."""

    kind: ClassVar[type[CustomObject]] = CustomObject


def custom_resource(resource: str, *, namespaced: bool = True) -> type[CustomObject]:
    """The type of `<plural>.<version>.<group>`, one per resource; ValueError if the name is malformed."""
    return _type_of(resource, namespaced)


def guessed_plural(kind: str) -> str:
    """The plural of a kind by the rule that most definitions follow, as objects in files do not name theirs."""
    lower = kind.lower()
    if lower.endswith("s"):
        return f"{lower}es"
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"


@cache
def _type_of(resource: str, namespaced: bool) -> type[CustomObject]:
    plural, _, rest = resource.partition(".")
    version, dot, group = rest.partition(".")
    if not (plural and version and dot) or "/" in resource:
        raise ValueError(f"{resource!r} names no custom resource: want <plural>.<version>.<group>")
    about = {
        "resource": resource,
        "plural": plural,
        "version": version,
        "group": group,
        "namespaced": namespaced,
        "__doc__": f"An object of {resource}.",
    }
    made = msgspec.defstruct(resource, [], bases=(CustomObject,), namespace=about, frozen=True, kw_only=True)
    return cast("type[CustomObject]", made)


@cache
def on_the_wire(kind: type[CustomObject]) -> type[UntypedObject]:
    made = cast("type[UntypedObject]", type(kind.resource, (UntypedObject,), {"kind": kind}))
    made.register(kind)
    return made
