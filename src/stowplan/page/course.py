"""How a recording went: the plan at its beginning, what changed from one look to the next, and figures beside it.

The recorded engine is played again, and its state is looked at once an interval. A recording can be seconds or days
long: when there are too many looks, each two become one and the interval doubles, so their number stays bounded and no
more than one pass is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from stowplan.api.api_errors import BadRequest
from stowplan.engine.recording import RecordingError
from stowplan.inspection.records import Record, encoded
from stowplan.page.following import PlanFollower
from stowplan.page.messages import NodesRecord, PodsRecord, SnapshotMessage, delta, snapshot
from stowplan.page.plan import Plan, PlanChange
from stowplan.recordings.files import moment_text
from stowplan.serving.requests.messages import JSON, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from stowplan.cluster.state import ClusterState
    from stowplan.serving.requests.messages import Page

    #: Plays a recording: the state, and the moments at which it is.
    Played = Callable[[], AbstractContextManager[tuple[ClusterState, Iterable[float]]]]

#: Looks that are kept at most, and seconds between two at first.
MOST, FIRST_INTERVAL = 1000, 0.1
MOST_MARKS = 500
#: There is one course in a recording.
TRACK = "recorded"
_RESOURCES = ("cpu", "memory")


class MarkRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Something that somebody would want to go to."""

    time: str
    what: str
    detail: str = ""


class ColumnRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    #: ratio or pods.
    unit: str
    values: tuple[float, ...]


class SeriesRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    #: Seconds since the epoch.
    time: tuple[float, ...]
    columns: tuple[ColumnRecord, ...]


class TimeRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "Time"
    track: str
    from_: str = msgspec.field(name="from")
    to: str
    marks: tuple[MarkRecord, ...]
    series: SeriesRecord


class FrameRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    time: str
    nodes: NodesRecord
    pods: PodsRecord
    gone_nodes: tuple[str, ...]
    gone_pods: tuple[str, ...]


class FramesRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "Frames"
    track: str
    start: SnapshotMessage
    frames: tuple[FrameRecord, ...]


@dataclass(frozen=True)
class Look:
    """The state at one moment: what changed since the look before, and figures."""

    time: float
    change: PlanChange
    figures: dict[str, float]


@dataclass
class Course:
    """The first plan, and the looks after it; the first look has the figures of the beginning."""

    start: Plan
    looks: list[Look]
    marks: list[MarkRecord] = field(default_factory=list)

    def time_record(self, track: str) -> TimeRecord:
        looks = self.looks
        columns = tuple(
            ColumnRecord(
                name=name,
                unit="ratio" if name in _RESOURCES else "pods",
                values=tuple(look.figures[name] for look in looks),
            )
            for name in (looks[0].figures if looks else ())
        )
        return TimeRecord(
            track=track,
            from_=moment_text(looks[0].time) if looks else "",
            to=moment_text(looks[-1].time) if looks else "",
            marks=tuple(self.marks),
            series=SeriesRecord(time=tuple(look.time for look in looks), columns=columns),
        )

    def frames_record(self, track: str) -> FramesRecord:
        return FramesRecord(
            track=track,
            start=snapshot(self.start, version=1),
            frames=tuple(_frame(look) for look in self.looks[1:]),
        )


def _frame(look: Look) -> FrameRecord:
    found = delta(look.change, version=1)
    return FrameRecord(
        time=moment_text(look.time),
        nodes=found.nodes,
        pods=found.pods,
        gone_nodes=found.gone_nodes,
        gone_pods=found.gone_pods,
    )


def course_of(state: ClusterState, moments: Iterable[float], *, most: int = MOST) -> Course:
    """Of a state that is at each moment in turn, rising, when the next one is asked for."""
    watch, interval = _Watch(state), FIRST_INTERVAL
    last = now = None
    try:
        for now in moments:
            if last is not None and now - last < interval:
                continue
            watch.look(now)
            last = now
            if len(watch.looks) > most:
                watch.looks = _halved(watch.looks)
                interval *= 2
        if now is not None:
            watch.look(now)
    finally:
        watch.follower.end()
    return Course(watch.start, watch.looks, watch.marks)


class _Watch:
    """What was seen so far."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.follower = PlanFollower(state)
        for _ in self.follower.begin():
            pass
        self.start = Plan()
        self.looks: list[Look] = []
        self.marks: list[MarkRecord] = []
        self._known: set[str] = set()

    def look(self, now: float) -> None:
        change, plan = self.follower.look(), self.follower.plan
        if not self.looks:
            if not plan.nodes:
                # The first lists are being read.
                return
            self.start, change = plan.copy(), PlanChange()
        elif not change and self.looks[-1].time == now:
            return
        else:
            self._mark(change, now)
        self._known.update(plan.nodes)
        self.looks.append(Look(now, change, self._figures(plan)))

    def _figures(self, plan: Plan) -> dict[str, float]:
        table = self._state.table
        found: dict[str, float] = {}
        for name in _RESOURCES:
            index = table.resources[name]
            whole = int(table.allocatable[index].sum())
            found[name] = round(int(table.requested[index].sum()) / whole, 4) if whole else 0.0
        placed = len(self._state.placed_pods())
        return {**found, "pods": placed, "pending": len(plan.pods) - placed}

    def _mark(self, change: PlanChange, now: float) -> None:
        found = [("node removed", name) for name in change.gone_nodes]
        found += [("node added", name) for name in change.nodes if name not in self._known]
        found += [
            ("preemption", f"{row.key} waits for room on {row.nominated_node}")
            for row in change.pods.values()
            if row.nominated_node and not row.node
        ]
        self._known.difference_update(change.gone_nodes)
        room = MOST_MARKS - len(self.marks)
        self.marks += [MarkRecord(time=moment_text(now), what=what, detail=detail) for what, detail in found[:room]]


def _halved(looks: list[Look]) -> list[Look]:
    """Each two looks as one; the first stays, as it begins."""
    found = looks[:1]
    for i in range(1, len(looks), 2):
        one, other = looks[i], looks[min(i + 1, len(looks) - 1)]
        change = one.change if one is other else one.change.then(other.change)
        found.append(Look(other.time, change, other.figures))
    return found


@dataclass
class Courses:
    """The routes of a recording's course, which is worked out when somebody first asks."""

    played: Played
    _course: Course | None = None

    def pages(self, prefix: str) -> dict[str, Page]:
        return {
            f"{prefix}time": lambda request: _json(self._known().time_record(TRACK)),
            f"{prefix}frames": lambda request: _json(self._known().frames_record(TRACK)),
        }

    def _known(self) -> Course:
        if self._course is None:
            try:
                with self.played() as (state, moments):
                    self._course = course_of(state, moments)
            except RecordingError as error:
                raise BadRequest(str(error)) from error
        return self._course


def _json(record: Record) -> Response:
    return Response(encoded(record), content_type=JSON)
