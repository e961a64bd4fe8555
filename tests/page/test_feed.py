"""Streams of the plan: news when there is some, a sign of life when there is none, and an end."""

import asyncio

import pytest

from stowplan.page.feed import BEAT_INTERVAL, Feed
from stowplan.page.plan import NodeRow, Plan
from stowplan.timing.manual_time import ManualTime
from support.page.client import Client


def plan(number):
    return Plan({"a": NodeRow("a", (), (), False, (("cpu", number),))})


@pytest.fixture
def time():
    return ManualTime()


@pytest.fixture
def feed(time):
    return Feed(plan(0), times=time)


async def test_a_snapshot_then_what_changes(feed):
    pieces, client = feed.stream().pieces, Client()
    client.read(await anext(pieces))
    following = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    assert not following.done()
    feed.publish(plan(1))
    client.read(await following)
    assert (client.snapshots, client.nodes["a"]["allocatable"]) == (1, {"cpu": 1})
    await pieces.aclose()


async def test_news_that_came_while_the_client_was_slow_is_not_missed(feed):
    pieces, client = feed.stream().pieces, Client()
    client.read(await anext(pieces))
    feed.publish(plan(1))
    feed.publish(plan(2))
    client.read(await anext(pieces))
    client.read(await anext(pieces))
    assert client.nodes["a"]["allocatable"] == {"cpu": 2}
    await pieces.aclose()


async def test_a_comment_when_nothing_happens(feed, time):
    pieces = feed.stream().pieces
    await anext(pieces)
    silent = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    await time.advance(BEAT_INTERVAL)
    assert (await silent).startswith(b": ")
    await pieces.aclose()


async def test_all_streams_end_with_it(feed):
    streams = [feed.stream().pieces for _ in range(3)]
    for pieces in streams:
        await anext(pieces)
    waiting = [asyncio.ensure_future(anext(pieces, None)) for pieces in streams]
    await asyncio.sleep(0)
    feed.close()
    assert await asyncio.gather(*waiting) == [None] * 3
    assert await anext(feed.stream().pieces, None) is None
