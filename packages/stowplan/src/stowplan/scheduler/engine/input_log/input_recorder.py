"""Record the inputs and effects of a running engine, independent of its driver.

The engine continues whatever happens to the recording: if a line cannot be written, the recording ends there.

A recording that is started during a run begins with a dump of the engine. So does each file of a rotated recording, so
that it can be read without the earlier ones. An engine can be dumped only while nothing is in progress: both wait for
such a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from stowplan.kube.config import Configuration, FeatureGates
from stowplan.kube.klog import get_logger
from stowplan.scheduler.engine.context import EngineSettings
from stowplan.scheduler.engine.effects import Effect
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.engine.input_log.recorded_annotations import RecordedAnnotations
from stowplan.scheduler.engine.input_log.recording import Header, InterruptedCall, Recording
from stowplan.scheduler.engine.inputs import Input
from stowplan.scheduler.framework.handle import Random

_log = get_logger(__name__)


class GuardedCalls(Protocol):
    """Counts calls of user plugins in each step: `guarding.hang_guard.HangGuard`."""

    def begin_step(self) -> None: ...

    @property
    def interrupted_in_step(self) -> Sequence[InterruptedCall]: ...


class Rotation(Protocol):
    """An output that may need rotation: `daemon.recording_file.RecordingFile`."""

    @property
    def is_due(self) -> bool: ...

    def rotate(self) -> None:
        """Start a new file."""


class Recorder:
    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        guard: GuardedCalls | None = None,
        annotations: RecordedAnnotations | None = None,
        rotation: Rotation | None = None,
    ) -> None:
        """`write` gets several lines at a time, and must not block; if it raises, the recording ends."""
        self._write = write
        self._guard = guard
        self._annotations = annotations
        self._rotation = rotation
        #: None before it begins, and after it ended early.
        self._recording: Recording | None = None
        #: Whether it begins with a dump, as soon as one is possible.
        self._joins = False
        #: Why it ended early.
        self.failure: Exception | None = None
        #: The constant part of the header.
        self._header: Header | None = None
        self._random: Random | None = None

    def begin(
        self,
        config: Configuration,
        *,
        now: float,
        features: FeatureGates,
        settings: EngineSettings,
        random: Random | None,
        decides: bool = True,
    ) -> None:
        """Record the construction of the engine. `decides`: whether to record the outcomes of steps as well."""
        self._random = random
        self._header = header = Header(
            now=now,
            configuration=config.shown(),
            gates=dict(features.gates),
            emulated_version=str(features.emulated_version),
            max_in_unschedulable=settings.max_in_unschedulable,
            overlaps=settings.overlaps,
            chance=self._chance(),
            decides=decides,
        )
        self._start(header)

    def join(self, engine: Engine, now: float, *, decides: bool = True) -> None:
        """Start during the engine's run, now or as soon as nothing is in progress."""
        self._random = engine.random
        self._header = Header(
            now=now,
            configuration={},
            gates=dict(engine.features.gates),
            emulated_version=str(engine.features.emulated_version),
            max_in_unschedulable=engine.settings.max_in_unschedulable,
            overlaps=engine.settings.overlaps,
            decides=decides,
        )
        self._joins = True
        self._begin_with_dump(engine, now)

    def _chance(self) -> object:
        # A custom random source cannot be restored, so ties are broken differently in a replay.
        random = self._random
        return random.getstate() if random is not None and hasattr(random, "getstate") else None

    def _start(self, header: Header) -> None:
        try:
            self._recording = Recording(self._write, header, annotations=self._annotations)
        except Exception as e:
            self.end(e)

    def step(self, engine: Engine, input_: Input, now: float) -> list[Effect]:
        """Pass the input to the engine, and record it."""
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
                    recording.add(input_, now, () if guard is None else guard.interrupted_in_step, effects)
                except Exception as e:
                    # A full disk, or a plugin result that is not JSON-able.
                    self.end(e)
                else:
                    if self._rotation is not None and self._rotation.is_due:
                        self._begin_with_dump(engine, now)

    def _begin_with_dump(self, engine: Engine, now: float) -> None:
        """Begin, or continue in another file, unless something is in progress."""
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
                configuration=engine.profiles.configuration.shown(),
                chance=self._chance(),
                dump=engine.dump(),
            )
        except Exception as e:
            self.end(e)
        else:
            self._start(header)

    def flush(self) -> None:
        """Write buffered lines."""
        if self._recording is not None:
            try:
                self._recording.flush()
            except Exception as e:
                self.end(e)

    def end(self, why: Exception) -> None:
        """End the recording, with the reason; no-op if it has ended."""
        if self.failure is None:
            self._recording, self._joins, self.failure = None, False, why
            _log.error(why, "Cannot write the recording; it ends here")
