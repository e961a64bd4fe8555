"""The RBAC authorizer, over the RBAC objects in the store.

Members of system:masters may do everything. Everybody else needs a rule of a bound role; cluster role bindings are
checked first. Rules only allow, none denies. What every user of a cluster may do (discovery, version, health,
self-reviews) comes from `default_roles`; a stored role or binding of the same name replaces the default.

With `Store.on_change` as `subscribe` the RBAC objects are read again only after a change; without it, for every
decision.

Upstream: plugin/pkg/auth/authorizer/rbac, pkg/registry/rbac/validation/rule.go, pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.field_errors import aggregate, go_quote
from stowplan.kube.api.label_selectors import SelectorError, compile_label_selector
from stowplan.kube.api.users import MASTERS, UserInfo
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver import default_roles, rbac
from stowplan_cluster.apiserver.rbac import PolicyRule, Role, RoleBinding, RoleRef, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from stowplan_cluster.apiserver.store import Event, Stored

    Lister = Callable[[str, str], Sequence[Stored]]
    Subscribe = Callable[[Callable[[Event], None]], object]

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
    cluster_roles = _with_defaults(default_roles.CLUSTER_ROLES, _decoded(list_(rbac.CLUSTER_ROLES, ""), Role))
    bindings: dict[str, list[RoleBinding]] = {}
    for binding in _decoded(list_(rbac.ROLE_BINDINGS, ""), RoleBinding):
        bindings.setdefault(binding.metadata.namespace, []).append(binding)
    return _Policy(
        cluster_bindings=tuple(
            _with_defaults(
                default_roles.CLUSTER_ROLE_BINDINGS, _decoded(list_(rbac.CLUSTER_ROLE_BINDINGS, ""), RoleBinding)
            ).values()
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
