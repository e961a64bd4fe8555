"""Streams of the plan: changes, keep-alive comments, and the end."""

import asyncio

import pytest

from stowplan.kube.timing.times import ManualTime
from stowplan.ui.event_stream import BEAT_INTERVAL, PlanStreams
from stowplan.ui.plan import NodeRow, Plan, PlanChange, PodRow
from support.page.client import Client


def plan(number):
    return Plan({"a": NodeRow("a", (), (), False, (("cpu", number),))})


def change(number):
    return PlanChange(nodes=plan(number).nodes)


@pytest.fixture
def time():
    return ManualTime()


@pytest.fixture
def streams(time):
    return PlanStreams(plan(0), times=time)


async def test_a_snapshot_then_changes(streams):
    pieces, client = streams.stream().pieces, Client()
    client.read(await anext(pieces))
    following = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    assert not following.done()
    streams.publish(change(1))
    client.read(await following)
    assert (client.snapshots, client.nodes["a"]["allocatable"]) == (1, {"cpu": 1})
    await pieces.aclose()


async def test_changes_during_a_slow_write_are_not_missed(streams):
    pieces, client = streams.stream().pieces, Client()
    client.read(await anext(pieces))
    streams.publish(change(1))
    streams.publish(change(2))
    client.read(await anext(pieces))
    client.read(await anext(pieces))
    assert client.nodes["a"]["allocatable"] == {"cpu": 2}
    await pieces.aclose()


async def test_keep_alive_comments(streams, time):
    pieces = streams.stream().pieces
    await anext(pieces)
    silent = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    await time.advance(BEAT_INTERVAL)
    assert (await silent).startswith(b": ")
    await pieces.aclose()


async def test_closing_ends_all_streams(streams):
    opened = [streams.stream().pieces for _ in range(3)]
    for pieces in opened:
        await anext(pieces)
    waiting = [asyncio.ensure_future(anext(pieces, None)) for pieces in opened]
    await asyncio.sleep(0)
    streams.close()
    assert await asyncio.gather(*waiting) == [None] * 3
    assert await anext(streams.stream().pieces, None) is None


async def test_viewers_wait_for_a_plan(time):
    streams, client = PlanStreams(times=time), Client()
    pieces = streams.stream().pieces
    first = asyncio.ensure_future(anext(pieces))
    await streams.watched()
    streams.begin(plan(1))
    client.read(await first)
    streams.pause()
    later = asyncio.ensure_future(anext(pieces))
    streams.begin(plan(5))
    client.read(await later)
    assert (client.snapshots, client.nodes["a"]["allocatable"]) == (2, {"cpu": 5})
    await pieces.aclose()
    assert not streams.has_viewers


async def test_concurrent_viewers_share_a_snapshot(streams):
    opened = [streams.stream().pieces for _ in range(5)]
    frames = await asyncio.gather(*(anext(pieces) for pieces in opened))
    assert all(frame is frames[0] for frame in frames)
    for pieces in opened:
        await pieces.aclose()


async def test_a_large_plan_is_sent_in_parts_followed_by_changes(time, monkeypatch):
    monkeypatch.setattr("stowplan.ui.plan_messages.PODS_OF_PART", 2)
    pods = {f"d/{i}": PodRow(f"d/{i}", str(i), "a", "", "", (), (), 0, "", False) for i in range(5)}
    streams = PlanStreams(Plan(plan(0).nodes, pods), times=time)
    opened, clients = [streams.stream().pieces for _ in range(2)], [Client(), Client()]
    for number in range(4):
        frames = [await anext(pieces) for pieces in opened]
        assert frames[0] is frames[1]
        for client, frame in zip(clients, frames, strict=True):
            client.read(frame)
            assert (client.wants_more, len(client.pods)) == (number < 3, min(2 * number, 5))
        streams.publish(change(number + 1))
    for pieces, client in zip(opened, clients, strict=True):
        for _ in range(4):
            client.read(await anext(pieces))
        assert (client.snapshots, client.nodes["a"]["allocatable"]) == (1, {"cpu": 4})
        await pieces.aclose()


async def test_parts_are_sent_as_they_are_made(time):
    pods = {f"d/{i}": PodRow(f"d/{i}", str(i), "a", "", "", (), (), 0, "", False) for i in range(3)}
    streams, early, late = PlanStreams(times=time), Client(), Client()
    pieces = streams.stream().pieces
    first = asyncio.ensure_future(anext(pieces))
    await streams.watched()
    streams.begin(plan(1), more=True)
    early.read(await first)
    assert (early.wants_more, list(early.nodes), early.pods) == (True, ["a"], {})
    for key, row in pods.items():
        streams.add_pods({key: row})
        early.read(await anext(pieces))
        assert early.wants_more
        assert key in early.pods
    # A new viewer now gets the same parts, and then the rest with the others.
    later = streams.stream().pieces
    for _ in range(4):
        late.read(await anext(later))
    assert late.wants_more
    streams.complete()
    streams.publish(change(2))
    for stream, client in ((pieces, early), (later, late)):
        client.read(await anext(stream))
        assert not client.wants_more
        client.read(await anext(stream))
        assert (client.snapshots, client.nodes["a"]["allocatable"], set(client.pods)) == (1, {"cpu": 2}, set(pods))
        await stream.aclose()


async def test_changes_during_a_snapshot_follow_it(streams):
    pieces, client = streams.stream().pieces, Client()
    first = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    streams.publish(change(1))
    client.read(await first)
    client.read(await anext(pieces))
    assert (client.snapshots, client.nodes["a"]["allocatable"]) == (1, {"cpu": 1})
    await pieces.aclose()
