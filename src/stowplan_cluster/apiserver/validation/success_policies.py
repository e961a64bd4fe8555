"""Validate the success policy of a Job: succeeded indexes or a count.

Upstream: pkg/apis/batch/validation/validation.go (validateSuccessPolicy and below).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stowplan.api.field_errors import go_quote
from stowplan_cluster.apiserver.validation.fields import (
    Errors,
    byte_length,
    check_not_negative_fields,
    invalid,
    required,
    too_long,
    too_many,
)

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

INDEXED_ONLY = "requires indexed completion mode"

_MAX_RULES = 20
_MAX_INDEXES_LENGTH = 64 * 1024
_NUMBER_RE = re.compile(r"[+-]?[0-9]+")


def check_success_policy(errors: Errors, spec: JsonObject, policy: JsonObject) -> None:
    path, rules = "spec.successPolicy", policy.get("rules") or []
    if spec.get("completionMode") != "Indexed":
        errors.append(invalid(path, policy, INDEXED_ONLY))
        return
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{path}.rules", detail))
    if len(rules) > _MAX_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        _check_rule(errors, f"{path}.rules[{index}]", rule, spec.get("completions") or 0)


def _check_rule(errors: Errors, path: str, rule: JsonObject, completions: int) -> None:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        detail = "at least one of succeededCount or succeededIndexes must be specified"
        errors.append(required(path, detail))
    listed = 0
    if indexes is not None:
        if byte_length(indexes) > _MAX_INDEXES_LENGTH:
            errors.append(too_long(f"{path}.succeededIndexes", _MAX_INDEXES_LENGTH))
        try:
            listed = _count_indexes(indexes, completions)
        except ValueError as error:
            detail = f"error parsing succeededIndexes: {error}"
            errors.append(invalid(f"{path}.succeededIndexes", indexes, detail))
    if count is None:
        return
    check_not_negative_fields(errors, path, rule, ("succeededCount",))
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        errors.append(invalid(f"{path}.succeededCount", count, detail))
    if indexes is not None and count > listed:
        what = "indexes in the specified succeededIndexes field"
        detail = f"must be less than or equal to {listed} (the number of {what})"
        errors.append(invalid(f"{path}.succeededCount", count, detail))


def _count_indexes(text: str, completions: int) -> int:
    """Count indexes such as `0-2,5`; raise ValueError if they are invalid."""
    total, last = 0, None
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if len(limits) > 2:
            raise ValueError(
                f"the fragment {go_quote(part)} violates the requirement that an index interval can have at most "
                "two parts separated by '-'"
            )
        low, high = _index(limits[0], completions), _index(limits[-1], completions)
        if len(limits) == 2 and low >= high:
            raise ValueError(f"non-increasing order, previous: {low}, current: {high}")
        if last is not None and last >= low:
            raise ValueError(f"non-increasing order, previous: {last}, current: {low}")
        total, last = total + high - low + 1, high
    return total


def _index(text: str, completions: int) -> int:
    if not _NUMBER_RE.fullmatch(text) or len(text) > 18:
        raise ValueError(f"cannot convert string to integer for index: {go_quote(text)}")
    if int(text) >= completions:
        raise ValueError(f"too large index: {go_quote(text)}")
    return int(text)
