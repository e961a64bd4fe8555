"""The room over time: moments are kept in bounded memory, whether or not somebody looks."""

import asyncio

from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.inspection.room import RoomRecord, ShapeRoomRecord
from stowplan.ui.room_trend import INTERVAL, MOST, RoomTrend


def shape(name, fits, *, seen=0):
    return ShapeRoomRecord(name=name, requests={}, pods=1, domain="", seen=seen, fits=fits, together=4)


def trend_of(*shapes, time):
    """A trend, and the shapes that it finds next."""
    found = list(shapes)
    return RoomTrend(lambda: RoomRecord(nodes=1, shapes=tuple(found), fragmentation={"cpu": 0.5}), time), found


def lines(trend):
    """Of each chart, by the names of its layers: points."""
    return {
        chart.name: {layer.name: list(zip(layer.x, layer.y, strict=True)) for layer in chart.chart.layers}
        for chart in trend.look().charts
    }


async def test_room_and_lost_share_of_shapes():
    time = ManualTime()
    trend, found = trend_of(shape("1 gpu", 4), time=time)
    assert lines(trend) == {}
    await time.advance(INTERVAL)
    found[:] = shape("1 gpu", 1), shape("web", 2, seen=3)
    assert lines(trend) == {
        "room-over-time": {"1 gpu": [(0, 4), (INTERVAL, 1)], "web": [(INTERVAL, 2)]},
        "lost-over-time": {"cpu, typical pods": [(0, 0.5), (INTERVAL, 0.5)], "1 gpu": [(0, 0.0), (INTERVAL, 0.75)]},
    }


async def test_several_viewers_add_no_moments():
    time = ManualTime()
    trend, _ = trend_of(shape("1 gpu", 4), time=time)
    trend.look()
    await time.advance(INTERVAL / 2)
    assert lines(trend) == {}


async def test_it_is_kept_without_viewers_and_thins_out():
    time = ManualTime()
    trend, _ = trend_of(shape("1 gpu", 4), time=time)
    keeping = asyncio.ensure_future(trend.keep())
    for _ in range(MOST + 1):
        await time.advance(INTERVAL)
    keeping.cancel()
    points = lines(trend)["room-over-time"]["1 gpu"]
    assert points[0][0] == 0
    assert MOST / 2 <= len(points) <= MOST
    assert points[-1][0] >= MOST * INTERVAL
