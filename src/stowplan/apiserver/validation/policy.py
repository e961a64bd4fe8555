"""PodDisruptionBudgets and Leases.

Upstream: pkg/apis/policy/validation, pkg/apis/coordination/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api.labels import is_qualified_name_errors
from stowplan.apiserver.validation.conditions import check_conditions
from stowplan.apiserver.validation.fields import (
    Errors,
    check_not_negative_fields,
    check_supported,
    check_texts,
    forbidden,
    invalid,
    not_supported,
)
from stowplan.apiserver.validation.rolling import check_percentage
from stowplan.apiserver.validation.selectors import check_label_selector

if TYPE_CHECKING:
    from stowplan.apiserver.objects import JsonObject

_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_LEASE_STRATEGY = "OldestEmulationVersion"


def check_budget(errors: Errors, budget: JsonObject) -> None:
    spec = budget.get("spec") or {}
    given = [name for name in ("minAvailable", "maxUnavailable") if name in spec]
    if len(given) > 1:
        errors.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for name in given:
        check_percentage(errors, f"spec.{name}", spec[name], at_most_all=True)
    check_label_selector(errors, "spec.selector", spec.get("selector"))
    policy, supported = spec.get("unhealthyPodEvictionPolicy"), ("AlwaysAllow", "IfHealthyBudget")
    check_supported(errors, "spec.unhealthyPodEvictionPolicy", policy, supported)


def check_budget_update(errors: Errors, budget: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        status = budget.get("status") or {}
        check_conditions(errors, "status.conditions", status.get("conditions") or [])
        check_not_negative_fields(errors, "status", status, _COUNTS)
    else:
        check_budget(errors, budget)


def check_lease(errors: Errors, lease: JsonObject) -> None:
    spec = lease.get("spec") or {}
    duration, strategy = spec.get("leaseDurationSeconds"), spec.get("strategy")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    check_not_negative_fields(errors, "spec", spec, ("leaseTransitions",))
    if strategy is not None:
        if "/" in strategy:
            check_texts(errors, "spec.strategy.strategy", strategy, is_qualified_name_errors(strategy))
        elif strategy != _LEASE_STRATEGY:
            errors.append(not_supported("spec.strategy.strategy", strategy, (_LEASE_STRATEGY,)))
    if spec.get("preferredHolder") and not strategy:
        errors.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))


def check_lease_update(errors: Errors, lease: JsonObject, old: JsonObject, subresource: str) -> None:
    check_lease(errors, lease)
