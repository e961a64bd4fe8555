"""Validate ResourceQuotas, and the Namespaces that they are for, LimitRanges and RuntimeClasses.

Upstream: pkg/apis/core/validation (ValidateResourceQuota, ValidateLimitRange), pkg/apis/node/validation.
"""

from __future__ import annotations

from itertools import combinations

from stowplan.kube.api.labels import label_key_errors
from stowplan.kube.api.quantity import NANO, parse_quantity
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation.field_errors import IMMUTABLE, Errors
from stowplan_cluster.apiserver.validation.metadata import check_known_finalizer
from stowplan_cluster.apiserver.validation.names import dns_label
from stowplan_cluster.apiserver.validation.resources import (
    check_quota_resource_name,
    check_resource_quantity,
    is_quota_resource,
)

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

#: The fields of a LimitRange's item, from the smallest amount of a resource to the largest.
_BOUNDS = ("min", "defaultRequest", "default", "max")
_NO_STORAGE = "either minimum or maximum storage value is required, but neither was provided"
_NAMES = {"min": "min", "defaultRequest": "default request", "default": "default", "max": "max"}


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
        errors.invalid("spec.scopes", new, IMMUTABLE)


def _check_scopes(errors: Errors, spec: JsonObject) -> None:
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.invalid("spec.scopes", scopes, "unsupported scope")
        if _is_for_others(scope, spec):
            errors.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    _check_exclusive(errors, "spec.scopes", scopes, scopes)


def _check_scope_selector(errors: Errors, spec: JsonObject) -> None:
    selector = spec.get("scopeSelector")
    path, scopes = "spec.scopeSelector.matchExpressions", []
    for requirement in (selector or {}).get("matchExpressions") or ():
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        scopes.append(scope)
        if scope not in _SCOPES:
            errors.invalid(f"{path}.scopeName", scope, "unsupported scope")
        if _is_for_others(scope, spec):
            errors.invalid(path, _as_in_go(selector), "unsupported scope applied to resource")
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
        errors.invalid(f"{path}.operator", operator, detail)
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.required(f"{path}.values", detail)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.invalid(f"{path}.values", values, detail)
    else:
        errors.invalid(f"{path}.operator", operator, "not a valid selector operator")


def _check_exclusive(errors: Errors, path: str, given: list[str], shown: object) -> None:
    for pair in _EXCLUSIVE:
        if set(pair) <= set(given):
            errors.invalid(path, shown, "conflicting scopes")


def _as_in_go(selector: JsonObject | None) -> JsonObject:
    """Parity: the reference prints the names of its own struct."""
    requirements = (selector or {}).get("matchExpressions") or ()
    fields = ("scopeName", "ScopeName", ""), ("operator", "Operator", ""), ("values", "Values", None)
    shown = [{name: one.get(key, otherwise) for key, name, otherwise in fields} for one in requirements]
    return {"MatchExpressions": shown}


# Validate Namespaces: finalizers, and the phase during deletion.
#
# Upstream: pkg/apis/core/validation (ValidateNamespace and its updates).


def check_namespace(errors: Errors, namespace: JsonObject) -> None:
    for finalizer in (namespace.get("spec") or {}).get("finalizers") or ():
        _check_finalizer(errors, "spec.finalizers", finalizer)


def check_namespace_update(errors: Errors, namespace: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "finalize":
        for index, finalizer in enumerate((namespace.get("spec") or {}).get("finalizers") or ()):
            _check_finalizer(errors, f"spec.finalizers[{index}]", finalizer)
    elif subresource == "status":
        deleted = (namespace.get("metadata") or {}).get("deletionTimestamp")
        expected, state = ("Terminating", "not empty") if deleted else ("Active", "empty")
        phase = (namespace.get("status") or {}).get("phase", "")
        if phase != expected:
            detail = f"may only be '{expected}' if `deletionTimestamp` is {state}"
            errors.invalid("status.Phase", phase, detail)


def _check_finalizer(errors: Errors, path: str, finalizer: str) -> None:
    errors.check_texts(path, finalizer, label_key_errors(finalizer))
    check_known_finalizer(errors, path, finalizer)


def check_limit_range(errors: Errors, limit_range: JsonObject) -> None:
    seen: set[str] = set()
    for index, item in enumerate((limit_range.get("spec") or {}).get("limits") or ()):
        path, type_ = f"spec.limits[{index}]", item.get("type", "")
        if type_ in seen:
            errors.duplicate(f"{path}.type", type_)
        seen.add(type_)
        if type_ == "Pod":
            for field in ("default", "defaultRequest"):
                if item.get(field):
                    errors.forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
        if type_ == "PersistentVolumeClaim" and not any("storage" in (item.get(name) or {}) for name in ("min", "max")):
            errors.required(f"{path}.limits", _NO_STORAGE)
        for name in sorted({name for field in _BOUNDS for name in item.get(field) or ()}):
            _check_bounds(errors, path, name, item)
        for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
            if parse_quantity(ratio) < NANO:
                errors.invalid(f"{path}.maxLimitRequestRatio[{name}]", ratio, f"ratio {ratio} is less than 1")


def _check_bounds(errors: Errors, path: str, name: str, item: JsonObject) -> None:
    amounts = {field: of[name] for field in _BOUNDS if name in (of := item.get(field) or {})}
    for field, amount in amounts.items():
        check_resource_quantity(errors, f"{path}.{field}[{name}]", name, amount)
    for low, high in combinations(amounts, 2):
        if parse_quantity(amounts[low]) > parse_quantity(amounts[high]):
            why = f"{_NAMES[low]} value {amounts[low]} is greater than {_NAMES[high]} value {amounts[high]}"
            errors.invalid(f"{path}.{low}[{name}]", amounts[low], why)


def check_limit_range_update(errors: Errors, limit_range: JsonObject, old: JsonObject, subresource: str) -> None:
    check_limit_range(errors, limit_range)


def check_runtime_class(errors: Errors, runtime_class: JsonObject) -> None:
    handler = runtime_class.get("handler") or ""
    for problem in dns_label(handler):
        errors.invalid("handler", handler, problem)
    for name, amount in ((runtime_class.get("overhead") or {}).get("podFixed") or {}).items():
        check_resource_quantity(errors, f"overhead.podFixed[{name}]", name, amount)


def check_runtime_class_update(errors: Errors, runtime_class: JsonObject, old: JsonObject, subresource: str) -> None:
    if runtime_class.get("handler") != old.get("handler"):
        errors.invalid("handler", runtime_class.get("handler"), IMMUTABLE)
    check_runtime_class(errors, runtime_class)
