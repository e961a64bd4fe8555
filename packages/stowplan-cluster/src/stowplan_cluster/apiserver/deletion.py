"""Delete an object: at once, after its grace period, or when its finalizers are gone.

A pod on a node is marked as being deleted and stays until its kubelet deletes it with grace period 0. Finalizers keep
any object; `orphan` and `foregroundDeletion` are removed by the garbage collector. A namespace stays until its content
is gone.

Upstream: k8s.io/apiserver/pkg/registry/rest/delete.go, generic/registry/store.go (Delete).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.api_errors import INVALID, BadRequest, FieldError, conflict, invalid
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.meta import parse_timestamp, timestamp
from stowplan.kube.api.pod import FINISHED
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.metadata import check_types, failed
from stowplan_cluster.apiserver.objects import JsonObject, metadata_of
from stowplan_cluster.apiserver.resources import Resource

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.store import Stored

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
#: propagationPolicy -> finalizer.
_FINALIZERS = {"Orphan": ORPHAN, "Foreground": FOREGROUND}
#: Kinds whose preconditions upstream checks separately, with another message.
_CHECKED_BY_KIND = ("namespaces", "customresourcedefinitions.apiextensions.k8s.io")
PROPAGATIONS = ("", "Background", *_FINALIZERS)


class DeleteOptions(PlainStruct, frozen=True, kw_only=True):
    grace_period_seconds: int | None = None
    propagation: str = ""
    #: Preconditions of uid and resourceVersion; "" matches no object.
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


class Deletion(PlainStruct, frozen=True):
    #: The deleted object, or the one that remains for now.
    stored: Stored
    #: Whether the object is gone.
    finished: bool


def check_options(options: DeleteOptions) -> None:
    if options.propagation not in PROPAGATIONS:
        listed = '"Background", "Foreground", "Orphan"'
        value = go_quote(options.propagation)
        message = f"Unsupported value: {value}: supported values: {listed}"
        raise invalid("DeleteOptions", "meta.k8s.io", "", [FieldError(INVALID, "propagationPolicy", message)])


def check_preconditions(resource: Resource, stored: Stored, options: DeleteOptions) -> None:
    _check(resource, stored, "UID", options.uid, stored.uid, "deleted and then recreated")
    _check(resource, stored, "ResourceVersion", options.resource_version, str(stored.version), "modified")


def _check(resource: Resource, stored: Stored, field: str, wanted: str | None, have: str, what_happened: str) -> None:
    if wanted is None or wanted == have:
        return
    if resource.storage in _CHECKED_BY_KIND:
        raise conflict(resource.plural, resource.group, stored.name, failed(field, wanted, have))
    # Parity: the message names the core group for events of both groups.
    group = "" if resource.storage == "events" else resource.group
    why = (
        f"the {field} in the precondition ({wanted}) does not match the {field} in record ({have}). "
        f"The object might have been {what_happened}"
    )
    raise conflict(resource.kind, group, stored.name, why)


def mark(resource: Resource, obj: JsonObject, options: DeleteOptions, *, now: float) -> bool:
    """Mark the object as being deleted; return whether it must remain."""
    metadata = metadata_of(obj)
    _set_propagation(metadata, options.propagation)
    if resource.storage == "pods":
        stays = _mark_graceful(obj, options, now=now)
    elif resource.storage == "namespaces":
        stays = _mark_namespace(obj, now=now)
    else:
        stays = False
    if metadata.get("finalizers") and not metadata.get("deletionTimestamp"):
        _mark_now(metadata, now=now)
    return stays or bool(metadata.get("finalizers"))


def _set_propagation(metadata: JsonObject, propagation: str) -> None:
    finalizers = list(metadata.get("finalizers") or ())
    if propagation:
        finalizers = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
        finalizers += [_FINALIZERS[propagation]] if propagation in _FINALIZERS else []
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _mark_now(metadata: JsonObject, *, now: float) -> None:
    metadata["deletionTimestamp"] = timestamp(now)
    metadata["deletionGracePeriodSeconds"] = 0
    _count(metadata)


def _count(metadata: JsonObject) -> None:
    if metadata.get("generation"):
        metadata["generation"] += 1


def _mark_namespace(namespace: JsonObject, *, now: float) -> bool:
    metadata = metadata_of(namespace)
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = timestamp(now)
        namespace.setdefault("status", {})["phase"] = "Terminating"
    return bool((namespace.get("spec") or {}).get("finalizers"))


def _mark_graceful(pod: JsonObject, options: DeleteOptions, *, now: float) -> bool:
    metadata = metadata_of(pod)
    if metadata.get("deletionTimestamp"):
        return _shorten(metadata, options.grace_period_seconds, now=now)
    period = _grace_period(pod, options.grace_period_seconds)
    metadata["deletionTimestamp"] = timestamp(now + period)
    metadata["deletionGracePeriodSeconds"] = period
    _count(metadata)
    return period > 0


def _grace_period(pod: JsonObject, requested: int | None) -> int:
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in FINISHED:
        return 0
    period: int = spec.get("terminationGracePeriodSeconds", 0) if requested is None else requested
    return period if period >= 0 else 1


def _shorten(metadata: JsonObject, requested: int | None, *, now: float) -> bool:
    """Shorten the grace period of a deletion in progress; it never gets longer."""
    period: int = metadata.get("deletionGracePeriodSeconds") or 0
    if not period:
        return False
    if requested is None or (1 if requested < 0 else requested) >= period:
        return True
    requested = 1 if requested < 0 else requested
    due = parse_timestamp(metadata["deletionTimestamp"]) - period + requested
    if due < now:
        due, requested = now, 1 if requested else 0
    metadata["deletionTimestamp"] = timestamp(due)
    metadata["deletionGracePeriodSeconds"] = requested
    return requested > 0


def options_of(body: JsonObject, options: DeleteOptions) -> DeleteOptions:
    """Apply a DeleteOptions body, which takes precedence over query parameters."""
    grace = body.get("gracePeriodSeconds", options.grace_period_seconds)
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise BadRequest("gracePeriodSeconds: expected a whole number")
    propagation = body.get("propagationPolicy") or options.propagation
    orphan = body.get("orphanDependents")
    if orphan is not None:
        propagation = propagation or ("Orphan" if orphan else "Background")
    if not isinstance(propagation, str):
        raise BadRequest("DeleteOptions: propagationPolicy must be a string")
    preconditions = check_types(body.get("preconditions") or {})
    return DeleteOptions(
        grace_period_seconds=grace,
        propagation=propagation,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run=options.dry_run or "All" in (body.get("dryRun") or ()),
    )
