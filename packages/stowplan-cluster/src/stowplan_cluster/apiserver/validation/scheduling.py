"""Validate PriorityClasses, PodGroups, Workloads, PodDisruptionBudgets, Leases and LeaseCandidates.

All fields of groups are accepted; the scheduler's feature gates decide which take effect.

Upstream: pkg/apis/scheduling/validation, the declarative rules in pkg/apis/scheduling/{v1alpha2,v1beta1},
pkg/apis/policy/validation, pkg/apis/coordination/validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stowplan.kube.api.labels import is_qualified_name_errors
from stowplan.kube.api.policy import SYSTEM_PRIORITIES
from stowplan_cluster.apiserver.conversion import GROUPS_V1ALPHA2
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import IMMUTABLE, Errors, same
from stowplan_cluster.apiserver.validation.metadata import check_conditions
from stowplan_cluster.apiserver.validation.selectors import check_label_key, check_label_selector
from stowplan_cluster.apiserver.validation.workloads import check_percentage

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.validation.names import NameRule

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"

_PREEMPTION = ("PreemptLowerPriority", "Never")
_MAX_TEMPLATES, _MAX_CLAIMS, _MAX_DEPTH = 8, 4, 4


def check_priority_class(errors: Errors, priority_class: JsonObject) -> None:
    name, value = (priority_class.get("metadata") or {}).get("name", ""), priority_class.get("value", 0)
    if name.startswith(SYSTEM_PREFIX):
        if problem := _system_problem(name, value, default=bool(priority_class.get("globalDefault"))):
            detail = (
                f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {problem}"
            )
            errors.forbidden("metadata.name", detail)
    elif value > HIGHEST_USER_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        errors.forbidden("value", detail)
    if (policy := priority_class.get("preemptionPolicy")) is not None:
        errors.check_enum("preemptionPolicy", policy, _PREEMPTION)


def _system_problem(name: str, value: int, *, default: bool) -> str:
    known = SYSTEM_PRIORITIES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if default else ""


def check_priority_class_update(errors: Errors, new: JsonObject, old: JsonObject, subresource: str) -> None:
    if new.get("value", 0) != old.get("value", 0):
        errors.forbidden("value", "may not be changed in an update.")
    errors.check_immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))


def check_pod_group(errors: Errors, group: JsonObject) -> None:
    spec = group.get("spec") or {}
    if (reference := spec.get("podGroupTemplateRef")) is not None:
        _check_template_reference(errors, "spec.podGroupTemplateRef", reference)
    _check_parent(errors, spec)
    if spec.get("parentCompositePodGroupName") and spec.get("workloadRef") is None:
        errors.required("spec.workloadRef")
    _check_group_fields(errors, "spec", spec)


def check_composite_group(errors: Errors, group: JsonObject) -> None:
    spec = group.get("spec") or {}
    if spec.get("workloadRef") is None:
        errors.required("spec.workloadRef")
    _check_parent(errors, spec)
    _check_group_fields(errors, "spec", spec, counted="minGroupCount")


def _check_parent(errors: Errors, spec: JsonObject) -> None:
    if (parent := spec.get("parentCompositePodGroupName")) is not None:
        _check_name(errors, "spec.parentCompositePodGroupName", parent, names.long_name)
    if (reference := spec.get("workloadRef")) is not None:
        _check_name(errors, "spec.workloadRef.workloadName", reference.get("workloadName", ""), names.long_name)
        _check_name(errors, "spec.workloadRef.templateName", reference.get("templateName", ""), names.short_name)


def _check_template_reference(errors: Errors, path: str, reference: JsonObject) -> None:
    workload = reference.get("workload")
    if workload is None:
        errors.invalid(path, "", "must specify one of: `workload`")
        return
    _check_name(errors, f"{path}.workload.workloadName", workload.get("workloadName", ""), names.long_name)
    template = workload.get("podGroupTemplateName", "")
    _check_name(errors, f"{path}.workload.podGroupTemplateName", template, names.short_name)


def _check_name(errors: Errors, path: str, name: str, rule: NameRule) -> None:
    if name:
        errors.check_texts(path, name, rule(name))
    else:
        errors.required(path)


def _check_group_fields(errors: Errors, path: str, spec: JsonObject, *, counted: str = "minCount") -> None:
    """Check the fields that groups and their templates in a Workload share; `counted`: what a gang has."""
    _check_policy(errors, f"{path}.schedulingPolicy", spec.get("schedulingPolicy") or {}, counted)
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or []
    at = f"{path}.schedulingConstraints.topology"
    if len(topology) > 1:
        errors.too_many(at, len(topology), 1)
    else:
        for index, constraint in enumerate(topology):
            _check_key(errors, f"{at}[{index}].key", constraint.get("key", ""))
    _check_claims(errors, f"{path}.resourceClaims", spec.get("resourceClaims") or [])
    if isinstance(mode := spec.get("disruptionMode"), dict):
        _check_one_of(errors, f"{path}.disruptionMode", mode, ("single", "all"))
    else:
        errors.check_supported(f"{path}.disruptionMode", mode, ("Pod", "PodGroup"))
    if (policy := spec.get("preemptionPolicy")) is not None:
        errors.check_enum(f"{path}.preemptionPolicy", policy, _PREEMPTION)
    if priority_class := spec.get("priorityClassName"):
        errors.check_texts(f"{path}.priorityClassName", priority_class, names.long_name(priority_class))
    if (priority := spec.get("priority", 0)) > HIGHEST_USER_PRIORITY:
        detail = f"must be less than or equal to {HIGHEST_USER_PRIORITY}"
        errors.invalid(f"{path}.priority", priority, detail)


def _check_policy(errors: Errors, path: str, policy: JsonObject, counted: str = "minCount") -> None:
    _check_one_of(errors, path, policy, ("basic", "gang"))
    if "gang" not in policy:
        return
    count = policy["gang"].get(counted, 0)
    if not count:
        errors.required(f"{path}.gang.{counted}")
    elif count < 1:
        errors.invalid(f"{path}.gang.{counted}", count, "must be greater than or equal to 1")


def _check_one_of(errors: Errors, path: str, value: JsonObject, names: Sequence[str]) -> None:
    given, listed = [name for name in names if name in value], ", ".join(f"`{name}`" for name in names)
    if not given:
        errors.invalid(path, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        errors.invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {listed}")


def _check_key(errors: Errors, path: str, key: str) -> None:
    if key:
        check_label_key(errors, path, key)
    else:
        errors.required(path)


def _check_claims(errors: Errors, path: str, claims: Sequence[JsonObject]) -> None:
    if len(claims) > _MAX_CLAIMS:
        errors.too_many(path, len(claims), _MAX_CLAIMS)
        return
    _check_unique_names(errors, path, claims)
    for index, claim in enumerate(claims):
        at, given = f"{path}[{index}]", [n for n in ("resourceClaimName", "resourceClaimTemplateName") if n in claim]
        both = "`resourceClaimName`, `resourceClaimTemplateName`"
        if not given:
            errors.invalid(at, "", f"must specify one of: {both}")
        elif len(given) > 1:
            errors.invalid(at, f"{{{both}}}", f"must specify exactly one of: {both}")
        _check_name(errors, f"{at}.name", claim.get("name", ""), names.short_name)
        for name in given:
            errors.check_texts(f"{at}.{name}", claim[name], names.long_name(claim[name]))


def _check_unique_names(errors: Errors, path: str, entries: Sequence[JsonObject]) -> None:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        if (name := entry.get("name", "")) in seen:
            errors.duplicate(f"{path}[{index}]", entry)
        seen.add(name)


_GROUP_FIELDS = (
    "parentCompositePodGroupName",
    "podGroupTemplateRef",
    "workloadRef",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)


def check_pod_group_update(errors: Errors, group: JsonObject, old: JsonObject, subresource: str) -> None:
    spec, old_spec, status = group.get("spec") or {}, old.get("spec") or {}, group.get("status") or {}
    if subresource != "status":
        _check_fixed(errors, _with_mode_as_list(spec), _with_mode_as_list(old_spec), _GROUP_FIELDS)
        _check_policy_update(errors, group, spec.get("schedulingPolicy") or {}, old_spec.get("schedulingPolicy") or {})
        return
    check_conditions(errors, "status.conditions", status.get("conditions") or [])
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    for index, entry in enumerate(status.get("resourceClaimStatuses") or ()):
        if entry.get("name") not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            errors.invalid(f"status.resourceClaimStatuses[{index}].name", entry.get("name", ""), detail)


def _with_mode_as_list(spec: JsonObject) -> JsonObject:
    """With the key of `disruptionMode`: its values are empty, and so equal to each other."""
    mode = spec.get("disruptionMode")
    return {**spec, "disruptionMode": list(mode)} if isinstance(mode, dict) else spec


def check_composite_group_update(errors: Errors, group: JsonObject, old: JsonObject, subresource: str) -> None:
    spec, old_spec = group.get("spec") or {}, old.get("spec") or {}
    if subresource == "status":
        check_conditions(errors, "status.conditions", (group.get("status") or {}).get("conditions") or [])
    else:
        fields = ("schedulingPolicy", *_GROUP_FIELDS)
        _check_fixed(errors, _with_mode_as_list(spec), _with_mode_as_list(old_spec), fields)


def _check_policy_update(errors: Errors, group: JsonObject, new: JsonObject, old: JsonObject) -> None:
    """Since v1beta1, minCount can be changed, and nothing else."""
    kept = group.get("apiVersion") != GROUPS_V1ALPHA2 and "gang" in new and "gang" in old and "basic" not in new
    if kept:
        _check_policy(errors, "spec.schedulingPolicy", new)
    elif not same(new, old):
        errors.invalid("spec.schedulingPolicy", None, IMMUTABLE)


def _check_fixed(errors: Errors, spec: JsonObject, old: JsonObject, fields: Sequence[str]) -> None:
    for name in fields:
        if not same(spec.get(name), old.get(name)):
            # Parity: declarative validation omits the value.
            errors.invalid(f"spec.{name}", None, IMMUTABLE)


def check_workload(errors: Errors, workload: JsonObject) -> None:
    spec = workload.get("spec") or {}
    if (controller := spec.get("controllerRef")) is not None:
        if group := controller.get("apiGroup"):
            errors.check_texts("spec.controllerRef.apiGroup", group, names.long_name(group))
        for name in ("kind", "name"):
            _check_name(errors, f"spec.controllerRef.{name}", controller.get(name, ""), names.path_segment)
    if "compositePodGroupTemplates" not in spec:
        if not spec.get("podGroupTemplates"):
            errors.required("spec.podGroupTemplates")
    elif spec.get("podGroupTemplates"):
        _check_one_of(errors, "spec", spec, _TEMPLATES)
    _check_templates(errors, "spec", spec, depth=1)


_TEMPLATES = ("podGroupTemplates", "compositePodGroupTemplates")


def _check_templates(errors: Errors, above: str, spec: JsonObject, *, depth: int) -> None:
    for field, counted in zip(_TEMPLATES, ("minCount", "minGroupCount"), strict=True):
        path, templates = f"{above}.{field}", spec.get(field) or []
        if len(templates) > _MAX_TEMPLATES:
            errors.too_many(path, len(templates), _MAX_TEMPLATES)
            continue
        if templates and depth > _MAX_DEPTH:
            errors.invalid(path, None, f"must not be nested more than {_MAX_DEPTH} levels deep")
            continue
        _check_unique_names(errors, path, templates)
        for index, template in enumerate(templates):
            at = f"{path}[{index}]"
            _check_name(errors, f"{at}.name", template.get("name", ""), names.short_name)
            _check_group_fields(errors, at, template, counted=counted)
            if field == "compositePodGroupTemplates":
                if not any(template.get(name) for name in _TEMPLATES):
                    errors.required(f"{at}.podGroupTemplates")
                _check_templates(errors, at, template, depth=depth + 1)


def check_workload_update(errors: Errors, workload: JsonObject, old: JsonObject, subresource: str) -> None:
    spec, old_spec = workload.get("spec") or {}, old.get("spec") or {}
    _check_fixed(errors, spec, old_spec, _TEMPLATES)
    if old_spec.get("controllerRef") is not None:
        _check_fixed(errors, spec, old_spec, ("controllerRef",))
    else:
        check_workload(errors, workload)


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
