"""RBAC objects as the authorizer reads them, and rule matching.

Upstream: pkg/apis/rbac/v1/evaluation_helpers.go.
"""

from collections.abc import Mapping

import msgspec

from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.meta import ApiStruct, LabelSelector, ObjectMeta

GROUP = "rbac.authorization.k8s.io"
CLUSTER_ROLES = f"clusterroles.{GROUP}"
CLUSTER_ROLE_BINDINGS = f"clusterrolebindings.{GROUP}"
ROLES = f"roles.{GROUP}"
ROLE_BINDINGS = f"rolebindings.{GROUP}"
STORAGES = frozenset((CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS))

ALL = "*"


class PolicyRule(ApiStruct, frozen=True, kw_only=True):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(name="nonResourceURLs", default=())

    def allows_verb(self, verb: str) -> bool:
        return ALL in self.verbs or verb in self.verbs

    def allows_resource(self, *, group: str, resource: str, subresource: str, name: str) -> bool:
        if not (ALL in self.api_groups or group in self.api_groups):
            return False
        if self.resource_names and name not in self.resource_names:
            return False
        if not subresource:
            return ALL in self.resources or resource in self.resources
        wanted = (ALL, f"{resource}/{subresource}", f"*/{subresource}")
        return any(each in self.resources for each in wanted)

    def allows_path(self, path: str) -> bool:
        return any(url in (ALL, path) or _is_below(path, url) for url in self.non_resource_urls)


def _is_below(path: str, url: str) -> bool:
    return url.endswith(ALL) and path.startswith(url.rstrip(ALL))


class AggregationRule(ApiStruct, frozen=True, kw_only=True):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class Role(ApiStruct, frozen=True, kw_only=True):
    """A Role or a ClusterRole; only the latter aggregates."""

    metadata: ObjectMeta = ObjectMeta()
    rules: tuple[PolicyRule, ...] = ()
    aggregation_rule: AggregationRule | None = None

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.labels


class RoleRef(ApiStruct, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""


class Subject(ApiStruct, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""

    def describe(self, namespace: str) -> str:
        """Format the subject for decisions. Parity: a service account's name comes before its namespace."""
        if self.kind != "ServiceAccount":
            return f"{self.kind} {go_quote(self.name)}"
        return f"{self.kind} {go_quote(f'{self.name}/{self.namespace or namespace}')}"


class RoleBinding(ApiStruct, frozen=True, kw_only=True):
    """A RoleBinding, or a ClusterRoleBinding if it has no namespace."""

    metadata: ObjectMeta = ObjectMeta()
    role_ref: RoleRef = RoleRef()
    subjects: tuple[Subject, ...] = ()

    def describe(self, subject: Subject) -> str:
        namespace, name = self.metadata.namespace, self.metadata.name
        itself = (
            f"RoleBinding {go_quote(f'{name}/{namespace}')}" if namespace else f"ClusterRoleBinding {go_quote(name)}"
        )
        role = f"{self.role_ref.kind} {go_quote(self.role_ref.name)}"
        return f"{itself} of {role} to {subject.describe(namespace)}"
