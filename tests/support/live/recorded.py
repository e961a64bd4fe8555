"""Runs of a live scheduler that are recorded and replayed."""

from random import Random

from stowplan.drivers.hang_guard.guarded_plugins import register_guarded
from stowplan.kube.timing.times import ManualTime
from stowplan.scheduler.engine.input_log.input_recorder import Recorder
from stowplan.scheduler.engine.input_log.recording import Replay
from stowplan.scheduler.in_tree.registry import in_tree_registry


class Recorded:
    """A recorder's lines, and the effects that followed each."""

    def __init__(self, *, guard=None):
        self._written, self.effects = [], []
        self.recorder = Recorder(self._written.append, guard=guard)
        step = self.recorder.step

        def seen(engine, input_, now):
            effects = step(engine, input_, now)
            self.effects.append([effect.encoded() for effect in effects])
            return effects

        self.recorder.step = seen

    @property
    def lines(self):
        self.recorder.flush()
        return b"".join(self._written).splitlines(keepends=True)

    def replayed(self, *plugins, lines=None, interrupted=None, **options):
        """The effects of each step of a replay; `options` are those of `Replay`."""
        registry = in_tree_registry()
        if interrupted is None:
            for plugin in plugins:
                registry.register(plugin)
        else:
            register_guarded(registry, plugins, interrupted)
        options |= {"meter": ManualTime(), "chance": Random(), "interrupted": interrupted}
        replay = Replay(self.lines if lines is None else lines, registry, **options)
        return [[effect.encoded() for effect in effects] for _, effects in replay.steps()]

    def check(self, *plugins, **options):
        """Replay it; the effects must be the same, byte for byte."""
        again, lines = self.replayed(*plugins, **options), self.lines
        assert len(again) == len(self.effects)
        for step, (effects, those_then) in enumerate(zip(again, self.effects, strict=True)):
            assert effects == those_then, f"step {step}: {lines[step + 1]}"
