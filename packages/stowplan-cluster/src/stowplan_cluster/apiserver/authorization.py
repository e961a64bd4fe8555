"""The RBAC authorizer, over the RBAC objects in the store.

Members of system:masters may do everything. Everybody else needs a rule of a bound role; cluster role bindings are
checked first. Rules only allow, none denies. What every user of a cluster may do (discovery, version, health,
self-reviews) comes from the default roles below; a stored role or binding of the same name replaces the default.

With `Store.on_change` as `subscribe` the RBAC objects are read again only after a change; without it, for every
decision.

Upstream: plugin/pkg/auth/authorizer/rbac, pkg/registry/rbac/validation/rule.go, pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.field_errors import aggregate, go_quote
from stowplan.kube.api.label_selectors import SelectorError, compile_label_selector
from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.users import AUTHENTICATED, MASTERS, UNAUTHENTICATED, UserInfo
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver import rbac
from stowplan_cluster.apiserver.rbac import PolicyRule, Role, RoleBinding, RoleRef, Subject
from stowplan_cluster.apiserver.resources import METRICS_GROUP
from stowplan_cluster.apiserver.store import Event, Stored

Lister = Callable[[str, str], Sequence[Stored]]
Subscribe = Callable[[Callable[[Event], None]], object]

# The default cluster roles and their bindings.
#
# They are effective without being stored, so they can be bound but not listed. Only the roles for users are here;
# upstream's roles for components are left out.
#
# Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go.

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
    "autoscaling": ("horizontalpodautoscalers",),
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
    # On a cluster, metrics-server's manifests add it.
    return (*rules, _on(_READ, METRICS_GROUP, "pods", "nodes"))


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

_Kind = TypeVar("_Kind", Role, RoleBinding)


class Attributes(PlainStruct, frozen=True, kw_only=True):
    """The attributes of a request: a verb on a resource or, without one, on a path."""

    user: UserInfo
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""

    @property
    def is_resource_request(self) -> bool:
        return bool(self.resource) or not self.path


class Decision(PlainStruct, frozen=True):
    allowed: bool
    #: The binding that allows it; for a denial, errors while evaluating rules.
    reason: str = ""


class Rules(PlainStruct, frozen=True):
    """All rules that apply to a user in a namespace."""

    rules: tuple[PolicyRule, ...]
    #: Errors while resolving bindings; if set, `rules` may be incomplete.
    error: str = ""


class Authorizer:
    def __init__(self, list_: Lister, subscribe: Subscribe | None = None) -> None:
        self._list = list_
        self._policy: _Policy | None = None
        self._keeps = subscribe is not None
        if subscribe is not None:
            subscribe(self._forget)

    def authorize(self, attributes: Attributes) -> Decision:
        if MASTERS in attributes.user.groups:
            return Decision(allowed=True)
        errors: list[str] = []
        for binding, subject, rules in self._current().bound(attributes.user, attributes.namespace, errors):
            if any(_allows(rule, attributes) for rule in rules):
                return Decision(allowed=True, reason=f"RBAC: allowed by {binding.describe(subject)}")
        return Decision(allowed=False, reason=f"RBAC: {aggregate(errors)}" if errors else "")

    def rules_for(self, user: UserInfo, namespace: str) -> Rules:
        errors: list[str] = []
        bound = self._current().bound(user, namespace, errors)
        found = tuple(rule for _, _, rules in bound for rule in rules)
        return Rules(found, aggregate(errors) if errors else "")

    def _current(self) -> _Policy:
        policy = self._policy
        if policy is None:
            policy = _read_policy(self._list)
            self._policy = policy if self._keeps else None
        return policy

    def _forget(self, event: Event) -> None:
        if event.stored.resource in rbac.STORAGES:
            self._policy = None


def _allows(rule: PolicyRule, attributes: Attributes) -> bool:
    if not rule.allows_verb(attributes.verb):
        return False
    if not attributes.is_resource_request:
        return rule.allows_path(attributes.path)
    return rule.allows_resource(
        group=attributes.group,
        resource=attributes.resource,
        subresource=attributes.subresource,
        name=attributes.name,
    )


class _Policy(PlainStruct, frozen=True):
    """A snapshot of all RBAC objects; roles are keyed by how bindings refer to them."""

    cluster_bindings: tuple[RoleBinding, ...]
    #: By namespace.
    bindings: Mapping[str, Sequence[RoleBinding]]
    cluster_roles: Mapping[str, tuple[PolicyRule, ...]]
    #: By namespace and name.
    roles: Mapping[tuple[str, str], tuple[PolicyRule, ...]]

    def bound(
        self, user: UserInfo, namespace: str, errors: list[str]
    ) -> Iterator[tuple[RoleBinding, Subject, tuple[PolicyRule, ...]]]:
        """The bindings that apply to the user, each with its subject and rules; missing roles are added to `errors`."""
        for binding in (*self.cluster_bindings, *self.bindings.get(namespace, ())):
            place = binding.metadata.namespace
            subject = next((each for each in binding.subjects if _is_about(each, user, place)), None)
            if subject is None:
                continue
            rules = self._rules_of(binding.role_ref, place)
            if rules is None:
                errors.append(_not_found(binding.role_ref))
            else:
                yield binding, subject, rules

    def _rules_of(self, ref: RoleRef, namespace: str) -> tuple[PolicyRule, ...] | None:
        if ref.kind == "ClusterRole":
            return self.cluster_roles.get(ref.name)
        return self.roles.get((namespace, ref.name)) if ref.kind == "Role" else None


def _not_found(ref: RoleRef) -> str:
    if ref.kind not in ("ClusterRole", "Role"):
        return f"unsupported role reference kind: {go_quote(ref.kind)}"
    return f"{ref.kind.lower()}.{rbac.GROUP} {go_quote(ref.name)} not found"


def _is_about(subject: Subject, user: UserInfo, namespace: str) -> bool:
    if subject.kind == "User":
        return subject.name == user.name
    if subject.kind == "Group":
        return subject.name in user.groups
    place = subject.namespace or namespace
    account = f"system:serviceaccount:{place}:{subject.name}"
    return subject.kind == "ServiceAccount" and bool(place) and user.name == account


def _read_policy(list_: Lister) -> _Policy:
    cluster_roles = _with_defaults(CLUSTER_ROLES, _decoded(list_(rbac.CLUSTER_ROLES, ""), Role))
    bindings: dict[str, list[RoleBinding]] = {}
    for binding in _decoded(list_(rbac.ROLE_BINDINGS, ""), RoleBinding):
        bindings.setdefault(binding.metadata.namespace, []).append(binding)
    return _Policy(
        cluster_bindings=tuple(
            _with_defaults(CLUSTER_ROLE_BINDINGS, _decoded(list_(rbac.CLUSTER_ROLE_BINDINGS, ""), RoleBinding)).values()
        ),
        bindings=bindings,
        cluster_roles={name: _rules_of(role, cluster_roles) for name, role in cluster_roles.items()},
        roles={
            (role.metadata.namespace, role.metadata.name): role.rules for role in _decoded(list_(rbac.ROLES, ""), Role)
        },
    )


def _decoded(stored: Iterable[Stored], kind: type[_Kind]) -> list[_Kind]:
    return [decode_json(one.data, kind) for one in stored]


def _with_defaults(defaults: Iterable[_Kind], stored: Iterable[_Kind]) -> dict[str, _Kind]:
    named = {one.metadata.name: one for one in defaults}
    for one in stored:
        named[one.metadata.name] = one
    return named


def _rules_of(role: Role, roles: Mapping[str, Role]) -> tuple[PolicyRule, ...]:
    """A role's own rules, or those of all roles that it aggregates, transitively."""
    rules: dict[PolicyRule, None] = {}
    seen: set[str] = set()
    waiting = [role]
    while waiting:
        each = waiting.pop()
        if each.metadata.name in seen:
            continue
        seen.add(each.metadata.name)
        if each.aggregation_rule is None:
            rules |= dict.fromkeys(each.rules)
        else:
            waiting += [roles[name] for name in sorted(_aggregated(each, roles), reverse=True)]
    return tuple(rules)


def _aggregated(role: Role, roles: Mapping[str, Role]) -> set[str]:
    selectors = role.aggregation_rule.cluster_role_selectors if role.aggregation_rule is not None else ()
    found: set[str] = set()
    for selector in selectors:
        try:
            compiled = compile_label_selector(selector)
        except SelectorError:
            # An invalid selector selects nothing.
            continue
        found |= {name for name, one in roles.items() if compiled.matches(one.labels)}
    return found - {role.metadata.name}
