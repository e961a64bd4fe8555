"""Validate fieldRef and resourceFieldRef of the downward API.

Upstream: pkg/apis/core/validation (validateObjectFieldSelector, validateContainerResourceFieldSelector).
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.kube.api.labels import is_qualified_name_errors
from stowplan.kube.api.quantity import parse_quantity
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation.field_errors import Errors

ENVIRONMENT_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")

_SUBSCRIPTED = ("metadata.annotations", "metadata.labels")
_KNOWN_FIELDS = frozenset(
    {*ENVIRONMENT_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
)

_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGEPAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def check_field_reference(errors: Errors, path: str, reference: JsonObject, allowed: Sequence[str]) -> None:
    for name in ("apiVersion", "fieldPath"):
        if not reference.get(name):
            errors.required(f"{path}.{name}")
            return
    version, label = reference["apiVersion"], reference["fieldPath"]
    field, subscript = _split(label)
    if problem := _conversion_problem(version, label, field, subscript):
        errors.invalid(f"{path}.fieldPath", label, f"error converting fieldPath: {problem}")
    elif subscript is not None:
        key = subscript.lower() if field == "metadata.annotations" else subscript
        errors.check_texts(path, key, is_qualified_name_errors(key))
    else:
        field = "spec.nodeName" if field == "spec.host" else field
        if field not in allowed:
            errors.not_supported(f"{path}.fieldPath", field, allowed)


def _split(label: str) -> tuple[str, str | None]:
    """Split `metadata.labels['app']` into path and key."""
    if label.endswith("']") and "['" in label:
        field, _, subscript = label[:-2].partition("['")
        if field:
            return field, subscript
    return label, None


def _conversion_problem(version: str, label: str, field: str, subscript: str | None) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscript is not None:
        return "" if field in _SUBSCRIPTED else f"field label does not support subscript: {label}"
    return "" if field in _KNOWN_FIELDS or field == "spec.host" else f"field label not supported: {label}"


def check_resource_reference(errors: Errors, path: str, reference: JsonObject, *, in_volume: bool) -> None:
    resource = reference.get("resource", "")
    if in_volume and not reference.get("containerName"):
        errors.required(f"{path}.containerName")
    elif not resource:
        errors.required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGEPAGES):
        errors.not_supported(f"{path}.resource", resource, _RESOURCES)
    divisor = reference.get("divisor")
    if divisor is not None and parse_quantity(divisor) != 0:
        _check_divisor(errors, f"{path}.divisor", resource, divisor)


def _check_divisor(errors: Errors, path: str, resource: str, divisor: str) -> None:
    kind = resource.partition(".")[2]
    if kind == "cpu":
        if divisor not in ("1m", "1"):
            detail = "only divisor's values 1m and 1 are supported with the cpu resource"
            errors.invalid(path, resource, detail)
        return
    words = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}
    what = "hugepages" if kind.startswith("hugepages-") else words.get(kind)
    if what and divisor not in _BYTE_DIVISORS:
        detail = f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the {what} resource"
        errors.invalid(path, resource, detail)
