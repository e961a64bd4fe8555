"""Timelines for the page: of a recording, of a rescheduled recording, of a simulation."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stowplan.api.types import Pod
from stowplan.command_line.errors import InputError
from stowplan.command_line.named_plugins import named_plugins
from stowplan.config import DEFAULT_FEATURES, load_config
from stowplan.engine.inputs import Changes
from stowplan.framework.runtime.registry import installed_plugins
from stowplan.guarding.guarded_plugins import guarded_registry
from stowplan.guarding.hang_guard import CallGuard
from stowplan.guarding.interrupted_calls import InterruptedCalls
from stowplan.page.timeline import Run, timeline_of
from stowplan.page.timeline_file import NAME, TimelineFileError, read_timeline
from stowplan.recordings.files import entries_of, files_of_run, header_of, rotated
from stowplan.recordings.replaying import Replayed
from stowplan.recordings.rerun import Rerun
from stowplan.timing.waits import WaitingPods

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stowplan.config import Configuration
    from stowplan.engine.input_log.recording import Header
    from stowplan.engine.inputs import Input
    from stowplan.framework.runtime.registry import Registry
    from stowplan.guarding.guarded_plugins import Guard
    from stowplan.page.timeline import Timeline
    from stowplan.page.timeline_file import TimelineHeader


def recorded_timeline(path: str, plugins: Sequence[str]) -> Timeline:
    """Replay a recording, including its rotated files. Raises RecordingError."""
    waiting = _RecordedPods()
    return timeline_of(_played(_files(path), plugins, waiting), waiting)


def _files(path: str) -> list[str]:
    return [*(older for _, older in rotated(path)), path]


def _registry(plugins: Sequence[str], guard: Guard) -> Registry:
    return guarded_registry(dict.fromkeys((*installed_plugins(), *named_plugins(plugins))), guard)


def _played(files: Sequence[str], plugins: Sequence[str], waiting: _RecordedPods) -> Iterator[Run]:
    for file in files:
        calls = InterruptedCalls()
        with Replayed(file, _registry(plugins, calls), interrupted=calls) as again:
            yield Run(again.engine.state, _moments(again, waiting))


def _moments(again: Replayed, waiting: _RecordedPods) -> Iterator[float]:
    for step in again.steps():
        waiting.take(step.entry.input, step.entry.now)
        yield step.entry.now


class _RecordedPods(WaitingPods):
    """Pods that arrived during the recording."""

    def take(self, input_: Input, now: float) -> None:
        if not isinstance(input_, Changes) or input_.kind is not Pod:
            return
        for change in input_.changes:
            old, new = change.old, change.new
            if new is None:
                assert old is not None, "something has changed"
                self.gone(old.metadata.uid, now)
            elif new.spec.node_name:
                self.placed(new.metadata.uid, now)
            elif old is None:
                # No-op for those that a restarted scheduler lists again.
                self.arrived(new.metadata.uid, now)


# -- rescheduled recordings --------------------------------------------------------------------------------------------


def rerun_timeline(path: str, config: str, plugins: Sequence[str]) -> Timeline:
    """The same pods and nodes with another configuration. Raises RecordingError, ConfigError."""
    files = files_of_run(path)
    again, _ = _rerun(files, config, plugins)
    return timeline_of([Run(again.state, _rerun_moments(again, files))], again.waiting_now)


def rerun_until(
    path: str, config: str, plugins: Sequence[str], at: float | None
) -> tuple[list[Any], Mapping[str, bool]]:
    """The cluster at that time of such a timeline, None: at its end; and the recorded feature gates."""
    files = files_of_run(path)
    again, gates = _rerun(files, config, plugins)
    for entry in entries_of(files):
        if at is not None and entry.now > at:
            # At its end, all pods are tried once more.
            objects = again.state.everything()
            again.end()
            return objects, gates
        again.take(entry.now, entry.input)
    again.end()
    return again.state.everything(), gates


def _rerun(files: Sequence[str], config: str, plugins: Sequence[str]) -> tuple[Rerun, Mapping[str, bool]]:
    header = header_of(files[0])
    registry = _registry(plugins, CallGuard())
    return Rerun(header, registry, _configuration(config, registry, header)), header.gates


def _configuration(config: str, registry: Registry, header: Header) -> Configuration:
    features = DEFAULT_FEATURES.with_gates(header.gates)
    return load_config(config, plugins=registry.declarations, features=features)


def _rerun_moments(again: Rerun, files: Sequence[str]) -> Iterator[float]:
    with ExitStack() as ending:
        ending.callback(again.end)
        for entry in entries_of(files):
            again.take(entry.now, entry.input)
            yield entry.now


# -- simulations ------------------------------------------------------------------------------------------------------


def simulated_timeline(folder: str) -> tuple[TimelineHeader, Timeline]:
    """The output of `stowplan simulate`; raises InputError."""
    path = Path(folder)
    if not (path / NAME).exists():
        hint = (
            f"there is no {NAME} in it. `stowplan simulate` writes one, unless told --no-decisions"
            if path.is_dir()
            else "no such folder"
        )
        raise InputError(f"--simulation {folder}: {hint}")
    try:
        return read_timeline(path / NAME)
    except TimelineFileError as error:
        raise InputError(str(error)) from error
