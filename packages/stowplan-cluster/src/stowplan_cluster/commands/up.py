"""`stowplan up`: API server, controllers and scheduler in one process.

The scheduler uses the store through `EmbeddedApi`, with the same code that uses a real cluster over HTTP. The
kubeconfig is written once its informers have synced.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from stowplan.app.command_line.commands import Command
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.app.command_line.event_loop import end_of_input, first_of, run, running
from stowplan.app.command_line.feature_gates import feature_options, features_of
from stowplan.app.command_line.named_plugins import plugin_names
from stowplan.app.command_line.stop_signals import StopSignals, stop_signals
from stowplan.app.daemon.plugin_registry import registry_with
from stowplan.app.daemon.tracing import tracer_of
from stowplan.ask.explain.text.tables import Line, write
from stowplan.drivers.hang_guard.hang_guard import HangGuard
from stowplan.kube.api.documents import Documents
from stowplan.kube.api.pod import DEFAULT_SCHEDULER_NAME
from stowplan.kube.api.port import Api
from stowplan.kube.config import Configuration, FeatureGates, load_config
from stowplan.kube.klog import get_logger
from stowplan.net.serving.serving_error import ServingError
from stowplan.scheduler.extenders.calls import kinds_wanted
from stowplan.scheduler.framework.explanations.formatting import count, joined
from stowplan.scheduler.framework.runtime.registry import Registry
from stowplan_cluster.commands.cluster_server import (
    DEFAULT_NODES,
    EmbeddedCluster,
    kubeconfig_written,
    open_cluster,
    served,
)
from stowplan_cluster.commands.embedded_options import WITHOUT_A_CLUSTER, ClusterOptions, cluster_options
from stowplan_cluster.commands.pod_changes import reported_changes

if TYPE_CHECKING:
    import asyncio

    from stowplan.app.daemon.web_page import SchedulerPage
    from stowplan.ask.offline import Cluster
    from stowplan.controllers.controller import Controller
    from stowplan.drivers.live.scheduler import Scheduler
    from stowplan.scheduler.engine.schedule_one import AttemptTracer
    from stowplan_cluster.apiserver.store import Store
    from stowplan_cluster.controllers.nodes.cluster_autoscaler import Trials

#: Maximum number of nodes and pods for the page's workbench: copying them pauses the scheduler for half a second.
_MOST_TRIED = 5000
#: The verbosity of -v without a number.
_VERBOSE = 2
#: Seconds until the controllers of a kind notice its CustomResourceDefinition.
_DEFINITIONS_INTERVAL = 1.0

_log = get_logger(__name__)


class LocalScheduler(Protocol):
    """The part of `live.scheduler.Scheduler` that `up` needs."""

    ready: asyncio.Event

    @property
    def frameworks(self) -> Collection[str]: ...

    def run(self) -> Coroutine[Any, Any, None]: ...


@click.command(
    cls=Command, section=WITHOUT_A_CLUSTER, short_help="Run a cluster without machines, with a scheduler, for kubectl."
)
@click.option(
    "--nodes",
    type=click.IntRange(0, 100_000),
    help=f"Number of nodes, made from --node-template. Default: {DEFAULT_NODES} if there are no others.",
)
@cluster_options
@click.option(
    "--node-groups",
    type=click.Path(exists=True, dir_okay=False),
    help="File with Nodes, each a template of a group; a cluster autoscaler adds and removes nodes of them.",
)
@click.option(
    "--page-port", type=click.IntRange(0, 65535), default=0, help="Port of the page on 127.0.0.1. Default: a free one."
)
@click.option("--until-end-of-input", is_flag=True, hidden=True, help="For a parent: end when it does.")
@click.option("--config", metavar="FILE", help="KubeSchedulerConfiguration. Default: kube-scheduler's defaults.")
@click.option("--plugin", "plugins", metavar="MODULE:CLASS", multiple=True, help="Plugin of your own. Repeatable.")
@feature_options("Feature gates of the scheduler, as kube-scheduler takes them.")
@click.option("--tracing-config-file", metavar="FILE", help="Export traces as this TracingConfiguration says.")
@click.option(
    "-v",
    "verbosity",
    type=click.IntRange(0),
    metavar="[LEVEL]",
    is_flag=False,
    flag_value=_VERBOSE,
    help=f"Log like kube-scheduler. Default level: {_VERBOSE}.",
)
def up(
    *,
    page_port: int,
    until_end_of_input: bool,
    config: str | None,
    plugins: tuple[str, ...],
    gates: tuple[str, ...],
    emulated_version: str | None,
    kubernetes_version: str | None,
    tracing_config_file: str | None,
    verbosity: int | None,
    **options: Any,
) -> None:
    """Run a cluster that schedules: an API server, controllers and the scheduler in one process.

    Nodes have no machines, bound pods are reported as running, and kinds without a controller here are only stored,
    such as Ingresses. It listens on 127.0.0.1, with TLS; the token is in the kubeconfig.

    \b
      stowplan up &
      export KUBECONFIG=$PWD/stowplan.kubeconfig
      kubectl create deployment web --image=nginx --replicas=6
      kubectl get pods -o wide
    \b
      stowplan up --nodes 1000 --state my-cluster -f shop.yaml
      stowplan up --config scheduler.yaml --plugin my_module:MyPlugin -v
      stowplan up --node-groups groups.yaml
    """
    with reported(config), _logging(verbosity):
        guard = HangGuard()
        registry = registry_with(plugins, guard=guard)
        features, known = features_of(gates, emulated_version or kubernetes_version), registry.declarations
        kubernetes_version = kubernetes_version or str(features.emulated_version)
        configuration = load_config(config, plugins=known, features=features, asked_for=plugin_names(plugins))
        with (
            tracer_of(tracing_config_file, "stowplan") as tracer,
            open_cluster(ClusterOptions(kubernetes_version=kubernetes_version, **options)) as cluster,
            stop_signals() as stop,
        ):
            documents = Documents(kinds_wanted(configuration))
            serving = _guarded(
                guard,
                _serve(
                    cluster,
                    stop,
                    lambda api: _scheduler(api, configuration, registry, documents, features, tracer),
                    documents=documents,
                    page_of=lambda scheduler: _page_of(scheduler, configuration, registry, plugins, features),
                    page_port=page_port,
                    installed=_installed_controllers(options["controllers"]),
                ),
            )
            run(_with_a_parent(serving, stop) if until_end_of_input else serving)
        click.echo(_end_message(options["state"]))


@contextmanager
def _logging(verbosity: int | None) -> Iterator[None]:
    if verbosity is None:
        logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
        yield
        return
    from stowplan.kube.klog.setup import LogSettings, set_up

    logs = set_up(LogSettings(verbosity=verbosity))
    try:
        yield
    finally:
        logs.close()


def _scheduler(
    api: Api,
    configuration: Configuration,
    registry: Registry,
    documents: Documents,
    features: FeatureGates,
    tracer: AttemptTracer | None,
) -> LocalScheduler:
    from stowplan.drivers.live.scheduler import Scheduler, SchedulerSettings

    settings = SchedulerSettings(hostname=socket.gethostname())
    return Scheduler(
        api,
        configuration,
        registry=registry,
        settings=settings,
        documents=documents,
        features=features,
        tracer=tracer,
    )


async def _guarded(guard: HangGuard, serving: Coroutine[Any, Any, None]) -> None:
    with guard.watching():
        await serving


async def _with_a_parent(serving: Coroutine[Any, Any, None], stop: StopSignals) -> None:
    """Serve until our standard input is closed, as when the parent process ends."""

    async def orphaned() -> None:
        await end_of_input()
        stop.event().set()

    async with running(orphaned()):
        await serving


async def _serve(
    cluster: EmbeddedCluster,
    stop: StopSignals,
    scheduler_for: Callable[[Api], LocalScheduler],
    *,
    documents: Documents | None = None,
    page_of: Callable[[Scheduler], SchedulerPage] | None = None,
    page_port: int = 0,
    installed: Sequence[Controller] = (),
) -> None:
    """Serve the cluster with a scheduler; without `page_of` there is no page.

    `installed`: controllers of installed packages.
    """
    from stowplan_cluster.apiserver.embedded import EmbeddedApi

    stopped = stop.event()
    scheduler = scheduler_for(EmbeddedApi(cluster.server, documents=documents))
    page = _page(scheduler, page_of)
    if page is not None:
        # For those who have the API server's address only.
        cluster.front.mount(page.pages())
    if cluster.autoscaler is not None:
        cluster.autoscaler.trials = _trials(scheduler)
    async with (
        served(cluster) as controllers,
        running(scheduler.run()) as scheduling,
        running(_installed(cluster, installed)) as others,
    ):
        await first_of(stopped.wait(), scheduler.ready.wait(), controllers, scheduling, others)
        if stopped.is_set():
            return
        # Exclude long-lived objects from garbage collection.
        gc.freeze()
        async with _page_served(page, page_port) as address:
            with kubeconfig_written(cluster), _reported(cluster.server.store):
                click.echo("\n".join(_announcement(cluster, scheduler.frameworks, address)))
                await first_of(stopped.wait(), controllers, scheduling, others)


def _installed_controllers(selection: str) -> list[Controller]:
    """Of `--controllers`, which names those of the cluster, `*` includes the installed ones."""
    from stowplan.controllers.controller import ControllerLoadError, installed_controllers

    if "*" not in selection.split(","):
        return []
    try:
        return installed_controllers()
    except ControllerLoadError as error:
        raise InputError(str(error)) from error


async def _installed(cluster: EmbeddedCluster, controllers: Sequence[Controller]) -> None:
    """Run controllers of installed packages as on a real cluster, until cancelled."""
    from stowplan.controllers.runner import Runner
    from stowplan_cluster.apiserver.embedded import EmbeddedApi

    # Most clusters have no definitions of their kinds, which is no news.
    runner = Runner(
        EmbeddedApi(cluster.server),
        controllers,
        unserved_kinds_interval=_DEFINITIONS_INTERVAL,
        report=_log.v(_VERBOSE).info,
    )
    await runner.run()


def _page(scheduler: LocalScheduler, page_of: Callable[[Scheduler], SchedulerPage] | None) -> SchedulerPage | None:
    from stowplan.drivers.live.scheduler import Scheduler

    # Test doubles have no page.
    return page_of(scheduler) if page_of is not None and isinstance(scheduler, Scheduler) else None


@asynccontextmanager
async def _page_served(page: SchedulerPage | None, port: int) -> AsyncIterator[str]:
    """Serve the page on its own port, as browsers do not trust the API server's certificate."""
    from stowplan.ui.page_routes import page_served

    if page is None:
        yield ""
        return
    try:
        async with page.followed(), page_served(page.pages(), page.streams, port=port) as address:
            yield address
    except ServingError as error:
        raise InputError(f"{error}; --page-port 0 takes a free one") from error


def _page_of(
    scheduler: Scheduler,
    configuration: Configuration,
    registry: Registry,
    plugins: Sequence[str],
    features: FeatureGates,
) -> SchedulerPage:
    from stowplan.app.command_line.named_plugins import named_plugins
    from stowplan.app.daemon.web_page import SchedulerPage
    from stowplan.ask.offline import Cluster, ClusterError
    from stowplan.ask.offline.arguments import cluster_features
    from stowplan.ui.workbench import Workbench

    def copied() -> Cluster:
        """A copy of the cluster; the scheduler is paused while it is made and queried."""
        state = scheduler.state
        size = state.table.count + len(state.placed_pods()) + len(state.pending)
        if size > _MOST_TRIED:
            raise ClusterError(
                f"{size:,} nodes and pods are too many to try changes beside a scheduler: stowplan ui does"
            )
        options = cluster_features(features)
        return Cluster.of_state(state, config=configuration.to_dict(), plugins=named_plugins(plugins), **options)

    return SchedulerPage(
        scheduler,
        title="stowplan up",
        plugins=registry.declarations,
        features=features,
        workbench=Workbench(copied),
    )


def _trials(scheduler: LocalScheduler) -> Trials | None:
    """For the cluster autoscaler, on the controllers' turns of the event loop."""
    from stowplan.ask.what_if.node_trials import NodeTrials
    from stowplan.drivers.live.scheduler import Scheduler

    return NodeTrials(scheduler.engine) if isinstance(scheduler, Scheduler) else None


def _announcement(cluster: EmbeddedCluster, profiles: Collection[str], page: str) -> list[str]:
    nodes, pods = (len(cluster.server.store.list(storage)) for storage in ("nodes", "pods"))
    inside = f"{count(nodes, 'node')}, {count(pods, 'pod')}"
    # Show non-default scheduler names, so that users see whether theirs is served.
    named = "" if set(profiles) == {DEFAULT_SCHEDULER_NAME} else f", scheduling for {joined(sorted(profiles))}"
    return [
        f"Serving on {cluster.front.url}: {inside}{named}",
        f"  export KUBECONFIG={cluster.kubeconfig.absolute()}",
        *([f"See it: {page}"] if page else []),
        "",
        "Try",
        "  kubectl create deployment web --image=nginx --replicas=6",
        "  kubectl get pods -o wide",
        "  stowplan explain pending",
        "  stowplan explain --from-scheduler auto pod NAME   # its story so far",
        "",
        "Ctrl-C ends it.",
    ]


def _end_message(state: Path | None) -> str:
    if state is None:
        return "stopped: the cluster is lost; --state FILE would have kept it"
    return f"stopped: {state} has the cluster, the same command continues with it"


def _reported(store: Store) -> AbstractContextManager[None]:
    """Write pod changes if stdout is a terminal."""
    return reported_changes(store, _write) if sys.stdout.isatty() else nullcontext()


def _write(lines: Sequence[Line]) -> None:
    if _in_background():
        # Another process has the terminal's foreground.
        return
    write(lines, sys.stdout)
    sys.stdout.flush()


def _in_background() -> bool:
    try:
        return os.tcgetpgrp(sys.stdout.fileno()) != os.getpgrp()
    except OSError:
        # Not our controlling terminal.
        return False
