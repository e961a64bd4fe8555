"""Health, version, metrics, discovery and OpenAPI over HTTP."""

from __future__ import annotations

import pytest

from stowplan.apiserver.front.server import Front
from stowplan.apiserver.front.settings import FrontSettings

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


async def test_the_version(client):
    told = (await client.get("/version")).json
    assert (told["major"], told["minor"]) == ("1", "36")
    assert told["gitVersion"].startswith("v1.36.")


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
        'apiserver_request_total{verb="LIST",group="",version="v1",resource="pods",subresource="",scope="namespace",'
        'dry_run="",component="apiserver",code="200"} 1\n'
    ) in told.text
    assert "nonsense" not in told.text


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_discovery_is_served_to_who_likes_it_best(client, path):
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


async def test_the_server_says_where_it_is(client):
    told = (await client.get("/api")).json["serverAddressByClientCIDRs"]
    assert f"http://{told[0]['serverAddress']}" == client.front.url


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/api/v2", "/apis/nothing", "/apis/apps/v7", "/apis//v1", "/version/x", "/metrics/x", "/openapi/v4"],
)
async def test_pages_that_do_not_exist(client, path):
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
async def test_pages_are_only_read(client, method):
    reply = await client.request(method, "/version")
    assert (reply.status, reply.headers["Allow"]) == (405, "GET")
    assert reply.json["reason"] == "MethodNotAllowed"


async def test_openapi(client):
    index = (await client.get("/openapi/v3")).json["paths"]
    for path in ("api/v1", "apis/apps/v1"):
        found = await client.get(f"/openapi/v3/{path}")
        assert found.json["openapi"].startswith("3.0")
        assert path in index
    assert (await client.get("/openapi/v2")).json["swagger"] == "2.0"
    for path in ("apis/nothing/v1", "api/apps/v1", "apis/v1", "api", "x/y"):
        assert (await client.get(f"/openapi/v3/{path}")).status == 404
