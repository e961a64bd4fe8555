"""Health, version, metrics, discovery and OpenAPI over HTTP."""

from __future__ import annotations

import pytest

from stowplan_cluster.front.front_settings import FrontSettings
from stowplan_cluster.front.http_front import Front
from support.api.manifests import definition

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize("page", ["healthz", "livez", "readyz"])
async def test_health(client, page):
    assert (await client.get(f"/{page}")).text == "ok"
    assert (await client.get(f"/{page}?verbose")).text == f"[+]ping ok\n{page} check passed\n"
    assert (await client.get(f"/{page}/ping")).text == "ok"
    excluded = await client.get(f"/{page}?verbose&exclude=ping&exclude=etcd")
    assert excluded.text == (
        "[+]ping excluded: ok\n"
        'warn: some health checks cannot be excluded: no matches for "etcd"\n'
        f"{page} check passed\n"
    )
    assert (await client.get(f"/{page}/nothing")).status == 404


async def test_a_failed_check_makes_it_not_ready(client):
    front = Front(client.server, settings=FrontSettings(tls=False, token="t"), checks={"state": lambda: False})
    await front.start()
    try:
        client.front = front
        ready = await client.get("/readyz", Authorization="Bearer t")
        assert (ready.status, ready.text) == (
            500,
            "[+]ping ok\n[-]state failed: reason withheld\nreadyz check failed\n",
        )
        assert (await client.get("/readyz?exclude=state", Authorization="Bearer t")).status == 200
        assert (await client.get("/readyz/state", Authorization="Bearer t")).status == 500
        assert (await client.get("/livez", Authorization="Bearer t")).status == 200
    finally:
        await front.stop()


async def test_health_answers_any_method(client):
    assert (await client.request("HEAD", "/livez")).status == 200
    assert (await client.request("POST", "/readyz")).text == "ok"


async def test_the_version(client):
    told = (await client.get("/version")).json
    assert (told["major"], told["minor"]) == ("1", "37")
    assert told["gitVersion"].startswith("v1.37.")


async def test_the_index_lists_pages_that_exist(client):
    paths = (await client.get("/")).json["paths"]
    assert paths == sorted(paths)
    for path in paths:
        assert (await client.get(path)).status == 200, path


async def test_metrics_count_requests(client):
    await client.get("/api/v1/namespaces/default/pods")
    await client.get("/api/v1/namespaces/default/nonsense")
    told = await client.get("/metrics")
    assert told.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert (
        'apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",'
        'scope="namespace",subresource="",verb="LIST",version="v1"} 1\n'
    ) in told.text
    assert "nonsense" not in told.text


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_discovery_is_negotiated(client, path):
    first = await client.get(path, Accept=f"{AGGREGATED},application/json")
    assert first.headers["Content-Type"] == AGGREGATED
    assert first.json["kind"] == "APIGroupDiscoveryList"
    assert first.headers["Vary"] == "Accept"
    again = await client.get(path, Accept=AGGREGATED, If_None_Match=first.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    beta = await client.get(path, Accept=AGGREGATED.replace("v=v2", "v=v2beta1"))
    assert beta.json["apiVersion"] == "apidiscovery.k8s.io/v2beta1"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/apis/", "APIGroupList"),
        ("/apis/apps", "APIGroup"),
        ("/apis/apps/v1", "APIResourceList"),
        ("/api/v1", "APIResourceList"),
    ],
)
async def test_plain_discovery(client, path, kind):
    reply = await client.get(path)
    assert reply.json["kind"] == kind
    assert f"kind: {kind}" in (await client.get(path, Accept="application/yaml")).text


async def test_the_servers_address(client):
    told = (await client.get("/api")).json["serverAddressByClientCIDRs"]
    assert f"http://{told[0]['serverAddress']}" == client.front.url


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/api/v2", "/apis/nothing", "/apis/apps/v7", "/apis//v1", "/version/x", "/metrics/x", "/openapi/v4"],
)
async def test_unknown_pages(client, path):
    reply = await client.get(path)
    assert reply.status == 404
    assert reply.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server could not find the requested resource",
        "reason": "NotFound",
        "details": {},
        "code": 404,
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_pages_are_read_only(client, method):
    reply = await client.request(method, "/version")
    assert (reply.status, reply.headers["Allow"]) == (405, "GET")
    assert reply.json["reason"] == "MethodNotAllowed"


async def test_openapi_by_group_and_version(client):
    index = (await client.get("/openapi/v3")).json["paths"]
    for path in ("api/v1", "apis/apps/v1"):
        plain = await client.get(f"/openapi/v3/{path}")
        assert plain.json["openapi"].startswith("3.0")
        address = index[path]["serverRelativeURL"]
        hashed = await client.get(address)
        assert hashed.body == plain.body
        assert hashed.headers["Cache-Control"] == "public, immutable"
        outdated = await client.session.get(
            f"{client.front.url}/openapi/v3/{path}?hash=OLD",
            headers={"Authorization": "Bearer the-administrators-token"},
            allow_redirects=False,
        )
        assert (outdated.status, outdated.headers["Location"]) == (301, address)
        outdated.release()


@pytest.mark.parametrize("path", ["apis/nothing/v1", "api/apps/v1", "apis/v1", "api", "x/y"])
async def test_openapi_of_unserved_versions(client, path):
    assert (await client.get(f"/openapi/v3/{path}")).status == 404


async def test_openapi_v2(client):
    assert (await client.get("/openapi/v2")).json["swagger"] == "2.0"
    asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    reply = await client.get("/openapi/v2", Accept=asked)
    assert reply.headers["Content-Type"] == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert reply.body.startswith(b"\x0a\x032.0")
    assert (await client.get("/openapi/v2", Accept="text/html")).status == 406


async def test_openapi_follows_custom_resources(client):
    assert (await client.get("/openapi/v3/apis/example.com/v1")).status == 404
    await client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    assert "apis/example.com/v1" in (await client.get("/openapi/v3")).json["paths"]
    assert '"size"' in (await client.get("/openapi/v3/apis/example.com/v1")).text
    assert "/apis/example.com/v1" in (await client.get("/")).json["paths"]
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"color": "red"}}
    path = "/apis/example.com/v1/namespaces/default/widgets"
    assert (await client.create(path, widget))["spec"] == {"color": "red", "size": 3}
    strategic = await client.request(
        "PATCH", f"{path}/w", {"spec": {"size": 2}}, Content_Type="application/strategic-merge-patch+json"
    )
    assert strategic.status == 415
    merged = await client.request(
        "PATCH", f"{path}/w", {"spec": {"size": 2}}, Content_Type="application/merge-patch+json"
    )
    assert merged.json["spec"] == {"color": "red", "size": 2}
    async with client.watching(f"{path}?watch=1&labelSelector=a%3Db") as watching:
        assert watching.response.status == 200
    assert (await client.request("DELETE", f"{path}/w")).status == 200
