"""Measure a configuration by rescheduling a recording.

A recording has the times at which pods and nodes were added and deleted, but not the consequences of other decisions: a
pod is deleted when it was deleted then, however long it has run, and evicted pods are not recreated. So nodes,
utilization and cost are not measured, and the notes explain how to read the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.drivers.hang_guard.guarded_plugins import guarded_registry
from stowplan.drivers.hang_guard.hang_guard import CallGuard
from stowplan.history.recordings.files import files_of_run, header_of
from stowplan.history.recordings.rerun import rerun
from stowplan.kube.config import DEFAULT_FEATURES, load_config
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.waits import wait_measures
from stowplan.scheduler.framework.runtime.registry import installed_plugins, load_plugin
from stowplan_lab.compare.runs import Run

if TYPE_CHECKING:
    from stowplan.history.recordings.rerun import RerunResult
    from stowplan.kube.config import Configuration
    from stowplan.scheduler.framework.runtime.registry import Registry

#: The name of the configuration of the recording.
RECORDED = "recorded"
#: The measure of how close a configuration comes to the recorded decisions.
PLACED_DIFFERENTLY = "placedDifferently"
ONE_RUN = (
    "Pods and nodes come and go as recorded: run times of pods, actions of an autoscaler and replacements of "
    "evicted pods could have been different. Nodes, utilization and cost are not compared. One recording is one run, "
    "so there are no intervals: another week may differ."
)
NO_ATTEMPTS = (
    "The recording followed a cluster and does not say when its scheduler tried pods. Here they are tried as soon as "
    "they can be: waits are lower than on a cluster, and compare with each other only."
)


class RecordingJob(PlainStruct, frozen=True):
    recording: str
    side: int
    #: None: the recorded one.
    config: str | None
    seed: int
    #: MODULE:CLASS of plugins.
    plugins: tuple[str, ...] = ()


def configuration_of(recording: str, config: str | None, plugins: tuple[str, ...]) -> tuple[Registry, Configuration]:
    """From a file, or the recorded one; raises RecordingError, PluginLoadError, ConfigError."""
    registry = guarded_registry(dict.fromkeys((*installed_plugins(), *map(load_plugin, plugins))), CallGuard())
    header = header_of(files_of_run(recording)[0])
    features = DEFAULT_FEATURES.with_gates(header.gates)
    source = header.configuration if config is None else config
    return registry, load_config(source, plugins=registry.declarations, features=features)


def measured_recording(job: RecordingJob) -> Run:
    """Reschedule a recording; importable, for worker processes. Raises RecordingError, ConfigError."""
    found = rerun(job.recording, *configuration_of(job.recording, job.config, job.plugins))
    return Run(_values(found), {pod.key: pod.node_now for pod in found.pods.values()})


def _values(found: RerunResult) -> dict[str, float]:
    """Measures of the pods to schedule."""
    pods = len(found.pods)
    return {
        **wait_measures(found.waits_now),
        PLACED_DIFFERENTLY: 100 * len(found.placed_differently) / pods if pods else 0.0,
    }


def notes_of(recording: str) -> tuple[str, ...]:
    """Notes on a comparison with it; raises RecordingError."""
    return (ONE_RUN,) if header_of(recording).decides else (ONE_RUN, NO_ATTEMPTS)
