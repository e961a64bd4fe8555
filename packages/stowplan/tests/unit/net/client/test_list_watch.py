"""Changes delivered by ListWatch across lists and watches that end and fail.

The server is a script of the result of each call.
"""

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from stowplan.kube.api.api_errors import Expired, Forbidden, Gone, InternalError, NotFound, TooManyRequests
from stowplan.kube.api.decode import convert
from stowplan.kube.api.port import BadObject, Listing, Unreachable, WatchEvent
from stowplan.kube.api.types import Pod
from stowplan.net.client.client_errors import StreamSilent
from stowplan.net.client.list_watch import PAGE, Failing, ListWatch, Undecodable, Working
from support.api.clients import VirtualTime, a_pod
from support.observing.log_lines import logged

FORBIDDEN = Forbidden("pods is forbidden")
CUT = Unreachable("https://s: connection reset by peer")
EXPIRED = Expired("too old resource version: 1 (5)")


def pod(name, version, *, uid=""):
    return convert(a_pod(name, uid=uid, version=str(version)), Pod)


def page(*pods, version=10, continue_="", bad=()):
    return Listing(pods, str(version), continue_, bad)


def added(name, version, **more):
    return WatchEvent("ADDED", str(version), pod(name, version, **more))


def modified(name, version, **more):
    return WatchEvent("MODIFIED", str(version), pod(name, version, **more))


def deleted(name, version, **more):
    return WatchEvent("DELETED", str(version), pod(name, version, **more))


def bookmark(version):
    return WatchEvent("BOOKMARK", str(version))


def bad(name, version, why="spec: no", type_="BAD"):
    return WatchEvent(type_, str(version), bad=BadObject("default", name, why))


@dataclass
class ScriptedApi:
    """Returns listings and streams in order; a stream is a list of events, exceptions and seconds to wait."""

    time: VirtualTime
    listings: deque = field(default_factory=deque)
    streams: deque = field(default_factory=deque)
    calls: list = field(default_factory=list)
    #: Set once the script has ended.
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    open_streams: int = 0

    async def list(self, kind, *, limit=0, continue_="", resource_version="", **selection):
        self.calls.append(("list", limit, continue_) + ((resource_version,) if resource_version else ()))
        await asyncio.sleep(0)
        if not self.listings:
            await self._end()
        step = self.listings.popleft()
        if isinstance(step, Exception):
            raise step
        return step

    async def watch(self, kind, *, resource_version, timeout_seconds=0, **selection):
        self.calls.append(("watch", resource_version))
        self.timeout_seconds = timeout_seconds
        self.selection = selection
        self.open_streams += 1
        try:
            if not self.streams:
                await self._end()
            for step in self.streams.popleft():
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, float):
                    self.time.now += step
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                else:
                    yield step
        finally:
            self.open_streams -= 1

    async def _end(self):
        self.finished.set()
        await asyncio.Event().wait()


@dataclass
class Outcome:
    """What a ListWatch delivered and reported until the script ended."""

    batches: list
    reports: list
    calls: list
    slept: list
    api: ScriptedApi
    watch: ListWatch

    @property
    def changes(self):
        return [(_version(change.old), _version(change.new)) for batch in self.batches for change in batch]


def _version(obj):
    return None if obj is None else f"{obj.metadata.name}:{obj.metadata.resource_version}"


async def run_script(*, listings, streams=(), chance=0.0, **options):
    time = VirtualTime(chance)
    api = ScriptedApi(time, deque(listings), deque(streams))
    reports, batches = [], []
    watch = ListWatch(api, Pod, times=time, report=reports.append, **options)
    async with running(watch, batches.append):
        await api.finished.wait()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert api.open_streams == 0
    return Outcome(batches, reports, api.calls, time.slept, api, watch)


@asynccontextmanager
async def running(watch, deliver):
    task = asyncio.create_task(watch.run(deliver))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# --- listing and watching


async def test_the_list_is_delivered_and_then_the_changes():
    result = await run_script(
        listings=[page(pod("a", 1), pod("b", 2), version=10)],
        streams=[[added("c", 11), modified("a", 12), deleted("b", 13)]],
    )
    assert result.changes == [(None, "a:1"), (None, "b:2"), (None, "c:11"), ("a:1", "a:12"), ("b:2", None)]
    assert result.calls == [("list", PAGE, ""), ("watch", "10"), ("watch", "13")]
    assert result.reports == []
    assert result.slept == []


async def test_pages_are_requested_one_after_the_other():
    result = await run_script(
        listings=[page(pod("a", 1), continue_="c1"), page(pod("b", 2), continue_="c2"), page(pod("c", 3))],
        page=7,
    )
    assert result.changes == [(None, "a:1"), (None, "b:2"), (None, "c:3")]
    assert result.calls == [("list", 7, ""), ("list", 7, "c1"), ("list", 7, "c2"), ("watch", "10")]


async def test_a_burst_is_one_delivery():
    events = [added(f"p{number}", number) for number in range(11, 1011)]
    result = await run_script(listings=[page()], streams=[[*events, 1.0, added("last", 2000)]])
    assert [len(batch) for batch in result.batches] == [1000, 1]


async def test_synced_is_set_once_everything_is_delivered():
    time = VirtualTime()
    api = ScriptedApi(time, deque([page(pod("a", 1), continue_="c"), page(pod("b", 2))]))
    watch = ListWatch(api, Pod, times=time, report=pytest.fail)
    delivered = []

    def deliver(changes):
        assert not watch.synced.is_set()
        delivered.extend(changes)

    async with running(watch, deliver):
        await watch.synced.wait()
        assert len(delivered) == 2


async def test_the_first_list_is_reported_once():
    told_when = []
    result = await run_script(
        listings=[FORBIDDEN, page(), page(version=20)], streams=[[EXPIRED]], on_synced=lambda: told_when.append(1)
    )
    assert result.calls[-1] == ("watch", "20")
    assert told_when == [1]


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 300), (0.5, 450), (0.99999, 599)])
async def test_watch_timeouts_are_random(chance, seconds):
    result = await run_script(
        listings=[page()], chance=chance, label_selector="a=b", namespace="ns", field_selector="f=g"
    )
    assert result.api.timeout_seconds == seconds
    assert result.api.selection == {"label_selector": "a=b", "namespace": "ns", "field_selector": "f=g"}


async def test_an_exception_of_the_receiver_ends_it():
    time = VirtualTime()
    api = ScriptedApi(time, deque([page(pod("a", 1))]))
    watch = ListWatch(api, Pod, times=time, report=pytest.fail)

    def deliver(changes):
        raise RuntimeError("bug")

    with pytest.raises(RuntimeError, match="bug"):
        await watch.run(deliver)
    assert api.open_streams == 0


async def test_an_unexpected_exception_of_the_api_ends_it():
    time = VirtualTime()
    api = ScriptedApi(time, deque([KeyError("bug")]))
    watch = ListWatch(api, Pod, times=time, report=pytest.fail)
    with pytest.raises(KeyError, match="bug"):
        await watch.run(pytest.fail)


# --- resuming


async def test_a_watch_that_ends_is_resumed_after_the_last_event():
    result = await run_script(listings=[page()], streams=[[added("a", 11)], [added("b", 12)]])
    assert result.calls[1:] == [("watch", "10"), ("watch", "11"), ("watch", "12")]
    assert result.slept == []


async def test_a_quiet_watch_is_resumed_too():
    result = await run_script(listings=[page()], streams=[[400.0]])
    assert result.calls[1:] == [("watch", "10"), ("watch", "10")]
    assert result.slept == []
    assert result.reports == []


async def test_a_silent_watch_is_resumed_without_a_report():
    """Either nothing happened or the connection is dead: the next watch will show."""
    result = await run_script(
        listings=[page()], streams=[[180.0, StreamSilent("nothing came")], [StreamSilent("at once")]]
    )
    assert result.calls[1:] == [("watch", "10")] * 3
    assert result.slept == [0.8]
    assert [str(report) for report in result.reports] == ["watching pods: at once"]


async def test_bookmarks_are_resumed_from():
    result = await run_script(listings=[page()], streams=[[added("a", 11), bookmark(50), CUT]])
    assert result.calls[1:] == [("watch", "10"), ("watch", "50")]
    assert result.changes == [(None, "a:11")]


async def test_duplicate_events_are_delivered_once():
    result = await run_script(
        listings=[page(pod("a", 1))],
        streams=[[added("a", 1), modified("a", 11)], [modified("a", 11), deleted("a", 12), deleted("a", 12)]],
    )
    assert result.changes == [(None, "a:1"), ("a:1", "a:11"), ("a:11", None)]


async def test_a_cut_after_events_is_resumed_at_once_and_not_reported():
    result = await run_script(listings=[page()], streams=[[added("a", 11), CUT], [added("b", 12)]])
    assert result.changes == [(None, "a:11"), (None, "b:12")]
    assert result.slept == []
    assert result.reports == []


async def test_watches_that_end_at_once_are_restarted_with_backoff():
    result = await run_script(listings=[page()], streams=[[], [], [added("a", 11)]])
    assert result.slept == pytest.approx([0.8, 1.6])
    assert [str(report) for report in result.reports] == [
        "watching pods: the server ends watches as soon as they begin",
        "listing and watching pods works again",
    ]


# --- relisting


@pytest.mark.parametrize("error", [EXPIRED, Gone("gone")], ids=["Expired", "Gone"])
async def test_an_expired_version_causes_a_new_list_and_delivers_the_difference(error):
    result = await run_script(
        listings=[
            page(pod("kept", 1), pod("changed", 2), pod("gone", 3), pod("reborn", 4)),
            page(pod("kept", 1), pod("changed", 22), pod("reborn", 23, uid="u2"), pod("new", 24), version=30),
        ],
        streams=[[error], [added("x", 31)]],
    )
    assert result.changes[4:] == [
        ("changed:2", "changed:22"),
        ("reborn:4", None),
        (None, "reborn:23"),
        (None, "new:24"),
        ("gone:3", None),
        (None, "x:31"),
    ]
    assert result.calls == [
        ("list", PAGE, ""),
        ("watch", "10"),
        ("list", PAGE, ""),
        ("watch", "30"),
        ("watch", "31"),
    ]
    assert result.slept == [0.8]
    assert result.reports == []


async def test_a_restarted_server_without_our_version_is_listed_soon():
    refused = Unreachable("https://s: connection refused")
    result = await run_script(
        listings=[page(), page(pod("a", 11), version=30), page(pod("a", 11), version=31)],
        streams=[[refused]] * 5 + [[EXPIRED], [EXPIRED], [EXPIRED]],
    )
    assert result.slept[:7] == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 0.8, 1.6])
    assert result.changes == [(None, "a:11")]
    assert list(map(str, result.reports)) == [
        "watching pods: https://s: connection refused",
        "listing and watching pods works again",
    ]


async def test_an_expiry_within_a_stream_keeps_earlier_events():
    result = await run_script(listings=[page(), page(pod("a", 11), version=30)], streams=[[added("a", 11), EXPIRED]])
    assert result.changes == [(None, "a:11")]


async def test_a_list_that_expires_half_way_restarts_without_paging():
    result = await run_script(
        listings=[
            page(pod("a", 1), pod("b", 1), continue_="c1"),
            EXPIRED,
            page(pod("a", 5), pod("c", 5), version=20),
        ],
    )
    assert result.changes == [(None, "a:1"), (None, "b:1"), ("a:1", "a:5"), (None, "c:5"), ("b:1", None)]
    assert result.calls == [("list", PAGE, ""), ("list", PAGE, "c1"), ("list", 0, ""), ("watch", "20")]
    assert result.slept == []


async def test_a_list_that_fails_half_way_deletes_nothing():
    result = await run_script(
        listings=[
            page(pod("a", 1), pod("b", 1)),
            page(pod("a", 1), continue_="c1"),
            CUT,
            page(pod("a", 1), pod("b", 1), version=30),
        ],
        streams=[[EXPIRED]],
    )
    assert result.changes == [(None, "a:1"), (None, "b:1")]
    assert result.calls[-1] == ("watch", "30")


# -- failures


@pytest.mark.parametrize(
    "error", [FORBIDDEN, NotFound("no such resource"), CUT, InternalError("x"), EXPIRED], ids=lambda e: type(e).__name__
)
async def test_failures_are_retried_forever_with_backoff(error):
    result = await run_script(listings=[*[error] * 7, page(pod("a", 1))])
    assert result.slept == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0])
    assert result.changes == [(None, "a:1")]


async def test_a_failure_and_its_end_are_reported_once():
    result = await run_script(listings=[*[FORBIDDEN] * 3, *[CUT] * 2, page()])
    assert result.reports == [Failing("pods", "listing", FORBIDDEN), Failing("pods", "listing", CUT), Working("pods")]


async def test_a_refused_watch_causes_no_list():
    result = await run_script(listings=[page()], streams=[[FORBIDDEN], [FORBIDDEN], [bookmark(20)]])
    assert result.calls == [("list", PAGE, ""), *[("watch", "10")] * 3, ("watch", "20")]
    assert result.reports == [Failing("pods", "watching", FORBIDDEN), Working("pods")]
    assert result.slept == pytest.approx([0.8, 1.6])


async def test_backoff_is_reset_after_two_minutes_of_success():
    result = await run_script(listings=[page()], streams=[[CUT], [CUT], [130.0, added("a", 11), CUT], [CUT]])
    assert result.slept == pytest.approx([0.8, 1.6, 0.8])


@pytest.mark.parametrize(
    "worked",
    [
        pytest.param([added("a", 11), CUT], id="with an event"),
        pytest.param([31.0], id="for long"),
        pytest.param([31.0, CUT], id="for long, then cut"),
    ],
)
async def test_a_working_watch_resets_the_backoff(worked):
    result = await run_script(listings=[page()], streams=[[CUT], [CUT], [CUT], worked, [CUT], [CUT]])
    assert result.slept[:5] == pytest.approx([0.8, 1.6, 3.2, 0.8, 1.6])


async def test_other_kinds_are_unaffected():
    time = VirtualTime()
    refused = ScriptedApi(time, deque([FORBIDDEN] * 3))
    fine = ScriptedApi(time, deque([page(pod("a", 1))]), deque([[added("b", 11)]]))
    reports, changes = [], []
    watches = [ListWatch(api, Pod, times=time, report=reports.append) for api in (refused, fine)]
    async with running(watches[0], pytest.fail), running(watches[1], changes.extend):
        await refused.finished.wait()
        await fine.finished.wait()
        assert not watches[0].synced.is_set()
        assert watches[1].synced.is_set()
    assert [_version(change.new) for change in changes] == ["a:1", "b:11"]
    assert reports == [Failing("pods", "listing", FORBIDDEN)]


# --- objects that do not decode


def bad_object(name, why="spec: no"):
    return BadObject("default", name, why)


async def test_a_bad_object_is_reported_and_the_rest_delivered():
    result = await run_script(
        listings=[page(pod("a", 1), bad=[bad_object("b")])], streams=[[bad("c", 11), added("d", 12)]]
    )
    assert result.changes == [(None, "a:1"), (None, "d:12")]
    assert result.reports == [Undecodable("pods", bad_object("b")), Undecodable("pods", bad_object("c"))]
    assert str(result.reports[0]) == "pods default/b is left out, it cannot be read: spec: no"
    assert result.calls[-1] == ("watch", "12")


async def test_a_bad_object_is_reported_once_for_each_reason():
    result = await run_script(
        listings=[page(bad=[bad_object("b")]), page(bad=[bad_object("b")], version=20)],
        streams=[
            [bad("b", 11), bad("b", 12, "status: no"), EXPIRED],
        ],
    )
    assert [report.bad.why for report in result.reports] == ["spec: no", "status: no", "spec: no"]


async def test_a_repaired_object_is_reported_again():
    result = await run_script(listings=[page()], streams=[[bad("b", 11), added("b", 12), bad("b", 13)]])
    assert [report.bad.why for report in result.reports] == ["spec: no"] * 2
    assert result.changes == [(None, "b:12")]


async def test_an_object_that_becomes_undecodable_keeps_its_last_version_until_deleted():
    result = await run_script(
        listings=[page(pod("b", 1)), page(bad=[bad_object("b")], version=20)],
        streams=[[bad("b", 11), EXPIRED], [added("c", 21), bad("b", 22, type_="DELETED")]],
    )
    assert result.changes == [(None, "b:1"), (None, "c:21"), ("b:1", None)]
    assert len(result.reports) == 1


# -- logs

PODS = {"type": "*v1.Pod", "reflector": "pods"}
BUSY = TooManyRequests("later")


async def lines_of(**script):
    with logged() as found:
        await run_script(**script)
    (began, *between, ended) = found.of("list_watch")
    assert began == (3, "Starting reflector", PODS | {"resyncPeriod": "0s"})
    assert ended == (3, "Stopping reflector", PODS | {"resyncPeriod": "0s"})
    return between


LISTED = [(3, "Listing and watching", PODS), (2, "Caches populated", PODS)]


async def test_watches_that_end():
    lines = await lines_of(listings=[page(pod("a", 1))], streams=[[added("b", 11), added("c", 12)], [5.0]])
    assert lines == [
        *LISTED,
        (4, "Watch close", PODS | {"totalItems": 2}),
        (4, "Watch close", PODS | {"totalItems": 0}),
    ]


async def test_a_watch_that_is_cut_after_events():
    lines = await lines_of(listings=[page()], streams=[[added("b", 11), CUT]])
    assert lines == [*LISTED, (4, "Watch close", PODS | {"totalItems": 1})]


async def test_an_expired_watch_is_logged_with_the_new_list():
    lines = await lines_of(listings=[page(), page()], streams=[[EXPIRED]])
    assert lines == [*LISTED, (4, "Watch closed", PODS | {"err": EXPIRED}), *LISTED]


@pytest.mark.parametrize("error", [CUT, BUSY], ids=["no server", "429"])
async def test_watches_that_fail_to_start(error):
    lines = await lines_of(listings=[page()], streams=[[error]])
    assert lines == [*LISTED, (4, "Watch failed - backing off", PODS | {"err": error})]
