"""Recording what a running scheduler's engine hears."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stowplan.engine.recording import Header, Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan.config import Configuration, FeatureGates
    from stowplan.engine.effects import Effect
    from stowplan.engine.engine import Chance, Engine, EngineSettings
    from stowplan.engine.inputs import Input


class GuardedCalls(Protocol):
    """Calls of users' plugins, counted step by step: `daemon.hang_guard.HangGuard`."""

    def begin_step(self) -> None: ...

    @property
    def broken_off_in_step(self) -> Sequence[int]: ...


class Recorder:
    def __init__(self, write: Callable[[bytes], object], *, guard: GuardedCalls | None = None) -> None:
        """`write` takes one line at a time."""
        self._write = write
        self._guard = guard
        self._recording: Recording | None = None

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
            # Chance of another kind cannot be set back; ties then go elsewhere when it is played again.
            chance=random.getstate() if random is not None and hasattr(random, "getstate") else None,
        )
        self._recording = Recording(self._write, header)

    def step(self, engine: Engine, input_: Input, now: float) -> list[Effect]:
        """Have the engine take the input, and write it down."""
        assert self._recording is not None, "recording has not begun"
        guard = self._guard
        if guard is None:
            self._recording.add(input_, now)
            return engine.step(input_, now)
        guard.begin_step()
        try:
            return engine.step(input_, now)
        finally:
            self._recording.add(input_, now, guard.broken_off_in_step)
