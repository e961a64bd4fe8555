"""Validate the fields of a pod spec that constrain scheduling.

Upstream: pkg/apis/core/validation (validateAffinity, ValidateTolerations, validateTopologySpreadConstraints, …).
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.kube.api.affinity import PREFERRED_TERMS, REQUIRED_TERMS
from stowplan.kube.api.label_selectors import parse_int64
from stowplan.kube.api.labels import is_qualified_name_errors, label_value_errors
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors
from stowplan_cluster.apiserver.validation.selectors import (
    check_label_key,
    check_label_selector,
    check_node_selector,
    check_node_selector_term,
)

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WEIGHTS = "must be in the range 1-100"
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION = ("Honor", "Ignore")


def check_affinity(errors: Errors, path: str, affinity: JsonObject) -> None:
    if (node := affinity.get("nodeAffinity")) is not None:
        _check_node_affinity(errors, f"{path}.nodeAffinity", node)
    for name in ("podAffinity", "podAntiAffinity"):
        if (terms := affinity.get(name)) is not None:
            _check_pod_affinity(errors, f"{path}.{name}", terms)


def _check_node_affinity(errors: Errors, path: str, affinity: JsonObject) -> None:
    if (selector := affinity.get(REQUIRED_TERMS)) is not None:
        check_node_selector(errors, f"{path}.{REQUIRED_TERMS}", selector)
    for index, term in enumerate(affinity.get(PREFERRED_TERMS) or ()):
        at = f"{path}.{PREFERRED_TERMS}[{index}]"
        _check_weight(errors, at, term)
        # Parity: values that no label can have are allowed in preferences.
        check_node_selector_term(errors, f"{at}.preference", term.get("preference") or {}, check_values=False)


def _check_weight(errors: Errors, path: str, term: JsonObject) -> None:
    weight = term.get("weight", 0)
    if not 1 <= weight <= 100:
        errors.invalid(f"{path}.weight", weight, _WEIGHTS)


def _check_pod_affinity(errors: Errors, path: str, affinity: JsonObject) -> None:
    for index, term in enumerate(affinity.get(REQUIRED_TERMS) or ()):
        _check_pod_term(errors, f"{path}.{REQUIRED_TERMS}[{index}]", term)
    for index, weighted in enumerate(affinity.get(PREFERRED_TERMS) or ()):
        at = f"{path}.{PREFERRED_TERMS}[{index}]"
        _check_weight(errors, at, weighted)
        _check_pod_term(errors, f"{at}.podAffinityTerm", weighted.get("podAffinityTerm") or {})


def _check_pod_term(errors: Errors, path: str, term: JsonObject) -> None:
    check_label_selector(errors, f"{path}.labelSelector", term.get("labelSelector"))
    check_label_selector(errors, f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for namespace in term.get("namespaces") or ():
        errors.check_texts(f"{path}.namespace", namespace, names.dns_label(namespace))
    _check_label_keys(errors, path, term)
    key = term.get("topologyKey", "")
    if not key:
        errors.required(f"{path}.topologyKey", "can not be empty")
    check_label_key(errors, f"{path}.topologyKey", key)


def _check_label_keys(errors: Errors, path: str, term: JsonObject) -> None:
    """Check matchLabelKeys and mismatchLabelKeys, which have already been merged into the selector."""
    selector = term.get("labelSelector")
    match, mismatch = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            errors.forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set")
            continue
        for index, key in enumerate(keys):
            check_label_key(errors, f"{path}.{name}[{index}]", key)
    if match and selector is not None:
        _check_keys_not_selected(errors, path, match, selector)
    for index, key in enumerate(match):
        if key in mismatch:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.invalid(f"{path}.matchLabelKeys[{index}]", key, detail)


def _check_keys_not_selected(errors: Errors, path: str, keys: Sequence[str], selector: JsonObject) -> None:
    seen = set(selector.get("matchLabels") or ())
    for requirement in selector.get("matchExpressions") or ():
        key = requirement.get("key", "")
        if key in keys and key in seen:
            # Parity: the reference leaves out "matchLabelKeys" here.
            detail = "exists in both matchLabelKeys and labelSelector"
            errors.invalid(f"{path}[{keys.index(key)}]", key, detail)
        seen.add(key)


def check_tolerations(errors: Errors, path: str, tolerations: Sequence[JsonObject]) -> None:
    for index, toleration in enumerate(tolerations):
        _check_toleration(errors, f"{path}[{index}]", toleration)


def _check_toleration(errors: Errors, path: str, toleration: JsonObject) -> None:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    effect, value = toleration.get("effect", ""), toleration.get("value", "")
    if key:
        check_label_key(errors, f"{path}.key", key)
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.invalid(f"{path}.operator", operator, detail)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.invalid(f"{path}.effect", effect, detail)
    _check_toleration_value(errors, path, operator, value)
    if effect and effect not in TAINT_EFFECTS:
        errors.not_supported(f"{path}.effect", effect, TAINT_EFFECTS)


def _check_toleration_value(errors: Errors, path: str, operator: str, value: str) -> None:
    if operator in ("", "Equal"):
        if complaints := label_value_errors(value):
            errors.invalid(f"{path}.operator", value, ";".join(complaints))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            errors.invalid(f"{path}.operator", value, detail)
    elif operator in ("Lt", "Gt"):
        # Lt and Gt are alpha; they are accepted whether or not the scheduler's feature gate is on.
        if parse_int64(value) is None or str(parse_int64(value)) != value:
            errors.invalid(f"{path}.value", value, "must be a valid decimal integer in canonical form")
    else:
        errors.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))


def check_spreading(errors: Errors, path: str, constraints: Sequence[JsonObject]) -> None:
    for index, constraint in enumerate(constraints):
        _check_constraint(errors, f"{path}[{index}]", constraint, constraints[index + 1 :])


def _check_constraint(errors: Errors, path: str, constraint: JsonObject, later: Sequence[JsonObject]) -> None:
    key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
    errors.check_positive(f"{path}.maxSkew", constraint.get("maxSkew"))
    if not key:
        errors.required(f"{path}.topologyKey", "can not be empty")
    if action not in _ACTIONS:
        errors.not_supported(f"{path}.whenUnsatisfiable", action, _ACTIONS)
    if any(key == other.get("topologyKey") and action == other.get("whenUnsatisfiable") for other in later):
        errors.duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
    if (domains := constraint.get("minDomains")) is not None:
        errors.check_positive(f"{path}.minDomains", domains)
        if action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.invalid(f"{path}.minDomains", domains, detail)
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        errors.check_supported(f"{path}.{name}", constraint.get(name), _INCLUSION)
    _check_label_keys(errors, path, constraint)
    check_label_selector(errors, f"{path}.labelSelector", constraint.get("labelSelector"))


def check_scheduling_gates(errors: Errors, path: str, gates: Sequence[JsonObject]) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors.check_texts(f"{path}[{index}]", name, is_qualified_name_errors(name))
        if name in seen:
            errors.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def check_scheduling_group(errors: Errors, path: str, group: JsonObject) -> None:
    name = group.get("podGroupName")
    if name is None:
        errors.invalid(f"{path}.podGroupName", None, "must specify one of: `podGroupName`")
    else:
        errors.check_texts(f"{path}.podGroupName", name, names.dns_subdomain(name))
