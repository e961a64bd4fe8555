"""Lists and watches over real connections to a server that misbehaves in every possible way."""

import asyncio
import json
import re
from contextlib import asynccontextmanager

import pytest

from stowplan.kube.api.api_errors import Expired, InternalError
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import Node, Pod
from stowplan.net.client.credentials.request_credentials import UserCredentials, bearer
from stowplan.net.client.http.transport import Limits
from stowplan.net.client.list_watch import Failing, ListWatch, Undecodable, Working
from support.api.clients import VirtualTime, a_pod, a_pod_list, an_api
from support.http.misbehaving_server import Misbehaving, answers, closes, does, hangs, resets, sends, status, streams

#: One try per request, so that ListWatch has to handle each fault.
ONCE = Limits(connect=0.5, silence=0.05, tries=1, connection_tries=1)

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"


def event(type_, name, version, **more):
    return json.dumps({"type": type_, "object": a_pod(name, version=str(version), **more)}).encode() + b"\n"


def error_event(code, reason):
    return json.dumps({"type": "ERROR", "object": status(code, reason)}).encode() + b"\n"


def pods(*names, version=10, **more):
    return answers(200, a_pod_list(*[a_pod(name, version="1") for name in names], version=str(version), **more))


class Account:
    """What a ListWatch delivered and reported."""

    def __init__(self):
        self.changes = []
        self.reports = []
        self._more = asyncio.Event()

    def deliver(self, changes):
        self.changes += [(_name(change.old), _name(change.new)) for change in changes]
        self._more.set()

    async def until(self, *changes):
        """Wait for the end of the account; if it differs, the comparison fails."""
        async with asyncio.timeout(5):
            while self.changes[-len(changes) :] != list(changes):
                self._more.clear()
                await self._more.wait()


def _name(obj):
    return None if obj is None else obj.metadata.name


@asynccontextmanager
async def following(api, *, kind=Pod, time=None, **options):
    account = Account()
    watch = ListWatch(api, kind, times=(time or VirtualTime()), report=account.reports.append, **options)
    account.watch = watch
    task = asyncio.create_task(watch.run(account.deliver))
    try:
        yield account
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# -- faults of a watch, each followed by a working one


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(streams(event("ADDED", "b", 11), then="reset"), id="reset after a line"),
        pytest.param(streams(event("ADDED", "b", 11), event("ADDED", "c", 12)[:40], then="reset"), id="reset mid-line"),
        pytest.param(streams(event("ADDED", "b", 11), event("ADDED", "c", 12)[:40], then="cut"), id="cut in a chunk"),
        pytest.param(streams(event("ADDED", "b", 11), event("ADDED", "c", 12)[:40]), id="ended mid-line"),
        pytest.param(streams(event("ADDED", "b", 11), b"<html>\n"), id="garbage"),
        pytest.param(streams(event("ADDED", "b", 11), b"\x00\xff\n", event("ADDED", "x", 99)), id="binary garbage"),
        pytest.param(streams(event("ADDED", "b", 11), b'{"type":"WHAT","object":{}}\n'), id="an unknown event"),
        pytest.param(streams(event("ADDED", "b", 11), then="silence"), id="silence"),
        pytest.param(streams(event("ADDED", "b", 11)), id="regular end"),
        pytest.param(streams(event("ADDED", "b", 11).rstrip()), id="a proper end without a line end"),
        pytest.param(streams(event("ADDED", "b", 11), error_event(500, "InternalError")), id="an error event"),
        pytest.param(
            streams(*[bytes([byte]) for byte in event("ADDED", "b", 11)], then="silence"),
            id="byte by byte, then silence",
        ),
    ],
)
async def test_a_broken_watch_is_resumed_where_it_was(fault):
    time = VirtualTime()
    again = streams(event("ADDED", "c", 12), then="silence")
    async with (
        Misbehaving(pods("a"), fault, again, hangs) as server,
        an_api(server, limits=ONCE, watch_silence=0.2) as api,
        following(api, time=time) as account,
    ):
        await account.until((None, "a"), (None, "b"), (None, "c"))
        assert [seen.query.get("resourceVersion") for seen in server.seen[:3]] == [None, "10", "11"]
    assert time.slept == []
    assert account.reports == []


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        pytest.param(resets, "connection reset|closed the connection", id="reset"),
        pytest.param(closes, "closed the connection", id="closed"),
        pytest.param(hangs, "nothing came within the time limit", id="silent from the start"),
        pytest.param(streams(then="silence"), "nothing came for 0.1 seconds", id="silent after the header"),
        pytest.param(sends(b"garbage\r\n\r\n"), "the response is not HTTP", id="no HTTP"),
        pytest.param(streams(b"\x00\n"), "not a watch event", id="garbage"),
        pytest.param(streams(), "as soon as they begin", id="ended"),
        pytest.param(
            streams(b"<html>please log in", content_type="text/html", then="silence"), "please log in", id="HTML"
        ),
        pytest.param(answers(200, {}, content_type="application/vnd.kubernetes.protobuf"), "protobuf", id="protobuf"),
        pytest.param(answers(403, status(403, "Forbidden", "no watching")), "no watching", id="403"),
        pytest.param(answers(404, b"404 page not found", content_type="text/plain"), "404 page not found", id="404"),
        pytest.param(answers(429, b""), "too many requests", id="429"),
        pytest.param(answers(500, b""), "an error on the server", id="500"),
        pytest.param(answers(503, b"", headers={"Retry-After": "1"}), "currently unable", id="503"),
        pytest.param(answers(302, b"", headers={"Location": "http://127.0.0.1:1/"}), "redirects", id="redirect"),
    ],
)
async def test_a_watch_that_fails_to_start_is_reported_and_retried_without_a_list(fault, why):
    time = VirtualTime()
    again = streams(event("ADDED", "b", 11), then="silence")
    async with (
        Misbehaving(pods("a"), fault, fault, again, hangs) as server,
        an_api(server, limits=ONCE, watch_silence=0.1) as api,
        following(api, time=time) as account,
    ):
        await account.until((None, "a"), (None, "b"))
        assert [seen.query.get("resourceVersion") for seen in server.seen[:4]] == [None, "10", "10", "10"]
    assert time.slept == pytest.approx([0.8, 1.6])
    failing, working = account.reports[:2]
    assert isinstance(failing, Failing)
    assert failing.doing == "watching"
    assert re.search(why, str(failing.why))
    assert isinstance(working, Working)


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(answers(410, status(410, "Expired", "too old resource version: 10 (99)")), id="at the start"),
        pytest.param(answers(410, b""), id="at the start, without a Status"),
        pytest.param(streams(error_event(410, "Expired")), id="as the first event"),
        pytest.param(streams(error_event(410, "Gone")), id="as the first event, in the older format"),
        pytest.param(streams(event("ADDED", "b", 11), error_event(410, "Expired")), id="in mid-stream"),
    ],
)
async def test_410_causes_a_new_list(gone):
    time = VirtualTime()
    again = streams(event("ADDED", "d", 31), then="silence")
    async with (
        Misbehaving(pods("a"), gone, pods("b", "c", version=30), again, hangs) as server,
        an_api(server, limits=ONCE, watch_silence=0.2) as api,
        following(api, time=time) as account,
    ):
        await account.until(("a", None), (None, "d"))
    assert account.changes[0] == (None, "a")
    assert {new for old, new in account.changes if new} == {"a", "b", "c", "d"}
    assert time.slept == [0.8]
    assert account.reports == []


async def test_a_slow_watch_is_not_silent():
    """Each piece arrives within the silence limit, the whole response takes far longer."""
    line = event("ADDED", "b", 11)

    async def slowly(exchange):
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        for start in range(0, len(line), 10):
            await asyncio.sleep(0.02)
            await exchange.chunk(line[start : start + 10])
        await exchange.reader.read()

    async with (
        Misbehaving(pods("a"), slowly) as server,
        an_api(server, limits=ONCE, watch_silence=0.25) as api,
        following(api) as account,
    ):
        await account.until((None, "b"))
        assert len(server.seen) == 2


# --- faults of a list


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(resets, id="reset"),
        pytest.param(hangs, id="silent"),
        pytest.param(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"), id="cut off"),
        pytest.param(streams(b'{"kind":"PodList","metadata":{', then="cut"), id="cut in a chunk"),
        pytest.param(answers(200, b"<html>", content_type="text/html"), id="HTML"),
        pytest.param(answers(200, {}), id="an empty object"),
        pytest.param(answers(200, b"{"), id="half an object"),
        pytest.param(answers(200, b"", content_type="application/json"), id="nothing"),
        pytest.param(answers(200, b"x", headers={"Content-Encoding": "gzip"}), id="no gzip"),
        pytest.param(answers(401, status(401, "Unauthorized")), id="401"),
        pytest.param(answers(403, status(403, "Forbidden")), id="403"),
        pytest.param(answers(429, b""), id="429"),
        pytest.param(answers(500, b""), id="500"),
        pytest.param(answers(504, b"<html>", content_type="text/html"), id="504 of a proxy"),
    ],
)
async def test_a_failed_list_deletes_nothing_and_is_retried(fault):
    time = VirtualTime()
    gone = streams(error_event(410, "Expired"))
    again = streams(event("ADDED", "b", 31), then="silence")
    async with (
        Misbehaving(fault, pods("a"), gone, fault, fault, pods("a", version=30), again, hangs) as server,
        an_api(server, limits=ONCE, watch_silence=0.2) as api,
        following(api, time=time) as account,
    ):
        await account.until((None, "a"), (None, "b"))
    assert account.changes == [(None, "a"), (None, "b")]
    assert [type(report) for report in account.reports] == [Failing, Working] * 2


async def test_an_expired_continue_token():
    expired = answers(410, status(410, "Expired", "The provided continue parameter is too old"))
    async with (
        Misbehaving(pods("a", continue_="c1"), expired, pods("a", "b", version=20), hangs) as server,
        an_api(server, watch_silence=5.0) as api,
        following(api, page=1) as account,
    ):
        await account.until((None, "a"), (None, "b"))
        assert [(seen.query.get("limit"), seen.query.get("continue")) for seen in server.seen[:3]] == [
            ("1", None),
            ("1", "c1"),
            (None, None),
        ]


async def test_repeated_429_are_retried():
    """Not handled by ListWatch: the request itself is retried."""
    time = VirtualTime()
    storm = [answers(429, b"", headers={"Retry-After": "2"}), answers(429, b""), answers(429, b"")]
    async with (
        Misbehaving(*storm, pods("a"), hangs) as server,
        an_api(server, time=time) as api,
        following(api, time=time) as account,
    ):
        await account.until((None, "a"))
    assert time.slept == pytest.approx([2.1, 0.2, 0.4])
    assert account.reports == []


async def test_403_on_one_resource_does_not_affect_others():
    forbidden = answers(403, status(403, "Forbidden", "nodes is forbidden"))
    time = VirtualTime()
    held = asyncio.Event()
    time.meanwhile = held.wait
    async with Misbehaving() as server, an_api(server) as api:
        server.at(PODS, pods("a"), streams(event("ADDED", "b", 11), then="silence"), hangs)
        server.at(NODES, forbidden)
        async with following(api, kind=Node, time=time) as refused, following(api) as account:
            await account.until((None, "a"), (None, "b"))
            assert account.watch.synced.is_set()
            assert not refused.watch.synced.is_set()
            assert [str(report) for report in refused.reports] == ["listing nodes: nodes is forbidden"]
            server.at(NODES, answers(200, {**a_pod_list(), "kind": "NodeList"}), hangs)
            held.set()
            async with asyncio.timeout(5):
                await refused.watch.synced.wait()
        assert refused.reports[1:] == [Working("nodes")]


async def test_a_bad_object_does_not_affect_the_others():
    broken = a_pod("broken", version="5")
    broken["spec"]["containers"] = "none"
    lines = json.dumps({"type": "MODIFIED", "object": broken}).encode() + b"\n"
    listed = answers(200, a_pod_list(a_pod("a"), broken, version="10"))
    async with (
        Misbehaving(listed, streams(lines, event("ADDED", "b", 11), then="silence"), hangs) as server,
        an_api(server) as api,
        following(api) as account,
    ):
        await account.until((None, "a"), (None, "b"))
        assert len(server.seen) == 2
    (report,) = account.reports
    assert isinstance(report, Undecodable)
    assert str(report) == (
        "pods default/broken is left out, it cannot be read: spec.containers: expected a list, got a string"
    )


# --- whole outages


async def test_nothing_is_lost_when_a_server_restarts():
    time = VirtualTime()
    server = Misbehaving(pods("a"), streams(event("ADDED", "b", 11), then="silence"))
    await server.start()
    starts = iter([None, None, True])

    async def outage():
        if next(starts, None):
            server.actions.extend([streams(event("DELETED", "a", 12), then="silence"), hangs])
            await server.start(server.port)

    time.meanwhile = outage
    async with an_api(server, limits=ONCE) as api, following(api, time=time) as account:
        await account.until((None, "b"))
        await server.stop()
        await account.until(("a", None))
        assert account.changes == [(None, "a"), (None, "b"), ("a", None)]
        assert server.seen[-1].query["resourceVersion"] == "11"
    assert time.slept == pytest.approx([0.8, 1.6, 3.2])
    assert [str(report).partition("127")[0] for report in account.reports] == [
        "watching pods: http://",
        "listing and watching pods works again",
    ]
    await server.stop()


async def test_a_token_that_expires_during_a_watch():
    class Rotating:
        token = "t1"

        async def authorization(self):
            return bearer(self.token)

        async def refused(self, used):
            self.token = "t2"
            return True

    refused = answers(401, status(401, "Unauthorized"))
    again = streams(event("ADDED", "c", 12), then="silence")
    async with (
        Misbehaving(pods("a"), streams(event("ADDED", "b", 11), then="reset"), refused, again, hangs) as server,
        an_api(server, credentials=UserCredentials(Rotating())) as api,
        following(api) as account,
    ):
        await account.until((None, "b"), (None, "c"))
        tokens = [seen.headers["authorization"] for seen in server.seen[:4]]
    assert tokens == ["Bearer t1"] * 3 + ["Bearer t2"]
    assert account.reports == []


# -- streams alone


async def test_a_stream_raises_the_error_that_ended_it():
    async with (
        Misbehaving(
            streams(error_event(410, "Expired")),
            streams(error_event(500, "InternalError")),
            streams(then="silence"),
            answers(500, b""),
        ) as server,
        an_api(server, watch_silence=0.05) as api,
    ):
        for error in (Expired, InternalError, Unreachable, InternalError):
            with pytest.raises(error):
                async for _ in api.watch(Pod, resource_version="1"):
                    pass
        assert len(server.seen) == 4


async def test_an_abandoned_stream_is_closed():
    gone = asyncio.Event()

    async def act(exchange):
        await streams(event("ADDED", "a", 1), then="silence")(exchange)
        gone.set()

    async with Misbehaving(act) as server, an_api(server) as api:
        stream = api.watch(Pod, resource_version="1")
        assert (await anext(stream)).object.metadata.name == "a"
        await stream.aclose()
        async with asyncio.timeout(5):
            await gone.wait()


async def test_a_long_line_arrives_whole():
    lines = event("ADDED", "a", 1, annotations={"a": "x" * 3_000_000})
    pieces = [lines[start : start + 70_000] for start in range(0, len(lines), 70_000)]
    async with Misbehaving(streams(*pieces)) as server, an_api(server) as api:
        (found,) = [found async for found in api.watch(Pod, resource_version="1")]
    assert len(found.object.metadata.annotations["a"]) == 3_000_000


async def test_closing_the_api_ends_a_watch_that_is_being_read():
    async with Misbehaving(streams(event("ADDED", "a", 1), then="silence")) as server:
        async with an_api(server) as api:
            stream = api.watch(Pod, resource_version="1")
            await anext(stream)
            reading = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            with pytest.raises(Unreachable, match="closed"):
                await reading


async def test_closing_the_api_ends_its_watches():
    noticed = asyncio.Event()
    async with Misbehaving(does(lambda seen: noticed.set(), streams(then="silence"))) as server:
        async with an_api(server) as api:
            stream = asyncio.ensure_future(anext(api.watch(Pod, resource_version="1")))
            await noticed.wait()
        with pytest.raises(Unreachable):
            await stream
        with pytest.raises(RuntimeError, match="Session is closed"):
            await anext(api.watch(Pod, resource_version="1"))
