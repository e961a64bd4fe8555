"""`stowplan run`: schedule the pods of a cluster, with defaults for trying it out.

The same scheduler as `kube-scheduler`, which has upstream's flags. It finds the cluster like kubectl, has no rate
limit, and does not elect a leader. As it could easily be started on a cluster that already has a scheduler, it checks
for one first: two of the same name would bind each other's pods. A scheduler without a lease is detected by its
activity, before and after the start (`daemon.other_schedulers`).
"""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from stowplan.app.cli.live_cluster import CONTEXT, EMULATED_VERSION, KUBECONFIG, followed, must_answer
from stowplan.app.cli.recording_options import recording_options
from stowplan.app.cli.shell_completion import file_option
from stowplan.app.command_line import event_loop
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.app.command_line.event_loop import first_of, running
from stowplan.app.command_line.named_plugins import plugin_names
from stowplan.app.command_line.plugin_option import PLUGINS
from stowplan.app.command_line.stop_signals import StopSignals, stop_signals
from stowplan.app.daemon.config_watch import WatchedFile, on_hangup, watching, without_hangups
from stowplan.app.daemon.life_cycle import until_stopped
from stowplan.app.daemon.other_schedulers import recently_reported_scheduler, report_other_scheduler
from stowplan.app.daemon.plugin_registry import registry_with
from stowplan.app.daemon.process import ClusterConnector, Job, opened
from stowplan.app.daemon.recording_file import kept_annotations, recording
from stowplan.app.daemon.tracing import tracer_of
from stowplan.drivers.hang_guard.hang_guard import HangGuard
from stowplan.kube.api.meta import parse_timestamp
from stowplan.kube.api.pod import DEFAULT_SCHEDULER_NAME
from stowplan.kube.api.policy import Lease
from stowplan.kube.api.port import Api
from stowplan.kube.config import Configuration, load_config
from stowplan.kube.config.config_errors import os_error_text
from stowplan.kube.klog.value_text import duration_text
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.scheduler.framework.explanations.formatting import count, joined

if TYPE_CHECKING:
    from stowplan.app.daemon.secure_port import OwnPort
    from stowplan.drivers.live.scheduler import Scheduler
    from stowplan.net.client.connection import Connection

_NO_LIMIT = -1.0
_MAX_IN_UNSCHEDULABLE = 300.0


@click.command(short_help="Schedule the pods of a cluster.")
@KUBECONFIG
@CONTEXT
@file_option("--config", help="Schedule with this KubeSchedulerConfiguration. Default: kube-scheduler's defaults.")
@PLUGINS
@EMULATED_VERSION
@click.option("--scheduler-name", metavar="NAME", help="Schedule the pods with this spec.schedulerName.")
@click.option(
    "--qps",
    type=click.FloatRange(0, min_open=True),
    help="Send at most this many requests per second. Default: no limit.",
)
@click.option(
    "-v",
    "verbosity",
    type=click.IntRange(0),
    default=0,
    metavar="LEVEL",
    help="Log as much as kube-scheduler at this verbosity.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Write the log in this format.",
)
@file_option("--record", help="Record the scheduler's inputs and decisions, for stowplan replay.")
@recording_options()
@file_option("--tracing-config-file", help="Export traces as this TracingConfiguration says.")
@click.option(
    "--extender-mode",
    type=click.Choice(["serial", "overlap"]),
    default="serial",
    show_default=True,
    help="While a pod waits for an extender, schedule others (overlap) or none (serial).",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Serve `stowplan explain --from-scheduler` at this port, over TLS; 0 picks a free one. Default: no port.",
)
@click.option("--bind-address", default="127.0.0.1", show_default=True, help="Listen at this address with --port.")
@click.option(
    "--cert-dir", metavar="DIR", default="", help="Keep the certificate of --port in this folder, for clients to trust."
)
@click.option("--watch-config", is_flag=True, help="Read --config again when it changes, and on SIGHUP.")
@click.option("--validate", is_flag=True, help="Exit on an internal inconsistency, for debugging. Slow.")
@click.option("--force", is_flag=True, help="Start even if the cluster's own scheduler is running.")
def run(
    *,
    kubeconfig: str | None,
    context: str | None,
    config: str | None,
    plugins: tuple[str, ...],
    emulated_version: str | None,
    scheduler_name: str | None,
    qps: float | None,
    verbosity: int,
    log_format: str,
    record: str | None,
    tracing_config_file: str | None,
    extender_mode: str,
    port: int | None,
    bind_address: str,
    cert_dir: str,
    watch_config: bool,
    validate: bool,
    force: bool,
    **recording_to: Any,
) -> None:
    """Schedule the pods of a cluster until Ctrl-C.

    Pods of other schedulers are left alone. With --scheduler-name it works next to the cluster's own, for the pods
    that ask for it.

    \b
      stowplan run --scheduler-name mine &
      kubectl run web --image=nginx --overrides='{"spec": {"schedulerName": "mine"}}'
    \b
      stowplan run --config scheduler.yaml --plugin my_module:MyPlugin -v 2
    \b
      stowplan run --port 10259 --cert-dir . &
      stowplan explain --from-scheduler https://127.0.0.1:10259 --certificate-authority kube-scheduler.crt pod web
    """
    from stowplan.app.daemon.secure_port import OwnPort

    with reported(config), _logging(verbosity, log_format) as flush:
        guard = HangGuard()
        registry = registry_with(plugins, guard=guard)
        load = partial(
            load_config,
            config,
            plugins=registry.declarations,
            adjust=lambda found: _adjusted(found, scheduler_name, qps),
            asked_for=plugin_names(plugins),
        )
        if watch_config and config is None:
            raise InputError("--watch-config needs --config: without a file there is nothing to watch")
        if cert_dir and port is None:
            raise InputError("--cert-dir is for --port: without a port there is no certificate")
        cluster = followed(
            lambda features: load(features=features),
            ClusterFlags(kubeconfig=kubeconfig, context=context),
            emulated_version,
            command="run",
        )
        job = Job(
            connection=cluster.connection,
            config=cluster.configuration,
            registry=registry,
            features=cluster.features,
            max_in_unschedulable=_MAX_IN_UNSCHEDULABLE,
            command="stowplan",
            guard=guard,
            overlaps=extender_mode == "overlap",
            watched=WatchedFile(config, partial(load, features=cluster.features))
            if watch_config and config is not None
            else None,
            validate=validate,
        )
        with tracer_of(tracing_config_file, "stowplan") as tracer, _recorded(job, record, **recording_to) as job:
            own = None
            if port is not None:
                own = OwnPort(port=port, bind_address=bind_address, certificate_directory=cert_dir)
            work(replace(job, tracer=tracer), force=force, flush=flush, own=own)


@contextmanager
def _recorded(
    job: Job, path: str | None, *, record_annotations: tuple[str, ...], record_max_size: int, record_keep: int
) -> Iterator[Job]:
    """The job with a recorder, if recording is requested."""
    if path is None:
        yield job
        return
    annotations = kept_annotations(job.registry, record_annotations)
    with ExitStack() as stack:
        try:
            recorder = stack.enter_context(
                recording(path, job.guard, annotations=annotations, rotate_at=record_max_size << 20, kept=record_keep)
            )
        except OSError as error:
            raise InputError(f"--record {os_error_text('open', path, error)}") from error
        yield replace(job, recorder=recorder)


@contextmanager
def _logging(verbosity: int, format_: Any) -> Iterator[Callable[[], None]]:
    from stowplan.kube.klog.setup import LogSettings, set_up

    logs = set_up(LogSettings(verbosity=verbosity, format=format_))
    try:
        yield logs.flush
    finally:
        logs.close()


def _adjusted(configuration: Configuration, scheduler_name: str | None, qps: float | None) -> Configuration:
    connection = replace(
        configuration.client_connection,
        qps=_NO_LIMIT if qps is None else qps,
        burst=configuration.client_connection.burst if qps is None else max(1, round(2 * qps)),
    )
    election = replace(configuration.leader_election, leader_elect=False)
    configuration = replace(configuration, client_connection=connection, leader_election=election)
    if scheduler_name is None:
        return configuration
    if not scheduler_name:
        raise InputError("--scheduler-name: a pod's spec.schedulerName is never empty")
    if len(configuration.profiles) > 1:
        names = joined([profile.scheduler_name for profile in configuration.profiles])
        raise InputError(f"--scheduler-name {scheduler_name}: the configuration names its schedulers itself: {names}")
    return replace(configuration, profiles=(replace(configuration.profiles[0], scheduler_name=scheduler_name),))


def work(
    job: Job,
    *,
    force: bool,
    flush: Callable[[], None],
    own: OwnPort | None = None,
    opener: ClusterConnector = opened,
    wall_clock: Callable[[], float] = time.time,
) -> None:
    """Schedule until stopped by a signal."""
    with stop_signals(flush) as stop, nullcontext() if job.watched is None else without_hangups():
        event_loop.run(_schedule(job, stop, opener, wall_clock, force=force, own=own))


async def _schedule(
    job: Job,
    stop: StopSignals,
    opener: ClusterConnector,
    wall_clock: Callable[[], float],
    *,
    force: bool,
    own: OwnPort | None,
) -> None:
    stopped = stop.event()
    async with opener(job) as cluster:
        async with running(_refuse_if_other_scheduler(cluster.api, job, wall_clock(), force=force)) as looking:
            await first_of(stopped.wait(), looking)
        if stopped.is_set():
            return
        scheduler = cluster.new_scheduler()
        began = wall_clock()
        others = report_other_scheduler(scheduler, sleep=REAL_TIMES.sleep, report=_warn)
        async with (
            _watched(job.watched, scheduler),
            _answering(own, job, scheduler) as how_to_ask,
            event_loop.run_in_background(others),
        ):
            ready = partial(_ready, scheduler, job.connection)
            await until_stopped(scheduler, stopped, on_ready=lambda: click.echo("\n".join([ready(), *how_to_ask])))
        click.echo(_summary(scheduler, wall_clock() - began))


@asynccontextmanager
async def _watched(file: WatchedFile | None, scheduler: Scheduler) -> AsyncIterator[None]:
    """Apply changes of the configuration file within the context, if it is watched."""
    if file is None:
        yield
        return
    watch = watching(file, scheduler, count=lambda result: None, times=REAL_TIMES)
    async with event_loop.run_in_background(watch.run()):
        with on_hangup(watch):
            yield


@asynccontextmanager
async def _answering(own: OwnPort | None, job: Job, scheduler: Scheduler) -> AsyncIterator[list[str]]:
    """Serve questions within the context, if requested; yields a message about it."""
    from stowplan.app.daemon.local_socket import has_place_for_socket

    if own is None and not has_place_for_socket():
        yield []
        return
    from stowplan.app.daemon.secure_port import answering

    async with answering(own, job, scheduler, report=_warn) as how_to_ask:
        yield how_to_ask


# --- other schedulers


async def _refuse_if_other_scheduler(api: Api, job: Job, now: float, *, force: bool) -> None:
    """Refuse to start if another scheduler of the same name is active, or the API server does not respond."""
    from stowplan.kube.api.api_errors import Forbidden, NotFound
    from stowplan.kube.api.policy import Lease

    election = job.config.leader_election
    names = [profile.scheduler_name for profile in job.config.profiles]
    lease = None
    with must_answer(job.connection.server), suppress(NotFound, Forbidden):
        lease = await api.get(Lease, election.resource_name, namespace=election.resource_namespace)
    if DEFAULT_SCHEDULER_NAME not in names or lease is None or not is_held(lease, now):
        heard = await recently_reported_scheduler(api, names, hostname=socket.gethostname(), now=now)
        if heard:
            _warn(heard)
        return
    where = f"Lease {lease.metadata.namespace}/{lease.metadata.name}"
    found = f"{lease.spec.holder_identity} schedules for {DEFAULT_SCHEDULER_NAME} here ({where})"
    if not force:
        raise InputError(
            f"{found}; two of that name would race for the same pods. Use --scheduler-name NAME to run next "
            "to it, or --force to start anyway"
        )
    _warn(f"{found}, and will race for the same pods")


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)


def is_held(lease: Lease, now: float) -> bool:
    """Whether its holder has renewed it within its duration."""
    spec = lease.spec
    if not spec.holder_identity or spec.renew_time is None:
        return False
    try:
        renewed = parse_timestamp(spec.renew_time)
    except ValueError:
        return False
    return renewed + (spec.lease_duration_seconds or 0) > now


# --- messages


def _ready(scheduler: Scheduler, connection: Connection) -> str:
    nodes, pending = count(scheduler.state.table.count, "node"), count(len(scheduler.state.pending), "pod")
    return f"scheduling for {joined(sorted(scheduler.frameworks))} on {connection.server} : {nodes}, {pending} pending"


def _summary(scheduler: Scheduler, seconds: float) -> str:
    places = [f"{number} {place}" for place, number in scheduler.queue.counts().items() if number]
    details = f" ({', '.join(places)})" if places else ""
    took = duration_text(timedelta(seconds=round(seconds)))
    return f"stopped after {took}: {count(len(scheduler.state.pending), 'pod')} pending{details}"
