"""Validate labels, label selectors and node selectors.

Upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation and pkg/apis/core/validation (node selectors).
"""

from __future__ import annotations

from stowplan.kube.api.labels import label_key_errors, label_value_errors
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors

_WITH_VALUES, _WITHOUT_VALUES, _COMPARING = ("In", "NotIn"), ("Exists", "DoesNotExist"), ("Gt", "Lt")


def check_label_key(errors: Errors, path: str, key: str) -> None:
    for complaint in label_key_errors(key):
        errors.invalid(path, key, complaint)


def check_label_value(errors: Errors, path: str, value: str) -> None:
    for complaint in label_value_errors(value):
        errors.invalid(path, value, complaint)


def check_labels(errors: Errors, path: str, labels: dict[str, str] | None) -> None:
    # Parity: the path is the map's, without the key.
    for key, value in (labels or {}).items():
        check_label_key(errors, path, key)
        check_label_value(errors, path, value)


def check_label_selector(errors: Errors, path: str, selector: JsonObject | None) -> None:
    if selector is None:
        return
    check_labels(errors, f"{path}.matchLabels", selector.get("matchLabels"))
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        _check_label_requirement(errors, f"{path}.matchExpressions[{index}]", requirement)


def _check_label_requirement(errors: Errors, path: str, requirement: JsonObject) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator not in _COMPARING:
        _check_operator(errors, path, operator, values)
    else:
        errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    check_label_key(errors, f"{path}.key", requirement.get("key", ""))
    for index, value in enumerate(values):
        check_label_value(errors, f"{path}.values[{index}]", value)


def _check_operator(errors: Errors, path: str, operator: str, values: list[str]) -> None:
    if operator in _WITH_VALUES:
        if not values:
            errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _WITHOUT_VALUES:
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.forbidden(f"{path}.values", detail)
    elif operator in _COMPARING:
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.required(f"{path}.values", detail)
    else:
        errors.invalid(f"{path}.operator", operator, "not a valid selector operator")


def is_empty_selector(selector: JsonObject) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def check_node_selector(errors: Errors, path: str, selector: JsonObject) -> None:
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        check_node_selector_term(errors, f"{path}.nodeSelectorTerms[{index}]", term, check_values=True)


def check_node_selector_term(errors: Errors, path: str, term: JsonObject, *, check_values: bool) -> None:
    """Check a term; without `check_values` (preferred terms) values may be invalid as label values."""
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        values = requirement.get("values") or []
        _check_operator(errors, at, requirement.get("operator", ""), values)
        check_label_key(errors, f"{at}.key", requirement.get("key", ""))
        for position, value in enumerate(values if check_values else ()):
            check_label_value(errors, f"{at}.values[{position}]", value)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        _check_field_requirement(errors, f"{path}.matchFields[{index}]", requirement)


def _check_field_requirement(errors: Errors, path: str, requirement: JsonObject) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator not in _WITH_VALUES:
        errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.required(f"{path}.values", detail)
    key = requirement.get("key", "")
    if key != "metadata.name":
        errors.invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        errors.check_texts(f"{path}.values[{index}]", value, names.dns_subdomain(value))
