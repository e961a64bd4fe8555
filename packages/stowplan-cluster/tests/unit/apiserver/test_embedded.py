"""The in-process port: typed structs, the same refusals as over HTTP, watches that can be closed, and reviews."""

import asyncio

import pytest

from stowplan.kube.api.api_errors import BadRequest, Conflict, Expired, NotFound
from stowplan.kube.api.port import Api
from stowplan.kube.api.types import Lease, LeaseSpec, Node, ObjectMeta, Pod, PriorityClass
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
from support.api.embedded import pod


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def api(cluster) -> Api:
    return EmbeddedApi(cluster.server)


async def test_watches_with_selectors(cluster, api):
    version = str(cluster.store.version)
    watching = api.watch(Pod, resource_version=version, field_selector="spec.nodeName=")
    cluster.create("pods", pod())
    added = await anext(watching)
    assert (added.type, added.object.metadata.name) == ("ADDED", "p")
    await api.bind(namespace="default", name="p", uid=added.object.metadata.uid, node="n1")
    gone = await anext(watching)
    assert (gone.type, gone.object.spec.node_name, gone.resource_version) == ("DELETED", "", str(cluster.store.version))
    assert gone.object.metadata.resource_version == gone.resource_version
    await watching.aclose()


async def test_a_watch_sleeps_until_something_happens(cluster, api):
    watching = api.watch(Pod, resource_version=str(cluster.store.version))
    waiting = asyncio.ensure_future(anext(watching))
    await asyncio.sleep(0)
    assert not waiting.done()
    cluster.create("pods", pod())
    assert (await waiting).type == "ADDED"
    await watching.aclose()


async def test_a_watch_ends_at_its_timeout(cluster, api):
    watching = api.watch(Pod, resource_version=str(cluster.store.version), timeout_seconds=0.01)
    assert [event async for event in watching] == []


async def test_a_compacted_version_is_expired(api):
    with pytest.raises(Expired):
        await anext(api.watch(Pod, resource_version="999999"))


async def test_undecodable_objects_are_reported_and_the_rest_is_delivered(cluster, api):
    cluster.create("pods", pod("good"))
    version = str(cluster.store.version)
    # Admission would refuse this object, but a store loaded from a file may contain it.
    cluster.store.put("pods", {"metadata": {"name": "bad", "namespace": "default"}, "spec": {"priority": "high"}})
    listing = await api.list(Pod)
    assert [one.metadata.name for one in listing.items] == ["good"]
    assert [(one.name, "spec.priority" in one.why) for one in listing.bad] == [("bad", True)]
    event = await anext(api.watch(Pod, resource_version=version))
    assert (event.type, event.bad.name) == ("BAD", "bad")


async def test_leases_are_replaced_only_at_their_version(api):
    lease = Lease(metadata=ObjectMeta(name="leader", namespace="kube-system"), spec=LeaseSpec(holder_identity="me"))
    made = await api.create(lease)
    assert made.metadata.uid
    updated = await api.update(made)
    assert updated.spec.holder_identity == "me"
    stale = Lease(
        metadata=ObjectMeta(name="leader", namespace="kube-system", resource_version="1"),
        spec=LeaseSpec(holder_identity="you"),
    )
    with pytest.raises(Conflict):
        await api.update(stale)


async def test_deletes_with_preconditions(cluster, api):
    uid = cluster.create("pods", pod()).uid
    with pytest.raises(Conflict):
        await api.delete(Pod, "p", namespace="default", uid="other")
    await api.delete(Pod, "p", namespace="default", uid=uid, grace_period_seconds=0)
    with pytest.raises(NotFound):
        await api.get(Pod, "p", namespace="default")


async def test_served_kinds(api):
    class Unheard(Pod, frozen=True, kw_only=True):
        api_version: str = "example.com/v1"
        kind: str = "Unheard"

    assert await api.serves(Node)
    assert await api.serves(PriorityClass)
    assert not await api.serves(Unheard)
    with pytest.raises(NotFound):
        await api.list(Unheard)


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
