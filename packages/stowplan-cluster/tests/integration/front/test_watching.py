"""Watches: events, their form, and how watches end."""

from __future__ import annotations

import asyncio
import json
import socket
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.apiserver.selection import selection_of
from stowplan_cluster.front.request_options import WatchOptions
from stowplan_cluster.front.responses import PLAIN, Renderer
from stowplan_cluster.front.watching import WatchSource, WatchStream

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
WATCH = f"{CONFIGMAPS}?watch=1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"


def config_map(name: str, size: int = 1, **labels: str):
    return {"metadata": {"name": name, "labels": labels}, "data": {"a": "x" * size}}


async def version_of(client) -> str:
    return (await client.get(f"{CONFIGMAPS}?limit=1")).json["metadata"]["resourceVersion"]


async def relabel(client, name: str, **labels: str | None) -> None:
    patch = {"metadata": {"labels": labels}}
    reply = await client.request("PATCH", f"{CONFIGMAPS}/{name}", patch, Content_Type="application/merge-patch+json")
    assert reply.status == 200


@pytest.mark.parametrize("start", ["", "&resourceVersion=0"])
async def test_initial_events_come_first(client, start):
    await client.create(CONFIGMAPS, config_map("a"))
    async with client.watching(f"{WATCH}{start}") as watching:
        assert watching.response.headers["Content-Type"] == "application/json"
        assert watching.response.headers["Transfer-Encoding"] == "chunked"
        assert await watching.told(1) == [("ADDED", "a")]
        await client.create(CONFIGMAPS, config_map("b"))
        await relabel(client, "a", x="y")
        await client.request("DELETE", f"{CONFIGMAPS}/a")
        assert await watching.told(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "a")]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/watch/namespaces/default/configmaps/a",
        f"{CONFIGMAPS}/a?watch=1",
        f"{WATCH}&fieldSelector=metadata.name%3Da",
    ],
)
async def test_watching_one_object(client, path):
    if path.startswith(f"{CONFIGMAPS}/a"):
        # Parity: with the path of an object, `watch` is ignored and the object is returned.
        await client.create(CONFIGMAPS, config_map("a"))
        assert (await client.get(path)).json["kind"] == "ConfigMap"
        return
    await client.create(CONFIGMAPS, config_map("b"))
    await client.create(CONFIGMAPS, config_map("a"))
    async with client.watching(path) as watching:
        assert await watching.told(1) == [("ADDED", "a")]


async def test_columns_of_tables_are_sent_once(client):
    await client.create(CONFIGMAPS, config_map("a"))
    async with client.watching(WATCH, Accept=TABLE) as watching:
        first = await watching.next()
        await client.create(CONFIGMAPS, config_map("b"))
        second = await watching.next()
    assert first["object"]["kind"] == second["object"]["kind"] == "Table"
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][0] == "b"


async def test_metadata_alone(client):
    await client.create(CONFIGMAPS, config_map("a"))
    async with client.watching(WATCH, Accept=PARTIAL) as watching:
        told = (await watching.next())["object"]
    assert (told["kind"], told["metadata"]["name"]) == ("PartialObjectMetadata", "a")
    assert "data" not in told


async def test_watch_events_have_the_requested_version(client):
    event = {"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"}, "reason": "R", "type": "Normal"}
    event |= {"eventTime": "2026-01-01T00:00:00.000000Z", "action": "A", "note": "N"}
    event |= {"reportingController": "c/d", "reportingInstance": "i"}
    await client.create("/apis/events.k8s.io/v1/namespaces/default/events", event)
    async with client.watching("/api/v1/namespaces/default/events?watch=1") as watching:
        told = (await watching.next())["object"]
    assert (told["apiVersion"], told["message"], told["involvedObject"]["name"]) == ("v1", "N", "p")


async def test_bookmarks_every_minute_and_at_the_end(client):
    async with client.watching(f"{WATCH}&allowWatchBookmarks=true&timeoutSeconds=150") as watching:
        for _ in range(2):
            await client.create("/api/v1/namespaces", {"metadata": {"generateName": "n-"}})
            await client.sleeper.advance(60)
            mark = await watching.next()
            assert mark["type"] == "BOOKMARK"
            assert mark["object"] == {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(client.server.store.version)},
            }
        await client.sleeper.advance(30)
        assert (await watching.next())["type"] == "BOOKMARK"
        assert await watching.next() is None


async def test_no_bookmarks_unless_requested(client):
    async with client.watching(f"{WATCH}&timeoutSeconds=150&resourceVersion={await version_of(client)}") as watching:
        await client.sleeper.advance(150)
        assert await watching.next() is None


async def test_watches_without_a_timeout_end(client):
    async with client.watching(f"{WATCH}&resourceVersion={await version_of(client)}") as watching:
        await client.sleeper.advance(1800)
        assert await watching.next() is None


async def test_a_watch_list_marks_the_end_of_the_list(client):
    await client.create(CONFIGMAPS, config_map("a"))
    path = f"{WATCH}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with client.watching(path) as watching:
        assert await watching.told(1) == [("ADDED", "a")]
        end = await watching.next()
        assert end["object"]["metadata"] == {
            "resourceVersion": str(client.server.store.version),
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
    async with client.watching(path, Accept=TABLE) as watching:
        await watching.next()
        end = (await watching.next())["object"]
        assert (end["kind"], end["rows"][0]["object"]["kind"]) == ("Table", "PartialObjectMetadata")
        assert "k8s.io/initial-events-end" in end["rows"][0]["object"]["metadata"]["annotations"]


async def test_an_expired_version_is_an_error_event(client):
    client.server.store._history_changes = 4
    for number in range(10):
        await client.create(CONFIGMAPS, config_map(f"c{number}"))
    async with client.watching(f"{WATCH}&resourceVersion=1") as watching:
        assert watching.response.status == 200
        error = await watching.next()
        assert error["type"] == "ERROR"
        assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")
        assert await watching.next() is None


@pytest.mark.parametrize("query", ["resourceVersion=x", "labelSelector=a%20b%20c", "fieldSelector=spec.shoes%3D1"])
async def test_invalid_watches(client, query):
    assert (await client.get(f"{WATCH}&{query}")).status == 400


async def test_forms_that_cannot_be_streamed(client):
    as_list = PARTIAL.partition(",")[0].replace("PartialObjectMetadata", "PartialObjectMetadataList")
    assert (await client.get(WATCH, Accept=as_list)).status == 406
    await client.create(CONFIGMAPS, config_map("a"))
    for accept in ("application/yaml", "application/json;pretty=1"):
        async with client.watching(WATCH, Accept=accept) as watching:
            assert await watching.told(1) == [("ADDED", "a")]


async def test_stopping_the_server_ends_watches(serving):
    async with serving() as client, client.watching(WATCH) as watching:
        await client.front.stop()
        assert await watching.next() is None
        assert client.sleeper.sleeping == 0


async def test_a_disconnected_reader_is_removed(client):
    async with client.watching(WATCH):
        assert client.front.metrics.watches == 1
        assert client.server.store._tables["configmaps"].history.asleep
    while client.front.metrics.watches:
        await client.sleeper.settle()
    assert not client.server.store._tables["configmaps"].history.asleep
    assert client.sleeper.sleeping == 0


async def test_a_reader_that_does_not_read_is_disconnected(client):
    made = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("c", 500_000)}
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect(("127.0.0.1", int(client.front.url.rpartition(":")[2])))
        head = f"GET {WATCH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer the-administrators-token\r\n\r\n"
        peer.sendall(head.encode())
        while not client.front.metrics.watches:
            await client.sleeper.settle()
        sleeping = client.sleeper.sleeping
        for number in range(30):
            made["metadata"]["name"] = f"c{number}"
            resource = client.server.catalogue.find("", "v1", "configmaps")
            client.server.registry.create(resource, "default", json.loads(json.dumps(made)))
            await client.sleeper.settle()
        # It waits for the buffer to drain, with a bound, and reads no more from the store.
        assert client.sleeper.sleeping == sleeping + 1
        protocol = next(iter(client.front._http.connections))
        assert protocol.transport.get_write_buffer_size() < 4 * 1024 * 1024
        await client.sleeper.advance(60)
        assert client.front.metrics.watches == 0
        assert client.front.metrics.slow_watchers == 1
    assert (await client.get("/livez")).text == "ok"


# Without sockets


def a_server(**limits: int) -> ApiServer:
    server = ApiServer(clock=lambda: 1_800_000_000.0, random=Random(1))
    server.store._history_changes = limits.get("history", 20_000)
    return server


def a_source(server: ApiServer, labels: str = "", **options) -> WatchSource:
    resource = server.catalogue.find("", "v1", "configmaps")
    return WatchSource(
        registry=server.registry,
        renderer=Renderer(server.registry),
        resource=resource,
        selection=selection_of(resource, "default", labels),
        form=PLAIN,
        options=WatchOptions(**options),
        since=server.store.version,
    )


def lines_of(source: WatchSource) -> list[dict]:
    found = []
    while lines := source.take():
        found += [json.loads(line) for line in lines.splitlines()]
    return found


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["red", "blue", "delete"])),
    max_size=25,
)


@given(before=STEPS, after=STEPS)
def test_replaying_a_watch_gives_the_list(before, after):
    server = a_server()
    resource = server.catalogue.find("", "v1", "configmaps")

    def apply(steps) -> None:
        for name, what in steps:
            exists = server.store.get("configmaps", "default", name) is not None
            made = config_map(name, team=what)
            if what == "delete":
                if exists:
                    server.registry.delete(resource, "default", name)
            elif exists:
                server.registry.update(resource, "default", name, made)
            else:
                server.registry.create(resource, "default", made)

    apply(before)
    source = a_source(server, "team=red", initial_events=True)
    apply(after)
    seen: dict[str, dict] = {}
    for event in lines_of(source):
        name, type_ = event["object"]["metadata"]["name"], event["type"]
        # ADDED only for new objects, other types only for known ones.
        assert (type_ == "ADDED") is (name not in seen)
        if type_ == "DELETED":
            del seen[name]
        else:
            seen[name] = event["object"]
    stored = server.store.list("configmaps", "default")
    assert seen == {one.name: one.to_dict() for one in stored if one.labels.get("team") == "red"}
    source.close()


def test_one_turn_reads_a_bounded_amount():
    server = a_server()
    resource = server.catalogue.find("", "v1", "configmaps")
    for number in range(40):
        server.registry.create(resource, "default", config_map(f"c{number}", 100_000))
    source = a_source(server, initial_events=True)
    first = source.take()
    assert 60_000 < len(first) < 500_000
    assert len(lines_of(source)) + first.count(b"\n") == 40
    assert source.count == 40
    source.close()


async def test_a_stream_writes_nothing_without_events():
    server = a_server()
    resource = server.catalogue.find("", "v1", "configmaps")
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    never = asyncio.get_running_loop().create_future()
    stream = WatchStream(
        a_source(server), write=write, sleep=lambda _: asyncio.shield(never), timeout=60, bookmark_interval=0
    )
    running = asyncio.ensure_future(stream.run())
    await asyncio.sleep(0)
    assert written == []
    for name in ("a", "b", "c"):
        server.registry.create(resource, "default", config_map(name))
    for _ in range(5):
        await asyncio.sleep(0)
    # Events of the same moment are sent together.
    assert [data.count(b"\n") for data in written] == [3]
    stream.stop()
    await running
    never.cancel()
