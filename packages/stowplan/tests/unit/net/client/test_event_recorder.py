"""Sending events to the API, with scripted responses in virtual time."""

import asyncio
import re
from contextlib import asynccontextmanager

import pytest

from stowplan.kube.api.api_errors import AlreadyExists, Forbidden, NotFound, ServiceUnavailable
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import CoreEvent, Event, Node, ObjectMeta, ObjectReference, Pod
from stowplan.kube.timing.times import START, ManualTime, settle
from stowplan.net.client.client_errors import RequestDropped
from stowplan.net.client.events import event_recorder, event_series
from stowplan.net.client.events.event_recorder import EventBroadcaster
from support.api.scripted_writes import WritingApi

AWAY = Unreachable("https://s: connection refused")
GONE = NotFound("events.events.k8s.io not found")


def a_pod(name="web-0", version="7", namespace="default"):
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=f"{name}-uid", resource_version=version))


class Setup:
    def __init__(self, api, time):
        self.api = api
        self.time = time
        self.said = []
        self.broadcaster = EventBroadcaster(api, hostname="host-1", times=time, report=self.said.append)
        self.recorder = self.broadcaster.recorder("default-scheduler")

    def fails(self, pod=None, note="0/1 nodes are available: 1 Insufficient cpu.", **more):
        more = {"type_": "Warning", "reason": "FailedScheduling", "action": "Scheduling", **more}
        self.recorder.event(pod or a_pod(), note=note, **more)

    async def fail(self, *args, **more):
        self.fails(*args, **more)
        await settle()

    @property
    def calls(self):
        """The requests in short: POST with the count of its series, PATCH with the count."""
        return [(call[0].split()[0], (call[3].get("series") or {}).get("count")) for call in self.api.calls]


@asynccontextmanager
async def broadcasting(*, api=None, chance=0.5):
    setup = Setup(api or WritingApi(), ManualTime(chance))
    running = asyncio.create_task(setup.broadcaster.run())
    await settle()
    try:
        yield setup
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


# -- format ------------------------------------------------------------------------------------------------------------


async def test_an_event_is_created_as_the_reference_writes_it():
    async with broadcasting() as setup:
        await setup.time.advance(0.25)
        preemptor = a_pod("big")
        setup.recorder.event(
            a_pod(),
            type_="Normal",
            reason="Preempted",
            action="Preempting",
            note="Preempted by pod x",
            related=preemptor,
        )
        await settle()
        ((verb, kind, key, body, lane),) = setup.api.calls
    assert (verb, kind, lane) == ("create", Event, "event")
    assert key == f"default/web-0.{int((START + 0.25) * 1e9):x}"
    reference = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "resourceVersion": "7"}
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": key.partition("/")[2], "namespace": "default"},
        "eventTime": "2027-01-15T08:00:00.250000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host-1",
        "action": "Preempting",
        "reason": "Preempted",
        "regarding": {**reference, "name": "web-0", "uid": "web-0-uid"},
        "related": {**reference, "name": "big", "uid": "big-uid"},
        "note": "Preempted by pod x",
        "type": "Normal",
    }


async def test_an_event_about_a_cluster_scoped_object_lives_in_default():
    async with broadcasting() as setup:
        node = Node(metadata=ObjectMeta(name="n1"))
        setup.recorder.event(node, type_="Normal", reason="R", action="A", note="n")
        await settle()
        assert setup.api.calls[0][2].startswith("default/n1.")
        assert "namespace" not in setup.api.bodies[0]["regarding"]


async def test_an_object_whose_name_is_too_long_for_an_event_name_gets_a_uuid():
    async with broadcasting() as setup:
        await setup.fail(a_pod("p" * 250))
        name = setup.api.bodies[0]["metadata"]["name"]
        # The name is kept when it is created again.
        setup.time.chance = 0.1
        setup.api.answers.append(GONE)
        await setup.fail(a_pod("p" * 250))
        assert [call[2] for call in setup.api.calls] == [f"default/{name}"] * 3
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", name)


async def test_two_events_at_the_same_time_have_different_names():
    async with broadcasting() as setup:
        setup.fails(reason="One")
        setup.fails(reason="Two")
        await settle()
        names = [body["metadata"]["name"] for body in setup.api.bodies]
    assert len(set(names)) == 2


@pytest.mark.parametrize(
    ("note", "sent"),
    [
        pytest.param("a" * 1024, "a" * 1024, id="just fits"),
        pytest.param("a" * 1025, "a" * 1020 + " ...", id="one byte too many"),
        pytest.param("ä" * 512, "ä" * 512, id="counts bytes"),
        pytest.param("ä" * 513, "ä" * 510 + " ...", id="cuts between characters"),
        pytest.param("a" + "ä" * 512, "a" + "ä" * 509 + " ...", id="never within one"),
        pytest.param("\U0001f600" * 257, "\U0001f600" * 255 + " ...", id="four bytes each"),
        pytest.param("100% of \ud800", "100% of ?", id="no half of a character"),
    ],
)
async def test_notes_are_truncated_to_the_apis_limit(note, sent):
    async with broadcasting() as setup:
        await setup.fail(note=note)
        assert setup.api.bodies[0]["note"] == sent
    assert len(sent.encode()) <= 1024


async def test_an_unknown_type_is_reported_and_not_sent():
    async with broadcasting() as setup:
        await setup.fail(type_="Bad")
        assert setup.api.calls == []
        assert "'Bad'" in setup.said[0]


async def test_core_v1_events_are_written_without_events_k8s_io():
    async with broadcasting(api=WritingApi(serves=False)) as setup:
        await setup.fail(note="no")
        await setup.time.advance(5.0)
        await setup.fail(note="no")
        (create, patch) = setup.api.calls
    assert create[:2] == ("create", CoreEvent)
    body = create[3]
    assert body.pop("metadata")["name"].startswith("web-0.")
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": "web-0",
            "uid": "web-0-uid",
            "resourceVersion": "7",
        },
        "reason": "FailedScheduling",
        "message": "no",
        "source": {"component": "default-scheduler"},
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:00Z",
        "count": 1,
        "type": "Warning",
        "reportingComponent": "default-scheduler",
    }
    assert patch[:2] == ("patch strategic", CoreEvent)
    assert patch[3] == {"count": 2, "lastTimestamp": "2027-01-15T08:00:05Z"}


@pytest.mark.parametrize("served", [AWAY, ServiceUnavailable("starting")])
async def test_events_wait_until_discovery_has_succeeded(served):
    api = WritingApi(serves=served)
    async with broadcasting(api=api) as setup:
        await setup.fail()
        await setup.time.advance(11.24)
        assert api.calls == []
        api.served = True
        await setup.time.advance(11.25)
        assert setup.calls == [("create", None)]


async def test_without_the_right_to_discover_core_v1_events_are_written():
    async with broadcasting(api=WritingApi(serves=Forbidden("no"))) as setup:
        await setup.fail()
        assert setup.api.calls[0][1] is CoreEvent


# -- series ------------------------------------------------------------------------------------------------------------


async def test_the_second_event_starts_a_series_and_later_ones_are_counted():
    async with broadcasting() as setup:
        await setup.fail(note="first")
        await setup.time.advance(1.5)
        await setup.fail(note="second")
        for _ in range(5):
            await setup.fail()
        verb, kind, key, body, lane = setup.api.calls[1]
        assert setup.calls == [("create", None), ("patch", 2)]
    assert (verb, kind, lane) == ("patch strategic", Event, "event")
    assert key == setup.api.calls[0][2]
    assert body == {"series": {"count": 2, "lastObservedTime": "2027-01-15T08:00:01.500000Z"}}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"pod": a_pod(version="8")}, id="another version"),
        pytest.param({"pod": a_pod("web-1")}, id="another object"),
        pytest.param({"reason": "Other"}, id="another reason"),
        pytest.param({"action": "Other"}, id="another action"),
        pytest.param({"type_": "Normal"}, id="another type"),
        pytest.param({"related": a_pod("x")}, id="another related object"),
    ],
)
async def test_events_that_differ_in_more_than_the_note_are_distinct(other):
    async with broadcasting() as setup:
        await setup.fail()
        await setup.fail(**other)
        assert setup.calls == [("create", None), ("create", None)]


async def test_profiles_do_not_share_a_series():
    async with broadcasting() as setup:
        await setup.fail()
        setup.recorder = setup.broadcaster.recorder("other")
        await setup.fail()
        assert setup.calls == [("create", None), ("create", None)]


async def test_a_series_is_never_sent_before_its_first_event():
    async with broadcasting() as setup:
        setup.api.open.clear()
        for _ in range(3):
            await setup.fail()
        assert setup.calls == [("create", None)]
        setup.api.open.set()
        await settle()
        assert setup.calls == [("create", None), ("patch", 3)]
        assert setup.api.most_in_flight == 1


async def test_two_pending_equal_events_are_two_requests():
    async with broadcasting() as setup:
        setup.fails()
        setup.fails()
        await settle()
        assert setup.calls == [("create", None), ("patch", 2)]


async def test_a_series_whose_event_was_deleted_is_created_again():
    async with broadcasting() as setup:
        await setup.fail()
        setup.api.answers.append(GONE)
        await setup.time.advance(1.0)
        await setup.fail()
        again = setup.api.bodies[2]
        assert setup.calls == [("create", None), ("patch", 2), ("create", 2)]
    assert again == {
        **setup.api.bodies[0],
        "series": {"count": 2, "lastObservedTime": "2027-01-15T08:00:01.000000Z"},
    }


async def test_ongoing_series_are_sent_every_half_hour():
    async with broadcasting() as setup:
        await setup.fail()
        for _ in range(8):
            await setup.time.advance(300.0)
            await setup.fail()
        assert setup.calls == [("create", None), ("patch", 2), ("patch", 6)]


async def test_a_finished_series_is_sent_once_more_and_forgotten():
    async with broadcasting() as setup:
        await setup.time.advance(100.0)
        for _ in range(4):
            await setup.fail()
        await setup.time.advance(619.0)
        assert setup.calls == [("create", None), ("patch", 2)]
        await setup.time.advance(2.0)
        assert setup.calls == [("create", None), ("patch", 2), ("patch", 4)]
        await setup.time.advance(4000.0)
        await setup.fail()
        assert setup.calls[3:] == [("create", None)]


async def test_a_single_event_is_forgotten_after_six_minutes():
    async with broadcasting() as setup:
        await setup.fail()
        await setup.time.advance(721.0)
        await setup.fail()
        assert setup.calls == [("create", None), ("create", None)]


async def test_a_final_count_that_could_not_be_sent_is_sent_later():
    async with broadcasting() as setup:
        await setup.fail()
        await setup.fail()
        setup.api.answers.extend([AWAY] * event_recorder.TRIES)
        await setup.time.advance(720.0 + 200.0)
        assert setup.calls[2:] == [("patch", 2)] * 12
        await setup.time.advance(360.0)
        assert setup.calls[14:] == [("patch", 2)]
        await setup.time.advance(3600.0)
        assert len(setup.calls) == 15


async def test_a_series_that_continues_is_not_finished():
    async with broadcasting() as setup:
        await setup.fail()
        await setup.fail()
        setup.api.answers.extend([AWAY] * event_recorder.TRIES)
        await setup.time.advance(720.0 + 200.0)
        assert len(setup.calls) == 14
        for _ in range(3):
            await setup.fail()
            await setup.time.advance(300.0)
        # Half an hour after the start.
        assert setup.calls[14:] == [("patch", 5)]


async def test_a_series_that_ends_at_the_periodic_send_is_sent_once():
    async with broadcasting() as setup:
        await setup.time.advance(1300.0)
        await setup.fail()
        await setup.fail()
        await setup.time.advance(600.0)
        assert setup.calls == [("create", None), ("patch", 2), ("patch", 2)]


def test_forgetting_an_old_event_keeps_a_new_equal_one():
    series = event_series.EventSeries()
    key = event_series.EventKey("Normal", "A", "R", "c", "i", ObjectReference(name="p"), None)
    old = series.observe(key, "n", time=0.0, nanoseconds=1)
    series.forget(old)
    new = series.observe(key, "n", time=0.0, nanoseconds=2)
    series.forget(old)
    assert series.observe(key, "n", time=0.0, nanoseconds=3) is new


async def test_the_number_of_remembered_events_is_limited(monkeypatch):
    monkeypatch.setattr(event_series, "MAX_REMEMBERED", 2)
    async with broadcasting() as setup:
        for _ in range(3):
            await setup.fail(a_pod("a"))
        await setup.fail(a_pod("b"))
        await setup.fail(a_pod("c"))
        # The series of a has been finished, b and c are still known.
        assert setup.calls == [("create", None), ("patch", 2), ("create", None), ("create", None), ("patch", 3)]
        await setup.fail(a_pod("c"))
        await setup.fail(a_pod("a"))
        assert setup.calls[5:] == [("patch", 2), ("create", None)]


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [AWAY, RequestDropped("lane full")], ids=["unreachable", "lane full"])
async def test_a_lost_event_is_sent_again_after_ten_seconds_and_a_bit(problem):
    async with broadcasting(chance=0.8) as setup:
        setup.api.answers.append(problem)
        await setup.fail()
        assert setup.broadcaster.idle
        await setup.time.advance(11.9)
        assert len(setup.calls) == 1
        await setup.time.advance(0.2)
        assert setup.calls == [("create", None), ("create", None)]


async def test_an_event_is_given_up_after_twelve_tries():
    async with broadcasting() as setup:
        setup.api.answers.extend([AWAY] * 20)
        await setup.fail()
        await setup.time.advance(1000.0)
        assert setup.calls == [("create", None)] * 12
        assert "connection refused" in setup.said[0]
        assert any("tries are used up" in text for text in setup.said)
        assert any("FailedScheduling of Pod default/web-0" in text for text in setup.said)


@pytest.mark.parametrize("answer", [Forbidden("no"), DecodeError(field="note", message="odd")])
async def test_refused_events_are_not_sent_again(answer):
    async with broadcasting() as setup:
        setup.api.answers.append(answer)
        await setup.fail()
        await setup.time.advance(300.0)
        assert setup.calls == [("create", None)]
        assert str(answer) in setup.said[0]


async def test_an_event_that_already_exists_counts_as_sent():
    async with broadcasting() as setup:
        setup.api.answers.extend([AWAY, AlreadyExists("it does")])
        await setup.fail()
        await setup.time.advance(100.0)
        assert setup.calls == [("create", None)] * 2
        assert len(setup.said) == 1


async def test_a_series_created_twice_at_once_is_patched_then():
    async with broadcasting() as setup:
        await setup.fail()
        setup.api.answers.extend([GONE, AlreadyExists("just now")])
        await setup.fail()
        await setup.time.advance(12.0)
        assert setup.calls == [("create", None), ("patch", 2), ("create", 2), ("patch", 2)]


async def test_an_unavailable_server_does_not_fill_the_log():
    async with broadcasting() as setup:
        setup.api.answers.extend([AWAY] * 100_000)
        for number in range(500):
            setup.fails(a_pod(f"p{number}"))
        await setup.time.advance(60.0)
        assert len(setup.said) < 10


async def test_events_beyond_the_queue_are_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(event_recorder, "MAX_QUEUED", 5)
    async with broadcasting() as setup:
        for number in range(8):
            setup.fails(a_pod(f"p{number}"))
        assert setup.broadcaster.dropped == 3
        assert "dropped: FailedScheduling of Pod default/p5" in setup.said[0]
        await settle(50)
        assert len(setup.calls) == 5
        # Dropped events are not remembered as sent.
        await setup.fail(a_pod("p7"))
        assert setup.calls[5:] == [("create", None)]


async def test_concurrent_requests_are_limited():
    async with broadcasting() as setup:
        setup.api.open.clear()
        for number in range(100):
            setup.fails(a_pod(f"p{number}"))
        await settle(100)
        assert setup.api.in_flight == 16
        assert not setup.broadcaster.idle
        setup.api.open.set()
        await settle(200)
        assert len(setup.calls) == 100
        assert setup.broadcaster.idle


# -- shutdown ----------------------------------------------------------------------------------------------------------


async def test_a_flush_sends_what_a_stopped_broadcaster_left():
    async with broadcasting() as setup:
        setup.api.open.clear()
        for number in range(30):
            setup.fails(a_pod(f"p{number}"))
        await settle(50)
    setup.api.open.set()
    sent = len(setup.api.calls)
    await setup.broadcaster.flush(5.0)
    assert len(setup.api.calls) - sent == 30
    assert len({call[2] for call in setup.api.calls}) == 30
    assert setup.said == []


async def test_a_flush_does_not_wait_for_an_unavailable_server():
    async with broadcasting() as setup:
        setup.api.answers.extend([AWAY] * 1000)
        for number in range(30):
            setup.fails(a_pod(f"p{number}"))
        await settle(50)
        await setup.broadcaster.flush(5.0)
        assert setup.time.now == 0.0
        assert any("more since" in text for text in setup.said)


async def test_a_flush_is_limited_in_time():
    async with broadcasting() as setup:
        setup.api.open.clear()
        await setup.fail()
        flushing = asyncio.create_task(setup.broadcaster.flush(5.0))
        await setup.time.advance(4.9)
        assert not flushing.done()
        await setup.time.advance(0.2)
        await flushing
        assert setup.said == ["Events are lost at the end: 1"]


async def test_an_internal_error_affects_one_event_and_is_reported():
    async with broadcasting() as setup:
        setup.api.answers.append(TypeError("bug"))
        setup.fails(a_pod("odd"))
        await setup.fail(a_pod("web-0"))
        assert setup.said == [
            "An event is lost, sending it fails: FailedScheduling of Pod default/odd: TypeError('bug')"
        ]
        assert [call[3]["regarding"]["name"] for call in setup.api.calls] == ["odd", "web-0"]
        assert setup.broadcaster.idle
