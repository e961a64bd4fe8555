"""Server-owned metadata: generated names, UIDs, timestamps, resource versions.

Upstream: k8s.io/apiserver/pkg/registry/rest/create.go, update.go, meta.go; pkg/storage/names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stowplan.kube.api.api_errors import REQUIRED, ApiError, BadRequest, FieldError, invalid
from stowplan.kube.api.timestamps import timestamp
from stowplan_cluster.apiserver.objects import JsonObject, keep, metadata_of
from stowplan_cluster.apiserver.preconditions import has_resource_version
from stowplan_cluster.apiserver.resources import Resource

#: Without vowels and look-alikes, to avoid words and misreadings.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_GENERATION_TRIES = 8
_MAX_BASE_LENGTH = 63 - _SUFFIX_LENGTH

#: Fields that an update cannot change; the old value is kept silently.
_KEPT = ("creationTimestamp", "generateName", "selfLink")
#: Fields that an update may omit but not change.
_FIXED = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")


class Names(Protocol):
    """Source of random names and UIDs."""

    def suffix(self) -> str: ...

    def uid(self) -> str: ...


class Random(Protocol):
    """The part of `random.Random` that names are made with."""

    def choices(self, population: str, *, k: int) -> list[str]: ...

    def getrandbits(self, k: int, /) -> int: ...


class RandomNames:
    def __init__(self, random: Random) -> None:
        self._random = random

    def suffix(self) -> str:
        return "".join(self._random.choices(_LETTERS, k=_SUFFIX_LENGTH))

    def uid(self) -> str:
        """A version 4 UUID."""
        bits = self._random.getrandbits(128) & ~(0xF000 << 64) & ~(0xC000 << 48) | (0x4000 << 64) | (0x8000 << 48)
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def prepare_metadata(
    resource: Resource, obj: JsonObject, namespace: str, *, names: Names, taken: Callable[[str], bool], now: float
) -> None:
    metadata = metadata_of(obj)
    if has_resource_version(obj):
        # Parity: the reference answers 500 here.
        raise ApiError("resourceVersion should not be set on objects to be created")
    set_namespace(resource, metadata, namespace)
    if not metadata.get("name"):
        if not metadata.get("generateName"):
            error = FieldError(REQUIRED, "metadata.name", "Required value: name or generateName is required")
            raise invalid(resource.kind, resource.group, "", [error])
        metadata["name"] = _generated_name(metadata["generateName"], names, taken)
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"):
        metadata.pop(field, None)
    metadata["uid"] = names.uid()
    metadata["creationTimestamp"] = timestamp(now)


def _generated_name(base: str, names: Names, taken: Callable[[str], bool]) -> str:
    """A generated name that is not taken, within a few attempts: random suffixes collide among thousands of objects."""
    for _ in range(_GENERATION_TRIES):
        name = base[:_MAX_BASE_LENGTH] + names.suffix()
        if not taken(name):
            break
    return name


def set_namespace(resource: Resource, metadata: JsonObject, namespace: str) -> None:
    if resource.namespaced:
        check_namespace(metadata, namespace)
    else:
        metadata.pop("namespace", None)


def check_namespace(metadata: JsonObject, namespace: str) -> None:
    """Default the object's namespace to the request's; raise BadRequest if they differ."""
    if (metadata.get("namespace") or namespace) != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = namespace


def check_name(obj: JsonObject, name: str) -> None:
    """Check that the object's name is the one in the URL."""
    found = metadata_of(obj).get("name")
    if not found:
        raise BadRequest(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if found != name:
        raise BadRequest(f"the name of the object ({found}) does not match the name on the URL ({name})")


def carry_over(obj: JsonObject, old: JsonObject) -> None:
    """Copy the metadata that an update cannot change from the old object."""
    metadata, before = metadata_of(obj), metadata_of(old)
    keep(metadata, before, *_KEPT, "resourceVersion", "generation")
    keep(metadata, before, *(name for name in _FIXED if metadata.get(name) in (None, "")))
    if "managedFields" not in metadata:
        keep(metadata, before, "managedFields")
