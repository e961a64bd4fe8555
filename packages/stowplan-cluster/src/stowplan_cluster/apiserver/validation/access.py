"""Roles and their bindings.

Upstream: pkg/apis/rbac/validation.
"""

from __future__ import annotations

from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.rbac import GROUP
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors, same
from stowplan_cluster.apiserver.validation.selectors import check_label_selector

_SUBJECTS = ("ServiceAccount", "User", "Group")


def check_role(errors: Errors, role: JsonObject) -> None:
    for index, rule in enumerate(role.get("rules") or ()):
        _check_rule(errors, f"rules[{index}]", rule, namespaced=True)


def check_cluster_role(errors: Errors, role: JsonObject) -> None:
    for index, rule in enumerate(role.get("rules") or ()):
        _check_rule(errors, f"rules[{index}]", rule, namespaced=False)
    if (aggregation := role.get("aggregationRule")) is None:
        return
    path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or []
    if not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.required(path, detail)
    for index, selector in enumerate(selectors):
        check_label_selector(errors, f"{path}[{index}]", selector)


def _check_rule(errors: Errors, path: str, rule: JsonObject, *, namespaced: bool) -> None:
    if not rule.get("verbs"):
        errors.required(f"{path}.verbs", "verbs must contain at least one value")
    if urls := rule.get("nonResourceURLs"):
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            errors.invalid(f"{path}.nonResourceURLs", urls, detail)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            errors.invalid(f"{path}.nonResourceURLs", urls, detail)
        return
    if not rule.get("apiGroups"):
        errors.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        errors.required(f"{path}.resources", "resource rules must supply at least one resource")


def check_role_binding(errors: Errors, binding: JsonObject) -> None:
    _check_binding(errors, binding, namespaced=True)


def check_cluster_role_binding(errors: Errors, binding: JsonObject) -> None:
    _check_binding(errors, binding, namespaced=False)


def _check_binding(errors: Errors, binding: JsonObject, *, namespaced: bool) -> None:
    role = binding.get("roleRef") or {}
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if role.get("apiGroup") != GROUP:
        errors.not_supported("roleRef.apiGroup", role.get("apiGroup", ""), (GROUP,))
    if role.get("kind") not in kinds:
        errors.not_supported("roleRef.kind", role.get("kind", ""), kinds)
    name = role.get("name", "")
    if name:
        errors.check_texts("roleRef.name", name, names.path_segment(name))
    else:
        errors.required("roleRef.name")
    for index, subject in enumerate(binding.get("subjects") or ()):
        _check_subject(errors, f"subjects[{index}]", subject, namespaced=namespaced)


def _check_subject(errors: Errors, path: str, subject: JsonObject, *, namespaced: bool) -> None:
    kind, name, group = (subject.get(field, "") for field in ("kind", "name", "apiGroup"))
    if not name:
        errors.required(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            errors.check_texts(f"{path}.name", name, names.dns_subdomain(name))
        if group:
            errors.not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            errors.required(f"{path}.namespace")
    elif kind not in _SUBJECTS:
        errors.not_supported(f"{path}.kind", kind, _SUBJECTS)
    elif group != GROUP:
        errors.not_supported(f"{path}.apiGroup", group, (GROUP,))


def _check_role_kept(errors: Errors, binding: JsonObject, old: JsonObject) -> None:
    if not same(binding.get("roleRef"), old.get("roleRef")):
        errors.invalid("roleRef", binding.get("roleRef"), "cannot change roleRef")


def check_role_update(errors: Errors, role: JsonObject, old: JsonObject, subresource: str) -> None:
    check_role(errors, role)


def check_cluster_role_update(errors: Errors, role: JsonObject, old: JsonObject, subresource: str) -> None:
    check_cluster_role(errors, role)


def check_role_binding_update(errors: Errors, binding: JsonObject, old: JsonObject, subresource: str) -> None:
    check_role_binding(errors, binding)
    _check_role_kept(errors, binding, old)


def check_cluster_role_binding_update(errors: Errors, binding: JsonObject, old: JsonObject, subresource: str) -> None:
    check_cluster_role_binding(errors, binding)
    _check_role_kept(errors, binding, old)
