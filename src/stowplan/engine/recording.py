"""A log of an engine's inputs, and playing it again.

Decisions hang on nothing but the configuration, the seed and the inputs with their times, so those are all that is
kept: one line of JSON each. The first line says what the engine was built with. Objects are written as the scheduler
knows them, without the fields that it does not read, such as the environment of containers, and without what kubectl
notes of them; of a change only the new object is written, as the old one came before. Where a user's plugin was broken
off in the middle of a call, the line says in which one, and how that was told.

    recording = Recording(file.write, header)                  # while it runs, once before each step:
    recording.add(input_, now)
    for effects in Replay(lines, registry).steps(): ...        # afterwards: the same effects, byte for byte

Coroutines of plugins are not run again: what they answered is in the log. A plugin whose synchronous methods depend on
anything else than what the framework hands them (a clock, a file, what its own coroutine has left behind) decides
differently the second time; nothing here can know that, but the effects show it. Nor is it known what a call did
before it was broken off.

A process that is killed leaves a last line that is torn: where a file ends within a line, the recording ends before it.
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
from stowplan.engine.written_objects import as_written, kind_named, name_of, read_object
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


class BrokenOff(NamedTuple):
    """A call of a user's plugin that was broken off."""

    #: Which call of the step it was, from 1. Calls within one that was broken off do not count.
    number: int
    #: What the framework was told.
    why: str


class Entry(NamedTuple):
    """One input as it was recorded."""

    now: float
    input: Input
    #: Calls within the step that were broken off, in order.
    broken_off: tuple[BrokenOff, ...]


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

    def add(self, input_: Input, now: float, broken_off: Sequence[BrokenOff] = ()) -> None:
        kind = type(input_)
        fields = _WRITERS.get(kind)
        written = input_ if fields is None else fields(input_)
        line = (now, kind.__name__, written, broken_off) if broken_off else (now, kind.__name__, written)
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
            entry = _read_entry(line, known)
        except (msgspec.DecodeError, DecodeError, LookupError, TypeError, ValueError) as e:
            if _is_torn(line):
                return
            raise RecordingError(f"line {number}: {e}") from e
        yield entry


def _read_entry(line: bytes | str, known: dict[tuple[str, str, str], ApiStruct]) -> Entry:
    now, name, written, *more = msgspec.json.decode(line)
    return Entry(now, _READERS[name](written, known), tuple(BrokenOff(*call) for call in more[0]) if more else ())


def _is_torn(line: bytes | str) -> bool:
    """Whether the file ends within this line, which no other line is without an end for."""
    return not (line.endswith("\n") if isinstance(line, str) else line.endswith(b"\n"))


class BrokenOffCalls(Protocol):
    """Breaks off the calls of users' plugins that were broken off then: `daemon.broken_off_calls`."""

    def expect(self, calls: Sequence[BrokenOff], /) -> None:
        """In the step that comes, these."""


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
            load_config(header.configuration, plugins=registry.declarations, features=features),
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
    return name_of(changes.kind), [_write_change(change) for change in changes.changes]


def _write_change(change: Change[Any]) -> Any:
    """A new object; a new version, marked with 1; or who is gone."""
    old, new = change.old, change.new
    if new is None:
        assert old is not None, "a change has an old or a new object"
        return old.metadata.namespace, old.metadata.name
    return (as_written(new),) if old is None else (as_written(new), 1)


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
    old = known[key] if len(written) > 1 else None
    known[key] = new
    return Change(old, new)


# -- answers ----------------------------------------------------------------------------------------------------------


def _write_answer(answer: Answer) -> Any:
    outcome = answer.outcome
    if isinstance(outcome, Done):
        value = outcome.value
        return (answer.number, "Done") if value is None else (answer.number, "Done", *_write_value(value))
    return answer.number, type(outcome).__name__, _write_error(outcome.error)


def _write_value(value: Any) -> tuple[str, Any]:
    if isinstance(value, Status):
        return "Status", _write_status(value)
    if isinstance(value, ApiStruct):
        return name_of(type(value)), as_written(value)
    return "", value


def _read_answer(written: Any, known: object) -> Answer:
    number, how, *rest = written
    if how == "Done":
        return Answer(number, Done(_read_value(*rest) if rest else None))
    return Answer(number, _FAILED[how](_read_error(rest[0])))


_FAILED: dict[str, Callable[[Exception], Outcome]] = {"Refused": Refused, "Unknown": Unknown}


def _read_value(name: str, written: Any) -> Any:
    if name == "Status":
        return _read_status(written)
    return read_object(kind_named(name), written) if name else written


def _write_status(status: Status) -> Any:
    problem = None if status.error is None else _write_error(status.error)
    return int(status.code), status.reasons, status.plugin, problem


def _read_status(written: Any) -> Status:
    code, reasons, plugin, problem = written
    return Status(Code(code), tuple(reasons), plugin, None if problem is None else _read_error(problem))


def _write_error(error: BaseException) -> Any:
    """The first of its classes that says something to the engine, its text, and an API server's code."""
    name = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _ERRORS), "")
    return name, str(error), error.status.code if isinstance(error, ApiError) else 0


def _read_error(written: Any) -> Exception:
    """An error that says the same to the engine and has the same text."""
    name, text, code = written
    return _ERRORS[name](text, code) if name else RuntimeError(text)


def _refusals() -> Iterator[type[ApiError]]:
    return (kind for kind in vars(api_errors).values() if isinstance(kind, type) and issubclass(kind, ApiError))


def _refused_by_api(kind: type[ApiError]) -> Callable[[str, int], Exception]:
    return lambda text, code: kind(text, code=code)


#: Class -> how one is made of its text and its code.
_ERRORS: dict[str, Callable[[str, int], Exception]] = {
    "Unreachable": lambda text, code: Unreachable(text),
    "DecodeError": lambda text, code: DecodeError(field="", message=text),
    "PluginGaveUpError": lambda text, code: PluginGaveUpError(),
    **{kind.__name__: _refused_by_api(kind) for kind in _refusals()},
}

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
