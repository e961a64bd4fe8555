"""A timeline: the initial plan, the changes between successive frames, and figures.

A replayed recording, or a simulation, is sampled once per interval. It may last seconds or days: when there are too
many frames, neighbors are merged and the interval doubles, so that their number is bounded and one pass is sufficient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import inf
from typing import NamedTuple, TypeVar

import msgspec

from stowplan.history.recordings.recording_files import moment_text
from stowplan.kube.api.types import ResourceSlice
from stowplan.kube.config import DEFAULT_FEATURES, FeatureGates
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.waits import WaitingPods, Waits
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.inspection.devices import Devices, DevicesRecord
from stowplan.scheduler.inspection.records import Record
from stowplan.scheduler.inspection.room import room_for, standard_shapes
from stowplan.ui.plan import Plan, PlanChange, difference
from stowplan.ui.plan_follower import PlanFollower
from stowplan.ui.plan_messages import NodesRecord, PodsRecord, SnapshotMessage, delta, snapshot
from stowplan.ui.report_records import Unit

#: Maximum number of frames, and the initial interval in seconds.
MAX_FRAMES, FIRST_INTERVAL = 1000, 0.1
MAX_MARKS = 500
#: Resources whose requested share is a figure if there is none of them; others are if nodes have some.
_RESOURCES = ("cpu", "memory")
_NO_FIGURE = "ephemeral-storage"
#: Figure -> its unit, beside resources. Waits are those of the pods that have had a node so far.
UNITS: dict[str, Unit] = {
    "cost": "",
    "pods": "count",
    "pending": "count",
    "waitHalf": "seconds",
    "wait95": "seconds",
}

V = TypeVar("V")

#: A mark of something planned.
EVENT = "event"
#: Before the names of shapes: how many more such pods fit.
ROOM = "room for "


class MarkRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A point of interest in a timeline."""

    time: str
    what: str
    detail: str = ""


class ColumnRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    unit: Unit
    values: tuple[float, ...]


class SeriesRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    #: Seconds since the epoch.
    time: tuple[float, ...]
    columns: tuple[ColumnRecord, ...]


class TimeRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "Time"
    timeline: str
    from_: str = msgspec.field(name="from")
    to: str
    marks: tuple[MarkRecord, ...]
    series: SeriesRecord
    #: Limitations, for users.
    note: str = ""


class FrameRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    time: str
    nodes: NodesRecord
    pods: PodsRecord
    gone_nodes: tuple[str, ...]
    gone_pods: tuple[str, ...]
    #: Of nodes and pods whose devices are others now; empty for those that have none any more.
    devices: DevicesRecord | None = None


class FramesRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "Frames"
    timeline: str
    start: SnapshotMessage
    #: At the start.
    devices: DevicesRecord | None = None
    frames: tuple[FrameRecord, ...]


class Run(NamedTuple):
    """Part of a timeline: iterating advances the state from moment to moment."""

    state: ClusterState
    moments: Iterable[float]
    features: FeatureGates = DEFAULT_FEATURES


class Frame(PlainStruct, frozen=True):
    """One frame: changes since the previous one, and figures."""

    time: float
    change: PlanChange
    figures: Mapping[str, float]
    #: As in `FrameRecord`.
    devices: DevicesRecord | None = None


@dataclass
class Timeline:
    """The initial plan, and the frames; the first frame has no changes, and the initial figures."""

    start: Plan = field(default_factory=Plan)
    frames: list[Frame] = field(default_factory=list)
    marks: list[MarkRecord] = field(default_factory=list)
    note: str = ""
    #: Names of existing nodes, for marks.
    _known: set[str] = field(default_factory=set, repr=False)

    def add(self, frame: Frame) -> None:
        if self.frames:
            self._mark(frame)
            self.frames.append(frame)
        else:
            self.start.apply(frame.change)
            self.frames.append(Frame(frame.time, PlanChange(), frame.figures, frame.devices))
        self._known.difference_update(frame.change.gone_nodes)
        self._known.update(frame.change.nodes)

    def halve(self) -> None:
        """Merge neighboring frames; the first one stays."""
        frames = self.frames
        self.frames = frames[:1]
        for i in range(1, len(frames), 2):
            one, other = frames[i], frames[min(i + 1, len(frames) - 1)]
            if one is not other:
                devices = _changed_devices(one.devices, other.devices)
                other = Frame(other.time, one.change.then(other.change), other.figures, devices)
            self.frames.append(other)

    def end(self) -> Plan:
        """The plan after all frames."""
        return self.at(inf)

    def at(self, time: float) -> Plan:
        """The plan after the frames up to and including a time."""
        plan = self.start.copy()
        for frame in self.frames:
            if frame.time > time:
                break
            plan.apply(frame.change)
        return plan

    def mark_events(self, events: Iterable[tuple[float, str]]) -> None:
        """What was planned to happen, by its time."""
        self.marks += [MarkRecord(time=moment_text(at), what=EVENT, detail=text) for at, text in events]
        self.marks.sort(key=lambda mark: mark.time)

    def _mark(self, frame: Frame) -> None:
        change = frame.change
        found = [("node removed", name) for name in change.gone_nodes]
        found += [("node added", name) for name in change.nodes if name not in self._known]
        found += [
            ("preemption", f"{row.key} waits for room on {row.nominated_node}")
            for row in change.pods.values()
            if row.nominated_node and not row.node
        ]
        room = MAX_MARKS - len(self.marks)
        self.marks += [
            MarkRecord(time=moment_text(frame.time), what=what, detail=detail) for what, detail in found[:room]
        ]

    def time_record(self, name: str) -> TimeRecord:
        frames = self.frames
        resources = dict.fromkeys(name for frame in frames for name in frame.figures if name not in UNITS)
        units: dict[str, Unit] = {name: "count" if name.startswith(ROOM) else "ratio" for name in resources}
        units = {name: unit for name, unit in units.items() if name not in UNITS}
        units |= {name: unit for name, unit in UNITS.items() if any(name in frame.figures for frame in frames)}
        columns = tuple(
            ColumnRecord(name=figure, unit=unit, values=tuple(frame.figures.get(figure, 0.0) for frame in frames))
            for figure, unit in units.items()
        )
        return TimeRecord(
            timeline=name,
            from_=moment_text(frames[0].time) if frames else "",
            to=moment_text(frames[-1].time) if frames else "",
            marks=tuple(self.marks),
            series=SeriesRecord(time=tuple(frame.time for frame in frames), columns=columns),
            note=self.note,
        )

    def frames_record(self, name: str) -> FramesRecord:
        return FramesRecord(
            timeline=name,
            start=snapshot(self.start, version=1),
            devices=self.frames[0].devices if self.frames else None,
            frames=tuple(_frame(frame) for frame in self.frames[1:]),
        )


def _frame(frame: Frame) -> FrameRecord:
    found = delta(frame.change, version=1)
    return FrameRecord(
        time=moment_text(frame.time),
        nodes=found.nodes,
        pods=found.pods,
        gone_nodes=found.gone_nodes,
        gone_pods=found.gone_pods,
        devices=frame.devices,
    )


def _changed_devices(one: DevicesRecord | None, other: DevicesRecord | None) -> DevicesRecord | None:
    """Both changes combined."""
    if one is None or other is None:
        return one or other
    return DevicesRecord(nodes=one.nodes | other.nodes, pods=one.pods | other.pods)


def timeline_of(runs: Iterable[Run], waiting: WaitingPods, *, most: int = MAX_FRAMES) -> Timeline:
    """The timeline of consecutive runs; `waiting` changes while they are played."""
    timeline, interval = Timeline(), FIRST_INTERVAL
    plan, devices = Plan(), DevicesRecord(nodes={}, pods={})
    for run in runs:
        sampler = StateSampler(run.state, waiting, plan, devices=devices, features=run.features)
        last = now = None
        try:
            for now in run.moments:
                if last is not None and now - last < interval:
                    continue
                sampler.sample_into(timeline, now)
                last = now
                if len(timeline.frames) > most:
                    timeline.halve()
                    interval *= 2
            if now is not None:
                sampler.sample_into(timeline, now)
        finally:
            sampler.end()
        plan, devices = sampler.plan, sampler.devices
    return timeline


class StateSampler:
    """Samples a state."""

    def __init__(
        self,
        state: ClusterState,
        waiting: WaitingPods,
        before: Plan | None = None,
        more: Callable[[], Mapping[str, float]] = dict,
        *,
        devices: DevicesRecord | None = None,
        features: FeatureGates = DEFAULT_FEATURES,
    ) -> None:
        """`before`, `devices`: what the first frame is compared with; `more`: figures of the caller."""
        #: The last counts.
        self.devices = devices or DevicesRecord(nodes={}, pods={})
        self._features = features
        self._more = more
        self._state = state
        self._waiting = waiting
        self._follower = PlanFollower(state)
        self._follower.begin()
        self._before: Plan | None = Plan() if before is None else before
        self._last: float | None = None

    @property
    def plan(self) -> Plan:
        return self._follower.plan

    def end(self) -> None:
        self._follower.end()

    @cached_property
    def _counting(self) -> Devices:
        return Devices(self._state, self._features)

    def sample(self, now: float) -> Frame | None:
        """None: nothing has happened, or the initial lists are not complete yet."""
        change, plan = self._follower.changes(), self._follower.plan
        if self._before is not None:
            if not plan.nodes:
                return None
            change, self._before = difference(self._before, plan), None
        elif not change and self._last == now:
            return None
        self._last = now
        devices = self._changed_devices()
        figures = figures_of(self._state, plan, self._waiting.until(now))
        return Frame(now, change, {**figures, **_held(self.devices), **self._more()}, devices)

    def _changed_devices(self) -> DevicesRecord | None:
        """What has changed since the last frame."""
        before = self.devices
        if not self._state.objects.count(ResourceSlice) and not before.nodes:
            return None
        now = self._counting.counts()
        self.devices = DevicesRecord(nodes=now.nodes, pods=dict(now.pods))
        nodes, pods = _changed(before.nodes, now.nodes, ()), _changed(before.pods, now.pods, {})
        return DevicesRecord(nodes=nodes, pods=pods) if nodes or pods else None

    def sample_into(self, timeline: Timeline, now: float) -> None:
        found = self.sample(now)
        if found is not None:
            timeline.add(found)


def _changed(before: Mapping[str, V], now: Mapping[str, V], none: V) -> dict[str, V]:
    found = {name: value for name, value in now.items() if before.get(name) != value}
    return found | {name: none for name in before if name not in now}


def _held(devices: DevicesRecord) -> dict[str, float]:
    """The share of each driver's devices that is held."""
    held: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for one in chain.from_iterable(devices.nodes.values()):
        held[one.driver] += one.held
        whole[one.driver] += one.devices
    return {driver: round(held[driver] / number, 4) for driver, number in sorted(whole.items())}


def figures_of(state: ClusterState, plan: Plan, waits: Waits) -> dict[str, float]:
    table = state.table
    found: dict[str, float] = {}
    for name, index in table.resources.items():
        whole = int(table.allocatable[index].sum())
        if name in _RESOURCES or (whole and name != _NO_FIGURE):
            found[name] = round(int(table.requested[index].sum()) / whole, 4) if whole else 0.0
    placed = len(state.placed_pods())
    room = room_for(table, list(standard_shapes(table)))
    return {
        **found,
        **{f"{ROOM}{shape.name}": shape.fits for shape in room},
        "pods": placed,
        "pending": len(plan.pods) - placed,
        "waitHalf": round(waits.quantile(0.5), 3),
        "wait95": round(waits.quantile(0.95), 3),
    }
