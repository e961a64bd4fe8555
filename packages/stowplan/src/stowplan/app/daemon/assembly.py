"""Assemble `kube-scheduler` from its parsed options: API client, cluster, scheduler, secure port.

Upstream: Setup and Run in cmd/kube-scheduler/app/server.go.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stowplan import __version__
from stowplan.app.command_line.event_loop import first_of, run_in_background
from stowplan.app.command_line.flags.flag_kinds import NO_VERSION
from stowplan.app.command_line.flags.flag_set import CommandLine
from stowplan.app.daemon.config_watch import REFUSED, SWAPPED, WatchedFile, on_hangup, watching
from stowplan.app.daemon.debugger import CacheDebugger, on_signal
from stowplan.app.daemon.fatal_errors import CommandError, LeaseLost
from stowplan.app.daemon.life_cycle import flushing, until_stopped, while_leading
from stowplan.app.daemon.secure_port import Port, Running, opened_port, served
from stowplan.kube import compiled
from stowplan.kube.config import Configuration
from stowplan.kube.config.config_errors import os_error_text
from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import KubernetesVersion
from stowplan.kube.metrics.component import ComponentMetrics, StowplanMetrics
from stowplan.kube.metrics.families import Histogram
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import REAL_TIMES, Times
from stowplan.net.client.client_errors import ClientConfigError
from stowplan.net.client.http.lanes import Lanes
from stowplan.net.serving.delegation import DelegationError
from stowplan.net.serving.serving_error import ServingError
from stowplan.scheduler.framework.runtime.profile_plugins import PluginInitError
from stowplan.scheduler.inspection.room import RoomRecord, room_of

if TYPE_CHECKING:
    from stowplan.app.command_line.flags.gates import Gates
    from stowplan.app.command_line.stop_signals import StopSignals
    from stowplan.app.daemon.process import ClusterConnector, ConnectedCluster, Job
    from stowplan.drivers.hang_guard.hang_guard import HangGuard
    from stowplan.drivers.live.scheduler import Scheduler
    from stowplan.kube.klog.setup import Logs


T = TypeVar("T")

_log = get_logger(__name__)


class Process(PlainStruct, frozen=True, kw_only=True):
    job: Job
    metrics: ComponentMetrics
    line: CommandLine
    gates: Gates
    stop: StopSignals
    logs: Logs


async def schedule(process: Process, opener: ClusterConnector) -> None:
    """Schedule until stopped; raises CommandError for user errors, LeaseLost if another process may lead."""
    job, line = process.job, process.line
    stopped = process.stop.event()
    async with AsyncExitStack() as stack:
        try:
            # This may wait for an unresponsive API server.
            opening = stack.enter_async_context(opened_port(line, process.gates, process.metrics))
            port = await _unless(stopped, opening)
            cluster = await stack.enter_async_context(opener(job))
            scheduler = cluster.new_scheduler()
        except (ServingError, DelegationError, ClientConfigError, PluginInitError) as error:
            raise CommandError(str(error)) from error
        except _StoppedError:
            return _log_end(elected=job.config.leader_election.leader_elect, requested=True)
        _show_configuration(job.config)
        if line["write-config-to"]:
            return _write_configuration(job.config, line["write-config-to"])
        _log_start(line, job.features.emulated_version)
        requested = await _live(process, port, cluster, scheduler, stopped)
    _log_end(elected=cluster.election is not None, requested=requested)


class _StoppedError(Exception):
    """A signal arrived before anything was started."""


async def _unless(stopped: asyncio.Event, beginning: Coroutine[Any, Any, T]) -> T:
    """The result of the startup step; aborted if a signal comes first."""
    task = asyncio.create_task(beginning)
    try:
        await first_of(stopped.wait(), task)
        if not task.done():
            raise _StoppedError
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _log_start(line: CommandLine, emulated: KubernetesVersion) -> None:
    reported = line["version"]
    own = f"stowplan {compiled.with_form(__version__)} (decides as kube-scheduler {emulated})"
    version = own if reported == NO_VERSION else reported
    _log.info("Starting Kubernetes Scheduler", version=version)
    _log.info(
        "Python settings",
        implementation=platform.python_implementation(),
        version=platform.python_version(),
        PYTHONOPTIMIZE=os.environ.get("PYTHONOPTIMIZE", ""),
        PYTHONHASHSEED=os.environ.get("PYTHONHASHSEED", ""),
        PYTHONFAULTHANDLER=os.environ.get("PYTHONFAULTHANDLER", ""),
    )


async def _live(
    process: Process, port: Port | None, cluster: ConnectedCluster, scheduler: Scheduler, stopped: asyncio.Event
) -> bool:
    """Serve and schedule; return whether it ended on request."""
    job, logs = process.job, process.logs
    lead = asyncio.Event()
    shown = Running(
        config=job.config,
        line=process.line,
        gates=process.gates,
        plugins=job.registry.declarations,
        scheduler=scheduler,
        connection=job.connection,
        election=cluster.election,
        metrics=process.metrics,
        stopped=stopped,
        lead=lead,
        set_verbosity=logs.set_verbosity,
        started=time.time(),
    )
    async with AsyncExitStack() as stack:
        if logs.buffered:
            seconds = process.line["log-flush-frequency"].seconds
            await stack.enter_async_context(run_in_background(flushing(logs.flush, seconds)))
        await _watch_over(stack, process, cluster, scheduler)
        if job.watched is not None:
            await _watch_config(stack, job.watched, process, scheduler)
        await stack.enter_async_context(served(port, shown))
        if cluster.election is None:
            await until_stopped(scheduler, stopped, lead=lead, on_ready=_synced)
            return True
        return await while_leading(
            scheduler,
            cluster.election.elector,
            stopped,
            lead=lead,
            delayed=job.config.delay_cache_until_active,
            on_ready=_synced,
        )


async def _watch_over(stack: AsyncExitStack, process: Process, cluster: ConnectedCluster, scheduler: Scheduler) -> None:
    """Start everything that observes the running scheduler."""
    metrics = process.metrics
    gather(metrics, scheduler, lanes=cluster.lanes, guard=process.job.guard)
    await stack.enter_async_context(run_in_background(sample_lag(metrics.stowplan.event_loop_lag_seconds, REAL_TIMES)))
    debugger = CacheDebugger(informers=scheduler.informers, state=scheduler.state, queue=scheduler.queue)
    await stack.enter_async_context(run_in_background(debugger.run()))
    stack.enter_context(on_signal(debugger))


async def _watch_config(stack: AsyncExitStack, file: WatchedFile, process: Process, scheduler: Scheduler) -> None:
    reloads = process.metrics.stowplan.config_reloads_total
    for result in (SWAPPED, REFUSED):
        # From the start: an increase is not visible in a series that starts with it.
        reloads.with_label_values(result)
    watch = watching(
        file,
        scheduler,
        count=lambda result: reloads.with_label_values(result).inc(),
        times=REAL_TIMES,
    )
    await stack.enter_async_context(run_in_background(watch.run()))
    stack.enter_context(on_hangup(watch))


def _synced() -> None:
    _log.v(3).info("Handlers synced")


def _log_end(*, elected: bool, requested: bool) -> None:
    if not elected:
        # Parity: without leader election, any end is unexpected.
        raise CommandError("finished without leader elect")
    if not requested:
        raise LeaseLost
    _log.info("Requested to terminate, exiting")


# --- showing and writing the configuration


def _show_configuration(config: Configuration) -> None:
    verbose = _log.v(2)
    if verbose.enabled:
        for plugins in config.effective_plugins().values():
            verbose.info("the scheduler starts to work with those plugins", Plugins=plugins)
        verbose.info("Using component config", config=_as_yaml(config.shown()))


def _write_configuration(config: Configuration, path: str) -> None:
    try:
        Path(path).write_text(_as_yaml(config.to_dict()), encoding="utf-8")
    except OSError as error:
        raise CommandError(os_error_text("open", path, error)) from error
    _log.info("Wrote configuration", file=path)


def _as_yaml(config: dict[str, Any]) -> str:
    import yaml

    from stowplan.kube.api.yaml_text import KubernetesDumper

    class Dumper(yaml.SafeDumper):
        """Quotes strings like Go's library."""

        yaml_implicit_resolvers = KubernetesDumper.yaml_implicit_resolvers

    def text(dumper: Any, value: str) -> yaml.ScalarNode:
        tag = "tag:yaml.org,2002:str"
        plain = dumper.resolve(yaml.ScalarNode, value, (True, False)) == tag
        node: yaml.ScalarNode = dumper.represent_scalar(tag, value, style=None if plain else '"')
        return node

    Dumper.add_representer(str, text)
    return yaml.dump(config, Dumper=Dumper, sort_keys=True, allow_unicode=True, width=2**31 - 1)


# `stowplan_*` metrics are collected when they are scraped, except for the event loop's lag: anything that blocks the
# loop, such as a decision, a page or a plugin, blocks everything.

_SAMPLING_INTERVAL = 1.0


def gather(metrics: ComponentMetrics, scheduler: Scheduler, *, lanes: Lanes | None, guard: HangGuard) -> None:
    """Set the values at each scrape."""
    own = metrics.stowplan

    def refresh() -> None:
        scheduler.refresh_metrics()
        own.stories.set(float(len(scheduler.stories)))
        dropped = scheduler.dropped_events
        if lanes is not None:
            dropped += lanes.dropped
            for lane, number in lanes.waiting.items():
                own.client_requests_waiting.with_label_values(lane).set(float(number))
        own.events_dropped_total.value = float(dropped)
        for plugin, point in guard.guarded | guard.interrupted.keys():
            own.plugin_hangs_total.with_label_values(plugin, point).value = float(guard.interrupted[plugin, point])
        _gather_room(own, room_of(scheduler.state))

    metrics.registry.at_scrape(refresh)


def _gather_room(own: StowplanMetrics, room: RoomRecord) -> None:
    own.room_pods.reset()
    # Frequent requests come and go: as labels, they would never end.
    for shape in room.shapes:
        if not shape.seen:
            own.room_pods.with_label_values(shape.name, "false").set(float(shape.fits))
            own.room_pods.with_label_values(shape.name, "true").set(float(shape.together))
    own.fragmentation_ratio.reset()
    for resource, share in room.fragmentation.items():
        own.fragmentation_ratio.with_label_values(resource).set(share)


async def sample_lag(lag: Histogram, times: Times) -> None:
    """Observe, until cancelled, how late a timer fires."""
    while True:
        due = times.clock() + _SAMPLING_INTERVAL
        await times.sleep(_SAMPLING_INTERVAL)
        lag.observe(max(0.0, times.clock() - due))
