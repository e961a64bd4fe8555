"""Tracks of the page: a recording, a rescheduled one, or a simulation, each a timeline with its moments.

A moment is the cluster at that time. A recording is replayed up to it; another configuration reschedules the recording
up to it; a simulation is run again from the scenario in its folder, and compared with the timeline's plan of that
moment, because scenarios refer to files, and plugins change.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from stowplan.command_line.errors import InputError
from stowplan.command_line.named_plugins import named_plugins
from stowplan.config import ConfigError
from stowplan.config.features import known_gates
from stowplan.engine.input_log.recording import RecordingError
from stowplan.framework.runtime.profile_plugins import PluginInitError
from stowplan.framework.runtime.registry import PluginLoadError
from stowplan.offline import Cluster, ClusterError
from stowplan.page.moments import MomentError
from stowplan.page.plan import plan_of
from stowplan.scenarios.definition.load import load_scenario
from stowplan.scenarios.errors import ScenarioError
from stowplan.scenarios.simulation import simulated_until
from stowplan.sources.cluster_source import ClusterSource
from stowplan.sources.timelines import recorded_timeline, rerun_timeline, rerun_until, simulated_timeline
from stowplan.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stowplan.page.moments import Build
    from stowplan.page.plan import Plan
    from stowplan.page.timeline import Timeline
    from stowplan.page.timeline_file import TimelineHeader

NO_RERUN = (
    "the scenario was built in Python, so the folder does not contain it; the simulation of a scenario file or of a "
    "mapping can be run again"
)

_PROBLEMS = (InputError, RecordingError, ScenarioError, ConfigError, PluginLoadError, PluginInitError, ClusterError)


class Track(PlainStruct, frozen=True):
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


def recorded_track(path: str, plugins: Sequence[str]) -> Track:
    def moment(at: float | None, stopped: Callable[[], bool]) -> ClusterSource:
        with _located_errors(path):
            return ClusterSource.of_recording(path, at, None, plugins)

    return Track(partial(recorded_timeline, path, plugins), moment)


def rerun_track(path: str, config: str, plugins: Sequence[str]) -> Track:
    def moment(at: float | None, stopped: Callable[[], bool]) -> ClusterSource:
        with _located_errors(path):
            objects, gates = rerun_until(path, config, plugins, at)
            cluster = Cluster(objects, config, plugins=named_plugins(plugins), feature_gates=known_gates(gates))
        return ClusterSource(cluster, {}, where=f"{path} at that time", whole=True)

    return Track(partial(rerun_timeline, path, config, plugins), moment)


def simulated_track(folder: str) -> Track:
    def moment(at: float | None, stopped: Callable[[], bool]) -> ClusterSource:
        with _located_errors(folder, "the simulation cannot be run again: "):
            header, timeline = simulated_timeline(folder)
            if header.rerun is None:
                raise InputError(NO_RERUN)
            at = timeline.looks[-1].time if at is None else at
            cluster = _simulated_again(folder, header, at, stopped)
        problem = _difference(timeline.at(at), plan_of(cluster.state))
        if problem and not stopped():
            raise MomentError(
                f"{folder}: running the simulation again gave a different result: {problem}. Have the scenario's "
                "files, its plugins or Stowplan changed since? `stowplan simulate` writes a new one"
            )
        return ClusterSource(cluster, {}, where=f"{folder} at that time", whole=True)

    return Track(lambda: simulated_timeline(folder)[1], moment)


def _simulated_again(folder: str, header: TimelineHeader, at: float, stopped: Callable[[], bool]) -> Cluster:
    rerun = header.rerun
    assert rerun is not None
    located = load_scenario(rerun.scenario, folder=Path(folder, rerun.folder).resolve())
    plugins = named_plugins(rerun.plugins)
    config = yaml.safe_load(header.configuration.yaml)
    simulation = simulated_until(at, located, config=config, seed=rerun.seed, plugins=plugins, stopped=stopped)
    own = named_plugins(located.scenario.scheduler.plugins)
    gates = located.scenario.scheduler.feature_gates
    return Cluster(
        simulation.engine.state.everything(), config, plugins=[*own, *plugins], feature_gates=known_gates(gates)
    )


def _difference(then: Plan, now: Plan) -> str:
    """The differences as text; empty if there are none."""
    if then.nodes.keys() != now.nodes.keys():
        return f"then it had {len(then.nodes)} nodes, now {len(now.nodes)}, or others"
    places, found = ({key: row.node for key, row in plan.pods.items()} for plan in (then, now))
    others = sorted(key for key in places.keys() | found.keys() if places.get(key) != found.get(key))
    return f"{len(others)} pods are elsewhere ({others[0]}, …)" if others else ""
