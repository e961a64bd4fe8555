"""Replay a recorded engine up to a given time, for the cluster of that moment, and verify its decisions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from stowplan.history.recordings.recording_files import file_at, is_continued, moment_text, opened
from stowplan.kube.api.port import Change
from stowplan.kube.config import Configuration, load_config
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.dumped import objects_of
from stowplan.scheduler.engine.effects import Effect
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.input_log.recording import Header, InterruptedCalls, RecordedInput, Replay, outcomes_of
from stowplan.scheduler.engine.inputs import Changes, Served
from stowplan.scheduler.engine.written_objects import kind_named

if TYPE_CHECKING:
    from stowplan.scheduler.framework.runtime.registry import Registry


class Step(NamedTuple):
    #: The line in the file, from 1.
    line: int
    entry: RecordedInput
    effects: list[Effect]


class Difference(NamedTuple):
    """A step with a different outcome in the replay."""

    line: int
    when: str
    #: The recorded input.
    input: str
    then: str
    now: str

    def to_dict(self) -> dict[str, Any]:
        return {"line": self.line, "when": self.when, "input": self.input, "then": self.then, "now": self.now}

    def text(self) -> str:
        return f"line {self.line}, {self.when}, {self.input}: then {self.then}; now {self.now}"


def engine_of(header: Header, registry: Registry, configuration: Configuration | None) -> Engine:
    """An engine to follow a recording; None: with its configuration. Raises ConfigError."""
    features = header.features
    if configuration is None:
        configuration = load_config(header.configuration, plugins=registry.declarations, features=features)
    engine = Engine(
        configuration,
        registry=registry,
        now=header.now,
        meter=ManualTime(),
        features=features,
        settings=EngineSettings(stories=False, events=False),
    )
    if header.dump is not None:
        # The dump is not loaded: it is of an engine with a random source, and possibly another configuration.
        off = frozenset[str]().union(*header.dump.switched_off.values())
        engine.step(Served(off, served=False), header.now)
        for kind, objects in groupby(objects_of(header.dump), key=itemgetter(0)):
            changes = tuple(Change(None, obj) for _, obj in objects)
            engine.step(Changes(kind_named(kind), changes), header.now)
    return engine


class Replayed:
    """A recording being replayed step by step."""

    def __init__(self, path: str, registry: Registry, *, interrupted: InterruptedCalls | None = None) -> None:
        """Raises RecordingError."""
        self._opening: AbstractContextManager[Any] = opened(path)
        found = self._opening.__enter__()
        self.header: Header = found.header
        self._replay = Replay(found.lines, registry, meter=ManualTime(), chance=Random(), interrupted=interrupted)
        self.engine = self._replay.engine
        self.path = path

    def __enter__(self) -> Replayed:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opening.__exit__(*error)

    @property
    def goes_on(self) -> bool:
        """Whether there is more after the last step taken."""
        return self._replay.goes_on

    def steps(self, until: float | None = None) -> Iterator[Step]:
        """Take the recorded steps up to and including a moment."""
        for line, (entry, effects) in enumerate(self._replay.steps_until(until), 2):
            yield Step(line, entry, effects)


def difference(step: Step) -> Difference | None:
    """How the outcome differs from the recorded one; None: it does not, or was not recorded."""
    recorded = step.entry.outcomes
    if recorded is None:
        return None
    found = outcomes_of(step.effects)
    same = recorded.checksum is None or found.checksum is None or recorded.checksum == found.checksum
    if same and recorded.decisions == found.decisions:
        return None
    then, now = _text(recorded.decisions), _text(found.decisions)
    if then == now:
        then = f"{then}, and other effects (checksum {recorded.checksum})"
        now = f"{now}, and " + (", ".join(type(effect.action).__name__ for effect in step.effects) or "nothing else")
    input_ = step.entry.input
    name = type(input_).__name__
    if isinstance(input_, Changes):
        name = f"{name} of {len(input_.changes)} {input_.kind.__name__} objects"
    return Difference(step.line, moment_text(step.entry.now), name, then, now)


def _text(decisions: Any) -> str:
    lines = [f"{pod} to {node}" if what == "bind" else f"{pod} evicted" for what, pod, node in decisions]
    return ", ".join(lines) or "no pod was placed or evicted"


class Moment(PlainStruct, frozen=True, kw_only=True):
    header: Header
    #: Time of the last input before it.
    at: float
    #: Whether the recording, or the run at that time, had ended before the requested moment.
    is_over: bool
    #: Nodes in order, pods in order of arrival, and everything else. Assumed pods that the API server had not confirmed
    #: yet are on their node.
    objects: list[Any]
    #: The active configuration, and the plugins that were disabled because of missing kinds.
    configuration: dict[str, Any]
    switched_off: frozenset[str]


def moment_of(
    path: str, when: float | None, registry: Registry, *, interrupted: InterruptedCalls | None = None
) -> Moment:
    """Rebuild a moment of a recording, including rotated files; None: its end. Raises RecordingError."""
    file = file_at(path, when)
    with Replayed(file, registry, interrupted=interrupted) as again:
        at = again.header.now
        for step in again.steps(when):
            at = step.entry.now
        engine = again.engine
        off = frozenset[str]().union(*(framework.switched_off for framework in engine.frameworks.values()))
        return Moment(
            header=again.header,
            at=at,
            is_over=when is not None and at < when and not again.goes_on and not is_continued(path, file),
            objects=engine.state.everything(),
            configuration=engine.profiles.configuration.shown(),
            switched_off=off,
        )


def note_of(moment: Moment, when: float | None) -> str:
    """A note for a moment after the end of the recording; "" otherwise."""
    if when is None or not moment.is_over:
        return ""
    return (
        f"the recording ends at {moment_text(moment.at)}, before {moment_text(when)}: "
        "this is how it was left, and what came then is not known"
    )


def parse_moment(text: str) -> float:
    """Seconds since the epoch for an ISO time, by default in UTC, or for a number of seconds; raises ValueError."""
    try:
        return float(text)
    except ValueError:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
