"""The verbs over HTTP: codes, headers and forms. The effects of verbs on the store are tested with the registry."""

from __future__ import annotations

import gzip

import pytest
import yaml

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"


def config_map(name: str = "c", **data: str):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str = "p", **spec):
    containers = [{"name": "c", "image": "i"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": containers, **spec},
    }


async def test_an_object_from_creation_to_deletion(client):
    created = await client.post(CONFIGMAPS, config_map(a="1"))
    assert created.status == 201
    assert (await client.get(f"{CONFIGMAPS}/c")).json == created.json
    changed = created.json | {"data": {"a": "2"}}
    updated = await client.request("PUT", f"{CONFIGMAPS}/c", changed)
    assert (updated.status, updated.json["data"]) == (200, {"a": "2"})
    stale = await client.request("PUT", f"{CONFIGMAPS}/c", changed)
    assert (stale.status, stale.json["reason"]) == (409, "Conflict")
    deleted = await client.request("DELETE", f"{CONFIGMAPS}/c")
    uid = created.json["metadata"]["uid"]
    assert deleted.status == 200
    assert deleted.json["status"] == "Success"
    assert deleted.json["details"] == {"name": "c", "kind": "configmaps", "uid": uid}
    gone = await client.get(f"{CONFIGMAPS}/c")
    assert gone.status == 404
    assert gone.json["details"] == {"name": "c", "kind": "configmaps"}
    assert gone.json["message"] == 'configmaps "c" not found'


async def test_some_kinds_return_the_deleted_object(client):
    await client.create(PODS, pod())
    deleted = await client.request("DELETE", f"{PODS}/p")
    assert (deleted.status, deleted.json["kind"], deleted.json["metadata"]["name"]) == (200, "Pod", "p")


async def test_deleting_returns_a_terminating_object(client):
    made = config_map()
    made["metadata"]["finalizers"] = ["example.com/keep"]
    await client.create(CONFIGMAPS, made)
    lingers = await client.request("DELETE", f"{CONFIGMAPS}/c")
    assert (lingers.status, lingers.json["kind"]) == (200, "ConfigMap")
    assert lingers.json["metadata"]["deletionTimestamp"]
    # Only clients that use the deprecated field are told that it still exists.
    again = await client.request("DELETE", f"{CONFIGMAPS}/c", {"orphanDependents": False})
    assert again.status == 202


async def test_dry_runs_change_nothing(client):
    reply = await client.post(f"{CONFIGMAPS}?dryRun=All", config_map())
    assert reply.status == 201
    assert (await client.get(f"{CONFIGMAPS}/c")).status == 404
    await client.create(CONFIGMAPS, config_map())
    assert (await client.request("DELETE", f"{CONFIGMAPS}/c", {"dryRun": ["All"]})).status == 200
    assert (await client.request("DELETE", f"{CONFIGMAPS}?dryRun=All")).status == 200
    assert (await client.get(f"{CONFIGMAPS}/c")).status == 200


async def test_a_collection_is_deleted_by_selector(client):
    for name in ("a", "b"):
        made = config_map(name)
        made["metadata"]["labels"] = {"name": name}
        await client.create(CONFIGMAPS, made)
    reply = await client.request("DELETE", f"{CONFIGMAPS}?labelSelector=name%3Da")
    assert (reply.status, reply.json["kind"]) == (200, "ConfigMapList")
    assert [item["metadata"]["name"] for item in reply.json["items"]] == ["a"]
    names = [item["metadata"]["name"] for item in (await client.get(CONFIGMAPS)).json["items"]]
    assert "a" not in names
    assert "b" in names


async def test_yaml_in_and_out(client):
    body = yaml.safe_dump(config_map(a="1", b="yes")).encode()
    created = await client.post(CONFIGMAPS, body, Content_Type="application/yaml", Accept="application/yaml")
    assert (created.status, created.headers["Content-Type"]) == (201, "application/yaml")
    assert yaml.safe_load(created.text)["data"] == {"a": "1", "b": "yes"}
    listed = await client.get(CONFIGMAPS, Accept="application/yaml")
    assert yaml.safe_load(listed.text)["kind"] == "ConfigMapList"
    missing = await client.get(f"{CONFIGMAPS}/x", Accept="application/yaml")
    assert yaml.safe_load(missing.text)["reason"] == "NotFound"


async def test_tables(client):
    await client.create(CONFIGMAPS, config_map(a="1"))
    one, many = await client.get(f"{CONFIGMAPS}/c", Accept=TABLE), await client.get(CONFIGMAPS, Accept=TABLE)
    for table in (one.json, many.json):
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert table["columnDefinitions"][0]["name"] == "Name"
        assert table["rows"][-1]["cells"][0] == "c"
        assert table["rows"][-1]["object"]["kind"] == "PartialObjectMetadata"
    assert one.json["metadata"]["resourceVersion"] == one.json["rows"][0]["object"]["metadata"]["resourceVersion"]
    whole = await client.get(f"{CONFIGMAPS}?includeObject=Object", Accept=TABLE)
    assert whole.json["rows"][-1]["object"]["data"] == {"a": "1"}
    refused = await client.get(f"{CONFIGMAPS}?includeObject=Half", Accept=TABLE)
    assert refused.status == 400


async def test_metadata_alone(client):
    await client.create(CONFIGMAPS, config_map(a="1"))
    one = (await client.get(f"{CONFIGMAPS}/c", Accept=PARTIAL.format(""))).json
    assert (one["kind"], one["apiVersion"], one["metadata"]["name"]) == ("PartialObjectMetadata", "meta.k8s.io/v1", "c")
    assert "data" not in one
    many = (await client.get(CONFIGMAPS, Accept=PARTIAL.format("List"))).json
    assert many["kind"] == "PartialObjectMetadataList"
    assert all("data" not in item for item in many["items"])
    for path, kind in ((CONFIGMAPS, ""), (f"{CONFIGMAPS}/c", "List")):
        assert (await client.get(path, Accept=PARTIAL.format(kind))).status == 406


async def test_errors_ignore_the_accept_header(client):
    assert (await client.get("/api/v1/nothing", Accept="text/html")).json["reason"] == "NotFound"


@pytest.mark.parametrize(
    ("content_type", "patch", "expected"),
    [
        ("application/merge-patch+json", {"data": {"a": None, "b": "2"}}, {"b": "2"}),
        ("application/json-patch+json", [{"op": "add", "path": "/data/b", "value": "2"}], {"a": "1", "b": "2"}),
        ("application/strategic-merge-patch+json", {"data": {"b": "2"}}, {"a": "1", "b": "2"}),
    ],
)
async def test_patches(client, content_type, patch, expected):
    await client.create(CONFIGMAPS, config_map(a="1"))
    reply = await client.request("PATCH", f"{CONFIGMAPS}/c", patch, Content_Type=content_type)
    assert (reply.status, reply.json["data"]) == (200, expected)


async def test_server_side_apply_creates_and_updates(client):
    target, kind = f"{CONFIGMAPS}/c?fieldManager=me", "application/apply-patch+yaml"
    made = await client.request("PATCH", target, config_map(a="1"), Content_Type=kind)
    assert made.status == 201
    assert made.json["metadata"]["managedFields"][0]["manager"] == "me"
    assert (await client.request("PATCH", target, config_map(a="2"), Content_Type=kind)).status == 200
    other = target.replace("=me", "=you")
    taken = await client.request("PATCH", other, config_map(a="3"), Content_Type=kind)
    assert (taken.status, taken.json["reason"]) == (409, "Conflict")
    assert taken.json["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    forced = await client.request("PATCH", f"{other}&force=true", config_map(a="3"), Content_Type=kind)
    assert (forced.status, forced.json["data"]) == (200, {"a": "3"})
    nameless = await client.request("PATCH", f"{CONFIGMAPS}/c", config_map(), Content_Type=kind)
    assert (nameless.status, nameless.json["reason"]) == (422, "Invalid")


async def test_unknown_fields_are_warned_about_or_refused(client):
    odd = config_map() | {"shoes": "red"}
    warned = await client.post(CONFIGMAPS, odd)
    assert warned.headers.getall("Warning") == ['299 - "unknown field \\"shoes\\""']
    silent = await client.post(f"{CONFIGMAPS}?fieldValidation=Ignore", odd | {"metadata": {"name": "d"}})
    assert "Warning" not in silent.headers
    strict = await client.post(f"{CONFIGMAPS}?fieldValidation=Strict", odd | {"metadata": {"name": "e"}})
    assert strict.status == 400
    assert 'strict decoding error: unknown field "shoes"' in strict.json["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("HEAD", CONFIGMAPS, "DELETE, GET, POST"),
        ("OPTIONS", f"{CONFIGMAPS}/c", "DELETE, GET, PATCH, PUT"),
        ("PUT", CONFIGMAPS, "DELETE, GET, POST"),
        ("POST", f"{CONFIGMAPS}/c", "DELETE, GET, PATCH, PUT"),
        ("POST", "/api/v1/configmaps", "GET"),
        ("DELETE", "/api/v1/configmaps", "GET"),
        ("GET", f"{PODS}/p/binding", "POST"),
        ("POST", f"{DEPLOYMENTS}/web/scale", "GET, PATCH, PUT"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "POST"),
    ],
)
async def test_unserved_methods(client, method, path, allowed):
    reply = await client.request(method, path)
    assert (reply.status, reply.headers["Allow"]) == (405, allowed)
    if method != "HEAD":
        assert reply.json["message"] == "the server does not allow this method on the requested resource"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nothing",
        "/apis/apps/v1/pods",
        "/apis/nothing/v1/things",
        "/api/v1/pods/p",
        "/api/v1/namespaces/default/nodes",
        f"{CONFIGMAPS}/c/status",
        f"{PODS}/p/shoes",
        f"{PODS}/p/status/more",
    ],
)
async def test_unknown_resources(client, path):
    reply = await client.get(path)
    assert (reply.status, reply.json["details"]) == (404, {})


async def test_an_eviction_waits_for_its_budget(client):
    await client.create(PODS, pod(nodeName="n"))
    running = (await client.get(f"{PODS}/p")).json
    running["status"]["phase"] = "Running"
    running["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    assert (await client.request("PUT", f"{PODS}/p/status", running)).status == 200
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    await client.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    held = await client.post(f"{PODS}/p/eviction", eviction)
    assert (held.status, held.headers["Retry-After"]) == (429, "10")
    assert held.json["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert held.json["details"]["causes"][0]["reason"] == "DisruptionBudget"
    await client.request("DELETE", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b")
    assert (await client.post(f"{PODS}/p/eviction", eviction)).status == 201


async def test_a_namespace_is_finalized(client):
    await client.create("/api/v1/namespaces", {"metadata": {"name": "a"}})
    deleted = await client.request("DELETE", "/api/v1/namespaces/a")
    assert deleted.json["status"]["phase"] == "Terminating"
    namespace = deleted.json
    namespace["spec"] = {"finalizers": []}
    assert (await client.request("PUT", "/api/v1/namespaces/a/finalize", namespace)).status == 200
    assert (await client.get("/api/v1/namespaces/a")).status == 404


@pytest.mark.parametrize(
    ("method", "what"),
    [
        ("GET", "log"),
        ("POST", "exec"),
        ("GET", "exec"),
        ("POST", "attach"),
        ("POST", "portforward"),
        ("GET", "proxy"),
        ("GET", "proxy/some/path"),
    ],
)
async def test_container_subresources_are_refused(client, method, what):
    await client.create(PODS, pod())
    reply = await client.request(method, f"{PODS}/p/{what}")
    assert reply.status == 405
    assert "embedded API without containers" in reply.json["message"]
    assert (await client.request(method, f"{PODS}/missing/{what}")).status == 404


async def test_tokens_of_service_accounts_are_refused_with_what_does_without(client):
    await client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "mine"}})
    reply = await client.request("POST", "/api/v1/namespaces/default/serviceaccounts/mine/token", {})
    assert reply.status == 405
    assert "--as system:serviceaccount:NAMESPACE:NAME" in reply.json["message"]


async def test_both_kinds_of_events_are_the_same_objects(client):
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Tested",
        "message": "it was",
        "type": "Normal",
    }
    await client.create("/api/v1/namespaces/default/events", event)
    found = await client.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp")
    assert found.json["apiVersion"] == "v1"
    assert [(one["apiVersion"], one["message"]) for one in found.json["items"]] == [("v1", "it was")]
    new = (await client.get("/apis/events.k8s.io/v1/namespaces/default/events/e")).json
    assert (new["apiVersion"], new["note"], new["regarding"]["name"]) == ("events.k8s.io/v1", "it was", "p")


async def test_large_responses_are_compressed_on_request(client):
    for number in range(12):
        await client.create(CONFIGMAPS, config_map(f"c{number}", text="x" * 50_000))
    client.session._auto_decompress = False
    plain = await client.get(CONFIGMAPS, Accept_Encoding="identity")
    assert "Content-Encoding" not in plain.headers
    assert len(plain.json["items"]) == 12
    packed = await client.get(CONFIGMAPS, Accept_Encoding="deflate, gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    small = await client.get(f"{CONFIGMAPS}/c1", Accept_Encoding="gzip")
    assert "Content-Encoding" not in small.headers


@pytest.mark.parametrize("path", ["/api", "/api/v1/nodes", "/api/v1/nothing", "/livez"])
async def test_responses_are_not_cached(client, path):
    reply = await client.get(path)
    assert reply.headers["Cache-Control"] == "no-cache, private"
    assert reply.headers["Server"] == "stowplan"


async def test_an_update_may_create_an_object(client):
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    created = await client.request("PUT", path, lease)
    assert created.status == 201
    assert (await client.request("PUT", path, created.json)).status == 200
    assert (await client.request("PUT", f"{CONFIGMAPS}/c", config_map())).status == 404
