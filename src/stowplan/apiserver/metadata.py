"""The part of metadata that the server owns: names, uids, times, versions.

Upstream: k8s.io/apiserver/pkg/registry/rest/create.go, update.go, meta.go; pkg/storage/names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from stowplan.api.api_errors import REQUIRED, BadRequest, FieldError, conflict, invalid
from stowplan.apiserver.objects import metadata_of, timestamp

if TYPE_CHECKING:
    from random import Random

    from stowplan.apiserver.objects import JsonObject
    from stowplan.apiserver.resources import Resource
    from stowplan.apiserver.store import Stored

#: Without vowels and look-alikes, so that no bad words and no mistakes come of it.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_BASE_LENGTH = 63 - _SUFFIX_LENGTH

#: What an update cannot change: it is silently kept.
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName", "selfLink")


class Names(Protocol):
    """Where chance comes in."""

    def suffix(self) -> str: ...

    def uid(self) -> str: ...


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


def prepare_metadata(resource: Resource, obj: JsonObject, namespace: str, *, names: Names, now: float) -> None:
    metadata = metadata_of(obj)
    if metadata.get("resourceVersion"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    _set_namespace(resource, metadata, namespace)
    if not metadata.get("name"):
        if not metadata.get("generateName"):
            error = FieldError(REQUIRED, "metadata.name", "Required value: name or generateName is required")
            raise invalid(resource.kind, resource.group, "", [error])
        metadata["name"] = metadata["generateName"][:_MAX_BASE_LENGTH] + names.suffix()
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"):
        metadata.pop(field, None)
    metadata["uid"] = names.uid()
    metadata["creationTimestamp"] = timestamp(now)


def _set_namespace(resource: Resource, metadata: JsonObject, namespace: str) -> None:
    if not resource.namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", namespace) != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def check_names(resource: Resource, obj: JsonObject, live: Stored) -> None:
    """The object of an update is the one at its URL."""
    metadata = metadata_of(obj)
    name = metadata.setdefault("name", live.name)
    if name != live.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({live.name})")
    _set_namespace(resource, metadata, live.namespace)
    uid = metadata.get("uid")
    if uid and uid != live.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {live.uid}"
        raise conflict(resource.plural, resource.group, name, why)


def carry_over(obj: JsonObject, old: JsonObject) -> None:
    """What of the old metadata stays, whatever the new object says."""
    metadata, before = metadata_of(obj), metadata_of(old)
    for field in (*_KEPT, "resourceVersion", "generation"):
        _copy(field, before, metadata)
    if "managedFields" not in metadata:
        _copy("managedFields", before, metadata)


def _copy(field: str, source: JsonObject, target: JsonObject) -> None:
    value: Any = source.get(field)
    if value is None:
        target.pop(field, None)
    else:
        target[field] = value
