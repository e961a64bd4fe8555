"""Recording what a running scheduler's engine hears.

The scheduler goes on whatever becomes of the recording: if a line cannot be written, the recording ends there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stowplan.engine.recording import Header, Recording
from stowplan.klog import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan.config import Configuration, FeatureGates
    from stowplan.engine.effects import Effect
    from stowplan.engine.engine import Chance, Engine, EngineSettings
    from stowplan.engine.inputs import Input
    from stowplan.engine.recording import BrokenOff

_log = get_logger(__name__)


class GuardedCalls(Protocol):
    """Calls of users' plugins, counted step by step: `guarding.hang_guard.HangGuard`."""

    def begin_step(self) -> None: ...

    @property
    def broken_off_in_step(self) -> Sequence[BrokenOff]: ...


class Recorder:
    def __init__(self, write: Callable[[bytes], object], *, guard: GuardedCalls | None = None) -> None:
        """`write` takes some lines at a time, and does not wait; what it raises ends the recording."""
        self._write = write
        self._guard = guard
        #: None before it begins, and once it has ended early.
        self._recording: Recording | None = None
        self._ended = False

    def begin(
        self,
        config: Configuration,
        *,
        now: float,
        features: FeatureGates,
        settings: EngineSettings,
        random: Chance | None,
    ) -> None:
        """Write down what the engine is built with."""
        header = Header(
            now=now,
            configuration=config.to_dict(),
            gates=dict(features.gates),
            max_in_unschedulable=settings.max_in_unschedulable,
            overlaps=settings.overlaps,
            # Chance of another kind cannot be set back; ties then go elsewhere when it is played again.
            chance=random.getstate() if random is not None and hasattr(random, "getstate") else None,
        )
        try:
            self._recording = Recording(self._write, header)
        except Exception as e:
            self.end(e)

    def step(self, engine: Engine, input_: Input, now: float) -> list[Effect]:
        """Have the engine take the input, and write it down."""
        guard = self._guard
        if guard is not None:
            guard.begin_step()
        try:
            return engine.step(input_, now)
        finally:
            recording = self._recording
            if recording is not None:
                try:
                    recording.add(input_, now, () if guard is None else guard.broken_off_in_step)
                except Exception as e:
                    # A full disk, or an answer of a plugin that JSON cannot hold.
                    self.end(e)

    def flush(self) -> None:
        """Write what is not written yet."""
        if self._recording is not None:
            try:
                self._recording.flush()
            except Exception as e:
                self.end(e)

    def end(self, why: Exception) -> None:
        """Record nothing more, and say why; no-op once it has ended."""
        if not self._ended:
            self._recording, self._ended = None, True
            _log.error(why, "Cannot write the recording; it ends here")
