"""The roles that every cluster has, and to whom they are bound.

They hold without being stored. Of upstream's long list these are the ones that decide about users;
roles of components and the ready-made view, edit and admin are the users' own to create.

Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go.
"""

from __future__ import annotations

from stowplan.api.meta import ObjectMeta
from stowplan.apiserver.rbac import PolicyRule, Role, RoleBinding, RoleRef, Subject

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MONITORING = "system:monitoring"

_HEALTH = ("/livez", "/readyz", "/healthz")
_VERSION = ("/version", "/version/")
_DOCUMENTS = ("/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*")
_MONITORED = ("/metrics", "/metrics/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/healthz", "/healthz/*")


def _get(*urls: str) -> PolicyRule:
    return PolicyRule(verbs=("get",), non_resource_urls=urls)


def _create(group: str, *resources: str) -> PolicyRule:
    return PolicyRule(verbs=("create",), api_groups=(group,), resources=resources)


def _role(name: str, *rules: PolicyRule) -> Role:
    return Role(metadata=ObjectMeta(name=name), rules=rules)


def _bound(name: str, *groups: str) -> RoleBinding:
    return RoleBinding(
        metadata=ObjectMeta(name=name),
        role_ref=RoleRef(kind="ClusterRole", name=name),
        subjects=tuple(Subject(kind="Group", name=group) for group in groups),
    )


CLUSTER_ROLES: tuple[Role, ...] = (
    _role(
        "cluster-admin",
        PolicyRule(verbs=("*",), api_groups=("*",), resources=("*",)),
        PolicyRule(verbs=("*",), non_resource_urls=("*",)),
    ),
    _role("system:discovery", _get(*_HEALTH, *_VERSION, *_DOCUMENTS)),
    _role("system:monitoring", _get(*_MONITORED)),
    _role(
        "system:basic-user",
        _create("authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        _create("authentication.k8s.io", "selfsubjectreviews"),
    ),
    _role("system:public-info-viewer", _get(*_HEALTH, *_VERSION)),
)
CLUSTER_ROLE_BINDINGS: tuple[RoleBinding, ...] = (
    _bound("cluster-admin", MASTERS),
    _bound("system:monitoring", MONITORING),
    _bound("system:discovery", AUTHENTICATED),
    _bound("system:basic-user", AUTHENTICATED),
    _bound("system:public-info-viewer", AUTHENTICATED, UNAUTHENTICATED),
)
