"""Validate resource requirements: names, signs, requests against limits.

Upstream: pkg/apis/core/validation (validateResourceRequirements) and pkg/apis/core/helper.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from stowplan.kube.api.labels import label_key_errors
from stowplan.kube.api.meta import QuantityValue
from stowplan.kube.api.quantity import NANO, QuantityError, milli_value, parse_quantity
from stowplan.kube.api.resource_names import CPU, HUGEPAGES_PREFIX, MEMORY, is_extended, is_native, is_pod_level
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import NOT_NEGATIVE, Errors

ResourceNameRule = Callable[[Errors, str, str], None]

_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED_OBJECTS = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_STANDARD_RESOURCES = (
    _CONTAINER_RESOURCES
    | _COUNTED_OBJECTS
    | {f"{prefix}.{name}" for prefix in ("requests", "limits") for name in _CONTAINER_RESOURCES}
    | {"storage", "requests.storage"}
)
_POD_LEVEL_RESOURCES = ("cpu", "hugepages-", "memory")


def is_hugepage(name: str) -> bool:
    return name.startswith(HUGEPAGES_PREFIX)


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_hugepage(name)


def check_not_negative_quantity(errors: Errors, path: str, value: QuantityValue) -> None:
    if parse_quantity(value) < 0:
        errors.invalid(path, value, NOT_NEGATIVE)


def check_resource_quantity(errors: Errors, path: str, name: str, value: QuantityValue) -> None:
    """Check a quantity of the resource `name`: not negative, and an integer for countable resources."""
    nano = parse_quantity(value)
    if nano < 0:
        errors.invalid(path, value, NOT_NEGATIVE)
    if nano % NANO and milli_value(nano) % 1000 and (name in _COUNTED_OBJECTS or is_extended(name)):
        errors.invalid(path, value, "must be an integer")


def check_resource_name(errors: Errors, path: str, name: str) -> None:
    if complaints := label_key_errors(name):
        errors.check_texts(path, name, complaints)
    elif "/" not in name and name not in _STANDARD_RESOURCES and not _is_quota_hugepage(name):
        errors.invalid(path, name, "must be a standard resource type or fully qualified")


def check_quota_resource_name(errors: Errors, path: str, name: str) -> None:
    check_resource_name(errors, path, name)
    if "/" not in name and not is_quota_resource(name):
        errors.invalid(path, name, "must be a standard resource for quota")


def is_quota_resource(name: str) -> bool:
    return (name in _STANDARD_RESOURCES and name != "storage") or _is_quota_hugepage(name)


def _is_quota_hugepage(name: str) -> bool:
    return is_hugepage(name) or name.startswith(f"requests.{HUGEPAGES_PREFIX}")


def check_container_resource_name(errors: Errors, path: str, name: str) -> None:
    if name in _CONTAINER_RESOURCES:
        return
    check_resource_name(errors, path, name)
    if "/" not in name:
        if not is_hugepage(name):
            errors.invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        errors.invalid(path, name, "doesn't follow extended resource name standard")


def check_pod_resource_name(errors: Errors, path: str, name: str) -> None:
    before = len(errors)
    check_resource_name(errors, path, name)
    if len(errors) == before and not is_pod_level(name):
        errors.not_supported(path, name, _POD_LEVEL_RESOURCES)


def check_requirements(
    errors: Errors, path: str, resources: JsonObject, *, name_rule: ResourceNameRule, claims: frozenset[str]
) -> None:
    """Check requests and limits; `claims` are the names in the pod's spec.resourceClaims."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, value in limits.items():
        at = f"{path}.limits[{name}]"
        name_rule(errors, at, name)
        check_resource_quantity(errors, at, name, value)
        _check_hugepages(errors, at, name, value)
    for name, value in requests.items():
        at = f"{path}.requests[{name}]"
        name_rule(errors, at, name)
        check_resource_quantity(errors, at, name, value)
        _check_request(errors, path, name, value, limits)
        _check_hugepages(errors, at, name, value)
    _check_hugepages_have_company(errors, path, limits.keys() | requests.keys())
    if used := resources.get("claims"):
        _check_claims(errors, f"{path}.claims", used, claims)


def _check_hugepages_have_company(errors: Errors, path: str, named: set[str]) -> None:
    if CPU not in named and MEMORY not in named and any(is_hugepage(name) for name in named):
        errors.forbidden(path, "HugePages require cpu or memory")


def _check_request(
    errors: Errors, path: str, name: str, value: QuantityValue, limits: dict[str, QuantityValue]
) -> None:
    limit = limits.get(name)
    if limit is None:
        if not may_overcommit(name):
            errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    over = parse_quantity(value) - parse_quantity(limit)
    if over and not may_overcommit(name):
        detail = f"must be equal to {name} limit of {limit}"
    elif over > 0:
        detail = f"must be less than or equal to {name} limit of {limit}"
    else:
        return
    errors.invalid(f"{path}.requests", value, detail)


def _check_hugepages(errors: Errors, path: str, name: str, value: QuantityValue) -> None:
    if is_hugepage(name) and not _is_whole_pages(name, parse_quantity(value)):
        detail = f"{value} is not positive integer multiple of {name}"
        errors.invalid(path, value, detail)


@lru_cache(maxsize=1024)
def _is_whole_pages(name: str, nano: int) -> bool:
    try:
        page = parse_quantity(name.removeprefix(HUGEPAGES_PREFIX))
    except QuantityError:
        return False
    return page > 0 and page % NANO == 0 and -(-nano // NANO) % (page // NANO) == 0


def _check_claims(errors: Errors, path: str, used: list[JsonObject], claims: frozenset[str]) -> None:
    seen: set[str] = set()
    for index, entry in enumerate(used):
        at, name, request = f"{path}[{index}]", entry.get("name", ""), entry.get("request", "")
        if not name:
            errors.required(at)
            continue
        if name in seen:
            errors.duplicate(at, name)
        else:
            _check_claim_request(errors, at, name, request, seen)
        if name not in claims:
            known = ": " + ", ".join(sorted(claims)) if claims else " which is empty"
            errors.not_found(at, name, f"must be one of the names in pod.spec.resourceClaims{known}")


def _check_claim_request(errors: Errors, path: str, name: str, request: str, seen: set[str]) -> None:
    """Check a claim reference and add it to `seen`; a claim and a request of it conflict."""
    key = f"{name}/{request}" if request else name
    if request:
        errors.check_texts(f"{path}.request", request, names.dns_label(request))
    if key in seen:
        errors.duplicate(path, key)
    elif not request and any(other.partition("/")[0] == name for other in seen):
        errors.duplicate(path, name)
    seen.add(key)
