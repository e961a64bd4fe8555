"""A log of an engine's inputs, and playing it again.

Decisions hang on nothing but the configuration, the seed and the inputs with their times, so those are all that is
kept: one line of JSON each. The first line says what the engine was built with. Objects are written as the scheduler
knows them, without the fields that it does not read; of a change only the new object is written, as the old one came
before. Where a user's plugin was broken off in the middle of a call, the line says in which one.

    recording = Recording(file.write, header)                  # while it runs, once before each step:
    recording.add(input_, now)
    for effects in Replay(lines, registry).steps(): ...        # afterwards: the same effects, byte for byte

Coroutines of plugins are not run again: what they answered is in the log. A plugin whose synchronous methods depend on
anything else than what the framework hands them (a clock, a file, what its own coroutine has left behind) decides
differently the second time; nothing here can know that, but the effects show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from stowplan.api import api_errors
from stowplan.api.api_errors import ApiError
from stowplan.api.changes import Change
from stowplan.api.decode import DecodeError
from stowplan.api.meta import ApiStruct, ObjectReference
from stowplan.api.port import Unreachable
from stowplan.config import DEFAULT_FEATURES, load_config
from stowplan.engine.dumped import set_chance
from stowplan.engine.engine import Engine, EngineSettings
from stowplan.engine.inputs import (
    Activated,
    Allowed,
    Answer,
    Cancelled,
    Changes,
    Closing,
    Input,
    Rejected,
    Schedule,
    Served,
    Started,
    Stopped,
    Tick,
    Told,
    WallClock,
)
from stowplan.engine.written_objects import kind_named, name_of, read_object, written_object
from stowplan.framework.binding import PluginGaveUpError
from stowplan.framework.requests import Done, Outcome, Refused, Unknown
from stowplan.framework.status import Code, Status
from stowplan.metrics.registry import MetricsRegistry
from stowplan.metrics.scheduler import SchedulerMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from stowplan.engine.effects import Effect
    from stowplan.engine.engine import Meter
    from stowplan.framework.extender import Extender
    from stowplan.framework.registry import Registry

#: Changes when lines are written otherwise.
FORMAT = 1


class RecordingError(ValueError):
    """A line that is none of a recording, or of another version; says which and why."""


class Entry(NamedTuple):
    """One input as it was recorded."""

    now: float
    input: Input
    #: The calls of users' plugins within the step that were broken off: the how manieth each was, from 1.
    broken_off: tuple[int, ...]


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine was built with."""

    format: int = FORMAT
    now: float
    configuration: dict[str, Any]
    gates: dict[str, bool]
    max_in_unschedulable: float
    #: The state of its source of chance, as `random.Random` gives it; None: there is none.
    chance: Any = None


class Recording:
    """Writes down what an engine hears."""

    def __init__(self, write: Callable[[bytes], object], header: Header) -> None:
        """`write` takes one line at a time, with its end."""
        self._write = write
        write(_ENCODER.encode(header) + b"\n")

    def add(self, input_: Input, now: float, broken_off: Sequence[int] = ()) -> None:
        fields = _WRITERS.get(type(input_))
        written = input_ if fields is None else fields(input_)
        line = [now, type(input_).__name__, written, *([list(broken_off)] if broken_off else ())]
        self._write(_ENCODER.encode(line) + b"\n")


def read_header(line: bytes | str) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except msgspec.DecodeError as e:
        raise RecordingError(f"line 1: no header of a recording: {e}") from e
    if header.format != FORMAT:
        raise RecordingError(f"line 1: this recording has format {header.format}, want {FORMAT}")
    return header


def read_entries(lines: Iterable[bytes | str]) -> Iterator[Entry]:
    """The inputs of the lines after the header."""
    known: dict[tuple[str, str, str], ApiStruct] = {}
    for number, line in enumerate(lines, 2):
        try:
            now, name, written, *broken_off = msgspec.json.decode(line)
            yield Entry(now, _READERS[name](written, known), tuple(broken_off[0]) if broken_off else ())
        except (msgspec.DecodeError, DecodeError, LookupError, TypeError, ValueError) as e:
            raise RecordingError(f"line {number}: {e}") from e


class BrokenOffCalls(Protocol):
    """Breaks off the calls of users' plugins that were broken off then."""

    def expect(self, numbers: Sequence[int], /) -> None:
        """In the step that comes, these calls, from 1."""


class Replay:
    """A recorded engine, built anew."""

    def __init__(
        self,
        lines: Iterable[bytes | str],
        registry: Registry,
        *,
        meter: Meter,
        chance: Any = None,
        broken_off: BrokenOffCalls | None = None,
        extenders: Sequence[Extender] = (),
    ) -> None:
        """`chance` is a `random.Random`: it is set to where the recorded one was."""
        self._lines = iter(lines)
        header = read_header(next(self._lines, b""))
        if header.chance is None:
            chance = None
        else:
            set_chance(chance, header.chance)
        self._broken_off = broken_off
        features = DEFAULT_FEATURES.with_gates(header.gates)
        self.engine = Engine(
            load_config(header.configuration, plugins=registry.declarations),
            registry=registry,
            now=header.now,
            meter=meter,
            metrics=SchedulerMetrics(MetricsRegistry(), gates=features),
            random=chance,
            features=features,
            settings=EngineSettings(max_in_unschedulable=header.max_in_unschedulable),
            extenders=extenders,
        )

    def steps(self) -> Iterator[tuple[Entry, list[Effect]]]:
        """Each input, and the effects that follow from it."""
        for entry in read_entries(self._lines):
            if self._broken_off is not None:
                self._broken_off.expect(entry.broken_off)
            yield entry, self.engine.step(entry.input, entry.now)


# -- objects ----------------------------------------------------------------------------------------------------------


def _write_changes(changes: Changes) -> Any:
    return [name_of(changes.kind), [_write_change(change) for change in changes.changes]]


def _write_change(change: Change[Any]) -> Any:
    """A new object; a new version, marked with 1; or who is gone."""
    old, new = change.old, change.new
    if new is None:
        assert old is not None, "a change has an old or a new object"
        return [old.metadata.namespace, old.metadata.name]
    written = msgspec.Raw(written_object(new))
    return [written] if old is None else [written, 1]


def _read_changes(written: Any, known: dict[tuple[str, str, str], ApiStruct]) -> Changes:
    name, changes = written
    kind = kind_named(name)
    return Changes(kind, [_read_change(name, kind, change, known) for change in changes])


def _read_change(
    name: str, kind: type[ApiStruct], written: Any, known: dict[tuple[str, str, str], ApiStruct]
) -> Change[Any]:
    if isinstance(written[0], str):
        return Change(known.pop((name, *written)), None)
    new: Any = read_object(kind, written[0])
    key = (name, new.metadata.namespace, new.metadata.name)
    old = known.get(key) if len(written) > 1 else None
    known[key] = new
    return Change(old, new)


# -- answers ----------------------------------------------------------------------------------------------------------


def _write_answer(answer: Answer) -> Any:
    outcome = answer.outcome
    if isinstance(outcome, Done):
        return [answer.number, "Done", *_write_value(outcome.value)]
    return [answer.number, type(outcome).__name__, _write_error(outcome.error)]


def _write_value(value: Any) -> list[Any]:
    if isinstance(value, Status):
        return ["Status", _write_status(value)]
    if isinstance(value, ApiStruct):
        return [name_of(type(value)), msgspec.Raw(written_object(value))]
    return ["", value]


def _read_answer(written: Any, known: object) -> Answer:
    number, how, *rest = written
    outcome: Outcome
    if how == "Done":
        outcome = Done(_read_value(*rest))
    else:
        outcome = (Refused if how == "Refused" else Unknown)(_read_error(rest[0]))
    return Answer(number, outcome)


def _read_value(name: str, written: Any) -> Any:
    if name == "Status":
        return _read_status(written)
    return read_object(kind_named(name), written) if name else written


def _write_status(status: Status) -> Any:
    problem = None if status.error is None else _write_error(status.error)
    return [int(status.code), list(status.reasons), status.plugin, problem]


def _read_status(written: Any) -> Status:
    code, reasons, plugin, problem = written
    return Status(Code(code), tuple(reasons), plugin, None if problem is None else _read_error(problem))


def _write_error(error: BaseException) -> Any:
    code = error.status.code if isinstance(error, ApiError) else 0
    return [type(error).__name__, str(error), code]


def _read_error(written: Any) -> Exception:
    """The error, of a class that says the same to the engine and has the same text."""
    name, text, code = written
    kind = getattr(api_errors, name, None)
    if isinstance(kind, type) and issubclass(kind, ApiError):
        return kind(text, code=code)
    if name == PluginGaveUpError.__name__:
        return PluginGaveUpError()
    if name == DecodeError.__name__:
        return DecodeError(field="", message=text)
    return _UNREACHABLE.get(name, RuntimeError)(text)


_UNREACHABLE: dict[str, type[Exception]] = dict.fromkeys(("Unreachable", "OutcomeUnknown", "StreamSilent"), Unreachable)

# -- everything else --------------------------------------------------------------------------------------------------


def _made(kind: Any) -> Callable[[Any, Any], Input]:
    return lambda written, known: kind(*written)


def _read_told(written: Any) -> Told:
    told = Told(*written)
    related = None if told.related is None else msgspec.convert(told.related, ObjectReference)
    return told._replace(regarding=msgspec.convert(told.regarding, ObjectReference), related=related)


_WRITERS: dict[type[Any], Callable[[Any], Any]] = {
    Changes: _write_changes,
    Answer: _write_answer,
    Served: lambda served: [sorted(served.plugins), served.served],
    Rejected: lambda rejected: [rejected.uid, _write_status(rejected.status)],
}

_PLAIN = (Schedule, Tick, Started, Stopped, Closing, WallClock, Allowed, Cancelled)

_READERS: dict[str, Callable[[Any, Any], Input]] = {
    "Changes": _read_changes,
    "Answer": _read_answer,
    "Served": lambda written, known: Served(frozenset(written[0]), written[1]),
    "Rejected": lambda written, known: Rejected(written[0], _read_status(written[1])),
    "Activated": lambda written, known: Activated(tuple(written[0])),
    "Told": lambda written, known: _read_told(written),
    **{kind.__name__: _made(kind) for kind in _PLAIN},
}


_ENCODER = msgspec.json.Encoder()
