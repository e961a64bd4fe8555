"""Set up the secure port of `kube-scheduler`, and that of `stowplan run`: pages and their authorization.

The port is opened and access control is set up before the scheduler exists, because both may fail (`opened_port`);
pages are served afterwards (`served`). `serving` is independent of scheduling: the pages' content is assembled here.

`stowplan run` always listens on the socket for this machine's user (`local_socket`), and with --port on a port of the
same kind. Its flags are for the address alone: it listens on the loopback interface by default, only its health is
public, and delegated requests use the scheduler's own credentials.

Upstream: cmd/kube-scheduler/app/server.go (newEndpointsHandler), app/options/options.go (ApplyTo).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stowplan import __version__
from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.event_loop import run_in_background
from stowplan.app.command_line.flags.flag_set import CommandLine, options_of
from stowplan.app.command_line.flags.gates import gates_of
from stowplan.app.command_line.flags.option_errors import read_allow_list
from stowplan.app.command_line.flags.table import KUBE_SCHEDULER_FLAGS
from stowplan.app.daemon.local_socket import answering_on_socket, has_place_for_socket
from stowplan.app.daemon.version_info import build_info, compatibility_versions
from stowplan.app.daemon.web_page import SchedulerPage
from stowplan.kube.api.port import Api
from stowplan.kube.api.types import Pod
from stowplan.kube.config import Configuration, Declarations
from stowplan.kube.klog import get_logger
from stowplan.kube.metrics.component import ComponentMetrics
from stowplan.kube.metrics.registry import TEXT, MetricsOptions
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.connection import Connection
from stowplan.net.client.http.user_agent import user_agent
from stowplan.net.client.http_api import HttpApi
from stowplan.net.serving.delegation import (
    CLIENT_LIMITS,
    CLIENT_SETTINGS,
    AuthenticationOptions,
    AuthorizationOptions,
    Delegation,
    DelegationError,
    delegated,
    delegated_connection,
)
from stowplan.net.serving.pages import (
    ProcessStatus,
    configz_page,
    debug_flags_pages,
    flagz_page,
    metrics_page,
    statusz_page,
)
from stowplan.net.serving.profiling.profile_pages import Profiling
from stowplan.net.serving.requests.health import Check, HealthChecks
from stowplan.net.serving.requests.messages import Page
from stowplan.net.serving.secure_server import Listener, SecureServer, ServingSettings
from stowplan.net.serving.serving_error import ServingError
from stowplan.net.serving.tls.key_pairs import CertificateFiles
from stowplan.net.serving.tls.tls_parameters import TlsOptions
from stowplan.scheduler.inspection.resource_metrics import resource_page

if TYPE_CHECKING:
    from stowplan.app.command_line.flags.gates import Gates
    from stowplan.app.daemon.process import Election, Job
    from stowplan.drivers.live.scheduler import Scheduler


#: Seconds after the expiration of its lease from which a leader that has not exited is unhealthy.
_EXPIRED_LEASE_TOLERANCE = 20.0

_log = get_logger(__name__)

NOT_SYNCED = "handlers are not fully synchronized"


class Running(PlainStruct, frozen=True, kw_only=True):
    """What the pages show."""

    config: Configuration
    line: CommandLine
    gates: Gates
    #: All plugins that a configuration may name.
    plugins: Declarations
    scheduler: Scheduler
    connection: Connection
    election: Election | None
    metrics: ComponentMetrics
    #: Set by the first signal, and while this process leads.
    stopped: asyncio.Event
    lead: asyncio.Event
    set_verbosity: Callable[[int], None]
    #: Seconds since the epoch.
    started: float

    def in_force(self) -> dict[str, Any]:
        """The active configuration, which may have been reloaded."""
        return self.scheduler.configuration.shown()


# --- metrics


def metrics_of(line: CommandLine, gates: Gates) -> ComponentMetrics:
    labels = line["allow-metric-labels"]
    if line["allow-metric-labels-manifest"]:
        labels = read_allow_list(line["allow-metric-labels-manifest"])
    return ComponentMetrics(
        MetricsOptions.of(disabled=line["disabled-metrics"], allow_labels=labels),
        gates=gates.features,
        features=_features(gates),
        build=build_info(),
        versions=compatibility_versions(gates.versions),
        stowplan_version=__version__,
    )


def _features(gates: Gates) -> list[tuple[str, str, bool]]:
    return [
        (name, "" if gate.stage == "GA" else gate.stage, gates.features.enabled(name))
        for name, gate in sorted(gates.known.items())
        if gate.stage != "PREALPHA"
    ]


# --- before the scheduler exists


class Port(PlainStruct, frozen=True):
    listener: Listener
    delegation: Delegation
    settings: ServingSettings


@asynccontextmanager
async def opened_port(line: CommandLine, gates: Gates, metrics: ComponentMetrics) -> AsyncIterator[Port | None]:
    """The port, open but not served, or None; raises ServingError, DelegationError."""
    if not line["secure-port"]:
        yield None
        return
    settings = serving_settings(line)
    listener = Listener(settings, wall_clock=REAL_TIMES.wall_clock)
    listener.open()
    async with AsyncExitStack() as stack:
        stack.callback(listener.close)
        delegation = await delegated(
            options_of(AuthenticationOptions, line),
            options_of(AuthorizationOptions, line),
            authentication_api=await _api(stack, _connection(line, "authentication"), metrics),
            authorization_api=await _api(stack, _connection(line, "authorization"), metrics),
            gate=gates.features.enabled,
            times=REAL_TIMES,
            metrics=metrics.serving,
        )
        stack.push_async_callback(delegation.close)
        await stack.enter_async_context(run_in_background(delegation.run()))
        yield Port(listener, delegation, settings)


def serving_settings(line: CommandLine) -> ServingSettings:
    certificate = None
    if line["tls-cert-file"]:
        certificate = CertificateFiles(certificate=line["tls-cert-file"], key=line["tls-private-key-file"])
    return ServingSettings(
        bind_address=str(line["bind-address"]),
        port=line["secure-port"],
        reuse_port=line["permit-port-sharing"],
        certificate=certificate,
        certificate_directory=line["cert-dir"],
        named_certificates=[
            CertificateFiles(certificate=pair.cert_file, key=pair.key_file, names=pair.names)
            for pair in line["tls-sni-cert-key"]
        ],
        tls=TlsOptions(
            cipher_suites=line["tls-cipher-suites"],
            min_version=line["tls-min-version"],
            curves=line["tls-curve-preferences"],
        ),
    )


def _connection(line: CommandLine, purpose: Any) -> Connection | None:
    return delegated_connection(line[f"{purpose}-kubeconfig"], purpose=purpose)


async def _api(stack: AsyncExitStack, connection: Connection | None, metrics: ComponentMetrics) -> Api | None:
    if connection is None:
        return None
    agent = user_agent(command="kube-scheduler", version=__version__)
    api: Api = await stack.enter_async_context(
        HttpApi.open(
            connection, client_settings=CLIENT_SETTINGS, agent=agent, limits=CLIENT_LIMITS, metrics=metrics.client
        )
    )
    return api


# --- after the scheduler exists


@asynccontextmanager
async def served(port: Port | None, shown: Running) -> AsyncIterator[None]:
    """Serve the pages within the context; requests in progress are completed at the end."""
    if port is None and not has_place_for_socket():
        yield
        return
    page = _page(shown)
    async with AsyncExitStack() as stack:
        if port is not None:
            server = SecureServer(
                port.settings,
                pages=pages_of(shown) | page.pages(),
                authenticator=port.delegation.authenticator,
                authorizer=port.delegation.authorizer,
                listener=port.listener,
            )
            await server.start()
            stack.push_async_callback(server.stop)
        await stack.enter_async_context(answering_on_socket(shown.connection, page.pages(), report=_log.warning))
        # Closed first: streams of the page end with it.
        await stack.enter_async_context(page.followed())
        yield


def _page(shown: Running) -> SchedulerPage:
    return SchedulerPage(
        shown.scheduler,
        title=f"kube-scheduler on {socket.gethostname()}",
        plugins=shown.plugins,
        features=shown.gates.features,
        other_leader=_other_leader(shown),
    )


def pages_of(shown: Running) -> dict[str, Page]:
    pages = {**_health_pages(shown), **_metrics_pages(shown), "/configz": configz_page(shown.in_force)}
    if shown.config.enable_profiling:
        pages |= Profiling().pages()
        pages |= debug_flags_pages(shown.set_verbosity)
    if shown.gates.features.enabled("ComponentFlagz"):
        pages["/flagz"] = flagz_page(lambda: _flags(shown.line), chance=REAL_TIMES.random)
    if shown.gates.features.enabled("ComponentStatusz"):
        pages["/statusz"] = statusz_page(_status(shown, tuple(pages)), times=REAL_TIMES)
    return pages


def _other_leader(shown: Running) -> Callable[[], str | None]:
    if shown.election is None:
        return lambda: None
    elector = shown.election.elector
    return lambda: None if shown.lead.is_set() else elector.leader


def _health_pages(shown: Running) -> dict[str, Page]:
    elected: dict[str, Check] = {}
    if shown.election is not None:
        elector = shown.election.elector
        elected["leaderElection"] = lambda: elector.check(_EXPIRED_LEASE_TOLERANCE)
    ready: dict[str, Check] = {
        **elected,
        "shutdown": lambda: "process is shutting down" if shown.stopped.is_set() else None,
        "sched-handler-sync": lambda: _not_synced(shown.scheduler),
    }
    candidate = None if shown.election is None else shown.election.candidate_synced
    if candidate is not None:
        ready["informer-sync"] = lambda: None if candidate.is_set() else "1 informers not started yet"
    observer = shown.metrics.health
    return {
        **HealthChecks("healthz", elected, observer=observer).pages,
        **HealthChecks("livez", {}, observer=observer).pages,
        **HealthChecks("readyz", ready, observer=observer).pages,
    }


def _not_synced(scheduler: Scheduler) -> str | None:
    if scheduler.synced.is_set():
        return None
    reasons = [f"{resource}: {why}" for resource, why in scheduler.informers.awaited.items() if why]
    return f"{NOT_SYNCED}: {reasons[0]}" if reasons else NOT_SYNCED


def _metrics_pages(shown: Running) -> dict[str, Page]:
    metrics = shown.metrics
    return {
        "/metrics": metrics_page(metrics.page, reset=metrics.reset, process_start=shown.started),
        "/metrics/slis": metrics_page(metrics.slis_page, reset=metrics.reset_slis, process_start=shown.started),
        # There is nothing to reset, but the reference reports success.
        "/metrics/resources": metrics_page(
            lambda _: _resources(shown), shown=shown.lead.is_set, reset=lambda: None, process_start=shown.started
        ),
    }


async def _resources(shown: Running) -> tuple[str, bytes]:
    pieces = []
    for piece in resource_page(shown.scheduler.informers.known(Pod)):
        pieces.append(piece)
        await asyncio.sleep(0)
    return TEXT, b"".join(pieces)


def _flags(line: CommandLine) -> dict[str, str]:
    return {flag.name: flag.kind.show(line[flag.name]) for flag in KUBE_SCHEDULER_FLAGS}


def _status(about: Running, paths: tuple[str, ...]) -> ProcessStatus:
    versions = compatibility_versions(about.gates.versions)
    return ProcessStatus(
        start_time=about.started,
        runtime_version=build_info().go_version,
        binary_version=versions.binary,
        emulation_version=versions.emulation,
        # Parity: without itself and the debugging pages.
        paths=[path for path in paths if not path.startswith("/debug")],
    )


class OwnPort(PlainStruct, frozen=True, kw_only=True):
    #: 0: any free port.
    port: int
    bind_address: str = "127.0.0.1"
    #: Where the generated certificate is stored, so that clients can trust it; empty: nowhere.
    certificate_directory: str = ""

    @property
    def certificate_authority(self) -> str:
        """The CA file for clients; "" without one."""
        folder = self.certificate_directory
        return str(Path(folder, "kube-scheduler.crt")) if folder else ""


@asynccontextmanager
async def answering(
    own: OwnPort | None, job: Job, scheduler: Scheduler, *, report: Callable[[str], None]
) -> AsyncIterator[list[str]]:
    """Answer questions within the context, on the port and on the socket for this machine's user; yields how to ask.

    Raises InputError.
    """
    page = SchedulerPage(
        scheduler, title=job.connection.server, plugins=job.registry.declarations, features=job.features
    )
    async with AsyncExitStack() as stack:
        lines = []
        if await stack.enter_async_context(answering_on_socket(job.connection, page.pages(), report=report)):
            lines.append("ask it: stowplan explain pod NAME (its queue: stowplan explain --from-scheduler auto)")
        if own is not None:
            url = await stack.enter_async_context(_on_its_port(own, job, scheduler, page))
            trust = own.certificate_authority
            option = f"--certificate-authority {trust}" if trust else "--insecure-skip-tls-verify"
            lines.append(f"ask it: stowplan explain --from-scheduler {url} {option} pod NAME")
        # Closed first: streams of the page end with it.
        await stack.enter_async_context(page.followed())
        yield lines


@asynccontextmanager
async def _on_its_port(own: OwnPort, job: Job, scheduler: Scheduler, page: SchedulerPage) -> AsyncIterator[str]:
    settings = ServingSettings(
        bind_address=own.bind_address, port=own.port, certificate_directory=own.certificate_directory
    )
    async with AsyncExitStack() as stack:
        try:
            listener = Listener(settings, wall_clock=REAL_TIMES.wall_clock)
            listener.open()
            stack.callback(listener.close)
            agent = user_agent(command=job.command, version=__version__, purpose="port")
            api = await stack.enter_async_context(
                HttpApi.open(job.connection, client_settings=CLIENT_SETTINGS, agent=agent, limits=CLIENT_LIMITS)
            )
            delegation = await delegated(
                AuthenticationOptions(),
                AuthorizationOptions(),
                authentication_api=api,
                authorization_api=api,
                # Gates that affect authentication; those of a job affect scheduling.
                gate=gates_of(()).features.enabled,
                times=REAL_TIMES,
            )
        except (ServingError, DelegationError) as error:
            raise InputError(f"--port {own.port}: {error}") from error
        stack.push_async_callback(delegation.close)
        await stack.enter_async_context(run_in_background(delegation.run()))
        ready = {"sched-handler-sync": lambda: None if scheduler.synced.is_set() else "the cluster is not read yet"}
        server = SecureServer(
            settings,
            pages={
                **HealthChecks("healthz", {}).pages,
                **HealthChecks("livez", {}).pages,
                **HealthChecks("readyz", ready).pages,
                **page.pages(),
            },
            authenticator=delegation.authenticator,
            authorizer=delegation.authorizer,
            listener=listener,
        )
        await server.start()
        stack.push_async_callback(server.stop)
        yield f"https://{own.bind_address}:{server.port}"
