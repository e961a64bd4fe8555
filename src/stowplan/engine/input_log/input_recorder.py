"""Record the inputs and effects of an engine that runs, whichever driver runs it.

The engine goes on whatever becomes of the recording: if a line cannot be written, the recording ends there.

A recording that begins in the middle of a run begins with a dump of the engine, and so does each file of a rotated one,
so that it can be read without those before it. An engine can be dumped only while it is in the middle of nothing: both
wait for such a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from stowplan.engine.input_log.recording import Header, Recording
from stowplan.klog import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan.config import Configuration, FeatureGates
    from stowplan.engine.effects import Effect
    from stowplan.engine.engine import Engine
    from stowplan.engine.input_log.recorded_annotations import RecordedAnnotations
    from stowplan.engine.input_log.recording import BrokenOff
    from stowplan.engine.inputs import Input
    from stowplan.engine.settings import Chance, EngineSettings

_log = get_logger(__name__)


class GuardedCalls(Protocol):
    """Calls of users' plugins, counted step by step: `guarding.hang_guard.HangGuard`."""

    def begin_step(self) -> None: ...

    @property
    def broken_off_in_step(self) -> Sequence[BrokenOff]: ...


class Rotation(Protocol):
    """What is written to, as far as it wants to be rotated: `daemon.recording_file.RecordingFile`."""

    @property
    def is_due(self) -> bool: ...

    def rotate(self) -> None:
        """Write to a new file from now on."""


class Recorder:
    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        guard: GuardedCalls | None = None,
        annotations: RecordedAnnotations | None = None,
        rotation: Rotation | None = None,
    ) -> None:
        """`write` takes some lines at a time, and does not wait; what it raises ends the recording."""
        self._write = write
        self._guard = guard
        self._annotations = annotations
        self._rotation = rotation
        #: None before it begins, and once it has ended early.
        self._recording: Recording | None = None
        #: Whether it is to begin with a dump, at the next moment at which there can be one.
        self._joins = False
        #: Why it ended early.
        self.failure: Exception | None = None
        #: What a header has that does not change.
        self._header: Header | None = None
        self._random: Chance | None = None

    def begin(
        self,
        config: Configuration,
        *,
        now: float,
        features: FeatureGates,
        settings: EngineSettings,
        random: Chance | None,
        decides: bool = True,
    ) -> None:
        """Write down what the engine is built with; `decides`: and what follows from its steps."""
        self._random = random
        self._header = header = Header(
            now=now,
            configuration=config.to_dict(),
            gates=dict(features.gates),
            max_in_unschedulable=settings.max_in_unschedulable,
            overlaps=settings.overlaps,
            chance=self._chance(),
            decides=decides,
        )
        self._start(header)

    def join(self, engine: Engine, now: float, *, decides: bool = True) -> None:
        """Begin in the middle of the engine's run, now or as soon as it is in the middle of nothing."""
        self._random = engine.random
        self._header = Header(
            now=now,
            configuration={},
            gates=dict(engine.features.gates),
            max_in_unschedulable=engine.settings.max_in_unschedulable,
            overlaps=engine.settings.overlaps,
            decides=decides,
        )
        self._joins = True
        self._begin_with_dump(engine, now)

    def _chance(self) -> object:
        # Chance of another kind cannot be set back; ties then go elsewhere when it is played again.
        random = self._random
        return random.getstate() if random is not None and hasattr(random, "getstate") else None

    def _start(self, header: Header) -> None:
        try:
            self._recording = Recording(self._write, header, annotations=self._annotations)
        except Exception as e:
            self.end(e)

    def step(self, engine: Engine, input_: Input, now: float) -> list[Effect]:
        """Have the engine take the input, and write it down."""
        guard = self._guard
        if guard is not None:
            guard.begin_step()
        effects: list[Effect] = []
        try:
            effects = engine.step(input_, now)
            return effects
        finally:
            recording = self._recording
            if recording is None:
                if self._joins:
                    self._begin_with_dump(engine, now)
            else:
                try:
                    recording.add(input_, now, () if guard is None else guard.broken_off_in_step, effects)
                except Exception as e:
                    # A full disk, or an answer of a plugin that JSON cannot hold.
                    self.end(e)
                else:
                    if self._rotation is not None and self._rotation.is_due:
                        self._begin_with_dump(engine, now)

    def _begin_with_dump(self, engine: Engine, now: float) -> None:
        """Begin, or go on in another file, unless the engine is in the middle of something."""
        if engine.under_way or engine.unfinished():
            return
        assert self._header is not None
        self._joins = False
        try:
            if self._recording is not None:
                assert self._rotation is not None
                self._recording.flush()
                self._rotation.rotate()
            header = replace(
                self._header,
                now=now,
                configuration=engine.profiles.configuration.to_dict(),
                chance=self._chance(),
                dump=engine.dump(),
            )
        except Exception as e:
            self.end(e)
        else:
            self._start(header)

    def flush(self) -> None:
        """Write what is not written yet."""
        if self._recording is not None:
            try:
                self._recording.flush()
            except Exception as e:
                self.end(e)

    def end(self, why: Exception) -> None:
        """Record nothing more, and say why; no-op once it has ended."""
        if self.failure is None:
            self._recording, self._joins, self.failure = None, False, why
            _log.error(why, "Cannot write the recording; it ends here")


class RecordedEngine:
    """An engine as its driver sees it, whose steps are recorded."""

    def __init__(self, engine: Engine, recorder: Recorder) -> None:
        self._engine = engine
        self._recorder = recorder
        self.attach = engine.attach
        self.run_plugin = engine.run_plugin

    @property
    def wants_turn(self) -> bool:
        return self._engine.wants_turn

    def step(self, input_: Input, now: float) -> list[Effect]:
        return self._recorder.step(self._engine, input_, now)
