"""Validate int-or-percent fields, as in rolling updates and disruption budgets.

Upstream: pkg/apis/apps/validation (ValidatePositiveIntOrPercent, IsNotMoreThan100Percent).
"""

from __future__ import annotations

from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.fields import NOT_NEGATIVE, Errors, check_texts, invalid


def check_percentage(errors: Errors, path: str, value: int | str, *, at_most_all: bool) -> None:
    if isinstance(value, int):
        if value < 0:
            errors.append(invalid(path, value, NOT_NEGATIVE))
        return
    complaints = names.percent(value)
    check_texts(errors, path, value, complaints)
    if at_most_all and not complaints and len(value) > 3 and _number_of(value) > 100:
        errors.append(invalid(path, value, "must not be greater than 100%"))


def _number_of(percentage: str) -> int:
    digits = percentage[:-1].lstrip("0")
    # Cap the digits: Python refuses to parse thousands of them, and any such number is too large.
    return int(digits or 0) if len(digits) < 10 else 10**9


def is_zero(value: int | str) -> bool:
    if isinstance(value, int):
        return value == 0
    return bool(names.percent(value)) or _number_of(value) == 0
