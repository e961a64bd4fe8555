"""`stowplan record`: record a live cluster to a file for later queries."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.live_cluster import (
    EMULATED_VERSION,
    Followed,
    chosen_version,
    followed,
    live_cluster,
    not_read,
    readable,
)
from stowplan.app.cli.recording_options import recording_options
from stowplan.app.cli.shell_completion import complete_file, file_option
from stowplan.app.command_line import event_loop
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.app.command_line.event_loop import first_of, running
from stowplan.app.command_line.plugin_option import PLUGINS
from stowplan.app.command_line.stop_signals import StopSignals, stop_signals
from stowplan.app.daemon.plugin_registry import registry_with
from stowplan.app.daemon.recording_file import kept_annotations, recording
from stowplan.app.sources.printed_roles import role_of_follower
from stowplan.kube.config import Configuration, FeatureGates, load_config
from stowplan.kube.config.config_errors import os_error_text
from stowplan.kube.config.features import default_features
from stowplan.kube.klog.setup import LogSettings, set_up
from stowplan.kube.klog.value_text import duration_text
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.scheduler.engine.input_log.input_recorder import Recorder
from stowplan.scheduler.framework.explanations.formatting import count
from stowplan.scheduler.framework.runtime.registry import Registry

if TYPE_CHECKING:
    from stowplan.drivers.live.follower import Follower

#: Seconds between checks whether the recording is still being written.
_CHECK_INTERVAL = 0.5


@click.command(short_help="Record a live cluster into a file, to query any moment later.")
@click.argument("file", required=False, shell_complete=complete_file)
@live_cluster
@file_option(
    "--config",
    help="Read what a scheduler with this KubeSchedulerConfiguration would read. Default: kube-scheduler's defaults.",
)
@PLUGINS
@EMULATED_VERSION
@click.option("--rbac", is_flag=True, help="Print the ClusterRole that this needs, and exit.")
@recording_options()
def record(
    *,
    file: str | None,
    live: ClusterFlags,
    config: str | None,
    plugins: tuple[str, ...],
    emulated_version: str | None,
    rbac: bool,
    **options: Any,
) -> None:
    """Record a live cluster into FILE until Ctrl-C: nodes, pods and whatever else decisions depend on, as they change.

    Read-only: it lists and watches; --rbac prints the role for that. Secrets, ConfigMaps, and environment and commands
    of containers are not recorded, and of annotations only those that plugins declare.

    FILE is compressed, readable by its owner only, and complete up to the last half second if the process dies. An
    existing file is renamed to FILE.1 (then FILE.2, and so on).

    \b
    Examples:
      stowplan record cluster.recording
      stowplan record --rbac | kubectl apply -f -
      stowplan replay cluster.recording
      stowplan explain --recording cluster.recording --at 2026-11-20T12:03 pod shop/web-0
    """
    with reported(config):
        registry = registry_with(plugins)

        def load(features: FeatureGates) -> Configuration:
            return load_config(config, plugins=registry.declarations, features=features)

        if rbac:
            configuration = load(default_features(chosen_version(emulated_version) or DEFAULT_VERSION))
            click.echo(role_of_follower(configuration, registry, name="stowplan-record"), nl=False)
            return
        if not file:
            raise click.UsageError("Missing argument 'FILE'.")
        cluster = followed(load, live, emulated_version, command="record")
        logs = set_up(LogSettings(verbosity=0, format="text"))
        try:
            with stop_signals(logs.flush) as stop:
                _record(file, cluster, registry, stop, **options)
        finally:
            logs.close()


def _record(
    file: str,
    cluster: Followed,
    registry: Registry,
    stop: StopSignals,
    *,
    record_annotations: tuple[str, ...],
    record_max_size: int,
    record_keep: int,
) -> None:
    annotations = kept_annotations(registry, record_annotations)
    began = time.monotonic()
    try:
        to_file = recording(file, None, annotations=annotations, rotate_at=record_max_size << 20, kept=record_keep)
        with to_file as recorder:
            event_loop.run(_follow(file, cluster, registry, recorder, stop))
    except OSError as error:
        raise InputError(os_error_text("open", file, error)) from error
    if recorder.failure is not None:
        click.echo(
            f"error: the recording ended early: {recorder.failure}; the file is complete up to that point", err=True
        )
        raise SystemExit(1)
    took = duration_text(timedelta(seconds=round(time.monotonic() - began)))
    click.echo(f"recorded {took} into {file}, {size_text(os.path.getsize(file))}")


def size_text(size: int) -> str:
    """Of a file."""
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"


async def _follow(file: str, cluster: Followed, registry: Registry, recorder: Recorder, stop: StopSignals) -> None:
    from stowplan.drivers.live.follower import SETTINGS, Follower

    stopped = stop.event()
    async with readable(cluster.connection, command="record") as api:
        follower = Follower(api, cluster.configuration, recorder, registry=registry, features=cluster.features)
        recorder.begin(
            cluster.configuration,
            now=follower.clock(),
            features=cluster.features,
            settings=SETTINGS,
            random=None,
            decides=False,
        )
        async with running(follower.run()) as following, running(_failing(recorder)) as failing:
            await first_of(stopped.wait(), follower.synced.wait(), following, failing)
            if not follower.synced.is_set() and recorder.failure is None:
                raise not_read(follower.awaited)
            if not stopped.is_set():
                click.echo(_ready(follower, cluster.connection.server, file))
                await first_of(stopped.wait(), following, failing)


async def _failing(recorder: Recorder) -> None:
    """Return when the recording has ended early; also flushes it while nothing happens."""
    while recorder.failure is None:
        await asyncio.sleep(_CHECK_INTERVAL)
        recorder.flush()


def _ready(follower: Follower, server: str, file: str) -> str:
    state = follower.engine.state
    pods = sum(1 for _ in state.placed_pods()) + len(state.pending)
    return f"recording {server} into {file} : {count(state.table.count, 'node')}, {count(pods, 'pod')}"
