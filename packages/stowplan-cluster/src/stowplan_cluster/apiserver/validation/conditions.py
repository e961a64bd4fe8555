"""Validate metav1.Condition.

Upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation (ValidateConditions).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.validation.fields import (
    Errors,
    check_length,
    duplicate,
    invalid,
    not_supported,
    required,
)
from stowplan_cluster.apiserver.validation.selectors import check_label_key

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_RE = re.compile(_REASON)
_STATUSES = ("False", "True", "Unknown")


def check_conditions(errors: Errors, path: str, conditions: list[JsonObject]) -> None:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at, kind = f"{path}[{index}]", condition.get("type", "")
        if kind in seen:
            errors.append(duplicate(f"{at}.type", kind))
        seen.add(kind)
        check_label_key(errors, f"{at}.type", kind)
        if condition.get("status", "") not in _STATUSES:
            errors.append(not_supported(f"{at}.status", condition.get("status", ""), _STATUSES))
        if (generation := condition.get("observedGeneration", 0)) < 0:
            detail = "must be greater than or equal to zero"
            errors.append(invalid(f"{at}.observedGeneration", generation, detail))
        if not condition.get("lastTransitionTime"):
            errors.append(required(f"{at}.lastTransitionTime"))
        _check_reason(errors, f"{at}.reason", condition.get("reason", ""))
        check_length(errors, f"{at}.message", condition.get("message", ""), 32 * 1024)


def _check_reason(errors: Errors, path: str, reason: str) -> None:
    if not reason:
        errors.append(required(path))
        return
    if not _REASON_RE.fullmatch(reason):
        what = (
            "a condition reason must start with alphabetic character, optionally followed by a string of "
            "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
        )
        examples = "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', "
        errors.append(invalid(path, reason, f"{what} (e.g. {examples}regex used for validation is '{_REASON}')"))
    check_length(errors, path, reason, 1024)
