"""Each call of the port as an HTTP request, and its response as a struct."""

import asyncio
import json

import pytest

from stowplan.kube.api.api_errors import ApiError, Conflict, InternalError, Invalid, NotFound, Timeout
from stowplan.kube.api.decode import KINDS, DecodeError, struct_for, to_dict
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.resources import resource_of
from stowplan.kube.api.types import (
    Event,
    Lease,
    LeaseSpec,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    ResourceClaim,
    ResourceSlice,
    StorageClass,
)
from stowplan.kube.config import ClientConnection
from stowplan.net.client.binary_claims import MEDIA_TYPE, changed
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.net.client.http import connection_pool
from stowplan.net.client.http.discovery import ABSENCE_KEPT
from stowplan.net.client.http.user_agent import user_agent
from stowplan.net.client.http_api import _encoded
from support.api.binary_claim import SERVED
from support.api.clients import SHORT, VirtualTime, a_pod, a_pod_list, an_api
from support.http.misbehaving_server import Misbehaving, answers, closes, does, hangs, resets, status, streams

# -- paths of kinds


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Pod", "/api/v1/namespaces/ns/pods"),
        ("Node", "/api/v1/nodes"),
        ("Namespace", "/api/v1/namespaces"),
        ("Service", "/api/v1/namespaces/ns/services"),
        ("ReplicationController", "/api/v1/namespaces/ns/replicationcontrollers"),
        ("PersistentVolume", "/api/v1/persistentvolumes"),
        ("PersistentVolumeClaim", "/api/v1/namespaces/ns/persistentvolumeclaims"),
        ("ReplicaSet", "/apis/apps/v1/namespaces/ns/replicasets"),
        ("StatefulSet", "/apis/apps/v1/namespaces/ns/statefulsets"),
        ("StorageClass", "/apis/storage.k8s.io/v1/storageclasses"),
        ("CSINode", "/apis/storage.k8s.io/v1/csinodes"),
        ("CSIDriver", "/apis/storage.k8s.io/v1/csidrivers"),
        ("CSIStorageCapacity", "/apis/storage.k8s.io/v1/namespaces/ns/csistoragecapacities"),
        ("VolumeAttachment", "/apis/storage.k8s.io/v1/volumeattachments"),
        ("PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses"),
        ("PodDisruptionBudget", "/apis/policy/v1/namespaces/ns/poddisruptionbudgets"),
        ("Lease", "/apis/coordination.k8s.io/v1/namespaces/ns/leases"),
        ("Event", "/apis/events.k8s.io/v1/namespaces/ns/events"),
        ("ResourceClaim", "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"),
        ("ResourceSlice", "/apis/resource.k8s.io/v1/resourceslices"),
        ("DeviceClass", "/apis/resource.k8s.io/v1/deviceclasses"),
    ],
)
def test_paths(kind, path):
    struct = next(struct for (_, name), struct in KINDS.items() if name == kind)
    resource = resource_of(struct)
    assert resource.collection(resource.versions[0], "ns") == path


@pytest.mark.parametrize("struct", KINDS.values(), ids=lambda struct: struct.__name__)
def test_every_version_that_is_asked_for_can_be_read(struct):
    resource = resource_of(struct)
    assert {struct_for(resource.api_version(version), resource.kind) for version in resource.versions} == {struct}


def test_names_cannot_escape_their_path():
    path = resource_of(Pod).item("v1", "../../nodes?x#y", namespace="a/b")
    assert path == "/api/v1/namespaces/a%2Fb/pods/..%2F..%2Fnodes%3Fx%23y"


@pytest.mark.parametrize(
    ("struct", "name", "namespace", "message"),
    [(Pod, "p", "", "pods.*a namespace is needed"), (Node, "", "", "nodes: a name is needed")],
)
def test_incomplete_names_are_refused(struct, name, namespace, message):
    with pytest.raises(ValueError, match=message):
        resource_of(struct).item("v1", name, namespace=namespace)


def test_user_agent():
    agent = user_agent(command="kube-scheduler", version="1.36.0", purpose="leader-election")
    assert agent.startswith("kube-scheduler/v1.36.0 (")
    assert agent.endswith("/leader-election")
    assert not user_agent(command="c", version="1").endswith("/")


# --- reading


async def test_list_asks_for_what_is_selected():
    async with Misbehaving(answers(200, a_pod_list(a_pod(), continue_="c2"))) as server, an_api(server) as api:
        page = await api.list(
            Pod,
            namespace="ns",
            label_selector="a=b,c in (d,e)",
            field_selector="spec.nodeName!=",
            limit=500,
            continue_="c1+/=",
            resource_version="0",
        )
    assert (page.continue_, [pod.metadata.name for pod in page.items]) == ("c2", ["web-0"])
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods"
    assert server.seen[0].query == {
        "labelSelector": "a=b,c in (d,e)",
        "fieldSelector": "spec.nodeName!=",
        "limit": "500",
        "continue": "c1+/=",
        "resourceVersion": "0",
    }


async def test_a_server_behind_a_path():
    async with Misbehaving(answers(200, a_pod_list())) as server, an_api(f"{server.url}/k8s/clusters/c-1") as api:
        await api.list(Pod)
    assert server.requests() == ["GET /k8s/clusters/c-1/api/v1/pods"]
    assert server.seen[0].query == {}


async def test_get():
    async with Misbehaving(answers(200, a_pod(uid="u"))) as server, an_api(server) as api:
        assert (await api.get(Pod, "web-0", namespace="default")).metadata.uid == "u"


async def test_get_of_an_object_that_does_not_decode():
    pod = a_pod()
    pod["spec"]["priority"] = "high"
    async with Misbehaving(answers(200, pod)) as server, an_api(server) as api:
        with pytest.raises(DecodeError, match=r"spec\.priority"):
            await api.get(Pod, "web-0", namespace="default")


async def test_watch_asks_for_what_is_selected():
    async with Misbehaving(streams()) as server, an_api(server) as api:
        watched = api.watch(
            Pod,
            resource_version="5",
            namespace="ns",
            label_selector="a=b",
            field_selector="x=y",
            timeout_seconds=300,
        )
        assert [event async for event in watched] == []
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods"
    assert server.seen[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "labelSelector": "a=b",
        "fieldSelector": "x=y",
        "timeoutSeconds": "300",
    }


async def test_watches_use_no_tokens():
    settings = ClientConnection(qps=0.001, burst=1)
    time = VirtualTime()
    async with Misbehaving(*[streams()] * 5) as server, an_api(server, settings=settings, time=time) as api:
        for _ in range(5):
            assert [event async for event in api.watch(Pod, resource_version="5")] == []
    assert time.slept == []


@pytest.mark.slow
async def test_watches_do_not_count_against_the_connection_limit():
    arrived = asyncio.Semaphore(0)
    opens = does(lambda seen: arrived.release(), streams(then="silence"))
    async with Misbehaving(*[opens] * 120, answers(200, a_pod())) as server, an_api(server, watch_silence=60.0) as api:
        watches = [asyncio.ensure_future(anext(api.watch(Pod, resource_version="5"))) for _ in range(120)]
        async with asyncio.timeout(5):
            for _ in watches:
                await arrived.acquire()
            assert (await api.get(Pod, "web-0", namespace="default")).metadata.name == "web-0"
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


async def test_requests_wait_for_their_tokens():
    settings = ClientConnection(qps=2, burst=3)
    time = VirtualTime()
    async with (
        Misbehaving(*[answers(200, a_pod())] * 6) as server,
        an_api(server, settings=settings, time=time) as api,
    ):
        for _ in range(6):
            await api.get(Pod, "web-0", namespace="default")
    assert sum(time.slept) == pytest.approx(1.5, abs=0.01)


# --- writing


async def test_create():
    lease = Lease(
        metadata=ObjectMeta(name="l", namespace="kube-system"),
        spec=LeaseSpec(holder_identity="me", lease_duration_seconds=15),
    )
    answer = {"metadata": {"name": "l", "resourceVersion": "7"}}
    async with Misbehaving(answers(201, answer)) as server, an_api(server) as api:
        created = await api.create(lease)
    assert created.metadata.resource_version == "7"
    assert server.requests() == ["POST /apis/coordination.k8s.io/v1/namespaces/kube-system/leases"]
    assert server.seen[0].headers["content-type"] == "application/json"
    assert server.seen[0].json() == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l", "namespace": "kube-system"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15},
    }


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(Node(), id="nothing but its type"),
        pytest.param(Event(metadata=ObjectMeta(name="e", namespace="ns"), note='"}{"', reason="R"), id="fields"),
        pytest.param(Event(api_version="events.k8s.io/v1beta1", kind="Event", reason="R"), id="another version"),
        pytest.param(Lease(kind="Other"), id="another kind"),
    ],
)
def test_objects_are_written_in_the_requested_version(obj):
    written = _encoded(obj, resource_of(type(obj)), "v7")
    fields = [name for name, _ in json.loads(written, object_pairs_hook=list)]
    assert len(fields) == len(set(fields))
    assert json.loads(written) == {**to_dict(obj), "apiVersion": resource_of(type(obj)).api_version("v7")}


async def test_update():
    lease = Lease(metadata=ObjectMeta(name="l", namespace="kube-system", resource_version="7"))
    async with Misbehaving(answers(200, {"metadata": {"resourceVersion": "8"}})) as server, an_api(server) as api:
        assert (await api.update(lease)).metadata.resource_version == "8"
    assert server.requests() == ["PUT /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l"]
    assert server.seen[0].json()["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize(
    ("type_", "content_type", "patch"),
    [
        ("json", "application/json-patch+json", [{"op": "remove", "path": "/a"}]),
        ("merge", "application/merge-patch+json", {"spec": {"a": None}}),
        ("strategic", "application/strategic-merge-patch+json", {"status": {"conditions": [{"type": "X"}]}}),
    ],
)
async def test_patch(type_, content_type, patch):
    async with Misbehaving(answers(200, a_pod(version="9"))) as server, an_api(server) as api:
        patched = await api.patch(
            Pod, "web-0", patch, type_=type_, namespace="default", subresource="status", lane="status"
        )
    assert patched.metadata.resource_version == "9"
    assert server.requests() == ["PATCH /api/v1/namespaces/default/pods/web-0/status"]
    assert server.seen[0].headers["content-type"] == content_type
    assert server.seen[0].json() == patch


#: First the version of claims is looked up.
CLAIMS_SERVED = answers(200, {"kind": "APIResourceList", "resources": [{"name": "resourceclaims"}]})
IMMUTABLE = answers(422, status(422, "Invalid", "field is immutable"))


@pytest.mark.parametrize("subresource", ["", "status"])
async def test_a_claim_that_json_cannot_change_is_written_in_protobuf(subresource):
    patch = {"status": {"reservedFor": []}} if subresource else {"metadata": {"finalizers": ["x"]}}
    binary = answers(200, SERVED, content_type=MEDIA_TYPE)
    written = answers(200, {"metadata": {"name": "c", "resourceVersion": "9"}})
    async with Misbehaving(CLAIMS_SERVED, IMMUTABLE, binary, written) as server, an_api(server) as api:
        claim = await api.patch(ResourceClaim, "c", patch, type_="merge", namespace="default", subresource=subresource)
    assert claim.metadata.resource_version == "9"
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
    target = f"{path}/status" if subresource else path
    assert server.requests()[1:] == [f"PATCH {target}", f"GET {path}", f"PUT {target}"]
    assert server.seen[2].headers["accept"] == server.seen[3].headers["content-type"] == MEDIA_TYPE
    assert server.seen[3].body == changed(SERVED, patch)


@pytest.mark.parametrize(
    ("kind", "patch", "type_"),
    [
        pytest.param(Pod, {"metadata": {"finalizers": []}}, "merge", id="another kind"),
        pytest.param(ResourceClaim, {"status": {"allocation": {}}}, "merge", id="another change"),
        pytest.param(ResourceClaim, {"metadata": {"finalizers": []}}, "strategic", id="another patch"),
    ],
)
async def test_other_refused_patches_are_errors(kind, patch, type_):
    before = (CLAIMS_SERVED,) if kind is ResourceClaim else ()
    async with Misbehaving(*before, IMMUTABLE) as server, an_api(server) as api:
        with pytest.raises(Invalid):
            await api.patch(kind, "c", patch, type_=type_, namespace="default")
    assert len(server.requests()) == len(before) + 1


@pytest.mark.parametrize(
    "reading",
    [
        pytest.param(answers(404, status(404, "NotFound", "gone")), id="gone"),
        pytest.param(answers(200, {"kind": "ResourceClaim"}), id="not protobuf"),
        pytest.param(answers(200, b"k8s", content_type=MEDIA_TYPE), id="cut off"),
    ],
)
async def test_a_claim_that_cannot_be_read_in_protobuf_stays_refused(reading):
    async with Misbehaving(CLAIMS_SERVED, IMMUTABLE, reading) as server, an_api(server) as api:
        with pytest.raises(Invalid, match="field is immutable"):
            await api.patch(ResourceClaim, "c", {"metadata": {"finalizers": []}}, type_="merge", namespace="default")
    assert len(server.requests()) == 3


@pytest.mark.parametrize(
    ("options", "body"),
    [
        pytest.param({}, {}, id="plain"),
        pytest.param({"grace_period_seconds": 0}, {"gracePeriodSeconds": 0}, id="at once"),
        pytest.param(
            {"uid": "u", "resource_version": "3"},
            {"preconditions": {"uid": "u", "resourceVersion": "3"}},
            id="only this one",
        ),
    ],
)
async def test_delete(options, body):
    async with Misbehaving(answers(200, a_pod())) as server, an_api(server) as api:
        await api.delete(Pod, "web-0", namespace="default", **options)
    assert server.requests() == ["DELETE /api/v1/namespaces/default/pods/web-0"]
    assert server.seen[0].json() == {"apiVersion": "v1", "kind": "DeleteOptions", **body}


# --- binding


CREATED = answers(201, {"kind": "Status", "status": "Success", "code": 201})
TAKEN = answers(
    409,
    status(
        409,
        "Conflict",
        'Operation cannot be fulfilled on pods/binding "web-0": pod web-0 is already assigned to node "n1"',
    ),
)
BINDING = "POST /api/v1/namespaces/default/pods/web-0/binding"
READING = "GET /api/v1/namespaces/default/pods/web-0"


async def bind(api, **options):
    await api.bind(**{"namespace": "default", "name": "web-0", "uid": "web-0-uid", "node": "n1", **options})


async def test_bind():
    async with Misbehaving(CREATED) as server, an_api(server) as api:
        await bind(api, annotations={"a": "b"})
    assert server.requests() == [BINDING]
    assert server.seen[0].json() == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web-0", "namespace": "default", "uid": "web-0-uid", "annotations": {"a": "b"}},
        "target": {"kind": "Node", "name": "n1"},
    }


async def test_a_refused_bind_is_an_error():
    async with Misbehaving(TAKEN) as server, an_api(server) as api:
        with pytest.raises(Conflict, match="already assigned"):
            await bind(api)
    assert server.requests() == [BINDING]


LOST = pytest.mark.parametrize(
    "lost",
    [
        pytest.param(resets, id="reset"),
        pytest.param(closes, id="closed"),
        pytest.param(hangs, id="silent"),
        pytest.param(streams(b"{", then="cut"), id="answer cut off"),
        pytest.param(answers(200, b"<html>", content_type="text/html"), id="HTML"),
        pytest.param(answers(500, status(500, "InternalError")), id="500"),
        pytest.param(answers(504, b""), id="504"),
    ],
)


@LOST
async def test_a_lost_bind_that_took_effect_is_success(lost):
    pod = answers(200, a_pod(node="n1"))
    async with Misbehaving(lost, pod) as server, an_api(server, limits=SHORT) as api:
        await bind(api)
    assert server.requests() == [BINDING, READING]


async def test_reading_back_a_bind_uses_the_binds_lane(monkeypatch):
    async with Misbehaving(resets, answers(200, a_pod(node="n1"))) as server, an_api(server) as api:
        entered, enter = [], api.lanes.enter
        monkeypatch.setattr(api.lanes, "enter", lambda lane: entered.append(lane) or enter(lane))
        await bind(api)
    assert entered == ["bind", "bind"]


@LOST
async def test_a_lost_bind_that_took_no_effect_says_so(lost):
    async with Misbehaving(lost, answers(200, a_pod())) as server, an_api(server, limits=SHORT) as api:
        with pytest.raises((OutcomeUnknown, InternalError, Timeout)) as caught:
            await bind(api)
    assert server.requests() == [BINDING, READING]
    if isinstance(caught.value, OutcomeUnknown):
        assert "binding pod default/web-0 to n1" in str(caught.value)
        assert "it is on no node so far" in str(caught.value)


@LOST
@pytest.mark.parametrize(
    ("reading", "error", "message"),
    [
        pytest.param(answers(200, a_pod(node="n2")), Conflict, 'already assigned to node "n2"', id="on another node"),
        pytest.param(answers(200, a_pod(uid="new", node="n1")), Conflict, "another has its name", id="another pod"),
        pytest.param(answers(404, status(404, "NotFound", "gone")), NotFound, "gone", id="deleted"),
        pytest.param(answers(403, status(403, "Forbidden")), OutcomeUnknown, "reading it: no", id="not readable"),
        pytest.param(
            answers(200, {**a_pod(), "spec": {"nodeName": 5}}), OutcomeUnknown, "reading it: spec.nodeName", id="bad"
        ),
    ],
)
async def test_a_lost_binds_error_has_the_pods_state(lost, reading, error, message):
    async with Misbehaving(lost, reading) as server, an_api(server, limits=SHORT) as api:
        with pytest.raises(error, match=message):
            await bind(api)
    assert server.requests() == [BINDING, READING]


async def test_a_lost_bind_with_an_unavailable_server():
    async with Misbehaving() as server:
        server.actions.extend([does(lambda seen: server._server.close(), resets), *[resets] * 9])
        async with an_api(server) as api:
            with pytest.raises(OutcomeUnknown, match="reading it"):
                await bind(api)
        assert server.requests() == [BINDING]


@pytest.mark.parametrize("refusal", [answers(429), answers(503, headers={"Retry-After": "1"})], ids=["429", "503"])
async def test_a_bind_that_was_not_processed_is_retried(refusal):
    async with Misbehaving(refusal, refusal, CREATED) as server, an_api(server) as api:
        await bind(api)
    assert server.requests() == [BINDING] * 3


async def test_a_conflict_with_our_own_earlier_try_is_success():
    async with Misbehaving(answers(429), TAKEN, answers(200, a_pod(node="n1"))) as server, an_api(server) as api:
        await bind(api)
    assert server.requests() == [BINDING, BINDING, READING]


async def test_a_conflict_with_another_client_after_a_try_is_an_error():
    async with Misbehaving(answers(429), TAKEN, answers(200, a_pod(node="n7"))) as server, an_api(server) as api:
        with pytest.raises(Conflict, match="n7"):
            await bind(api)


# --- versions


def resources(*names):
    return answers(200, {"kind": "APIResourceList", "resources": [{"name": name} for name in names]})


ABSENT = answers(404, b"404 page not found", content_type="text/plain")
V1, V1BETA2 = "/apis/resource.k8s.io/v1", "/apis/resource.k8s.io/v1beta2"


def claim_list():
    return answers(200, {"kind": "ResourceClaimList", "metadata": {"resourceVersion": "1"}, "items": []})


@pytest.mark.parametrize(
    ("v1", "v1beta2", "asked"),
    [
        pytest.param(resources("resourceclaims"), None, V1, id="newest"),
        pytest.param(ABSENT, resources("resourceclaims"), V1BETA2, id="older"),
        pytest.param(resources("deviceclasses"), resources("resourceclaims"), V1BETA2, id="group without it"),
        pytest.param(ABSENT, ABSENT, V1, id="neither"),
        pytest.param(answers(403, {}), None, V1, id="no right to know"),
    ],
)
async def test_the_served_version_is_requested(v1, v1beta2, asked):
    async with Misbehaving().at(V1, v1).at(V1BETA2, *filter(None, [v1beta2])) as server, an_api(server) as api:
        server.at(f"{asked}/resourceclaims", claim_list(), claim_list())
        await api.list(ResourceClaim)
        discoveries = len(server.seen) - 1
        await api.list(ResourceClaim)
    assert server.requests()[-1] == f"GET {asked}/resourceclaims"
    assert len(server.seen) == discoveries + 2


async def test_objects_are_written_in_the_version_that_is_served():
    path = f"{V1BETA2}/namespaces/default/resourceclaims"
    claim = ResourceClaim(metadata=ObjectMeta(name="c", namespace="default"))
    async with (
        Misbehaving().at(V1, ABSENT).at(V1BETA2, resources("resourceclaims")).at(path, answers(201, {})) as server,
        an_api(server) as api,
    ):
        await api.create(claim)
    assert server.seen[-1].json()["apiVersion"] == "resource.k8s.io/v1beta2"


async def test_kinds_of_one_version_need_no_discovery():
    page = {"kind": "StorageClassList", "metadata": {"resourceVersion": "1"}, "items": []}
    async with Misbehaving(answers(200, page)) as server, an_api(server) as api:
        await api.list(StorageClass)
    assert server.requests() == ["GET /apis/storage.k8s.io/v1/storageclasses"]


async def test_serves():
    async with (
        Misbehaving(resources("pods", "pods/status"), resources("poddisruptionbudgets"), ABSENT, ABSENT) as server,
        an_api(server) as api,
    ):
        assert await api.serves(Pod)
        assert await api.serves(PodDisruptionBudget)
        assert not await api.serves(ResourceSlice)
    assert server.requests() == ["GET /api/v1", "GET /apis/policy/v1", f"GET {V1}", f"GET {V1BETA2}"]


async def test_discovery_is_cached_and_absence_only_for_a_while():
    time = VirtualTime()
    async with Misbehaving(ABSENT, ABSENT) as server, an_api(server, time=time) as api:
        assert not await api.serves(ResourceSlice)
        assert not await api.serves(ResourceSlice)
        assert len(server.seen) == 2
        time.now += ABSENCE_KEPT
        server.actions.extend([resources("resourceslices")])
        assert await api.serves(ResourceSlice)
        time.now += 10 * ABSENCE_KEPT
        assert await api.serves(ResourceSlice)
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(answers(200, b"<html>"), Unreachable, id="garbage"),
        pytest.param(answers(410, b""), ApiError, id="any other refusal"),
    ],
)
async def test_failed_discovery_is_not_taken_for_absence(answer, error):
    async with Misbehaving(answer, ABSENT, ABSENT) as server, an_api(server) as api:
        with pytest.raises(error):
            await api.serves(ResourceSlice)
        assert not await api.serves(ResourceSlice)


# -- leaders only


@pytest.mark.parametrize(
    ("call", "is_sent"),
    [
        pytest.param(lambda api: bind(api), False, id="bind"),
        pytest.param(lambda api: api.delete(Pod, "web-0", namespace="default"), False, id="delete"),
        pytest.param(
            lambda api: api.patch(Pod, "web-0", {}, type_="merge", namespace="default", subresource="status"),
            False,
            id="awaited patch",
        ),
        pytest.param(
            lambda api: api.patch(
                Pod, "web-0", {}, type_="merge", namespace="default", subresource="status", lane="status"
            ),
            True,
            id="status",
        ),
        pytest.param(lambda api: api.get(Pod, "web-0", namespace="default"), True, id="read"),
    ],
)
async def test_a_standby_writes_nothing(call, is_sent):
    async with Misbehaving(answers(200, a_pod())) as server, an_api(server) as api:
        api._transport.may_change = lambda: False
        if is_sent:
            await call(api)
        else:
            with pytest.raises(Unreachable, match="does not lead any more"):
                await call(api)
        assert bool(server.seen) is is_sent


async def test_leadership_lost_while_dialing_sends_nothing(monkeypatch):
    leads = [True]
    dial = connection_pool.dial

    async def slow_dial(*args):
        await dial(*args)
        leads.clear()

    monkeypatch.setattr(connection_pool, "dial", slow_dial)
    async with Misbehaving(CREATED) as server, an_api(server) as api:
        api._transport.may_change = lambda: bool(leads)
        with pytest.raises(Unreachable, match="does not lead any more"):
            await bind(api)
        assert not server.seen
        leads.append(True)
        await bind(api)
        assert server.connections == 1


async def test_objects_in_a_list_have_the_version_that_is_served():
    """A list says the version of its items once, and they do not say it at all."""
    item = {"metadata": {"name": "c", "namespace": "default"}}
    page = {"kind": "ResourceClaimList", "metadata": {"resourceVersion": "1"}, "items": [item]}
    server = Misbehaving().at(V1, ABSENT).at(V1BETA2, resources("resourceclaims"))
    async with server, an_api(server) as api:
        server.at(f"{V1BETA2}/resourceclaims", answers(200, page))
        found = await api.list(ResourceClaim)
    assert [claim.api_version for claim in found.items] == ["resource.k8s.io/v1beta2"]
