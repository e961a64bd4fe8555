"""Tokens, impersonation and responses to unauthorized requests."""

from __future__ import annotations

import pytest

from stowplan.kube.api.users import UserInfo
from stowplan_cluster.front.access import Tokens

READER = "the-readers-token"
POD_READER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "pod-reader", "namespace": "default"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "pod-reader", "namespace": "default"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pod-reader"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
}


@pytest.fixture
async def client(serving):
    """Besides the administrator there is jane, who may read pods in `default`."""
    async with serving(users={READER: UserInfo(name="jane", groups=("system:authenticated",))}) as made:
        roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        await made.create(f"{roles}/roles", POD_READER)
        await made.create(f"{roles}/rolebindings", BINDING)
        yield made


async def as_jane(client, path: str, method: str = "GET", body=None):
    return await client.request(method, path, body, Authorization=f"Bearer {READER}")


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer wrong", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "the-administrators-token", "Bearer \xff"],
)
async def test_requests_without_a_token_are_refused(client, authorization):
    reply = await client.get("/api/v1/pods", Authorization=authorization)
    assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert reply.json["reason"] == "Unauthorized"
    assert reply.json["message"] == "Unauthorized"


async def test_forms_of_the_authorization_header(client):
    assert (await client.get("/api", Authorization="bearer  the-administrators-token ")).status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/healthz", 200),
        ("/livez/ping", 401),
        ("/readyz?verbose", 200),
        ("/version", 200),
        ("/api", 401),
        ("/", 401),
        ("/metrics", 401),
        ("/openapi/v3", 401),
    ],
)
async def test_health_and_version_are_public(client, path, status):
    assert (await client.get(path, Authorization="")).status == status


async def test_a_wrong_token_is_refused_on_public_paths(client):
    assert (await client.get("/healthz", Authorization="Bearer wrong")).status == 401


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/apis", "/apis/apps/v1", "/openapi/v3", "/version", "/livez"])
async def test_discovery_needs_a_token(client, path):
    assert (await as_jane(client, path)).status == 200


@pytest.mark.parametrize(
    ("method", "path", "why"),
    [
        (
            "GET",
            "/api/v1/namespaces/other/pods",
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "other"',
        ),
        (
            "GET",
            "/apis/apps/v1/namespaces/default/deployments/web",
            'deployments.apps "web" is forbidden: User "jane" cannot get resource "deployments" in API group "apps" '
            'in the namespace "default"',
        ),
        (
            "POST",
            "/api/v1/namespaces/default/pods/p/eviction",
            'pods "p" is forbidden: User "jane" cannot create resource "pods/eviction" in API group "" '
            'in the namespace "default"',
        ),
        (
            "GET",
            "/api/v1/pods",
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" at the cluster scope',
        ),
        (
            "GET",
            "/api/v1/nodes?fieldSelector=metadata.name%3Dn",
            'nodes "n" is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        ("GET", "/metrics", 'forbidden: User "jane" cannot get path "/metrics"'),
    ],
    ids=lambda value: value if value.startswith("/") else "",
)
async def test_requests_that_jane_may_not_make(client, method, path, why):
    reply = await as_jane(client, path, method)
    assert (reply.status, reply.json["reason"], reply.json["message"]) == (403, "Forbidden", why)


async def test_forbidden_responses_do_not_reveal_existence(client):
    for path in ("/api/v1/namespaces/default/secrets/s", "/api/v1/namespaces/default/nonsense/n"):
        assert (await as_jane(client, path)).status == 403


async def test_the_administrator_may_act_as_jane(client):
    acting = {"Impersonate_User": "jane"}
    assert (await client.get("/api/v1/namespaces/default/pods", **acting)).status == 200
    reply = await client.get("/api/v1/namespaces/default/secrets", **acting)
    assert reply.json["message"].startswith('secrets is forbidden: User "jane" cannot list')


async def test_a_self_review_has_the_impersonated_user(client):
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    reply = await client.post(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        review,
        Impersonate_User="jane",
        Impersonate_Group="readers",
        Impersonate_Uid="u-1",
        Impersonate_Extra_Team="blue",
    )
    told = reply.json["status"]["userInfo"]
    assert (told["username"], told["uid"]) == ("jane", "u-1")
    assert set(told["groups"]) == {"readers", "system:authenticated"}
    assert told["extra"] == {"team": ["blue"]}


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("system:serviceaccount:default:robot", {"system:serviceaccounts", "system:serviceaccounts:default"}),
        ("somebody", set()),
    ],
)
async def test_groups_of_impersonated_service_accounts_and_users(client, name, groups):
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    told = (await client.post(path, review, Impersonate_User=name)).json["status"]["userInfo"]
    assert set(told["groups"]) == groups | {"system:authenticated"}


@pytest.mark.parametrize(
    ("headers", "resource"),
    [
        ({"Impersonate_User": "admin"}, "users"),
        ({"Impersonate_User": "system:serviceaccount:a:b"}, "serviceaccounts"),
    ],
)
async def test_jane_may_not_impersonate(client, headers, resource):
    reply = await client.get("/api", Authorization=f"Bearer {READER}", **headers)
    assert reply.status == 403
    assert f'cannot impersonate resource "{resource}"' in reply.json["message"]


@pytest.mark.parametrize("header", ["Impersonate_Group", "Impersonate_Uid", "Impersonate_Extra_Team"])
async def test_impersonation_needs_a_user(client, header):
    reply = await client.get("/api", **{header: "x"})
    assert (reply.status, reply.json["reason"]) == (400, "BadRequest")


LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.mark.parametrize("verb", ["update", "patch"])
async def test_what_creates_an_object_needs_the_right_to_create(client, verb):
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/pod-reader"
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": [verb]}]
    merge = {"Content_Type": "application/merge-patch+json"}
    assert (await client.request("PATCH", path, {"rules": rules}, **merge)).status == 200
    sent = {"Content_Type": "application/apply-patch+yaml"} if verb == "patch" else {}
    method = "PATCH" if sent else "PUT"

    async def written(lease=LEASE, **headers):
        return await client.request(method, f"{LEASES}/l?fieldManager=t", lease, **sent, **headers)

    refused = await written(Impersonate_User="jane")
    assert refused.status == 403
    assert 'User "jane" cannot create resource "leases"' in refused.json["message"]
    created = await written()
    assert created.status == 201
    again = created.json if verb == "update" else LEASE
    assert (await written(again, Impersonate_User="jane")).status == 200


async def test_a_token_can_be_reviewed(client):
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": READER}}
    assert (await client.create(path, review))["status"]["user"]["username"] == "jane"


def test_tokens_are_not_shown():
    tokens = Tokens({"secret-token": UserInfo(name="jane")})
    assert "secret" not in repr(tokens)
