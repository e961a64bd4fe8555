"""PersistentVolumeClaims, and the templates they are made from.

A claim's spec is immutable except for binding to a volume (once), requesting more storage when bound, and changing its
VolumeAttributesClass.

Upstream: pkg/apis/core/validation (ValidatePersistentVolumeClaim and below).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.kube.api.labels import is_qualified_name_errors
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.api.quantity import value as whole
from stowplan.kube.api.resource_names import is_native
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import NOT_POSITIVE, Errors, difference, same
from stowplan_cluster.apiserver.validation.resources import check_resource_quantity
from stowplan_cluster.apiserver.validation.selectors import check_label_selector

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"

_RESIZE_STATES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)


def check_access_modes(errors: Errors, path: str, modes: Sequence[str]) -> None:
    for mode in modes:
        if mode not in ACCESS_MODES:
            errors.not_supported(path, mode, ACCESS_MODES)
    known = {mode for mode in modes if mode in ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes")


def check_class_name(errors: Errors, path: str, name: str | None) -> None:
    if name:
        errors.check_texts(path, name, names.dns_subdomain(name))


def check_claim_spec(errors: Errors, path: str, spec: JsonObject) -> None:
    modes = spec.get("accessModes") or []
    if not modes:
        errors.required(f"{path}.accessModes", "at least 1 access mode is required")
    check_label_selector(errors, f"{path}.selector", spec.get("selector"))
    check_access_modes(errors, f"{path}.accessModes", modes)
    _check_size(errors, f"{path}.resources[storage]", _storage(spec))
    check_class_name(errors, f"{path}.storageClassName", spec.get("storageClassName"))
    errors.check_supported(f"{path}.volumeMode", spec.get("volumeMode"), VOLUME_MODES)
    _check_data_sources(errors, path, spec)
    check_class_name(errors, f"{path}.volumeAttributesClassName", spec.get("volumeAttributesClassName"))


def _storage(spec: JsonObject) -> Any:
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")


def _check_size(errors: Errors, path: str, size: Any) -> None:
    if size is None:
        errors.required(path)
    elif parse_quantity(size) <= 0:
        errors.invalid(path, size, NOT_POSITIVE)
    else:
        check_resource_quantity(errors, path, "storage", size)


def _check_data_sources(errors: Errors, path: str, spec: JsonObject) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        _check_data_source(errors, f"{path}.dataSource", source)
    if reference is not None:
        _check_data_source(errors, f"{path}.dataSourceRef", reference)
    if source is None or reference is None:
        return
    if reference.get("namespace"):
        errors.invalid(path, f"{path}.dataSource", "may not be specified when dataSourceRef.namespace is specified")
    elif any(source.get(name) != reference.get(name) for name in ("apiGroup", "kind", "name")):
        errors.invalid(path, f"{path}.dataSource", "must match dataSourceRef")


def _check_data_source(errors: Errors, path: str, source: JsonObject) -> None:
    errors.check_required_fields(path, source, ("name", "kind"))
    group, kind, namespace = source.get("apiGroup", ""), source.get("kind", ""), source.get("namespace", "")
    if group:
        errors.check_texts(f"{path}.apiGroup", group, names.dns_subdomain(group))
    elif kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.invalid(path, kind, detail)
    if namespace:
        errors.check_texts(f"{path}.namespace", namespace, names.dns_label(namespace))


def check_claim(errors: Errors, claim: JsonObject) -> None:
    check_claim_spec(errors, "spec", claim.get("spec") or {})


def check_claim_update(errors: Errors, claim: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        _check_claim_status(errors, claim)
        return
    check_claim(errors, claim)
    spec, old_spec = claim.get("spec") or {}, old.get("spec") or {}
    _check_class_annotation(errors, claim, old)
    allowed = _with_what_may_change(claim, old)
    if not same(spec, allowed):
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        errors.forbidden("spec", f"{detail}\n{difference(spec, allowed)}")
    _check_shrinking(errors, spec, old)
    errors.check_immutable("volumeMode", spec.get("volumeMode"), old_spec.get("volumeMode"))
    _check_attributes_class(errors, spec, old)


def _class_annotation(claim: JsonObject) -> str:
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(CLASS_ANNOTATION, ""))


def _check_class_annotation(errors: Errors, claim: JsonObject, old: JsonObject) -> None:
    new_class = (claim.get("spec") or {}).get("storageClassName")
    annotated, before = _class_annotation(claim), _class_annotation(old)
    moved_to_field = before and new_class == before and annotated in ("", before)
    if annotated != before and not moved_to_field:
        detail = f"field is immutable: {CLASS_ANNOTATION}"
        errors.invalid(f"metadata.annotations[{CLASS_ANNOTATION}]", annotated, detail)


def _with_what_may_change(claim: JsonObject, old: JsonObject) -> JsonObject:
    """The old spec with the new values of the fields that are mutable in this state."""
    spec, allowed = claim.get("spec") or {}, dict(old.get("spec") or {})
    if not allowed.get("volumeName"):
        allowed["volumeName"] = spec.get("volumeName")
    if "storageClassName" not in allowed and _class_annotation(old) in ("", spec.get("storageClassName")):
        allowed["storageClassName"] = spec.get("storageClassName")
    if (claim.get("status") or {}).get("phase") == "Bound":
        allowed["volumeAttributesClassName"] = spec.get("volumeAttributesClassName")
        resources = dict(allowed.get("resources") or {})
        requests = dict(resources.get("requests") or {})
        if (size := _storage(spec)) is not None:
            resources["requests"] = requests | {"storage": size}
        allowed["resources"] = resources
    return allowed


def _check_shrinking(errors: Errors, spec: JsonObject, old: JsonObject) -> None:
    """Check that a claim shrinks only to revert a failed expansion."""
    size, before = parse_quantity(_storage(spec) or 0), parse_quantity(_storage(old.get("spec") or {}) or 0)
    capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage", 0)
    if size < before and size <= parse_quantity(capacity):
        errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")


def _check_attributes_class(errors: Errors, spec: JsonObject, old: JsonObject) -> None:
    name = spec.get("volumeAttributesClassName")
    applied = (old.get("status") or {}).get("currentVolumeAttributesClassName")
    if name or applied is None or name == (old.get("spec") or {}).get("volumeAttributesClassName"):
        return
    what = "nil" if name is None else "empty string"
    detail = f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
    errors.forbidden("spec.volumeAttributesClassName", detail)


def _check_claim_status(errors: Errors, claim: JsonObject) -> None:
    status = claim.get("status") or {}
    for name, value in (status.get("capacity") or {}).items():
        _check_amount(errors, f"status.capacity[{name}]", value)
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        _check_claim_resource(errors, "status.allocatedResourceStatuses", name)
        if state not in _RESIZE_STATES:
            errors.not_supported("status.allocatedResourceStatuses", name, _RESIZE_STATES)
    for name, value in (status.get("allocatedResources") or {}).items():
        if _check_claim_resource(errors, "status.allocatedResources", name):
            _check_amount(errors, f"status.allocatedResources[{name}]", value)


def _check_amount(errors: Errors, path: str, value: Any) -> None:
    if (nano := parse_quantity(value)) < 0:
        errors.invalid(path, whole(nano), "must be a valid resource quantity")


def _check_claim_resource(errors: Errors, path: str, name: str) -> bool:
    before = len(errors)
    errors.check_texts(path, name, is_qualified_name_errors(name))
    if len(errors) == before and is_native(name) and name != "storage":
        errors.not_supported(path, name, ("storage",))
    return len(errors) == before
