"""Validate PodDisruptionBudgets, Leases and LeaseCandidates.

Upstream: pkg/apis/policy/validation, pkg/apis/coordination/validation.
"""

from __future__ import annotations

from stowplan.kube.api.labels import is_qualified_name_errors
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors
from stowplan_cluster.apiserver.validation.metadata import check_conditions
from stowplan_cluster.apiserver.validation.selectors import check_label_selector
from stowplan_cluster.apiserver.validation.workloads import check_percentage

_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_LEASE_STRATEGY = "OldestEmulationVersion"


def check_budget(errors: Errors, budget: JsonObject) -> None:
    spec = budget.get("spec") or {}
    given = [name for name in ("minAvailable", "maxUnavailable") if name in spec]
    if len(given) > 1:
        errors.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for name in given:
        check_percentage(errors, f"spec.{name}", spec[name], at_most_all=True)
    check_label_selector(errors, "spec.selector", spec.get("selector"))
    policy, supported = spec.get("unhealthyPodEvictionPolicy"), ("AlwaysAllow", "IfHealthyBudget")
    errors.check_supported("spec.unhealthyPodEvictionPolicy", policy, supported)


def check_budget_update(errors: Errors, budget: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        status = budget.get("status") or {}
        check_conditions(errors, "status.conditions", status.get("conditions") or [])
        errors.check_not_negative_fields("status", status, _COUNTS)
    else:
        check_budget(errors, budget)


def check_lease(errors: Errors, lease: JsonObject) -> None:
    spec = lease.get("spec") or {}
    duration, strategy = spec.get("leaseDurationSeconds"), spec.get("strategy")
    if duration is not None and duration <= 0:
        errors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    errors.check_not_negative_fields("spec", spec, ("leaseTransitions",))
    if strategy is not None:
        _check_strategy(errors, strategy)
    if spec.get("preferredHolder") and not strategy:
        errors.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")


def _check_strategy(errors: Errors, strategy: str) -> None:
    # Parity: the path contains the field twice.
    if "/" in strategy:
        errors.check_texts("spec.strategy.strategy", strategy, is_qualified_name_errors(strategy))
    elif strategy != _LEASE_STRATEGY:
        errors.not_supported("spec.strategy.strategy", strategy, (_LEASE_STRATEGY,))


def check_lease_update(errors: Errors, lease: JsonObject, old: JsonObject, subresource: str) -> None:
    check_lease(errors, lease)


def check_candidate(errors: Errors, candidate: JsonObject) -> None:
    spec = candidate.get("spec") or {}
    errors.check_required_fields("spec", spec, ("leaseName",))
    emulation = _check_version(errors, spec, "emulationVersion")
    errors.check_required_fields("spec", spec, ("binaryVersion",))
    binary = _check_version(errors, spec, "binaryVersion")
    strategy = spec.get("strategy") or ""
    if spec.get("binaryVersion") and spec.get("emulationVersion") and binary < emulation:
        detail = "must be greater than or equal to `emulationVersion`"
        errors.invalid("spec.binaryVersion", spec["binaryVersion"], detail)
    errors.check_required_fields("spec", spec, ("strategy",))
    if strategy == _LEASE_STRATEGY and emulation == names.ZERO:
        detail = f"must be specified when `strategy` is '{_LEASE_STRATEGY}'"
        errors.required("spec.emulationVersion", detail)
    if strategy:
        _check_strategy(errors, strategy)


def check_candidate_update(errors: Errors, candidate: JsonObject, old: JsonObject, subresource: str) -> None:
    check_candidate(errors, candidate)
    errors.check_immutable_fields("spec", candidate.get("spec") or {}, old.get("spec") or {}, "leaseName")


def _check_version(errors: Errors, spec: JsonObject, name: str) -> names.Precedence:
    text = spec.get(name) or ""
    version = names.parse(text)
    if version is None and text:
        errors.invalid(f"spec.{name}", text, "must be a valid semantic version")
    return version or names.ZERO
