"""Preconditions of updates: UID and resource version.

Upstream: k8s.io/apiserver/pkg/storage (interfaces.go, errors.go), pkg/kubeapiserver/default_storage_factory_builder.go.
"""

from __future__ import annotations

from stowplan.kube.api.api_errors import ApiError, BadRequest, conflict
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.whole_numbers import whole_number
from stowplan_cluster.apiserver.objects import JsonObject, json_type, metadata_of
from stowplan_cluster.apiserver.resources import Resource

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
