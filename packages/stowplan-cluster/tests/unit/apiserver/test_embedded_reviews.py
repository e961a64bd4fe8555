"""Token and access reviews through the in-process port, and reading a ConfigMap."""

import pytest

from stowplan.kube.api.api_errors import BadRequest, NotFound
from stowplan.kube.api.meta import ObjectMeta
from stowplan.kube.api.users import (
    ConfigMap,
    NonResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    TokenReview,
    TokenReviewSpec,
    UserInfo,
)
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from stowplan_cluster.front.access import Tokens
from support.api.embedded import Api as Cluster


@pytest.fixture
def cluster():
    return Cluster()


def question(user, path="/metrics"):
    attributes = NonResourceAttributes(path=path, verb="get")
    return SubjectAccessReview(spec=SubjectAccessReviewSpec(user=user, non_resource_attributes=attributes))


async def test_token_review(cluster):
    tokens = Tokens({"t": UserInfo("alice", groups=("g",), uid="7", extra={"k": ("v",)})})
    api = EmbeddedApi(cluster.server, authenticate=tokens.user_of)
    status = (await api.create(TokenReview(spec=TokenReviewSpec(token="t")))).status
    assert (status.authenticated, status.user.username, status.user.groups) == (True, "alice", ("g",))
    refused = (await api.create(TokenReview(spec=TokenReviewSpec(token="u")))).status
    assert (refused.authenticated, refused.error) == (False, "invalid bearer token")
    with pytest.raises(BadRequest):
        await api.create(TokenReview())


async def test_token_review_without_tokens(cluster):
    assert not (
        await EmbeddedApi(cluster.server).create(TokenReview(spec=TokenReviewSpec(token="t")))
    ).status.authenticated


async def test_access_review(cluster):
    api = EmbeddedApi(cluster.server)
    assert not (await api.create(question("alice"))).status.allowed
    rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    cluster.create("clusterroles.rbac.authorization.k8s.io", {"metadata": {"name": "scrape"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scrape"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    cluster.create("clusterrolebindings.rbac.authorization.k8s.io", binding)
    allowed = (await api.create(question("alice"))).status
    assert allowed.allowed
    assert "scrape" in allowed.reason
    assert not (await api.create(question("alice", "/configz"))).status.allowed
    assert not (await api.create(question("bob"))).status.allowed


async def test_a_config_map(cluster):
    api = EmbeddedApi(cluster.server)
    with pytest.raises(NotFound):
        await api.get(ConfigMap, "c", namespace="kube-system")
    written = ConfigMap(metadata=ObjectMeta(name="c", namespace="kube-system"), data={"k": "v"})
    created = await api.create(written)
    assert created.data == {"k": "v"}
    listing = await api.list(ConfigMap, namespace="kube-system", field_selector="metadata.name=c")
    assert [one.data for one in listing.items] == [{"k": "v"}]
    watching = api.watch(ConfigMap, resource_version=listing.resource_version, namespace="kube-system")
    await api.patch(ConfigMap, "c", {"data": {"k": "w"}}, type_="merge", namespace="kube-system")
    assert (await anext(watching)).object.data == {"k": "w"}
    await watching.aclose()
