"""A timeline in a file, written while a simulation runs, for the page.

Compressed lines of JSON: a header, then one frame per line with its figures and the changes since the previous frame.
In a long simulation the interval doubles whenever there are as many frames as a timeline keeps. Beyond `MAX_ROWS` rows
of nodes and pods, which is what a browser can hold, nothing more is written, and the last line says so.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from gzip import BadGzipFile, GzipFile
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from stowplan.kube.config import DEFAULT_FEATURES, FeatureGates
from stowplan.kube.timing.waits import WaitingPods
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.inspection.devices import DevicesRecord
from stowplan.scheduler.inspection.records import Record
from stowplan.ui.plan_messages import DeltaMessage, change_of, delta
from stowplan.ui.source_records import ConfigurationRecord
from stowplan.ui.timeline import MAX_FRAMES, Frame, StateSampler, Timeline

NAME = "timeline.jsonl.gz"
#: Incremented when the encoding of nodes and pods changes.
FORMAT = 2
MAX_ROWS = 300_000
#: A higher level takes twice the time for a tenth of the size.
_LEVEL = 3
#: The initial interval of a timeline of unknown length.
_FIRST_INTERVAL = 1.0


class TimelineFileError(ValueError):
    """The file cannot be read; the message names it."""


class RerunRecord(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What is needed to run the simulation again; the configuration is in the header."""

    scenario: dict[str, Any]
    #: The base of the scenario's relative paths, relative to the timeline's folder.
    folder: str
    seed: int
    #: MODULE:CLASS of plugins in addition to the scenario's own.
    plugins: tuple[str, ...] = ()


class TimelineHeader(Record, frozen=True, kw_only=True, omit_defaults=False):
    kind: str = "Timeline"
    format: int = FORMAT
    title: str
    scheduler_name: str = ""
    configuration: ConfigurationRecord
    #: None if unknown.
    rerun: RerunRecord | None = None
    #: Of nodes, at the beginning, as in `SourceRecord`.
    prices: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)


class _FrameLine(Record, frozen=True, kw_only=True, omit_defaults=False):
    time: float
    figures: dict[str, float]
    change: DeltaMessage
    devices: DevicesRecord | None = None


class _EventsLine(Record, frozen=True, kw_only=True, omit_defaults=False):
    #: Seconds since the epoch, and what was planned to happen.
    events: tuple[tuple[float, str], ...]


class _EndLine(Record, frozen=True, kw_only=True, omit_defaults=False):
    note: str


class TimelineWriter:
    """Samples a state and writes frames. Raises OSError."""

    def __init__(self, path: Path, header: TimelineHeader, *, duration: float | None) -> None:
        """`duration`: seconds from the first frame to the last; None if unknown."""
        self._file = path.open("wb")
        # Without a name or time, so that equal timelines are equal files.
        self._packer = GzipFile("", "wb", compresslevel=_LEVEL, fileobj=self._file, mtime=0)
        self._interval = _FIRST_INTERVAL if duration is None else duration / MAX_FRAMES
        self._frames = self._rows = 0
        self._next: float | None = None
        self._sampler: StateSampler | None = None
        self._write(header)

    def begin(
        self,
        state: ClusterState,
        waiting: WaitingPods,
        more: Callable[[], Mapping[str, float]] = dict,
        *,
        features: FeatureGates = DEFAULT_FEATURES,
    ) -> None:
        """`more`: further figures of each moment."""
        self._sampler = StateSampler(state, waiting, more=more, features=features)

    def moment(self, now: float) -> None:
        """Called at each moment of the state; samples it if a frame is due."""
        if self._next is None or now >= self._next:
            self._sample(now)

    def end(self, now: float, events: Sequence[tuple[float, str]] = ()) -> None:
        """Write the last frame, and what was planned to happen, by its time."""
        self._sample(now)
        if events:
            self._write(_EventsLine(events=tuple(events)))
        if self._sampler is not None:
            self._sampler.end()

    def close(self) -> None:
        self._packer.close()
        self._file.close()

    def _sample(self, now: float) -> None:
        found = None if self._sampler is None else self._sampler.sample(now)
        if found is None:
            return
        self._next = now + self._interval
        change, devices = found.change, found.devices
        self._rows += len(change.nodes) + len(change.pods)
        self._rows += 0 if devices is None else len(devices.nodes) + len(devices.pods)
        if self._rows > MAX_ROWS:
            self._write(_EndLine(note=f"the plan is known up to here: it is kept for {MAX_ROWS:,} changes of pods"))
            self._sampler = None
            return
        line = _FrameLine(time=now, figures=dict(found.figures), change=delta(change, version=1), devices=devices)
        self._write(line)
        self._frames += 1
        if self._frames % MAX_FRAMES == 0:
            self._interval *= 2

    def _write(self, record: Record) -> None:
        self._packer.write(msgspec.json.encode(record, order="deterministic") + b"\n")


def read_timeline(path: Path) -> tuple[TimelineHeader, Timeline]:
    """Raises TimelineFileError. A truncated file, whose writer was killed, is read up to its end."""
    timeline = Timeline()
    try:
        with path.open("rb") as file:
            header = _read_lines(file, timeline)
    except (BadGzipFile, msgspec.MsgspecError, ValueError, IndexError, zlib.error) as error:
        raise TimelineFileError(f"{path}: this is not the timeline of a simulation: {error}") from error
    except OSError as error:
        raise TimelineFileError(f"{path}: {error.strerror or error}") from error
    return header, timeline


def _read_lines(file: BinaryIO, timeline: Timeline) -> TimelineHeader:
    lines = GzipFile(fileobj=file)
    header = msgspec.json.decode(lines.readline(), type=TimelineHeader)
    if header.kind != "Timeline" or header.format != FORMAT:
        want = f"want a Timeline of format {FORMAT}, got {header.kind} of format {header.format}"
        raise ValueError(f"{want}; `stowplan simulate` writes a new one")
    try:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            _read_line(line, timeline)
    except EOFError:
        timeline.note = "its writer was stopped: the timeline is known up to here"
    return header


def _read_line(line: bytes, timeline: Timeline) -> None:
    if line.startswith(b'{"events"'):
        timeline.mark_events(msgspec.json.decode(line, type=_EventsLine).events)
        return
    if line.startswith(b'{"note"'):
        timeline.note = msgspec.json.decode(line, type=_EndLine).note
        return
    read = msgspec.json.decode(line, type=_FrameLine)
    timeline.add(Frame(read.time, change_of(read.change), read.figures, read.devices))
    if len(timeline.frames) > MAX_FRAMES:
        timeline.halve()
