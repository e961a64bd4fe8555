"""How the room for more pods changes while a server of the page runs, in bounded memory.

A moment is kept each time that somebody asks for the room, at most one per interval; `keep` asks without a viewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import asdict

from stowplan.kube.timing.times import REAL_TIMES, Times
from stowplan.scheduler.inspection.room import RoomRecord
from stowplan.ui.report_records import AxisRecord, ChartRecord, LayerRecord, SectionRecord, Unit

#: Seconds between two moments.
INTERVAL = 5.0
#: Moments that are kept: of more, every second one goes.
MOST = 600


class RoomOverTimeRecord(RoomRecord, frozen=True, kw_only=True, omit_defaults=False):
    """The room now, and charts of how it changed."""

    charts: tuple[SectionRecord, ...] = ()


class _Moment(NamedTuple):
    at: float
    #: Shape -> how many more fit.
    fits: Mapping[str, float]
    #: Shape, or resource of typical pods -> the share of the room that is not where they fit.
    lost: Mapping[str, float]


class RoomTrend:
    def __init__(self, room: Callable[[], RoomRecord], times: Times = REAL_TIMES) -> None:
        self._room = room
        self._times = times
        self._moments: list[_Moment] = []

    def look(self) -> RoomOverTimeRecord:
        """The room now, which becomes a moment if the last one is old enough."""
        room, now, moments = self._room(), self._times.clock(), self._moments
        if not moments or now >= moments[-1].at + INTERVAL:
            moments.append(_moment(room, now))
            if len(moments) > MOST:
                del moments[1::2]
        return RoomOverTimeRecord(**asdict(room), charts=tuple(self._charts()))

    async def keep(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await self._times.sleep(INTERVAL)

    def _charts(self) -> Iterator[SectionRecord]:
        if len(self._moments) < 2:
            return
        if self._moments[-1].fits:
            yield self._chart("room-over-time", "Room over time", "How many more fit.", "count", lambda one: one.fits)
        if self._moments[-1].lost:
            caption = "The share of the room that is not where such pods fit."
            yield self._chart("lost-over-time", "Lost over time", caption, "ratio", lambda one: one.lost)

    def _chart(
        self, name: str, title: str, caption: str, unit: Unit, of: Callable[[_Moment], Mapping[str, float]]
    ) -> SectionRecord:
        begin, layers = self._moments[0].at, []
        # Frequent requests come and go: those that are gone have no line.
        for colour, shape in enumerate(of(self._moments[-1])):
            points = [(one.at - begin, of(one)[shape]) for one in self._moments if shape in of(one)]
            x, y = zip(*points, strict=True)
            layers.append(LayerRecord(kind="step", name=shape, x=x, y=y, colour=colour))
        x_axis = AxisRecord(name="since the page is served", unit="seconds")
        chart = ChartRecord(x=x_axis, y=AxisRecord(unit=unit), layers=tuple(layers))
        return SectionRecord(name=name, title=title, caption=caption, chart=chart)


def _moment(room: RoomRecord, at: float) -> _Moment:
    lost = {f"{name}, typical pods": share for name, share in room.fragmentation.items()}
    lost |= {shape.name: shape.lost for shape in room.shapes if not shape.seen}
    return _Moment(at, {shape.name: shape.fits for shape in room.shapes}, lost)
