"""The default cluster roles and their bindings.

They are effective without being stored, so they can be bound but not listed. Only the roles for users are here;
upstream's roles for components are left out.

Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go.
"""

from __future__ import annotations

from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.users import AUTHENTICATED, MASTERS, UNAUTHENTICATED
from stowplan_cluster.apiserver.rbac import PolicyRule, Role, RoleBinding, RoleRef, Subject

MONITORING = "system:monitoring"

_HEALTH = ("/livez", "/readyz", "/healthz")
_VERSION = ("/version", "/version/")
_DOCUMENTS = ("/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*")
_MONITORED = ("/metrics", "/metrics/*", "/livez", "/livez/*", "/readyz", "/readyz/*", "/healthz", "/healthz/*")


_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")

_API_GROUPS = {
    "": ("configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "serviceaccounts", "services"),
    "apps": ("daemonsets", "deployments", "replicasets", "statefulsets"),
    "batch": ("jobs",),
    "policy": ("poddisruptionbudgets",),
}
_SCALED = ("deployments", "replicasets", "statefulsets", "replicationcontrollers")
#: Readable with view; written by controllers only.
_OBSERVED = {"": ("events", "namespaces", "pods/log"), "apps": ("controllerrevisions",)}
_RBAC = "rbac.authorization.k8s.io"


def _on(verbs: tuple[str, ...], group: str, *resources: str) -> PolicyRule:
    return PolicyRule(verbs=verbs, api_groups=(group,), resources=resources)


def _scales(resources: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name}/scale" for name in resources if name in _SCALED)


def _view() -> tuple[PolicyRule, ...]:
    rules = []
    for group, resources in _API_GROUPS.items():
        statuses = tuple(f"{name}/status" for name in resources)
        rules.append(_on(_READ, group, *resources, *statuses, *_scales(resources), *_OBSERVED.get(group, ())))
    return tuple(rules)


def _edit() -> tuple[PolicyRule, ...]:
    written = tuple(_on(_WRITE, group, *names, *_scales(names)) for group, names in _API_GROUPS.items())
    secrets = _on((*_READ, *_WRITE), "", "secrets")
    return (*_view(), *written, secrets, _create("", "pods/eviction"))


def _admin() -> tuple[PolicyRule, ...]:
    roles = _on((*_READ, *_WRITE), _RBAC, "roles", "rolebindings")
    return (*_edit(), roles, _create("authorization.k8s.io", "localsubjectaccessreviews"))


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
    _role("admin", *_admin()),
    _role("edit", *_edit()),
    _role("view", *_view()),
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
