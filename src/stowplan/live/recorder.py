"""Record the inputs and effects of a running scheduler's engine.

The scheduler goes on whatever becomes of the recording: if a line cannot be written, the recording ends there.

A recording is rotated where the engine is in the middle of nothing: only then can it be dumped, and each file begins
with a dump, so that it can be read without those before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stowplan.engine.recording import Header, Recording
from stowplan.klog import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan.config import Configuration, FeatureGates
    from stowplan.engine.effects import Effect
    from stowplan.engine.engine import Engine
    from stowplan.engine.inputs import Input
    from stowplan.engine.recorded_annotations import RecordedAnnotations
    from stowplan.engine.recording import BrokenOff
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
        """What is written from now on goes into a new file."""


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
            if recording is not None:
                try:
                    recording.add(input_, now, () if guard is None else guard.broken_off_in_step, effects)
                except Exception as e:
                    # A full disk, or an answer of a plugin that JSON cannot hold.
                    self.end(e)
                else:
                    if self._rotation is not None and self._rotation.is_due:
                        self._rotate(engine, self._rotation, now)

    def _rotate(self, engine: Engine, rotation: Rotation, now: float) -> None:
        """Begin another file, unless the engine is in the middle of something."""
        if engine.under_way or engine.unfinished():
            return
        assert self._recording is not None
        assert self._header is not None
        try:
            self._recording.flush()
            rotation.rotate()
            header = Header(
                now=now,
                configuration=engine.profiles.configuration.to_dict(),
                gates=self._header.gates,
                max_in_unschedulable=self._header.max_in_unschedulable,
                overlaps=self._header.overlaps,
                chance=self._chance(),
                decides=self._header.decides,
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
            self._recording, self.failure = None, why
            _log.error(why, "Cannot write the recording; it ends here")
