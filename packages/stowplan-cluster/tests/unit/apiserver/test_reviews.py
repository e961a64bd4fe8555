"""Reviews: the responses, and upstream's errors for invalid specs."""

import pytest

from stowplan.kube.api.api_errors import BadRequest, Invalid
from stowplan.kube.api.users import UserInfo
from stowplan_cluster.apiserver import rbac
from stowplan_cluster.apiserver.authorization import Authorizer
from stowplan_cluster.apiserver.resources import BUILT_IN
from stowplan_cluster.apiserver.reviews import API_AUDIENCE, answer_review
from stowplan_cluster.apiserver.store import Store

RESOURCES = {resource.kind: resource for resource in BUILT_IN}
ANN = UserInfo("ann", groups=("devs", "system:authenticated"), uid="7", extra={"scope": ["a"]})
POD = {"verb": "get", "resource": "pods", "namespace": "ns1"}


@pytest.fixture
def authorizer():
    store = Store()
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
    store.put(rbac.CLUSTER_ROLES, {"metadata": {"name": "reader"}, "rules": rules})
    store.put(
        rbac.ROLE_BINDINGS,
        {
            "metadata": {"name": "b", "namespace": "ns1"},
            "roleRef": {"kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "Group", "name": "devs"}],
        },
    )
    return Authorizer(store.list)


def review(authorizer, kind, spec=None, *, metadata=None, user=ANN, **rest):
    resource = RESOURCES[kind]
    obj = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata or {}, "spec": spec or {}}
    return answer_review(resource, obj, user=user, authorizer=authorizer, **rest)


ALLOWED = {"allowed": True, "reason": 'RBAC: allowed by RoleBinding "b/ns1" of ClusterRole "reader" to Group "devs"'}


@pytest.mark.parametrize(
    ("kind", "spec", "status"),
    [
        pytest.param("SelfSubjectAccessReview", {"resourceAttributes": POD}, ALLOWED, id="self, allowed"),
        pytest.param(
            "SelfSubjectAccessReview",
            {"resourceAttributes": {**POD, "verb": "delete"}},
            {"allowed": False},
            id="self, not allowed",
        ),
        pytest.param(
            "SelfSubjectAccessReview",
            {"nonResourceAttributes": {"verb": "get", "path": "/x"}},
            {"allowed": False},
            id="path",
        ),
        pytest.param("SubjectAccessReview", {"resourceAttributes": POD, "groups": ["devs"]}, ALLOWED, id="group"),
        pytest.param("SubjectAccessReview", {"resourceAttributes": POD, "user": "ann"}, {"allowed": False}, id="user"),
        pytest.param(
            "SubjectAccessReview",
            {"resourceAttributes": {**POD, "labelSelector": {"rawSelector": "a in"}}, "user": "ann"},
            {
                "allowed": False,
                "evaluationError": "spec.resourceAttributes.labelSelector ignored due to parse error",
            },
            id="selector that does not parse",
        ),
    ],
)
def test_access(authorizer, kind, spec, status):
    answer = review(authorizer, kind, spec)
    assert answer["status"] == status
    assert answer["spec"] == spec
    assert answer["kind"] == kind


def test_local_access(authorizer):
    spec = {"resourceAttributes": POD, "groups": ["devs"]}
    answer = review(authorizer, "LocalSubjectAccessReview", spec, metadata={"namespace": "ns1"}, namespace="ns1")
    assert answer["status"] == ALLOWED
    with pytest.raises(BadRequest, match="must match namespace: ns2"):
        review(authorizer, "LocalSubjectAccessReview", spec, metadata={"namespace": "ns1"}, namespace="ns2")


NON_RESOURCE = {"path": "/x", "verb": "get"}
SHOWN = '{"Path":"/x","Verb":"get"}'


@pytest.mark.parametrize(
    ("kind", "spec", "metadata", "message"),
    [
        pytest.param(
            "SelfSubjectAccessReview",
            {},
            {},
            "spec.resourceAttributes: Invalid value: null: "
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            id="neither",
        ),
        pytest.param(
            "SelfSubjectAccessReview",
            {"resourceAttributes": POD, "nonResourceAttributes": NON_RESOURCE},
            {},
            f"spec.nonResourceAttributes: Invalid value: {SHOWN}: "
            "cannot be specified in combination with resourceAttributes",
            id="both",
        ),
        pytest.param(
            "SubjectAccessReview",
            {"resourceAttributes": POD},
            {},
            'spec.user: Invalid value: "": at least one of user or group must be specified',
            id="no user",
        ),
        pytest.param(
            "SubjectAccessReview",
            {"resourceAttributes": POD, "user": "u"},
            {"name": "x"},
            'metadata: Invalid value: {"name":"x"}: must be empty',
            id="metadata",
        ),
        pytest.param(
            "SubjectAccessReview",
            {"resourceAttributes": {**POD, "fieldSelector": {}}, "user": "u"},
            {},
            "spec.resourceAttributes.fieldSelector.requirements: Required value: "
            "when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
            id="empty selector",
        ),
        pytest.param(
            "LocalSubjectAccessReview",
            {"resourceAttributes": POD, "user": "u"},
            {"namespace": "ns2"},
            'spec.resourceAttributes.namespace: Invalid value: "ns1": must match metadata.namespace',
            id="another namespace",
        ),
        pytest.param(
            "LocalSubjectAccessReview",
            {"nonResourceAttributes": NON_RESOURCE, "user": "u"},
            {"namespace": "ns2"},
            f"spec.nonResourceAttributes: Invalid value: {SHOWN}: disallowed on this kind of request",
            id="local path",
        ),
    ],
)
def test_invalid_reviews(authorizer, kind, spec, metadata, message):
    with pytest.raises(Invalid) as caught:
        review(authorizer, kind, spec, metadata=metadata)
    assert caught.value.status.message == f'.authorization.k8s.io "" is invalid: {message}'
    assert caught.value.status.code == 422


def test_rules(authorizer):
    status = review(authorizer, "SelfSubjectRulesReview", {"namespace": "ns1"})["status"]
    assert {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]} in status["resourceRules"]
    assert any("/livez" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
    assert status["incomplete"] is False
    assert "evaluationError" not in status
    with pytest.raises(BadRequest, match="no namespace on request"):
        review(authorizer, "SelfSubjectRulesReview")


def test_who_am_i(authorizer):
    answer = review(authorizer, "SelfSubjectReview", now=0.0)
    assert answer["status"] == {
        "userInfo": {
            "username": "ann",
            "uid": "7",
            "groups": ["devs", "system:authenticated"],
            "extra": {"scope": ["a"]},
        }
    }
    assert answer["metadata"] == {"creationTimestamp": "1970-01-01T00:00:00Z"}


def user_of(token):
    return ANN if token == "secret" else None


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        pytest.param(
            {"token": "secret"},
            {
                "authenticated": True,
                "user": {"username": "ann", "uid": "7", "groups": list(ANN.groups), "extra": {"scope": ["a"]}},
                "audiences": [API_AUDIENCE],
            },
            id="known",
        ),
        pytest.param({"token": "wrong"}, {"user": {}, "error": "invalid bearer token"}, id="unknown"),
        pytest.param(
            {"token": "secret", "audiences": ["vault"]},
            {"user": {}, "error": "invalid bearer token"},
            id="other audience",
        ),
    ],
)
def test_token(authorizer, spec, status):
    assert review(authorizer, "TokenReview", spec, authenticate=user_of)["status"] == status


def test_missing_token(authorizer):
    with pytest.raises(BadRequest, match="token is required for TokenReview in authentication"):
        review(authorizer, "TokenReview", {}, authenticate=user_of)


def test_responses_have_metadata(authorizer):
    asked = {"kind": "SelfSubjectAccessReview", "spec": {"nonResourceAttributes": {"verb": "get", "path": "/version"}}}
    resource = next(one for one in BUILT_IN if one.kind == asked["kind"])
    assert answer_review(resource, asked, user=ANN, authorizer=authorizer)["metadata"] == {}
