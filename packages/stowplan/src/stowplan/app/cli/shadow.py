"""`stowplan shadow`: compare with another scheduler's decisions; binds nothing."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stowplan.app.cli.data_output import OUTPUT, answered_as, write_data
from stowplan.app.cli.live_cluster import (
    EMULATED_VERSION,
    Followed,
    chosen_version,
    followed,
    live_cluster,
    not_read,
    readable,
)
from stowplan.app.cli.shell_completion import file_option
from stowplan.app.command_line import event_loop
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.app.command_line.event_loop import first_of, running
from stowplan.app.command_line.plugin_option import PLUGINS
from stowplan.app.command_line.stop_signals import StopSignals, stop_signals
from stowplan.app.daemon.plugin_registry import registry_with
from stowplan.app.sources.printed_roles import role_of_follower
from stowplan.ask.explain.text.tables import write
from stowplan.ask.offline.extender_calls import post_to_extender
from stowplan.drivers.hang_guard.hang_guard import CallGuard
from stowplan.history.recordings.recording_files import entries_of, files_of_run, header_of
from stowplan.history.recordings.replaying import engine_of
from stowplan.history.shadow.shadow import Judged, Shadow
from stowplan.history.shadow.shadow_report import Report
from stowplan.kube.api.documents import Documents
from stowplan.kube.api.durations import parse_duration
from stowplan.kube.config import Configuration, FeatureGates, load_config
from stowplan.kube.config.features import default_features
from stowplan.kube.klog.setup import LogSettings, set_up
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, KubernetesVersion
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.scheduler.engine.input_log.recording import RecordingError
from stowplan.scheduler.engine.inputs import Changes, Served
from stowplan.scheduler.extenders.calls import Calls, asking
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.framework.runtime.registry import Registry

if TYPE_CHECKING:
    from stowplan.drivers.live.follower import Follower

#: Exit code if the agreement is too low.
_DIFFERENT = 3
_WANTED_AGREEMENT = 99.9
#: Seconds between checks of held-back binds, and between writes of the metrics.
_TICK, _METRICS_INTERVAL = 0.1, 5.0


@click.command(short_help="Compare with a running scheduler: which decisions would differ, and why.")
@live_cluster
@file_option(
    "--config",
    help="Decide with this KubeSchedulerConfiguration: the other scheduler's, or one to try. Default: kube-scheduler's "
    "defaults.",
)
@PLUGINS
@EMULATED_VERSION
@file_option(
    "--recording", help="Read a recording of a cluster (stowplan record) or of a scheduler instead of a live cluster."
)
@click.option("--pods", type=click.IntRange(1), metavar="N", help="Stop after N pods. Default: at Ctrl-C.")
@click.option("--for", "duration", metavar="DURATION", help="Stop after this time, such as 90s, 10m or 1h30m.")
@click.option(
    "--min-agreement",
    type=click.FloatRange(0, 100),
    default=_WANTED_AGREEMENT,
    show_default=True,
    metavar="PERCENT",
    help=f"Exit with {_DIFFERENT} if agreement, not counting ties, is below this.",
)
@file_option("--metrics-file", help="Write Prometheus metrics to this file, for node_exporter's textfile collector.")
@click.option(
    "--ask-extenders",
    is_flag=True,
    help="Call the configuration's extenders for filtering and prioritizing. Without it, pods that an extender is "
    "interested in are not compared.",
)
@click.option("--rbac", is_flag=True, help="Print the ClusterRole that this needs, and exit.")
@OUTPUT
def shadow(
    *,
    live: ClusterFlags,
    config: str | None,
    plugins: tuple[str, ...],
    emulated_version: str | None,
    recording: str | None,
    pods: int | None,
    duration: str | None,
    min_agreement: float,
    metrics_file: str | None,
    ask_extenders: bool,
    rbac: bool,
    output: str,
) -> None:
    """Run next to any live scheduler and show, for each pod that it places, what Stowplan would have decided. Binds
    nothing and only reads.

    Each pod is judged on the state on which the other scheduler decided, with the pods that it had placed before, as
    far as that can be reconstructed. The two agree if the other's node is among the best here; if several are equally
    good, it is a tie. For each difference, the plugins that cause it are named. With the other scheduler's own
    configuration this shows whether a swap is safe; with another one, what would change.

    Pods are not compared if all better nodes may have been outside the sample that the other scheduler looked at
    (percentageOfNodesToScore), or if an extender that is not called is interested in them.

    \b
    Exit codes:
      0    agreement is at least --min-agreement
      2    the question, the files or the cluster are at fault
      3    agreement is lower

    \b
    Examples:
      stowplan shadow --config kube-scheduler.yaml --for 10m
      stowplan shadow --recording cluster.recording --config new.yaml -o json
      stowplan shadow --rbac | kubectl apply -f -
    """
    if recording and live.given:
        raise click.UsageError(
            "--recording reads a file; --kubeconfig, --context and --as select a live cluster: give one."
        )
    seconds = _seconds(duration)
    report = Report()
    with reported(config):
        registry = registry_with(plugins, guard=CallGuard())
        version = chosen_version(emulated_version)

        def load(features: FeatureGates) -> Configuration:
            return load_config(config, plugins=registry.declarations, features=features)

        if rbac:
            configuration = load(default_features(version or DEFAULT_VERSION))
            click.echo(role_of_follower(configuration, registry, name="stowplan-shadow"), nl=False)
            return
        metrics = _MetricsFile(metrics_file, report)
        comparison = _Comparison(registry, report, pods, ask_extenders)
        if recording:
            version = comparison.of_recording(recording, load if config else None, version)
        else:
            cluster = followed(load, live, emulated_version, command="shadow")
            version = cluster.features.emulated_version
            _live(cluster, comparison, seconds, metrics)
        metrics.write()
    if output == "text":
        write(report.page(), sys.stdout)
    else:
        write_data(report.to_dict() | answered_as(version), output)
    nothing_compared = bool(report.pods) and report.not_compared == report.pods
    if nothing_compared or 100 * report.agreement < min_agreement:
        raise SystemExit(_DIFFERENT)


def _seconds(duration: str | None) -> float | None:
    if duration is None:
        return None
    try:
        seconds = parse_duration(duration).seconds
    except ValueError as error:
        raise click.UsageError(f"--for {duration}: want a time such as 90s, 10m or 1h30m.") from error
    if seconds <= 0:
        raise click.UsageError(f"--for {duration}: want a time above 0.")
    return seconds


def _notes(configuration: Configuration, ask_extenders: bool) -> list[str]:
    notes = []
    shares = [
        configuration.percentage_of_nodes_to_score,
        *(p.percentage_of_nodes_to_score for p in configuration.profiles),
    ]
    if any(share is not None and share < 100 for share in shares):
        notes.append(
            "the configuration has a percentageOfNodesToScore below 100: the scheduler looks at a part of the nodes, "
            "where there are more than 100; which part is not known here, and the best node may not be in it"
        )
    if configuration.extenders and not ask_extenders:
        notes.append(
            "extenders of the configuration are not called: pods in which they are interested are not compared"
        )
    return notes


class _MetricsFile:
    """The metrics file, replaced atomically."""

    def __init__(self, path: str | None, report: Report) -> None:
        self._path = path
        self._report = report
        self.write()

    def write(self) -> None:
        if self._path is None:
            return
        try:
            beside = Path(f"{self._path}.{os.getpid()}")
            beside.write_text(self._report.metrics_text(), encoding="utf-8")
            beside.replace(self._path)
        except OSError as error:
            raise InputError(f"--metrics-file {self._path}: {error.strerror}") from error

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(_METRICS_INTERVAL)
            self.write()


# -- comparing --------------------------------------------------------------------------------------------------------


class _EnoughError(Exception):
    """The requested number of pods is reached."""


class _Comparison(PlainStruct, frozen=True):
    """Where decisions are compared into, and how many."""

    registry: Registry
    report: Report
    most_pods: int | None
    asks_extenders: bool

    def shadow(self, configuration: Configuration, enough: Callable[[], object]) -> Shadow:
        """A `Shadow` that fills the report, and calls `enough` after the last pod."""
        self.report.notes += _notes(configuration, self.asks_extenders)
        ask = asking(Calls(configuration, Documents(())), post_to_extender) if self.asks_extenders else None

        def add(judged: Judged) -> None:
            if self.report.pods != self.most_pods:
                self.report.add(judged)
            if self.report.pods == self.most_pods:
                enough()

        return Shadow(add, meter=REAL_TIMES, ask=ask)

    def of_recording(
        self, path: str, load: Callable[[FeatureGates], Configuration] | None, version: KubernetesVersion | None
    ) -> KubernetesVersion:
        """Compare on a recording, as the version that is returned; None: with what was recorded."""

        def enough() -> None:
            raise _EnoughError

        try:
            files = files_of_run(path)
            header = header_of(files[0]).as_version(version, self.registry.declarations)
            engine = engine_of(header, self.registry, None if load is None else load(header.features))
            shadow = self.shadow(engine.profiles.configuration, enough)
            now = header.now
            with suppress(_EnoughError):
                for entry in entries_of(files):
                    now = entry.now
                    # What a recorded scheduler did itself is visible in the watch updates.
                    if isinstance(entry.input, Changes | Served):
                        shadow.step(engine, entry.input, now)
                shadow.finish(engine, now)
            return header.features.emulated_version
        except RecordingError as error:
            raise InputError(str(error)) from error


# -- a live cluster ---------------------------------------------------------------------------------------------------


def _live(cluster: Followed, comparison: _Comparison, seconds: float | None, metrics: _MetricsFile) -> None:
    logs = set_up(LogSettings(verbosity=0, format="text"))
    try:
        with stop_signals(logs.flush) as stop:
            event_loop.run(_follow(cluster, comparison, seconds, metrics, stop))
    finally:
        logs.close()


async def _follow(
    cluster: Followed,
    comparison: _Comparison,
    seconds: float | None,
    metrics: _MetricsFile,
    stop: StopSignals,
) -> None:
    from stowplan.drivers.live.follower import Follower

    stopped, enough = stop.event(), asyncio.Event()
    connection, configuration = cluster.connection, cluster.configuration
    async with readable(connection, command="shadow") as api:
        shadow = comparison.shadow(configuration, enough.set)
        follower = Follower(api, configuration, shadow, registry=comparison.registry, features=cluster.features)
        shadow.synced = follower.synced.is_set
        async with running(follower.run()) as following, running(_ticking(shadow, follower)) as ticking:
            await first_of(stopped.wait(), follower.synced.wait(), following)
            if not follower.synced.is_set():
                raise not_read(follower.awaited)
            state = follower.engine.state
            nodes, pending = count(state.table.count, "node"), count(len(state.pending), "pod")
            click.echo(f"watching {connection.server} : {nodes}, {pending} pending", err=True)
            async with running(metrics.keep()) as keeping:
                limit = asyncio.sleep(seconds) if seconds is not None else asyncio.Event().wait()
                await first_of(stopped.wait(), enough.wait(), limit, following, ticking, keeping)
            shadow.finish(follower.engine, follower.clock())


async def _ticking(shadow: Shadow, follower: Follower) -> None:
    while True:
        await asyncio.sleep(_TICK)
        shadow.tick(follower.engine, follower.clock())
