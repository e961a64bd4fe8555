"""Sources of the page's timelines: a recording, a rescheduled one, or a simulation, each with its moments.

A moment is the cluster at that time. A recording is replayed up to it; another configuration reschedules the recording
up to it; a simulation is run again from the scenario in its folder, and compared with the timeline's plan of that
moment, because scenarios refer to files, and plugins change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.named_plugins import named_plugins
from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.offline import Cluster, ClusterError
from stowplan.ask.offline.arguments import cluster_features
from stowplan.drivers.hang_guard.guarded_plugins import Guard, registry_with_installed
from stowplan.drivers.hang_guard.hang_guard import CallGuard, InterruptedCalls
from stowplan.history.recordings.recording_files import entries_of, files_of_run, header_of, rotated
from stowplan.history.recordings.replaying import Replayed
from stowplan.history.recordings.rerun import Rerun
from stowplan.kube.api.types import Pod
from stowplan.kube.config import ConfigError, FeatureGates
from stowplan.kube.kubernetes_versions import KubernetesVersion
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.waits import WaitingPods
from stowplan.scheduler.engine.input_log.recording import RecordingError
from stowplan.scheduler.engine.inputs import Changes, Input
from stowplan.scheduler.framework.entry_points import entry_points
from stowplan.scheduler.framework.runtime.profile_plugins import PluginInitError
from stowplan.scheduler.framework.runtime.registry import PluginLoadError, Registry
from stowplan.ui.plan import Plan, plan_of
from stowplan.ui.timeline import Run, Timeline, timeline_of
from stowplan.ui.timeline_file import NAME, TimelineFileError, TimelineHeader, read_timeline
from stowplan.ui.timeline_routes import Build, MomentError

#: A function that runs a simulation again up to a moment: (header, time, folder, stopped) -> the cluster at that time.
ENTRY_POINT_GROUP = "stowplan.simulations"

NO_RERUN = (
    "the scenario was built in Python, so the folder does not contain it; the simulation of a scenario file or of a "
    "mapping can be run again"
)

_PROBLEMS = (InputError, RecordingError, ConfigError, PluginLoadError, PluginInitError, ClusterError)


class TimelineSource(PlainStruct, frozen=True):
    """A timeline, and the cluster at any moment of it."""

    timeline: Callable[[], Timeline]
    moment: Build


@contextmanager
def _located_errors(where: str, what: str = "") -> Iterator[None]:
    """Why a moment cannot be rebuilt, for the page."""
    try:
        yield
    except _PROBLEMS as error:
        text = str(error)
        raise MomentError(text if where in text and not what else f"{where}: {what}{text}") from error


def recorded_source(path: str, plugins: Sequence[str], version: KubernetesVersion | None = None) -> TimelineSource:
    """`version`: of kube-scheduler to answer as; None: the recorded one."""

    def moment(at: float | None, stopped: Callable[[], bool]) -> ClusterSource:
        with _located_errors(path):
            return ClusterSource.of_recording(path, at, None, plugins, version)

    return TimelineSource(partial(recorded_timeline, path, plugins), moment)


def rerun_source(
    path: str, config: str, plugins: Sequence[str], version: KubernetesVersion | None = None
) -> TimelineSource:
    """`version`: of kube-scheduler to decide as; None: the recorded one."""

    def moment(at: float | None, stopped: Callable[[], bool]) -> ClusterSource:
        with _located_errors(path):
            objects, features = rerun_until(path, config, plugins, at, version)
            cluster = Cluster(objects, config, plugins=named_plugins(plugins), **cluster_features(features))
        return ClusterSource(cluster, {}, where=f"{path} at that time", whole=True)

    return TimelineSource(partial(rerun_timeline, path, config, plugins, version), moment)


def simulated_source(folder: str) -> TimelineSource:
    def moment(at: float | None, stopped: Callable[[], bool]) -> ClusterSource:
        with _located_errors(folder, "the simulation cannot be run again: "):
            header, timeline = simulated_timeline(folder)
            if header.rerun is None:
                raise InputError(NO_RERUN)
            at = timeline.frames[-1].time if at is None else at
            cluster = _cluster_of_simulation()(header, at, folder=folder, stopped=stopped)
        problem = _difference(timeline.at(at), plan_of(cluster.state))
        if problem and not stopped():
            raise MomentError(
                f"{folder}: running the simulation again gave a different result: {problem}. Have the scenario's "
                "files, its plugins or Stowplan changed since? `stowplan simulate` writes a new one"
            )
        return ClusterSource(cluster, {}, where=f"{folder} at that time", whole=True)

    return TimelineSource(lambda: simulated_timeline(folder)[1], moment)


def _cluster_of_simulation() -> Callable[..., Cluster]:
    """What runs a simulation again up to a moment; raises InputError."""
    for point in entry_points(group=ENTRY_POINT_GROUP):
        rerun: Callable[..., Cluster] = point.load()
        return rerun
    raise InputError(
        "the distribution stowplan-lab is not installed; it is beside that of stowplan (docs/run/install.md)"
    )


def _difference(then: Plan, now: Plan) -> str:
    """The differences as text; empty if there are none."""
    if then.nodes.keys() != now.nodes.keys():
        return f"then it had {len(then.nodes)} nodes, now {len(now.nodes)}, or others"
    places, found = ({key: row.node for key, row in plan.pods.items()} for plan in (then, now))
    others = sorted(key for key in places.keys() | found.keys() if places.get(key) != found.get(key))
    return f"{len(others)} pods are elsewhere ({others[0]}, …)" if others else ""


# -- recordings --------------------------------------------------------------------------------------------------------


def recorded_timeline(path: str, plugins: Sequence[str]) -> Timeline:
    """Replay a recording, including its rotated files. Raises RecordingError."""
    waiting = _RecordedPods()
    return timeline_of(_played(_files(path), plugins, waiting), waiting)


def _files(path: str) -> list[str]:
    return [*(older for _, older in rotated(path)), path]


def _registry(plugins: Sequence[str], guard: Guard) -> Registry:
    return registry_with_installed(named_plugins(plugins), guard)


def _played(files: Sequence[str], plugins: Sequence[str], waiting: _RecordedPods) -> Iterator[Run]:
    for file in files:
        calls = InterruptedCalls()
        with Replayed(file, _registry(plugins, calls), interrupted=calls) as again:
            yield Run(again.engine.state, _moments(again, waiting), again.engine.features)


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


def rerun_timeline(
    path: str, config: str, plugins: Sequence[str], version: KubernetesVersion | None = None
) -> Timeline:
    """The same pods and nodes with another configuration. Raises RecordingError, ConfigError."""
    files = files_of_run(path)
    again, features = _rerun(files, config, plugins, version)
    return timeline_of([Run(again.state, _rerun_moments(again, files), features)], again.waiting_now)


def rerun_until(
    path: str, config: str, plugins: Sequence[str], at: float | None, version: KubernetesVersion | None
) -> tuple[list[Any], FeatureGates]:
    """The cluster at that time of such a timeline, None: at its end; and its features."""
    files = files_of_run(path)
    again, features = _rerun(files, config, plugins, version)
    for entry in entries_of(files):
        if at is not None and entry.now > at:
            # At its end, all pods are tried once more.
            objects = again.state.everything()
            again.end()
            return objects, features
        again.take(entry.now, entry.input)
    again.end()
    return again.state.everything(), features


def _rerun(
    files: Sequence[str], config: str, plugins: Sequence[str], version: KubernetesVersion | None
) -> tuple[Rerun, FeatureGates]:
    registry = _registry(plugins, CallGuard())
    header = header_of(files[0]).as_version(version, registry.declarations)
    return Rerun(header, registry, config), header.features


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
