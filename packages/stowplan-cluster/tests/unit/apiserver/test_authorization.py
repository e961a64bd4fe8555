"""RBAC decisions as upstream's; cases follow its TestAuthorizer and TestDefaultRuleResolver."""

import pytest

from stowplan.kube.api.users import UserInfo
from stowplan_cluster.apiserver import rbac
from stowplan_cluster.apiserver.authorization import Attributes, Authorizer, Rules
from stowplan_cluster.apiserver.store import Store

GROUP = "rbac.authorization.k8s.io"


def rule(verbs, groups="", resources="", names=(), urls=()):
    return {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
        "resourceNames": list(names),
        "nonResourceURLs": list(urls),
    }


def role(name, *rules, namespace="", **rest):
    metadata = {"name": name, "namespace": namespace, "labels": rest.pop("labels", {})}
    return (rbac.ROLES if namespace else rbac.CLUSTER_ROLES), {"metadata": metadata, "rules": list(rules), **rest}


def binding(name, ref, *subjects, namespace=""):
    kind, _, role_name = ref.partition("/")
    metadata = {"name": name, "namespace": namespace}
    listed = []
    for subject in subjects:
        subject_kind, _, rest = subject.partition(":")
        if subject_kind == "ServiceAccount" and "/" in rest:
            place, _, rest = rest.partition("/")
            listed.append({"kind": subject_kind, "name": rest, "namespace": place})
        else:
            listed.append({"kind": subject_kind, "name": rest})
    obj = {"metadata": metadata, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role_name}, "subjects": listed}
    return (rbac.ROLE_BINDINGS if namespace else rbac.CLUSTER_ROLE_BINDINGS), obj


def a_store(*objects):
    store = Store()
    for storage, obj in objects:
        store.put(storage, obj)
    return store


def an_authorizer(*objects):
    return Authorizer(a_store(*objects).list)


def ask(authorizer, user, verb, what, *, namespace="", name="", groups=()):
    user = UserInfo(user, groups=groups)
    if what.startswith("/"):
        return authorizer.authorize(Attributes(user=user, verb=verb, path=what))
    resource, _, subresource = what.partition("/")
    plural, _, group = resource.partition(".")
    return authorizer.authorize(
        Attributes(
            user=user, verb=verb, group=group, resource=plural, subresource=subresource, name=name, namespace=namespace
        )
    )


ADMIN = role("admin", rule("*", "*", "*"))
READER = role("reader", rule("get list", "core", "pods pods/log"))


@pytest.mark.parametrize(
    ("question", "allowed"),
    [
        pytest.param(("ann", "get", "pods", {"namespace": "ns1"}), True, id="role binding to a cluster role"),
        pytest.param(("ann", "get", "pods", {"namespace": "ns2"}), False, id="another namespace"),
        pytest.param(("ann", "get", "pods", {}), False, id="cluster-wide"),
        pytest.param(("bob", "get", "pods", {"namespace": "ns1"}), False, id="another user"),
        pytest.param(("eve", "get", "pods", {"namespace": "ns1", "groups": ("readers",)}), True, id="group"),
        pytest.param(
            ("eve", "list", "pods", {"namespace": "ns9", "groups": ("roots",)}), True, id="cluster role binding"
        ),
        pytest.param(("eve", "get", "/x", {"groups": ("roots",)}), False, id="resources are no paths"),
        pytest.param(("ann", "get", "pods/log", {"namespace": "ns1"}), True, id="subresource"),
        pytest.param(("ann", "get", "pods/status", {"namespace": "ns1"}), False, id="subresource not named"),
        pytest.param(("ann", "delete", "pods", {"namespace": "ns1"}), False, id="verb"),
        pytest.param(("ann", "get", "pods.apps", {"namespace": "ns1"}), False, id="group of the API"),
    ],
)
def test_bindings(question, allowed):
    authorizer = an_authorizer(
        ADMIN,
        READER,
        binding("read", "ClusterRole/reader", "User:ann", "Group:readers", namespace="ns1"),
        binding("root", "ClusterRole/admin", "Group:roots"),
    )
    user, verb, what, rest = question
    assert ask(authorizer, user, verb, what, **rest).allowed is allowed


@pytest.mark.parametrize(
    ("rules", "verb", "what", "name", "allowed"),
    [
        pytest.param(rule("get", "*", "*"), "get", "pods/log", "", True, id="all resources have all subresources"),
        pytest.param(rule("update", "*", "*/scale"), "update", "deployments.apps/scale", "", True, id="one of all"),
        pytest.param(rule("update", "*", "*/scale"), "update", "deployments.apps", "", False, id="not the resource"),
        pytest.param(rule("update", "*", "*/scale"), "update", "pods/autoscale", "", False, id="no suffix"),
        pytest.param(rule("get", "core", "pods", ["a"]), "get", "pods", "a", True, id="the name"),
        pytest.param(rule("get", "core", "pods", ["a"]), "get", "pods", "b", False, id="another name"),
        pytest.param(rule("list", "core", "pods", ["a"]), "list", "pods", "", False, id="no name"),
        pytest.param(rule("get", urls=["/apis"]), "get", "/apis", "", True, id="path"),
        pytest.param(rule("get", urls=["/apis"]), "get", "/apis/x", "", False, id="below a path"),
        pytest.param(rule("get", urls=["/apis/*"]), "get", "/apis/x/y", "", True, id="below a path with a star"),
        pytest.param(rule("get", urls=["/apis/*"]), "get", "/apis", "", False, id="not the path itself"),
        pytest.param(rule("get", urls=["*"]), "get", "/anything", "", True, id="all paths"),
        pytest.param(rule("*", urls=["/m"]), "post", "/m", "", True, id="all verbs"),
    ],
)
def test_rules(rules, verb, what, name, allowed):
    authorizer = an_authorizer(role("r", rules), binding("b", "ClusterRole/r", "User:ann"))
    assert ask(authorizer, "ann", verb, what, name=name).allowed is allowed


def test_service_accounts_default_to_the_bindings_namespace():
    authorizer = an_authorizer(
        role("r", rule("get", "core", "pods"), namespace="ns1"),
        binding("b", "Role/r", "ServiceAccount:robot", "ServiceAccount:other/guest", namespace="ns1"),
        binding("c", "ClusterRole/cluster-admin", "ServiceAccount:nowhere"),
    )
    for account, allowed in (("ns1:robot", True), ("ns2:robot", False), ("other:guest", True), (":nowhere", False)):
        assert ask(authorizer, f"system:serviceaccount:{account}", "get", "pods", namespace="ns1").allowed is allowed


def test_reasons():
    authorizer = an_authorizer(
        READER,
        role("own", rule("get", "core", "secrets"), namespace="ns1"),
        binding("b", "ClusterRole/reader", "Group:g", namespace="ns1"),
        binding("c", "Role/own", "ServiceAccount:robot", namespace="ns1"),
        binding("d", "ClusterRole/gone", "User:ann"),
        binding("e", "Role/gone", "User:ann", namespace="ns1"),
        binding("f", "User/odd", "User:odd"),
    )
    robot = "system:serviceaccount:ns1:robot"
    assert (
        ask(authorizer, "x", "get", "pods", namespace="ns1", groups=("g",)).reason
        == 'RBAC: allowed by RoleBinding "b/ns1" of ClusterRole "reader" to Group "g"'
    )
    assert (
        ask(authorizer, robot, "get", "secrets", namespace="ns1").reason
        == 'RBAC: allowed by RoleBinding "c/ns1" of Role "own" to ServiceAccount "robot/ns1"'
    )
    assert (
        ask(authorizer, "ann", "get", "pods").reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'
    )
    assert ask(authorizer, "ann", "get", "pods", namespace="ns1").reason == (
        'RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
        'role.rbac.authorization.k8s.io "gone" not found]'
    )
    assert ask(authorizer, "odd", "get", "pods").reason == 'RBAC: unsupported role reference kind: "User"'
    assert ask(authorizer, "bob", "get", "pods").reason == ""


def test_system_masters_may_do_everything():
    decision = ask(an_authorizer(), "me", "shred", "things.example.com/all", groups=("system:masters",))
    assert decision.allowed
    assert decision.reason == ""


AUTHENTICATED = ("system:authenticated",)


@pytest.mark.parametrize(
    ("groups", "verb", "what", "allowed"),
    [
        (AUTHENTICATED, "get", "/apis/apps/v1", True),
        (AUTHENTICATED, "get", "/openapi/v3", True),
        (AUTHENTICATED, "get", "/metrics", False),
        (AUTHENTICATED, "create", "selfsubjectaccessreviews.authorization.k8s.io", True),
        (AUTHENTICATED, "create", "selfsubjectreviews.authentication.k8s.io", True),
        (AUTHENTICATED, "create", "subjectaccessreviews.authorization.k8s.io", False),
        (("system:unauthenticated",), "get", "/version", True),
        (("system:unauthenticated",), "get", "/livez", True),
        (("system:unauthenticated",), "get", "/api", False),
        (("system:monitoring",), "get", "/metrics", True),
        ((), "get", "/version", False),
    ],
)
def test_default_roles(groups, verb, what, allowed):
    assert ask(an_authorizer(), "somebody", verb, what, groups=groups).allowed is allowed


def test_stored_objects_override_the_defaults():
    authorizer = an_authorizer(role("system:discovery", rule("get", urls=["/api"])))
    assert ask(authorizer, "x", "get", "/api", groups=AUTHENTICATED).allowed
    assert not ask(authorizer, "x", "get", "/apis", groups=AUTHENTICATED).allowed


def selecting(**labels):
    return {"clusterRoleSelectors": [{"matchLabels": labels}]}


def test_aggregation():
    authorizer = an_authorizer(
        role("view", rule("get", "core", "ignored"), aggregationRule=selecting(view="true"), labels={"edit": "true"}),
        role("edit", aggregationRule=selecting(edit="true"), labels={"view": "true"}),
        role("pods", rule("get", "core", "pods"), labels={"view": "true"}),
        role("writer", rule("update", "core", "pods"), labels={"edit": "true"}),
        role("odd", aggregationRule={"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]}),
        binding("a", "ClusterRole/edit", "User:ann"),
        binding("b", "ClusterRole/odd", "User:bob"),
    )
    assert ask(authorizer, "ann", "get", "pods").allowed
    assert ask(authorizer, "ann", "update", "pods").allowed
    assert not ask(authorizer, "ann", "get", "ignored").allowed
    assert not ask(authorizer, "bob", "get", "pods").allowed


def test_objects_are_cached_until_they_change():
    store = a_store(READER, binding("b", "ClusterRole/reader", "User:ann"))
    reads = []

    def list_(storage, namespace):
        reads.append(storage)
        return store.list(storage, namespace)

    authorizer = Authorizer(list_, store.on_change)
    assert ask(authorizer, "ann", "get", "pods").allowed
    once = len(reads)
    store.put("pods", {"metadata": {"name": "p", "namespace": "n"}})
    assert ask(authorizer, "ann", "get", "pods").allowed
    assert len(reads) == once
    store.remove(store.get(rbac.CLUSTER_ROLE_BINDINGS, "", "b"))
    assert not ask(authorizer, "ann", "get", "pods").allowed
    store.put(*role("reader", rule("get", "core", "secrets")))
    store.put(*binding("b", "ClusterRole/reader", "User:ann"))
    assert ask(authorizer, "ann", "get", "secrets").allowed


def test_rules_for():
    authorizer = an_authorizer(
        READER,
        role("own", rule("get", "core", "secrets", ["a"]), namespace="ns1"),
        binding("b", "ClusterRole/reader", "User:ann"),
        binding("c", "Role/own", "User:ann", namespace="ns1"),
        binding("d", "Role/gone", "User:ann", namespace="ns2"),
    )
    ann = UserInfo("ann")
    reader = rbac.PolicyRule(verbs=("get", "list"), api_groups=("",), resources=("pods", "pods/log"))
    own = rbac.PolicyRule(verbs=("get",), api_groups=("",), resources=("secrets",), resource_names=("a",))
    assert authorizer.rules_for(ann, "ns1") == Rules((reader, own))
    assert authorizer.rules_for(ann, "ns2") == Rules((reader,), 'role.rbac.authorization.k8s.io "gone" not found')
    everything = authorizer.rules_for(UserInfo("me", groups=("system:masters",)), "ns1").rules
    assert rbac.PolicyRule(verbs=("*",), api_groups=("*",), resources=("*",)) in everything


@pytest.mark.parametrize(
    ("role_name", "verb", "what", "allowed"),
    [
        ("view", "list", "pods", True),
        ("view", "get", "deployments.apps/scale", True),
        ("view", "get", "pods/log", True),
        ("view", "get", "secrets", False),
        ("view", "create", "pods", False),
        ("edit", "update", "deployments.apps/scale", True),
        ("edit", "get", "secrets", True),
        ("edit", "create", "pods/eviction", True),
        ("edit", "update", "pods/status", False),
        ("edit", "create", f"roles.{GROUP}", False),
        ("admin", "create", f"rolebindings.{GROUP}", True),
        ("admin", "delete", "jobs.batch", True),
        ("admin", "get", "nodes", False),
    ],
)
def test_default_roles_can_be_bound_without_being_created(role_name, verb, what, allowed):
    authorizer = an_authorizer(binding("b", f"ClusterRole/{role_name}", "User:ann", namespace="shop"))
    assert ask(authorizer, "ann", verb, what, namespace="shop").allowed is allowed
    assert not ask(authorizer, "ann", verb, what, namespace="other").allowed
    assert not ask(authorizer, "bob", verb, what, namespace="shop").allowed
