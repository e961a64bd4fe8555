"""Reviews and the ConfigMap in JSON."""

import msgspec

from stowplan.kube.api.decode import convert, namespace_of, to_dict
from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.resources import resource_of
from stowplan.kube.api.users import (
    ConfigMap,
    NonResourceAttributes,
    ReviewedUser,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    TokenReview,
    TokenReviewSpec,
    TokenReviewStatus,
)


def test_paths_of_reviews():
    paths = {kind: resource_of(kind).collection("v1", "ns") for kind in (TokenReview, SubjectAccessReview, ConfigMap)}
    assert paths == {
        TokenReview: "/apis/authentication.k8s.io/v1/tokenreviews",
        SubjectAccessReview: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        ConfigMap: "/api/v1/namespaces/ns/configmaps",
    }


def test_a_config_map_has_a_namespace():
    assert namespace_of(ConfigMap(metadata=ObjectMeta(namespace="kube-system"))) == "kube-system"
    assert namespace_of(TokenReview()) == ""


def test_a_request_encodes_as_upstream():
    attributes = NonResourceAttributes(path="/metrics", verb="get")
    spec = SubjectAccessReviewSpec(user="a", groups=("g",), extra={"k": ("v",)}, non_resource_attributes=attributes)
    assert to_dict(SubjectAccessReview(spec=spec)) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            "user": "a",
            "groups": ["g"],
            "extra": {"k": ["v"]},
        },
    }


def test_a_servers_response_decodes():
    answer = {
        "kind": "TokenReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"managedFields": []},
        "spec": {"token": "t"},
        "status": {
            "authenticated": True,
            "user": {"username": "a", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}},
            "audiences": ["x"],
        },
    }
    user = ReviewedUser(username="a", uid="7", groups=("g",), extra={"k": ("v",)})
    assert convert(answer, TokenReview).status == TokenReviewStatus(authenticated=True, user=user, audiences=("x",))
    assert convert({**answer, "status": {"user": {}}}, TokenReview).status == TokenReviewStatus()


def test_a_token_is_sent_but_not_shown():
    review = TokenReview(spec=TokenReviewSpec(token="canary", audiences=("x",)))
    assert "canary" not in repr(review)
    assert "audiences=('x',)" in repr(review)
    assert b'"token":"canary"' in msgspec.json.encode(review)
