"""The HTTP client against API servers, for each kind of call that the scheduler makes."""

import asyncio
import re
from contextlib import asynccontextmanager

import msgspec
import pytest

from stowplan.kube.api.api_errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound
from stowplan.kube.api.types import (
    Container,
    DeviceClass,
    Event,
    Lease,
    LeaseSpec,
    Node,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodSchedulingGate,
    PodSpec,
)
from stowplan.kube.config import ClientConnection
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.http.user_agent import user_agent
from stowplan.net.client.http_api import HttpApi
from stowplan.net.client.list_watch import ListWatch

TIME = "2027-07-07T07:07:07.070707Z"
SECONDS = 20


@pytest.fixture
async def api(api_server):
    connection = ClusterFlags(kubeconfig=str(api_server.kubeconfig)).connect()
    agent = user_agent(command="stowplan", version="0.1.0", purpose="test")
    async with HttpApi.open(connection, client_settings=ClientConnection(qps=-1), agent=agent) as api:
        yield api


def a_pod(namespace, name="p", **spec):
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace, labels={"app": name}),
        spec=PodSpec(containers=(Container(name="c", image="i"),), **spec),
    )


class Account:
    def __init__(self):
        self.changes = []
        self.reports = []
        self._more = asyncio.Event()

    def deliver(self, changes):
        self.changes += changes
        self._more.set()

    async def until_deleted(self):
        async with asyncio.timeout(SECONDS):
            while self.changes[-1].new is not None:
                self._more.clear()
                await self._more.wait()


@asynccontextmanager
async def following(api, kind, **selection):
    account = Account()
    watch = ListWatch(api, kind, times=REAL_TIMES, report=account.reports.append, **selection)
    task = asyncio.create_task(watch.run(account.deliver))
    try:
        async with asyncio.timeout(SECONDS):
            await watch.synced.wait()
        yield account
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert account.reports == []


# --- pods: create, bind, patch, delete


async def test_a_pod_is_bound_once_and_by_uid(api, namespace):
    made = await api.create(a_pod(namespace))
    bind = {"namespace": namespace, "name": "p", "node": "n1"}
    with pytest.raises(Conflict, match="UID in precondition: another"):
        await api.bind(**bind, uid="another")
    await api.bind(**bind, uid=made.metadata.uid, annotations={"a": "b"})
    bound = await api.get(Pod, "p", namespace=namespace)
    assert (bound.spec.node_name, bound.metadata.annotations) == ("n1", {"a": "b"})
    assert [(one.type, one.status) for one in bound.status.conditions] == [("PodScheduled", "True")]
    for node in ("n1", "n2"):
        with pytest.raises(Conflict, match=r'pods/binding "p": pod p is already assigned to node "n1"'):
            await api.bind(**{**bind, "node": node}, uid=made.metadata.uid)
    with pytest.raises(NotFound, match='pods "q" not found'):
        await api.bind(**{**bind, "name": "q"}, uid="u")


async def test_a_gated_pod_is_not_bound(api, namespace):
    made = await api.create(a_pod(namespace, scheduling_gates=(PodSchedulingGate(name="example.com/wait"),)))
    with pytest.raises(Conflict, match=r"has non-empty \.spec\.schedulingGates"):
        await api.bind(namespace=namespace, name="p", uid=made.metadata.uid, node="n1")


async def test_patches(api, namespace):
    await api.create(a_pod(namespace))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    status = {"conditions": [condition], "nominatedNodeName": "n1"}
    what = {"kind": Pod, "name": "p", "namespace": namespace}
    patched = await api.patch(**what, patch={"status": status}, type_="strategic", subresource="status", lane="status")
    assert [(one.type, one.reason) for one in patched.status.conditions] == [("PodScheduled", "Unschedulable")]
    assert patched.status.nominated_node_name == "n1"
    merged = await api.patch(**what, patch={"metadata": {"labels": {"app": None, "x": "y"}}}, type_="merge")
    assert merged.metadata.labels == {"x": "y"}
    removed = await api.patch(**what, patch=[{"op": "remove", "path": "/metadata/labels/x"}], type_="json")
    assert removed.metadata.labels == {}
    with pytest.raises(Invalid, match="spec: Forbidden: pod updates may not change fields other than"):
        await api.patch(**what, patch={"spec": {"restartPolicy": "Never"}}, type_="merge")
    with pytest.raises(NotFound):
        await api.patch(Pod, "q", {}, namespace=namespace, type_="merge")


async def test_deleting(api, namespace):
    made = await api.create(a_pod(namespace))
    with pytest.raises(Conflict, match="UID in the precondition"):
        await api.delete(Pod, "p", namespace=namespace, uid="another")
    await api.delete(Pod, "p", namespace=namespace, uid=made.metadata.uid, grace_period_seconds=0)
    with pytest.raises(NotFound, match=r'^pods "p" not found$') as caught:
        await api.get(Pod, "p", namespace=namespace)
    details = caught.value.status.details
    assert (details.name, details.kind) == ("p", "pods")


async def test_an_invalid_object_is_refused_with_its_field(api, namespace):
    with pytest.raises(Invalid) as caught:
        await api.create(a_pod(namespace, name="No_Name"))
    assert "metadata.name" in {cause.field for cause in caught.value.status.details.causes}


# --- events and leases


async def test_an_event_is_created_once(api, namespace):
    event = Event(
        metadata=ObjectMeta(name="p.1", namespace=namespace),
        event_time=TIME,
        reporting_controller="stowplan",
        reporting_instance="stowplan-0",
        action="Binding",
        reason="Scheduled",
        regarding=ObjectReference(kind="Pod", namespace=namespace, name="p"),
        note="Successfully assigned",
        type="Normal",
    )
    assert (await api.create(event, lane="event")).note == event.note
    with pytest.raises(AlreadyExists):
        await api.create(event, lane="event")
    assert [one.reason for one in (await api.list(Event, namespace=namespace)).items] == ["Scheduled"]


async def test_a_lease_changes_hands_once(api, namespace):
    spec = LeaseSpec(holder_identity="a", lease_duration_seconds=15, acquire_time=TIME, renew_time=TIME)
    lease = await api.create(Lease(metadata=ObjectMeta(name="l", namespace=namespace), spec=spec))
    assert lease.spec == spec

    def held_by(holder):
        return msgspec.structs.replace(lease, spec=msgspec.structs.replace(spec, holder_identity=holder))

    updated = await api.update(held_by("b"))
    assert updated.metadata.resource_version != lease.metadata.resource_version
    with pytest.raises(Conflict, match="the object has been modified"):
        await api.update(held_by("c"))
    assert (await api.get(Lease, "l", namespace=namespace)).spec.holder_identity == "b"


# --- lists and watches


async def test_pages_and_selectors(api, namespace):
    for number in range(5):
        made = await api.create(a_pod(namespace, f"p{number}"))
        if number % 2:
            await api.bind(namespace=namespace, name=f"p{number}", uid=made.metadata.uid, node="n1")
    names, versions, token = [], set(), ""
    while True:
        page = await api.list(Pod, namespace=namespace, limit=2, continue_=token)
        names += [pod.metadata.name for pod in page.items]
        versions.add(page.resource_version)
        token = page.continue_
        if not token:
            break
    assert names == ["p0", "p1", "p2", "p3", "p4"]
    assert len(versions) == 1
    selected = await api.list(
        Pod, namespace=namespace, label_selector="app in (p1,p2,p3)", field_selector="spec.nodeName=n1"
    )
    assert [pod.metadata.name for pod in selected.items] == ["p1", "p3"]
    with pytest.raises(BadRequest, match="continue key is not valid"):
        await api.list(Pod, namespace=namespace, limit=2, continue_="nonsense")


async def test_watching_changes(api, namespace):
    before = await api.create(a_pod(namespace, "before"))
    async with following(api, Pod, namespace=namespace) as account:
        assert [change.new for change in account.changes] == [before]
        made = await api.create(a_pod(namespace))
        await api.bind(namespace=namespace, name="p", uid=made.metadata.uid, node="n1")
        await api.delete(Pod, "before", namespace=namespace, grace_period_seconds=0)
        await account.until_deleted()
    changes = account.changes[1:]
    assert (changes[0].old, changes[0].new) == (None, made)
    assert (changes[1].old, changes[1].new.spec.node_name) == (made, "n1")
    assert changes[-1].old.metadata.uid == before.metadata.uid


async def test_a_watch_resumes_from_its_version_and_ends_in_time(api, namespace):
    first = await api.create(a_pod(namespace, "first"))
    await api.create(a_pod(namespace, "second"))
    watched = api.watch(Pod, namespace=namespace, resource_version=first.metadata.resource_version, timeout_seconds=1)
    async with asyncio.timeout(SECONDS):
        events = [event async for event in watched]
    assert [event.object.metadata.name for event in events if event.type == "ADDED"] == ["second"]


async def test_an_object_that_no_longer_matches_is_deleted_for_the_watcher(api, namespace):
    made = await api.create(a_pod(namespace))
    async with following(api, Pod, namespace=namespace, field_selector="spec.nodeName=") as account:
        await api.bind(namespace=namespace, name="p", uid=made.metadata.uid, node="n1")
        await account.until_deleted()
    assert [(change.old, change.new) for change in account.changes] == [(None, made), (made, None)]


async def test_cluster_scoped_kinds(api, namespace):
    made = await api.create(Node(metadata=ObjectMeta(name=namespace, labels={"test": namespace})))
    try:
        listed = await api.list(Node, label_selector=f"test={namespace}")
        assert [node.metadata.uid for node in listed.items] == [made.metadata.uid]
        with pytest.raises(AlreadyExists, match=re.escape(f'nodes "{namespace}" already exists')):
            await api.create(Node(metadata=ObjectMeta(name=namespace)))
    finally:
        await api.delete(Node, namespace)


@pytest.mark.parametrize("kind", [Pod, Node, Lease, Event, DeviceClass])
async def test_kinds_that_every_server_has(api, kind):
    assert await api.serves(kind)
