"""Server-owned metadata: generated names, UIDs, timestamps, resource versions; and what an update expects of them.

Upstream: k8s.io/apiserver/pkg/registry/rest/create.go, update.go, meta.go; pkg/storage/names; pkg/storage
(interfaces.go, errors.go), pkg/kubeapiserver/default_storage_factory_builder.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stowplan.kube.api.api_errors import REQUIRED, ApiError, BadRequest, FieldError, conflict, invalid
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.meta import timestamp
from stowplan.kube.api.whole_numbers import whole_number
from stowplan_cluster.apiserver.objects import JsonObject, json_type, keep, metadata_of
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


class Random(Protocol):
    """The part of `random.Random` that names are made with."""

    def choices(self, population: str, *, k: int) -> list[str]: ...

    def getrandbits(self, k: int, /) -> int: ...


class Names:
    """Source of random names and UIDs."""

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


# Preconditions of updates: UID and resource version.

_MAX_VERSION = (1 << 64) - 1
#: Kinds whose etcd prefix is not their plural.
_KEPT_UNDER = {
    "customresourcedefinitions.apiextensions.k8s.io": "apiextensions.k8s.io/customresourcedefinitions",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}


def check_uid(resource: Resource, obj: JsonObject, namespace: str, have: str, *, dry_run: bool) -> None:
    """Raise Conflict if the object was deleted or recreated; `have` is the live uid, "" if there is no object."""
    metadata = metadata_of(obj)
    uid = metadata.get("uid")
    if uid and uid != have:
        # Parity: the message contains the object's etcd key.
        key = _key(resource, namespace, metadata["name"], dry_run=dry_run)
        why = (
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"{failed('UID', uid, have)}"
        )
        raise conflict(resource.plural, resource.group, metadata["name"], why)


def failed(field: str, wanted: str, have: str) -> str:
    return f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {have}"


def _key(resource: Resource, namespace: str, name: str, *, dry_run: bool) -> str:
    kept_under = f"{resource.group}/{resource.plural}" if resource.custom else resource.plural
    place = f"{namespace}/{name}" if resource.namespaced else name
    # Parity: on a dry run the key lacks the registry's prefix.
    prefix = "" if dry_run else "/registry"
    return f"{prefix}/{_KEPT_UNDER.get(resource.qualified, kept_under)}/{place}"


def version_asked(obj: JsonObject) -> int:
    """Parse an object's resourceVersion; 0 if it has none or "0"."""
    text = metadata_of(obj).get("resourceVersion") or "0"
    # Parity: the reference answers 500 for both.
    if not (text.isascii() and text.isdigit()):
        raise ApiError(f"strconv.ParseUint: parsing {go_quote(text)}: invalid syntax")
    version = whole_number(text, _MAX_VERSION)
    if version is None:
        raise ApiError(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return version


def has_resource_version(obj: JsonObject) -> bool:
    """Whether an object to create has a resourceVersion. Parity: anything but a number is ignored."""
    try:
        return version_asked(obj) > 0
    except ApiError:
        return False


def check_types(preconditions: object) -> JsonObject:
    """Check the types of DeleteOptions.preconditions."""
    if not isinstance(preconditions, dict):
        raise BadRequest(
            f"json: cannot unmarshal {json_type(preconditions)} into Go struct field DeleteOptions.preconditions "
            "of type v1.Preconditions"
        )
    for name, type_ in (("uid", "types.UID"), ("resourceVersion", "string")):
        value = preconditions.get(name)
        if not isinstance(value, str | None):
            raise BadRequest(
                f"json: cannot unmarshal {json_type(value)} into Go struct field "
                f"Preconditions.preconditions.{name} of type {type_}"
            )
    return preconditions
