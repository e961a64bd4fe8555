"""Malformed, oversized, slow or too many requests: each is refused, the server goes on, and nothing is lost.

Clients that exhaust memory, connections or time are out of scope (SECURITY.md); what the HTTP server below does about
them is tested in `test_hostile_clients.py` of the secure port.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import string
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_cluster.apiserver import store
from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.front.front_settings import FrontSettings
from stowplan_cluster.front.http_front import Front

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        b"GET /api HTTP/9.9\r\n\r\n",
        b"FETCH /api HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /api HTTP/1.1\r\n: no name\r\n\r\n",
        b"GET /api HTTP/1.1\r\nX: a\x00b\r\n\r\n",
        b"POST /api HTTP/1.1\r\nContent-Length: ten\r\n\r\n",
        b"POST /api HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /api/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /api HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /api HTTP/1.1\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(500)) + b"\r\n",
        head(b"POST", CONFIGMAPS, b"Content-Length: 1\r\nContent-Type: \xff\r\n") + b"{",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
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
        (b"/api/v1/nodes/%zz", 400),
        (b"//api/v1/nodes", 404),
        (b"*", 400),
        (b"/" + b"a/" * 30_000, 404),
        (CONFIGMAPS + b"/%0d%0aX:y", 400),
        (CONFIGMAPS + b"?" + b"&".join(b"a%d=b" % n for n in range(5000)), 400),
        (CONFIGMAPS + b"?labelSelector=" + b"a%20in%20(" * 1000, 400),
    ],
)
async def test_unusual_paths(client, path, status):
    async with client.raw() as raw:
        raw.send(head(path=path))
        reply = await raw.reply()
    assert (reply.status, reply.json["status"]) == (status, "Failure")


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


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b'{"data":{"a":"\xff"}}', 400),
        ("application/json", b"NaN", 400),
        ("application/json", b'{"data":' * 100_000 + b"1", 400),
        ("application/yaml", b"!!python/object/apply:os.getpid []", 400),
        ("application/x-www-form-urlencoded", b"a=b", 415),
        ("application/json", b"[" * 100_000, 400),
        ("application/yaml", b"[" * 100_000, 400),
        ("application/vnd.kubernetes.protobuf", b"k8s\x00", 400),
    ],
)
async def test_invalid_bodies(client, content_type, body, status):
    reply = await client.post(CONFIGMAPS.decode(), body, Content_Type=content_type)
    assert (reply.status, reply.json["status"]) == (status, "Failure"), reply.text


def one_of(words: str, *others: str) -> st.SearchStrategy[str]:
    return st.sampled_from([*words.split(), *others])


SEGMENTS = st.one_of(
    one_of("api apis v1 apps namespaces default pods nodes configmaps deployments metrics openapi", ""),
    one_of("status scale binding eviction log watch .. . %2e%2e %2f %00 %"),
    one_of("apiextensions.k8s.io customresourcedefinitions authorization.k8s.io selfsubjectaccessreviews"),
    st.text(alphabet=string.printable.strip() + "äß", max_size=8).map(lambda text: quote(text, safe="%;:@+")),
)
PATHS = st.lists(SEGMENTS, max_size=8).map(lambda segments: "/" + "/".join(segments)) | st.sampled_from(
    [CONFIGMAPS.decode(), f"{CONFIGMAPS.decode()}/x", "/api/v1/nodes", "/api/v1/namespaces/default/pods/p/binding"]
)
PARAMETERS = """
    watch limit continue resourceVersion resourceVersionMatch labelSelector fieldSelector dryRun fieldManager
    fieldValidation force timeoutSeconds gracePeriodSeconds propagationPolicy orphanDependents sendInitialEvents pretty
"""
ARGUMENTS = one_of("0 1 -1 true All Exact NotOlderThan a=b metadata.name=x", "", "9" * 30) | st.text(max_size=10)
QUERIES = st.lists(st.tuples(one_of(PARAMETERS), ARGUMENTS), max_size=4).map(
    lambda pairs: "&".join(f"{name}={quote(value)}" for name, value in pairs)
)
NAMES = "Accept Content-Type Content-Encoding Impersonate-User Impersonate-Group Impersonate-Uid Impersonate-Extra-%zz"
WORDS = """
    application/json application/yaml application/vnd.kubernetes.protobuf */* gzip application/apply-patch+yaml
    application/merge-patch+json application/json-patch+json application/strategic-merge-patch+json
    application/json;as=Table;v=v1;g=meta.k8s.io system:anonymous
"""
LATIN = st.text(alphabet=[chr(n) for n in range(32, 256) if n != 127], max_size=20).map(str.strip)
HEADERS = st.dictionaries(one_of(NAMES), one_of(WORDS) | LATIN, max_size=4)
KEYS = one_of("metadata spec status name labels annotations kind apiVersion target op path value")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | KEYS, inner, max_size=4),
    max_leaves=12,
)
BODIES = st.binary(max_size=60) | (VALUES | st.dictionaries(KEYS, VALUES, max_size=6)).map(
    lambda value: json.dumps(value).encode()
)


@pytest.fixture(scope="module")
def status_of() -> Iterator[Callable[[bytes], int]]:
    """The status of the response to these bytes, of a front that stays."""
    server = ApiServer(random=random.Random(1))
    front = Front(server, settings=FrontSettings(tls=False, token="the-administrators-token"))

    async def ask(sent: bytes) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(front.url.rpartition(":")[2]))
        writer.write(sent)
        line = await reader.readline()
        writer.transport.abort()
        return int(line.split()[1])

    with asyncio.Runner() as runner:
        runner.run(front.start())
        yield lambda sent: runner.run(ask(sent))
        runner.run(front.stop())
    server.close()


@settings(deadline=None)
@given(one_of("GET HEAD POST PUT PATCH DELETE OPTIONS TRACE"), PATHS, QUERIES, HEADERS, BODIES)
def test_any_request_gets_an_answer(status_of, method, path, query, headers, body):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
    target = f"{path}?{query}".encode()
    sent = head(method.encode(), target, lines + b"Content-Length: %d\r\n" % len(body)) + body
    assert 200 <= status_of(sent) < 500
