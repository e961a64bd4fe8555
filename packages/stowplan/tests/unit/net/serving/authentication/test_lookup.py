"""The cluster's authentication ConfigMap, read at the start and watched."""

import asyncio
import json
import logging
from contextlib import asynccontextmanager

import pytest

from stowplan.kube.api.api_errors import Forbidden, NotFound
from stowplan.kube.api.port import Unreachable
from stowplan.kube.timing.times import ManualTime, settle
from stowplan.net.serving.authentication.lookup import (
    CLIENT_CA,
    NAME,
    NAMESPACE,
    PROXY_CA,
    ClusterAuthentication,
    LookupFailed,
)
from stowplan.net.serving.authentication.request_header import RequestHeaders
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from support.api.embedded import Api as Cluster
from support.http.client_chains import authority
from support.observing.log_lines import logged

ONE, OTHER = authority("one"), authority("other")
BOTH = frozenset((CLIENT_CA, PROXY_CA))
LISTS = {
    "requestheader-username-headers": ["X-Remote-User"],
    "requestheader-uid-headers": ["X-Remote-Uid"],
    "requestheader-group-headers": ["X-Remote-Group", "X-G"],
    "requestheader-extra-headers-prefix": ["X-Remote-Extra-"],
    "requestheader-allowed-names": ["front-proxy"],
}
HEADERS = RequestHeaders(
    usernames=("X-Remote-User",),
    uids=("X-Remote-Uid",),
    groups=("X-Remote-Group", "X-G"),
    extra_prefixes=("X-Remote-Extra-",),
    allowed_names=("front-proxy",),
)


def data(client_ca=ONE, proxy_ca=OTHER, **changes):
    lists = {key: json.dumps(value) for key, value in LISTS.items()}
    return {CLIENT_CA: client_ca.pem.decode(), PROXY_CA: proxy_ca.pem.decode(), **lists, **changes}


class World:
    def __init__(self):
        self.cluster = Cluster()
        self.time = ManualTime()
        self.api = EmbeddedApi(self.cluster.server)
        self.found = self.seeking(BOTH)

    def seeking(self, wanted):
        return ClusterAuthentication(self.api, times=self.time, wanted=wanted)

    def write(self, content):
        self.cluster.create("configmaps", {"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": content})

    def change(self, **content):
        self.cluster.patch("configmaps", NAMESPACE, NAME, {"data": content})


@pytest.fixture
def world():
    return World()


@pytest.fixture
async def following(world):
    """The watch, started before the ConfigMap exists."""
    task = asyncio.create_task(world.found.follow())
    await settle()
    yield task
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def names(bundle):
    return [one.subject.rfc4514_string() for one in bundle.current()]


def state(found):
    return names(found.client_authorities), names(found.proxy_authorities), found.headers()


async def test_read_at_the_start(world):
    world.write(data())
    await world.found.look(seconds=5)
    assert state(world.found) == (["CN=one"], ["CN=other"], HEADERS)


async def test_only_requested_data_is_read(world):
    world.write(data())
    found = world.seeking(frozenset((CLIENT_CA,)))
    await found.look(seconds=5)
    assert state(found) == (["CN=one"], [], RequestHeaders())
    found = world.seeking(frozenset((PROXY_CA,)))
    await found.look(seconds=5)
    assert state(found) == ([], ["CN=other"], HEADERS)


async def test_a_missing_config_map_is_no_error(world, caplog):
    await world.found.look(seconds=5)
    assert state(world.found) == ([], [], RequestHeaders())
    assert not caplog.records


async def test_changes_are_watched(world, following, caplog):
    world.write(data())
    await settle()
    assert state(world.found) == (["CN=one"], ["CN=other"], HEADERS)
    world.change(**{CLIENT_CA: OTHER.pem.decode(), "requestheader-allowed-names": "[]"})
    await settle()
    assert names(world.found.client_authorities) == ["CN=other"]
    assert world.found.headers().allowed_names == ()
    world.cluster.delete("configmaps", NAMESPACE, NAME)
    await settle()
    assert names(world.found.client_authorities) == ["CN=other"]
    assert not caplog.records


async def test_other_objects_are_ignored(world, following):
    for name, namespace in ((NAME, "default"), ("other", NAMESPACE)):
        world.cluster.create("configmaps", {"metadata": {"name": name, "namespace": namespace}, "data": data()})
    await settle()
    assert state(world.found) == ([], [], RequestHeaders())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(
            {CLIENT_CA: None},
            f'missing content for CA bundle "client-ca::{NAMESPACE}::{NAME}::client-ca-file"',
            id="no authorities",
        ),
        pytest.param({CLIENT_CA: "garbage"}, "data does not contain any valid RSA or ECDSA", id="no bundle"),
        pytest.param({"requestheader-group-headers": "[1]"}, "requestheader-group-headers is not a JSON", id="numbers"),
        pytest.param({"requestheader-allowed-names": "a"}, "requestheader-allowed-names is not a JSON", id="no JSON"),
    ],
)
async def test_invalid_data_keeps_the_previous(world, following, caplog, change, complaint):
    world.write(data())
    await settle()
    world.change(**change)
    await settle()
    assert state(world.found) == (["CN=one"], ["CN=other"], HEADERS)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert f"{NAMESPACE}/{NAME} failed with : " in record.getMessage()
    assert complaint in record.getMessage().replace('\\"', '"')


async def test_missing_lists_are_empty(world):
    world.write(data(**{"requestheader-username-headers": "", "requestheader-uid-headers": "null"}))
    await world.found.look(seconds=5)
    assert (world.found.headers().usernames, world.found.headers().uids) == ((), ())


class Troubled:
    def __init__(self, error=None):
        self.error = error

    async def get(self, kind, name, *, namespace=""):
        if self.error is None:
            await asyncio.Event().wait()
        raise self.error


async def test_missing_rights_are_explained(caplog):
    error = Forbidden("configmaps is forbidden")
    found = ClusterAuthentication(Troubled(error), times=ManualTime(), wanted=BOTH)
    with pytest.raises(LookupFailed, match="configmaps is forbidden"):
        await found.look(seconds=5)
    assert caplog.messages == [
        "Unable to get configmap/extension-apiserver-authentication in kube-system.  Usually fixed by 'kubectl create "
        "rolebinding -n kube-system ROLEBINDING_NAME --role=extension-apiserver-authentication-reader "
        "--serviceaccount=YOUR_NS:YOUR_SA'"
    ]


class NotYet:
    """Refuses to list until told otherwise; other methods work."""

    def __init__(self, api, error):
        self.api, self.error = api, error

    def __getattr__(self, name):
        return getattr(self.api, name)

    async def list(self, *args, **options):
        if self.error is not None:
            raise self.error
        return await self.api.list(*args, **options)


@pytest.mark.parametrize(
    "error", [Unreachable("gone"), Forbidden("no"), NotFound("no")], ids=lambda e: type(e).__name__
)
async def test_the_watch_retries_until_the_server_is_available(world, error, caplog):
    world.write(data())
    world.api = NotYet(world.api, error)
    found = world.seeking(BOTH)
    task = asyncio.create_task(found.follow())
    await world.time.advance(5)
    assert state(found) == ([], [], RequestHeaders())
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    world.api.error = None
    await world.time.advance(60)
    assert state(found) == (["CN=one"], ["CN=other"], HEADERS)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# --- log

CONTROLLER = "RequestHeaderAuthRequestController"


@asynccontextmanager
async def followed(world):
    task = asyncio.create_task(world.found.follow())
    try:
        await settle()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_start_is_logged(world):
    names = [bundle.name for bundle in (world.found.client_authorities, world.found.proxy_authorities)]
    world.write(data())
    with logged() as found:
        async with followed(world):
            pass
    assert found.of("lookup") == [
        *[(0, "Starting controller", {"name": name}) for name in names],
        (0, f"Starting {CONTROLLER}", {}),
        (0, "Waiting for caches to sync", {}),
        (2, f"Loaded a new request header values for {CONTROLLER}", {}),
        (0, "Caches are synced", {}),
        *[(0, "Shutting down controller", {"name": name}) for name in names],
        (0, f"Shutting down {CONTROLLER}", {}),
    ]


async def test_changed_headers_are_logged(world):
    world.write(data())
    with logged(2) as found:
        async with followed(world):
            world.change(unrelated="x")
            await settle()
    assert sum("request header" in line[1] for line in found.of("lookup")) == 1
