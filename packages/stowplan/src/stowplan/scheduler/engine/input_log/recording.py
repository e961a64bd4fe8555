"""Record an engine's inputs, and replay them.

Decisions depend on nothing but the configuration, the seed and the inputs with their times, so these are recorded: one
line of JSON each. The first line says how the engine was built. Objects are written as the scheduler knows them,
without the fields that it does not read, such as the environment of containers, and without kubectl's last-applied
annotation. Of a change only the new object is written, as the old one is in an earlier line. A recording that is
started during a run begins with a dump of the engine; for objects that are neither in the dump nor in earlier lines,
the old version is written, too. If a call of a user plugin was interrupted, the line says which call, and what the
framework was told. For an engine that schedules, each line also has the outcome: which pods were bound and evicted, and
a checksum of all effects, which a replay must reproduce. For an engine that only follows a cluster, there are only
inputs.

    recording = Recording(file.write, header)                  # while it runs, once for each step:
    recording.add(input_, now, effects=effects)
    recording.flush()                                          # at the end
    for effects in Replay(lines, registry).steps(): ...        # afterwards: the same effects, byte for byte

Coroutines of plugins are not run again: their results are in the recording. A plugin whose synchronous methods depend
on anything but what the framework passes to them (a clock, a file, side effects of its own coroutine) decides
differently in a replay; that cannot be detected in advance, but the effects differ. What an interrupted call did before
it was interrupted is not known either.

A killed process may leave an incomplete last line: if a file ends within a line, the recording ends before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from zlib import crc32

import msgspec
from msgspec.structs import replace

from stowplan.kube.api import api_errors
from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.meta import ApiStruct, ObjectMeta
from stowplan.kube.api.port import Change, Unreachable
from stowplan.kube.api.types import Pod
from stowplan.kube.config import Declarations, FeatureGates, load_config
from stowplan.kube.config.config_loading import without_defaults
from stowplan.kube.config.features import default_features, known_gates
from stowplan.kube.kubernetes_versions import V1_36, KubernetesVersion, VersionError, emulated_version_of
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.metrics.scheduler import SchedulerMetrics
from stowplan.scheduler.engine.context import EngineSettings, Meter
from stowplan.scheduler.engine.dumped import EngineDump, objects_of, set_chance
from stowplan.scheduler.engine.effects import Effect, EmitEvent, RunPlugin
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.inputs import (
    Activated,
    Adopted,
    Allowed,
    Answer,
    Cancelled,
    Changes,
    Closing,
    Declined,
    EventEmitted,
    Input,
    Offered,
    Rejected,
    Schedule,
    Served,
    Started,
    Stopped,
    Tick,
    WallClock,
)
from stowplan.scheduler.engine.written_objects import kind_named, name_of, read_object, with_name, writer_of
from stowplan.scheduler.framework.extender import Extender
from stowplan.scheduler.framework.requests import Bind, Delete, Done, Outcome, Refused, Unknown
from stowplan.scheduler.framework.runtime.binding import PluginCancelledItselfError
from stowplan.scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from stowplan.scheduler.engine.input_log.recorded_annotations import RecordedAnnotations
    from stowplan.scheduler.framework.runtime.registry import Registry

#: Changes with the format. Version 1 had no decisions, version 2 not what policies of the descheduler read.
FORMAT = 3
READABLE = (1, 2, FORMAT)

#: Lines are encoded in batches of this size, which takes a fraction of the time of encoding single ones between other
#: work; or after this many seconds.
LINES_AT_A_TIME, SECONDS_AT_A_TIME = 64, 0.5


class RecordingError(ValueError):
    """A line that is invalid, or of another version; says which and why."""


class InterruptedCall(NamedTuple):
    """An interrupted call of a user plugin."""

    #: Index of the call within the step, from 1. Calls nested in an interrupted one do not count.
    number: int
    #: The error that the framework got.
    why: str


class RecordedDecision(NamedTuple):
    """A pod that was bound or evicted."""

    what: Literal["bind", "evict"]
    #: namespace/name.
    pod: str
    #: "" for an eviction.
    node: str


class Outcomes(NamedTuple):
    """The outcome of an input."""

    #: Of all effects, as bytes; None: one of them cannot be encoded.
    checksum: int | None
    decisions: tuple[RecordedDecision, ...]


class RecordedInput(NamedTuple):
    """One recorded input."""

    now: float
    input: Input
    #: Interrupted calls within the step, in order.
    interrupted: tuple[InterruptedCall, ...] = ()
    #: None: not recorded.
    outcomes: Outcomes | None = None


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """How the engine was built."""

    format: int = FORMAT
    now: float
    configuration: dict[str, Any]
    gates: dict[str, bool]
    max_in_unschedulable: float
    overlaps: bool = False
    #: The state of its random source, as in `random.Random`; None: there is none.
    chance: Any = None
    #: The engine when the recording began; None: before its first step.
    dump: EngineDump | None = None
    #: Whether the lines include outcomes.
    decides: bool = False
    #: What the engine behaved as. Recordings from before there was a choice are of 1.36.
    emulated_version: str = str(V1_36)

    @property
    def has_marks(self) -> bool:
        """Whether volumes have their host paths, and pods the annotations that are always kept."""
        return self.format > 2

    @property
    def features(self) -> FeatureGates:
        return default_features(emulated_version_of(self.emulated_version)).with_gates(self.gates)

    def as_version(self, version: KubernetesVersion | None, plugins: Declarations) -> Header:
        """The recorded scheduler as another version, with the same gates set, if that has them; None: as it was."""
        then = emulated_version_of(self.emulated_version)
        if version is None or version == then:
            return self
        defaults = default_features(then).gates
        chosen = {name: on for name, on in self.gates.items() if on != defaults.get(name, on)}
        return replace(
            self,
            configuration=without_defaults(self.configuration, plugins=plugins, features=self.features),
            gates=known_gates(chosen, version),
            emulated_version=str(version),
        )


class Recording:
    """Records an engine's inputs."""

    def __init__(
        self, write: Callable[[bytes], object], header: Header, *, annotations: RecordedAnnotations | None = None
    ) -> None:
        """`write` gets several complete lines at a time; `annotations` of None: all are kept."""
        self._write = write
        self._annotations = annotations
        self._decides = header.decides
        if annotations is not None and header.dump is not None:
            header = replace(header, dump=annotations.of_dump(header.dump))
        #: Objects that are in the dump or in earlier lines; None: all that ever existed.
        self._known = None if header.dump is None else {key for key, _ in _objects_of(header.dump)}
        #: Lines to encode; inputs are immutable by now.
        self._waiting: list[tuple[Input, float, Sequence[InterruptedCall], Sequence[Effect]]] = []
        self._wrote_at = header.now
        write(_ENCODER.encode(header) + b"\n")

    def add(
        self, input_: Input, now: float, interrupted: Sequence[InterruptedCall] = (), effects: Sequence[Effect] = ()
    ) -> None:
        waiting = self._waiting
        waiting.append((input_, now, interrupted, effects))
        if len(waiting) >= LINES_AT_A_TIME or now - self._wrote_at >= SECONDS_AT_A_TIME:
            self._wrote_at = now
            self.flush()

    def flush(self) -> None:
        """Write buffered lines."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._write(_ENCODER.encode_lines([self._line(*entry) for entry in waiting]))

    def _line(
        self, input_: Input, now: float, interrupted: Sequence[InterruptedCall], effects: Sequence[Effect]
    ) -> tuple[Any, ...]:
        if self._annotations is not None:
            input_ = self._annotations.of_input(input_)
        name, fields = _WRITERS[type(input_)]
        written: Any = input_ if fields is None else fields(input_)
        if self._known is not None and isinstance(input_, Changes):
            written = _with_unknown_objects(input_, written, self._known)
        if self._decides and effects:
            return (now, name, written, interrupted, outcomes_of(effects))
        return (now, name, written, interrupted) if interrupted else (now, name, written)


def read_header(line: bytes | str) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise RecordingError(f"line 1: no header of a recording: {e}") from e
    if header.format not in READABLE:
        raise RecordingError(f"line 1: this recording has format {header.format}; this version reads up to {FORMAT}")
    try:
        emulated_version_of(header.emulated_version)
    except VersionError as e:
        raise RecordingError(f"line 1: this recording is of a scheduler of another version: {e}") from e
    return header


def outcomes_of(effects: Sequence[Effect]) -> Outcomes:
    """The recorded part of effects."""
    checksum: int | None
    try:
        checksum = crc32(b"".join([effect.encoded() for effect in effects])) if effects else 0
    except (TypeError, ValueError, OverflowError, RecursionError):
        # A plugin may emit an effect that only its own code can encode.
        checksum = None
    found = (_decision(effect.action) for effect in effects if type(effect.action) in _DECISIVE)
    return Outcomes(checksum, tuple(decision for decision in found if decision is not None))


_DECISIVE = (Bind, Delete, RunPlugin)
_NOTHING_FOLLOWED = Outcomes(0, ())


def _decision(action: Any) -> RecordedDecision | None:
    if isinstance(action, RunPlugin):
        return RecordedDecision("bind", action.pod, action.node) if action.point == "Bind" else None
    key = f"{action.namespace}/{action.name}"
    if isinstance(action, Bind):
        return RecordedDecision("bind", key, action.node)
    return RecordedDecision("evict", key, "") if action.kind is Pod else None


def read_entries(lines: Iterable[bytes | str], header: Header) -> Iterator[RecordedInput]:
    """Parse the lines after the header."""
    dump = header.dump
    nothing = _NOTHING_FOLLOWED if header.decides else None
    known: dict[_Key, ApiStruct] = {} if dump is None else dict(_objects_of(dump))
    for number, line in enumerate(lines, 2):
        try:
            entry = _read_entry(line, known, nothing)
        except (msgspec.DecodeError, DecodeError, LookupError, TypeError, ValueError, RecursionError) as e:
            if _is_torn(line):
                return
            raise RecordingError(f"line {number}: {e}") from e
        yield entry


def _read_entry(line: bytes | str, known: dict[_Key, ApiStruct], nothing: Outcomes | None) -> RecordedInput:
    now, name, written, *more = msgspec.json.decode(line)
    interrupted = tuple(InterruptedCall(*call) for call in more[0]) if more else ()
    outcomes = nothing
    if len(more) > 1:
        checksum, decisions = more[1]
        outcomes = Outcomes(checksum, tuple(RecordedDecision(*one) for one in decisions))
    return RecordedInput(now, _READERS[name](written, known), interrupted, outcomes)


def _is_torn(line: bytes | str) -> bool:
    """Whether the file ends within this line: all others have a line end."""
    return not (line.endswith("\n") if isinstance(line, str) else line.endswith(b"\n"))


class InterruptedCalls(Protocol):
    """Interrupts the calls of user plugins that were interrupted in the recorded run: `guarding.interrupted_calls`."""

    def expect(self, calls: Sequence[InterruptedCall], /) -> None:
        """Set the calls to interrupt in the next step."""


class Replay:
    """Rebuilds a recorded engine and repeats its steps."""

    def __init__(
        self,
        lines: Iterable[bytes | str],
        registry: Registry,
        *,
        meter: Meter,
        chance: Any = None,
        interrupted: InterruptedCalls | None = None,
        extenders: Sequence[Extender] | None = None,
    ) -> None:
        """`chance` is a `random.Random`, which is set to the recorded state.

        `extenders` of None: those of the configuration.
        """
        self._lines = iter(lines)
        #: Whether `steps_until` stopped before the end.
        self.goes_on = False
        self.header = header = read_header(next(self._lines, b""))
        if header.chance is None:
            chance = None
        else:
            set_chance(chance, header.chance)
        self._interrupted = interrupted
        features = header.features
        self.engine = Engine(
            load_config(header.configuration, plugins=registry.declarations, features=features),
            registry=registry,
            now=header.now,
            meter=meter,
            metrics=SchedulerMetrics(MetricsRegistry(), gates=features),
            random=chance,
            features=features,
            settings=EngineSettings(max_in_unschedulable=header.max_in_unschedulable, overlaps=header.overlaps),
            extenders=extenders,
        )
        if header.dump is not None:
            self.engine.load(header.dump)

    def steps(self) -> Iterator[tuple[RecordedInput, list[Effect]]]:
        """The effects of each input."""
        return self.steps_until(None)

    def steps_until(self, moment: float | None) -> Iterator[tuple[RecordedInput, list[Effect]]]:
        """The steps up to and including a moment."""
        for entry in read_entries(self._lines, self.header):
            if moment is not None and entry.now > moment:
                self.goes_on = True
                return
            if self._interrupted is not None:
                self._interrupted.expect(entry.interrupted)
            yield entry, self.engine.step(entry.input, entry.now)


# -- objects ----------------------------------------------------------------------------------------------------------


#: (kind, namespace, name).
_Key = tuple[str, str, str]


def _objects_of(dump: EngineDump) -> Iterator[tuple[_Key, ApiStruct]]:
    """The objects known to the dumped engine, in their latest version."""
    for name, obj in objects_of(dump):
        metadata: ObjectMeta = obj.metadata  # type: ignore[attr-defined]
        yield (name, metadata.namespace, metadata.name), obj


def _write_changes(changes: Changes) -> Any:
    name = name_of(changes.kind)
    written = writer_of(name)
    return name, [_write_change(change.old, change.new, written) for change in changes.changes]


def _with_unknown_objects(changes: Changes, written: Any, known: set[_Key]) -> Any:
    """The changes with unknown old objects included, instead of the marker 1; updates the set of known objects."""
    name, lines = written
    return name, [_with_unknown(name, *pair, known) for pair in zip(changes.changes, lines, strict=True)]


def _with_unknown(name: str, change: Change[Any], line: Any, known: set[_Key]) -> Any:
    old, new = change.old, change.new
    metadata: ObjectMeta = (new or old).metadata  # type: ignore[union-attr]
    key = name, metadata.namespace, metadata.name
    is_known = key in known
    (known.discard if new is None else known.add)(key)
    if old is None or is_known:
        return line
    return (None if new is None else line[0]), writer_of(name)(old)


def _write_change(old: Any, new: Any, written: Callable[[Any], Any]) -> Any:
    """A new object; a new version, marked with 1; or the key of a deleted one."""
    if new is None:
        metadata = old.metadata
        return metadata.namespace, metadata.name
    return (written(new),) if old is None else (written(new), 1)


def _read_changes(written: Any, known: dict[_Key, ApiStruct]) -> Changes:
    name, changes = written
    kind = kind_named(name)
    return Changes(kind, [_read_change(name, kind, change, known) for change in changes])


def _read_change(name: str, kind: type[ApiStruct], written: Any, known: dict[_Key, ApiStruct]) -> Change[Any]:
    if isinstance(written[0], str):
        return Change(known.pop((name, *written)), None)
    if written[0] is None:
        return Change(read_object(kind, written[1]), None)
    new: Any = read_object(kind, written[0])
    key = (name, new.metadata.namespace, new.metadata.name)
    old = None
    if len(written) > 1:
        old = known[key] if written[1] == 1 else read_object(kind, written[1])
    known[key] = new
    return Change(old, new)


# -- outcomes ----------------------------------------------------------------------------------------------------------


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
        return with_name(value)
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
    """The first of its classes that matters to the engine, its text, and the API server's status code."""
    name = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _ERRORS), "")
    return name, str(error), error.status.code if isinstance(error, ApiError) else 0


def _read_error(written: Any) -> Exception:
    """An error that is equivalent for the engine and has the same text."""
    name, text, code = written
    return _ERRORS[name](text, code) if name else RuntimeError(text)


def _refusals() -> Iterator[type[ApiError]]:
    return (kind for kind in vars(api_errors).values() if isinstance(kind, type) and issubclass(kind, ApiError))


def _refused_by_api(kind: type[ApiError]) -> Callable[[str, int], Exception]:
    return lambda text, code: kind(text, code=code)


#: Class -> function of text and status code.
_ERRORS: dict[str, Callable[[str, int], Exception]] = {
    "Unreachable": lambda text, code: Unreachable(text),
    "DecodeError": lambda text, code: DecodeError(field="", message=text),
    "PluginCancelledItselfError": lambda text, code: PluginCancelledItselfError(),
    **{kind.__name__: _refused_by_api(kind) for kind in _refusals()},
}

# -- everything else --------------------------------------------------------------------------------------------------


def _made(kind: Any) -> Callable[[Any, Any], Input]:
    return lambda written, known: kind(*written)


#: Inputs that are written as their fields.
_PLAIN = (Schedule, Tick, Started, Stopped, Closing, WallClock, Allowed, Cancelled, Offered, Declined)

#: Input -> its name, and a function that makes plain values of it; None: it already is one.
_WRITERS: dict[type[Any], tuple[str, Callable[[Any], Any] | None]] = {
    kind: (kind.__name__, None) for kind in (*_PLAIN, Activated)
} | {
    # "Told" is the name in existing recordings.
    EventEmitted: ("Told", None),
    Changes: ("Changes", _write_changes),
    Answer: ("Answer", _write_answer),
    Served: ("Served", lambda served: (sorted(served.plugins), served.served)),
    Adopted: ("Adopted", lambda adopted: (sorted(adopted.lacking),)),
    Rejected: ("Rejected", lambda rejected: (rejected.uid, _write_status(rejected.status))),
}

_READERS: dict[str, Callable[[Any, Any], Input]] = {
    "Changes": _read_changes,
    "Answer": _read_answer,
    "Served": lambda written, known: Served(frozenset(written[0]), written[1]),
    "Adopted": lambda written, known: Adopted(frozenset(written[0])),
    "Rejected": lambda written, known: Rejected(written[0], _read_status(written[1])),
    "Activated": lambda written, known: Activated(tuple(written[0])),
    "Told": lambda written, known: EventEmitted(msgspec.convert(written[0], EmitEvent)),
    **{kind.__name__: _made(kind) for kind in _PLAIN},
}


_ENCODER = msgspec.json.Encoder()
