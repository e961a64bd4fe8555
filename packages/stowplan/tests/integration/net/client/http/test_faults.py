"""Lists and watches over real connections to a server that misbehaves in every possible way."""

import asyncio
import json
import re
from contextlib import asynccontextmanager

import pytest

from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import Pod
from stowplan.net.client.http.transport import Limits
from stowplan.net.client.list_watch import Failing, ListWatch, Working
from support.api.clients import VirtualTime, a_pod, a_pod_list, an_api
from support.http.misbehaving_server import Misbehaving, answers, does, hangs, resets, sends, status, streams

#: One try per request, so that ListWatch has to handle each fault.
ONCE = Limits(connect=0.5, silence=0.05, tries=1, connection_tries=1)


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
        pytest.param(streams(event("ADDED", "b", 11), event("ADDED", "c", 12)[:40], then="reset"), id="reset mid-line"),
        pytest.param(streams(event("ADDED", "b", 11), event("ADDED", "c", 12)[:40], then="cut"), id="cut in a chunk"),
        pytest.param(streams(event("ADDED", "b", 11), b"<html>\n"), id="garbage"),
        pytest.param(streams(event("ADDED", "b", 11), then="silence"), id="silence"),
        pytest.param(streams(event("ADDED", "b", 11).rstrip()), id="a proper end without a line end"),
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
        pytest.param(hangs, "nothing came within the time limit", id="silent from the start"),
        pytest.param(streams(then="silence"), "nothing came for 0.1 seconds", id="silent after the header"),
        pytest.param(streams(), "as soon as they begin", id="ended"),
        pytest.param(
            streams(b"<html>please log in", content_type="text/html", then="silence"), "please log in", id="HTML"
        ),
        pytest.param(answers(200, {}, content_type="application/vnd.kubernetes.protobuf"), "protobuf", id="protobuf"),
        pytest.param(answers(503, b"", headers={"Retry-After": "1"}), "currently unable", id="503"),
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
        pytest.param(streams(error_event(410, "Expired")), id="as the first event"),
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
        pytest.param(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"), id="cut off"),
        pytest.param(streams(b'{"kind":"PodList","metadata":{', then="cut"), id="cut in a chunk"),
        pytest.param(answers(200, b"<html>", content_type="text/html"), id="HTML"),
        pytest.param(answers(200, b"x", headers={"Content-Encoding": "gzip"}), id="no gzip"),
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


# -- streams alone


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
