"""Validate ResourceQuotas and LimitRanges.

Upstream: pkg/apis/core/validation (ValidateResourceQuota, ValidateLimitRange).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api.labels import label_key_errors
from stowplan.api.quantity import NANO, parse_quantity
from stowplan_cluster.apiserver.validation.fields import (
    IMMUTABLE,
    Errors,
    check_texts,
    duplicate,
    forbidden,
    invalid,
    required,
)
from stowplan_cluster.apiserver.validation.resources import (
    check_container_resource_name,
    check_quota_resource_name,
    check_resource_name,
    check_resource_quantity,
    is_quota_resource,
    may_overcommit,
)

if TYPE_CHECKING:
    from stowplan.api.meta import QuantityValue
    from stowplan_cluster.apiserver.objects import JsonObject

_OF_PODS = frozenset(("pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"))
#: Scope -> the resources that it can be for.
_SCOPES = {
    "BestEffort": frozenset(("pods",)),
    "CrossNamespacePodAffinity": _OF_PODS,
    "NotBestEffort": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "Terminating": _OF_PODS,
    "VolumeAttributesClass": frozenset(("persistentvolumeclaims", "requests.storage")),
}
_EXCLUSIVE = (("BestEffort", "NotBestEffort"), ("NotTerminating", "Terminating"))
_ONLY_EXIST = frozenset(("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"))
_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")


# -- ResourceQuota ----------------------------------------------------------------------------------------------------


def check_quota(errors: Errors, quota: JsonObject) -> None:
    spec = quota.get("spec") or {}
    for name, value in (spec.get("hard") or {}).items():
        path = f"spec.hard[{name}]"
        check_quota_resource_name(errors, path, name)
        check_resource_quantity(errors, path, name, value)
    _check_scopes(errors, spec)
    _check_scope_selector(errors, spec)


def check_quota_update(errors: Errors, quota: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource:
        return
    check_quota(errors, quota)
    new, before = ((one.get("spec") or {}).get("scopes") or [] for one in (quota, old))
    if set(new) != set(before):
        errors.append(invalid("spec.scopes", new, IMMUTABLE))


def _check_scopes(errors: Errors, spec: JsonObject) -> None:
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        if _is_for_others(scope, spec):
            errors.append(invalid("spec.scopes", scopes, "unsupported scope applied to resource"))
    _check_exclusive(errors, "spec.scopes", scopes, scopes)


def _check_scope_selector(errors: Errors, spec: JsonObject) -> None:
    selector = spec.get("scopeSelector")
    path, scopes = "spec.scopeSelector.matchExpressions", []
    for requirement in (selector or {}).get("matchExpressions") or ():
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        scopes.append(scope)
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        if _is_for_others(scope, spec):
            errors.append(invalid(path, _as_in_go(selector), "unsupported scope applied to resource"))
        _check_operator(errors, path, scope, operator, requirement.get("values") or [])
    # Parity: the value is that of the other field.
    _check_exclusive(errors, path, scopes, spec.get("scopes"))


def _is_for_others(scope: str, spec: JsonObject) -> bool:
    """Whether the quota limits a resource that the scope cannot be for."""
    names = _SCOPES.get(scope)
    return names is not None and any(is_quota_resource(name) and name not in names for name in spec.get("hard") or ())


def _check_operator(errors: Errors, path: str, scope: str, operator: str, values: list[str]) -> None:
    if scope in _ONLY_EXIST and operator != "Exists":
        detail = (
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
            "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
            "ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        errors.append(invalid(f"{path}.operator", operator, detail))
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(required(f"{path}.values", detail))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(invalid(f"{path}.values", values, detail))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))


def _check_exclusive(errors: Errors, path: str, given: list[str], shown: object) -> None:
    for pair in _EXCLUSIVE:
        if set(pair) <= set(given):
            errors.append(invalid(path, shown, "conflicting scopes"))


def _as_in_go(selector: JsonObject | None) -> JsonObject:
    """Parity: the reference prints the names of its own struct."""
    requirements = (selector or {}).get("matchExpressions") or ()
    fields = ("scopeName", "ScopeName", ""), ("operator", "Operator", ""), ("values", "Values", None)
    shown = [{name: one.get(key, otherwise) for key, name, otherwise in fields} for one in requirements]
    return {"MatchExpressions": shown}


# -- LimitRange -------------------------------------------------------------------------------------------------------


def check_limit_range(errors: Errors, limit_range: JsonObject) -> None:
    seen: set[str] = set()
    for index, limit in enumerate((limit_range.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{index}]", limit.get("type", "")
        if complaints := label_key_errors(kind):
            check_texts(errors, f"{path}.type", kind, complaints)
        elif "/" not in kind and kind not in _LIMIT_TYPES:
            errors.append(invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified"))
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        _check_limit(errors, path, kind, limit)


def check_limit_range_update(errors: Errors, limit_range: JsonObject, old: JsonObject, subresource: str) -> None:
    check_limit_range(errors, limit_range)


def _check_limit(errors: Errors, path: str, kind: str, limit: JsonObject) -> None:
    name_rule = check_container_resource_name if kind in ("Pod", "Container") else check_resource_name
    values: dict[str, dict[str, QuantityValue]] = {}
    for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        given = limit.get(field) or {}
        if kind == "Pod" and field.startswith("default"):
            if given:
                errors.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
            continue
        for name, value in given.items():
            name_rule(errors, f"{path}.{field}[{name}]", name)
            values.setdefault(name, {})[field] = value
    if kind == "PersistentVolumeClaim" and not {"min", "max"} & values.get("storage", {}).keys():
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", detail))
    for name, of_resource in values.items():
        _check_order(errors, path, name, of_resource)
        _check_ratio(errors, path, name, of_resource)


_WORDS = {"min": "min", "max": "max", "default": "default", "defaultRequest": "default request"}
#: (the smaller, the larger, the field that is wrong, the field whose value is shown).
_ORDER = (
    ("min", "max", "min", "min"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest"),
    ("min", "default", "default", "min"),
    ("default", "max", "default", "max"),
)


def _check_order(errors: Errors, path: str, name: str, values: dict[str, QuantityValue]) -> None:
    for smaller, larger, wrong, shown in _ORDER:
        if smaller in values and larger in values and parse_quantity(values[smaller]) > parse_quantity(values[larger]):
            # Parity: here the default is called the default limit.
            last = "default limit" if (smaller, larger) == ("defaultRequest", "default") else _WORDS[larger]
            detail = f"{_WORDS[smaller]} value {values[smaller]} is greater than {last} value {values[larger]}"
            errors.append(invalid(f"{path}.{wrong}[{name}]", values[shown], detail))
    if may_overcommit(name) or not {"default", "defaultRequest"} <= values.keys():
        return
    default, request = values["default"], values["defaultRequest"]
    if parse_quantity(default) != parse_quantity(request):
        detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid(f"{path}.defaultRequest[{name}]", request, detail))


def _check_ratio(errors: Errors, path: str, name: str, values: dict[str, QuantityValue]) -> None:
    ratio = values.get("maxLimitRequestRatio")
    if ratio is None:
        return
    at = f"{path}.maxLimitRequestRatio[{name}]"
    if parse_quantity(ratio) < NANO:
        errors.append(invalid(at, ratio, f"ratio {ratio} is less than 1"))
    least, most = (parse_quantity(values.get(field, 0)) for field in ("min", "max"))
    if {"min", "max"} <= values.keys() and least and parse_quantity(ratio) / NANO > most / least:
        errors.append(invalid(at, ratio, f"ratio {ratio} is greater than max/min = {most / least:f}"))
