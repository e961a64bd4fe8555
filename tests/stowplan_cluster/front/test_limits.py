"""Abuse: malformed, oversized, slow or too many requests."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from contextlib import suppress

import pytest

from stowplan_cluster.apiserver import store

AUTHORIZATION = b"Authorization: Bearer the-administrators-token\r\n"
CONFIGMAPS = b"/api/v1/namespaces/default/configmaps"


def head(method: bytes = b"GET", path: bytes = b"/api/v1/nodes", extra: bytes = b"") -> bytes:
    return method + b" " + path + b" HTTP/1.1\r\nHost: x\r\n" + AUTHORIZATION + extra + b"\r\n"


def post(extra: bytes) -> bytes:
    return head(b"POST", CONFIGMAPS, b"Content-Type: application/json\r\n" + extra)


@pytest.fixture(autouse=True)
def no_tracebacks(caplog):
    """No request causes an error in the log."""
    caplog.set_level(logging.INFO)
    yield
    # The log of the test itself; by now caplog has that of the teardown.
    records = [*caplog.get_records("call"), *caplog.records]
    assert [record.getMessage() for record in records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\nnonsense\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /api\r\n\r\n",
        b"GET /api HTTP/9.9\r\n\r\n",
        b"GET /api SMTP/1.1\r\n\r\n",
        b"FETCH /api HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /api HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /api HTTP/1.1\r\n: no name\r\n\r\n",
        b"GET /api HTTP/1.1\r\nBad Name: x\r\n\r\n",
        b"GET /api HTTP/1.1\r\nX: a\x00b\r\n\r\n",
        b"POST /api HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /api HTTP/1.1\r\nContent-Length: ten\r\n\r\n",
        b"POST /api HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /api HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /api/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /api HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /api HTTP/1.1\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(500)) + b"\r\n",
        head(b"POST", CONFIGMAPS, b"Content-Length: 1\r\nContent-Encoding: \x80\r\n") + b"{",
        head(b"POST", CONFIGMAPS, b"Content-Length: 1\r\nContent-Type: \xff\r\n") + b"{",
        head(extra=b"User-Agent: \xfe\r\n"),
        head(extra=b"Impersonate-User: \xff\r\n"),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=lambda sent: repr(sent[:40]),
)
async def test_malformed_requests_get_a_status(client, sent):
    async with client.raw() as raw:
        raw.send(sent)
        reply = await raw.reply()
    assert 400 <= reply.status < 500
    assert reply.headers["Content-Type"].startswith("application/json")
    assert (reply.json["kind"], reply.json["code"]) == ("Status", reply.status)
    assert (await client.get("/livez")).text == "ok"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (b"/api/v1/nodes/..", 400),
        (b"/api/v1/nodes/%2e%2e", 400),
        (b"/api/v1/namespaces/../nodes/n", 400),
        (b"/../../etc/passwd", 404),
        (b"/api/v1/nodes/a%2Fb", 400),
        (b"/api/v1/nodes/%00", 400),
        (b"/api/v1/nodes/%zz", 400),
        (b"/api/v1/nodes/%", 400),
        (b"/api/v1//nodes", 400),
        (b"//api/v1/nodes", 404),
        (b"/api/v1/nodes/n//status", 400),
        (b"/api/v1/nodes/n/status/more", 404),
        (b"/openapi/v3/../../x", 404),
        (b"http://elsewhere/api/v1/nodes", 400),
        (b"*", 400),
    ],
)
async def test_unusual_paths(client, path, status):
    async with client.raw() as raw:
        raw.send(head(path=path))
        reply = await raw.reply()
    assert (reply.status, reply.json["status"]) == (status, "Failure")


@pytest.mark.parametrize("extra", [b"Content-Length: 104857600\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_a_body_of_100_mb_is_not_read_to_its_end(client, extra):
    async with client.raw() as raw:
        raw.send(post(extra))
        sent = 0
        answer = asyncio.ensure_future(raw.reply())
        block = b"x" * 65536 if b"Length" in extra else b"10000\r\n" + b"x" * 65536 + b"\r\n"
        while not answer.done():
            raw.send(block)
            await raw.drain()
            sent += len(block)
            await asyncio.sleep(0)
        reply = await answer
    assert sent < 32 * 1024 * 1024
    assert (reply.status, reply.json["reason"]) == (413, "RequestEntityTooLarge")
    assert reply.json["message"] == "Request entity too large: limit is 3145728"
    assert reply.headers["Connection"] == "close"
    assert (await client.get("/livez")).text == "ok"


async def test_a_body_of_the_limit_is_read(serving):
    async with serving(max_body_bytes=1000) as client:
        body = b'{"metadata":{"name":"c"},"data":{"a":"%b"}}'
        fits = body % (b"x" * (1000 - len(body) + 2))
        assert (await client.post(CONFIGMAPS.decode(), fits, Content_Type="application/json")).status == 201
        assert (await client.post(CONFIGMAPS.decode(), fits + b" ", Content_Type="application/json")).status == 413


async def test_unauthenticated_requests_are_refused_before_the_body(client):
    async with client.raw() as raw:
        raw.send(b"POST " + CONFIGMAPS + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n")
        assert (await raw.reply()).status == 401


async def test_expect_100_continue(client):
    body = b'{"metadata":{"name":"c"}}'
    async with client.raw() as raw:
        raw.send(post(b"Expect: 100-continue\r\nContent-Length: %d\r\n" % len(body)))
        assert (await raw.reply()).status == 100
        raw.send(body)
        assert (await raw.reply()).status == 201
        raw.send(post(b"Expect: 100-continue\r\nContent-Length: 99999999\r\n"))
        assert (await raw.reply()).status == 413


async def wait_for_body(client):
    """The head has been received, and the server waits for the body."""
    while not client.front.metrics.inflight["mutating"]:
        await client.sleeper.settle()
    await client.sleeper.settle()


async def test_a_body_that_never_arrives(client):
    async with client.raw() as raw:
        raw.send(post(b"Content-Length: 100\r\n") + b"{")
        await wait_for_body(client)
        assert client.front.metrics.inflight["mutating"] == 1
        await client.sleeper.advance(60)
        reply = await raw.reply()
    assert (reply.status, reply.json["reason"]) == (504, "Timeout")
    assert client.front.metrics.inflight["mutating"] == 0


async def test_a_client_that_disconnects_within_its_body(client):
    async with client.raw() as raw:
        raw.send(post(b"Content-Length: 100\r\n") + b"{")
        await wait_for_body(client)
    while client.front.metrics.inflight["mutating"]:
        await client.sleeper.settle()
    assert (await client.get("/livez")).text == "ok"


async def test_a_malformed_chunk_closes_the_connection(client):
    async with client.raw() as raw:
        raw.send(post(b"Transfer-Encoding: chunked\r\n"))
        await wait_for_body(client)
        raw.send(b"zz\r\n")
        reply = await raw.reply()
        assert (reply.status, reply.json["message"].partition(":")[0]) == (400, "the body of the request is malformed")
        assert await raw.rest() == b""
    assert client.sleeper.sleeping == 0


async def test_a_malformed_chunk_behind_a_refused_request(client):
    async with client.raw() as raw:
        raw.send(head(b"POST", b"/api/v1/namespaces/default/nothing", b"Transfer-Encoding: chunked\r\n"))
        raw.send(b"2\r\n{}\r\nzz\r\n")
        assert (await raw.reply()).status in (400, 404)
        await raw.rest()


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.slow
async def test_unread_responses(serving, size):
    """Many small responses or one large one: the connection is closed either way."""
    async with serving(max_body_bytes=200_000) as client:
        made = {"metadata": {"name": "c"}, "data": {"a": "x" * size}}
        await client.create(CONFIGMAPS.decode(), made)
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.connect(("127.0.0.1", int(client.front.url.rpartition(":")[2])))
            peer.setblocking(False)
            request = head(path=CONFIGMAPS + b"/c")
            connections = client.front._runner.server.connections
            while not any(one.writing_paused for one in connections):
                with suppress(BlockingIOError):
                    peer.send(request)
                await client.sleeper.settle()
                connections = client.front._runner.server.connections
            stuck = next(one for one in connections if one.writing_paused)
            assert stuck.transport.get_write_buffer_size() < 1024 * 1024
            await client.sleeper.advance(60)
            assert stuck.cut_off
            while stuck in client.front._runner.server.connections:
                await client.sleeper.settle()
        assert client.front.metrics.slow_watchers == 0


async def test_a_head_that_never_arrives(serving):
    async with serving(idle_timeout=0.05) as client, client.raw() as raw:
        raw.send(b"GET /livez HTTP/1.1\r\nX: ")
        assert await raw.rest() == b""


async def test_a_slow_head(serving):
    async with serving(head_timeout=5.0) as client, client.raw() as raw:
        raw.send(b"GET /livez HTTP/1.1\r\nX: ")
        while not client.sleeper.sleeping:
            await client.sleeper.settle()
        await client.sleeper.advance(5.0)
        assert await raw.rest() == b""


async def test_an_oversized_head_is_refused_before_its_end(serving):
    async with serving(max_head_bytes=10_000) as client, client.raw() as raw:
        raw.send(b"GET /livez HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 300) for n in range(40)))
        reply = await raw.reply()
        assert (reply.status, reply.json["code"]) == (431, 431)
        assert await raw.rest() == b""


async def test_the_total_size_of_heads_is_bounded(serving):
    """A client that sends more than a little while the total is exceeded is disconnected; the others get responses."""
    async with serving(max_heads_bytes=50_000) as client, client.raw() as small, client.raw() as large:
        small.send(b"GET /livez HTTP/1.1\r\nHost: x\r\nX: ")
        large.send(b"GET /livez HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 30_000) for n in range(2)))
        assert await large.rest() == b""
        small.send(b"y\r\n\r\n")
        assert (await small.reply()).text == "ok"


async def test_too_many_connections(serving):
    """The oldest idle connection is closed; watches are kept, and new clients get responses."""
    async with serving(max_connections=3) as client, client.watching("/api/v1/nodes?watch=1") as watch:
        async with client.raw() as idle, client.raw() as later:
            later.send(head(path=b"/livez"))
            assert (await later.reply()).text == "ok"
            async with client.raw() as one_more:
                one_more.send(head(path=b"/livez"))
                assert (await one_more.reply()).text == "ok"
                assert await idle.rest() == b""
                await client.sleeper.settle()
                assert len(client.front._runner.server.connections) <= 3
        client.server.create_all([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}])
        assert await watch.told(1) == [("ADDED", "n")]


async def test_a_watcher_that_disconnects_before_the_response(client):
    for _ in range(20):
        async with client.raw() as raw:
            raw.send(head(path=CONFIGMAPS + b"?watch=1"))
            await asyncio.sleep(0)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "x"])
async def test_compressed_bodies_are_refused(client, encoding):
    reply = await client.post(CONFIGMAPS.decode(), b"xxxx", Content_Encoding=encoding)
    assert (reply.status, reply.json["reason"]) == (415, "UnsupportedMediaType")


def test_only_short_labels_and_fields_are_interned():
    def stored(count: int, node: str) -> store.Stored:
        labels = {f"label-{number}": node for number in range(count)}
        table = store.Store()
        table.select_fields("pods", ("spec.nodeName",))
        return table.put("pods", {"metadata": {"name": "p", "labels": labels}, "spec": {"nodeName": node}})

    for count, node, shared in [(3, "some-node", True), (1000, "n" * 10_000, False)]:
        first, second = stored(count, node), stored(count, node)
        assert (first.labels, first.values) == (second.labels, second.values)
        assert (first.labels is second.labels, first.values is second.values) == (shared, shared)


async def test_too_many_writes_at_once(serving):
    async with serving(max_mutating=1) as client, client.raw() as first, client.raw() as second:
        first.send(post(b"Content-Length: 25\r\n") + b"{")
        while not client.front.metrics.inflight["mutating"]:
            await client.sleeper.settle()
        second.send(post(b"Content-Length: 2\r\n") + b"{}")
        reply = await second.reply()
        assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
        assert reply.json["reason"] == "TooManyRequests"
        assert (await client.get("/api/v1/nodes")).status == 200
        first.send(b'"metadata":{"name":"c"}}')
        assert (await first.reply()).status == 201
        assert client.front.metrics.dropped == {"readOnly": 0, "mutating": 1}


async def test_too_many_watches(serving):
    async with serving(max_watches=1) as client, client.watching("/api/v1/nodes?watch=1"):
        reply = await client.get("/api/v1/nodes?watch=1")
        assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
        assert (await client.get("/api/v1/nodes")).status == 200


async def test_pipelined_requests_are_answered_in_order(client):
    async with client.raw() as raw:
        raw.send(head(path=b"/livez") + head(path=b"/api/v1/nothing") + head(path=b"/readyz"))
        assert [(await raw.reply()).status for _ in range(3)] == [200, 404, 200]


async def test_garbage_after_a_request_closes_the_connection(client):
    async with client.raw() as raw:
        raw.send(head(path=b"/livez"))
        assert (await raw.reply()).status == 200
        raw.send(b"garbage\r\n\r\n")
        assert (await raw.reply()).status == 400
        assert await raw.rest() == b""


async def test_old_http_versions(client):
    async with client.raw() as raw:
        raw.send(b"GET /livez HTTP/1.0\r\n" + AUTHORIZATION + b"\r\n")
        assert (await raw.reply()).text == "ok"
        assert await raw.rest() == b""


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b"{", 400),
        ("application/json", b"", 400),
        ("application/json", b"[]", 400),
        ("application/json", b'"text"', 400),
        ("application/json", b'{"metadata": 5}', 400),
        ("application/json", b"[" * 100_000, 400),
        ("application/json", b'{"data":' * 800 + b"{}" + b"}" * 800, 400),
        ("application/yaml", b"[" * 100_000, 400),
        ("application/yaml", b"a: [", 400),
        ("application/vnd.kubernetes.protobuf", b"k8s\x00", 400),
        ("application/vnd.kubernetes.protobuf", b"{}", 400),
        ("application/cbor", b"{}", 415),
        ("text/plain", b"{}", 415),
        ("application/json", b'{"kind":"Pod"}', 400),
    ],
)
async def test_invalid_bodies(client, content_type, body, status):
    reply = await client.post(CONFIGMAPS.decode(), body, Content_Type=content_type)
    assert (reply.status, reply.json["status"]) == (status, "Failure"), reply.text


def _malformed(chance: random.Random) -> bytes:
    """A request that may have an error somewhere."""
    target = b"/api/v1/namespaces/default/configmaps?limit=1"
    data = bytearray(
        head(chance.choice([b"GET", b"POST", b"PATCH", b"DELETE"]), target, b"Content-Length: 4\r\n") + b"{}{}"
    )
    for _ in range(chance.randrange(6)):
        place = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[place] = chance.randrange(256)
            case 1:
                del data[place : place + chance.randrange(10)]
            case 2:
                data[place:place] = bytes(chance.randrange(256) for _ in range(chance.randrange(20)))
            case 3:
                data[place:place] = data[place : place + chance.randrange(40)]
    return bytes(data)


async def test_generated_garbage_does_no_harm(client):
    chance = random.Random(7)
    for _ in range(300):
        async with client.raw() as raw:
            raw.send(_malformed(chance))
            await client.sleeper.settle()
    assert (await client.get("/livez")).text == "ok"
    while any(client.front.metrics.inflight.values()):
        await client.sleeper.settle()
