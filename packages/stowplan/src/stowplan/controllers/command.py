"""A program that runs controllers on a cluster, with the flags of sigs.k8s.io/scheduler-plugins' controller.

It finds the cluster like kubectl, serves /healthz and /readyz, and /metrics, over plain HTTP, and reconciles while it
holds its lease, if it elects a leader. Exit codes: 0 for help and a stop on request, otherwise 1.

Upstream: cmd/controller/app in scheduler-plugins; sigs.k8s.io/controller-runtime, pkg/manager.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.app.command_line.flags import flag_kinds as k
from stowplan.app.command_line.flags.flag_set import CommandLine, Flag, FlagError, FlagSet
from stowplan.app.command_line.flags.usage import usage_of
from stowplan.app.command_line.standard_streams import answer, discard_unwritable_output, print_to_stderr
from stowplan.app.command_line.stop_signals import StopSignals, stop_signals
from stowplan.kube.klog import get_logger
from stowplan.kube.klog.setup import LogSettings, set_up

if TYPE_CHECKING:
    from stowplan.controllers.controller import Controller
    from stowplan.kube.config import LeaderElection
    from stowplan.net.client.connection import Connection
    from stowplan.net.client.http_api import HttpApi
    from stowplan.net.serving.requests.messages import Page

#: Upstream's, of controllers: calmer than a scheduler's.
_SECTION = "Controller"

_log = get_logger(__name__)


def _flag(name: str, kind: k.Kind, default: object, usage: str, shorthand: str = "") -> Flag:
    return Flag(name=name, kind=kind, default=default, section=_SECTION, usage=usage, shorthand=shorthand)


FLAGS = (
    _flag("burst", k.INT, 10, "Requests to the API server beyond --qps for a short time."),
    _flag("enableLeaderElection", k.BOOL, False, "Of several replicas, only the one that holds the lease reconciles."),
    _flag("help", k.BOOL, False, "Help for this command.", "h"),
    _flag("kubeconfig", k.STRING, "", "Kubeconfig of the cluster; without it, as kubectl finds it, or in the cluster."),
    _flag("metricsAddr", k.STRING, ":8080", "Address of /metrics; 0 serves none."),
    _flag("probeAddr", k.STRING, ":8081", "Address of /healthz and /readyz; 0 serves none."),
    _flag("qps", k.INT, 5, "Requests to the API server per second."),
    _flag("v", k.LEVEL, 0, "Verbosity of the log.", "v"),
    _flag("workers", k.INT, 1, "Reconciles at the same time."),
)


class _RunError(Exception):
    """An error for the user."""


def run_command(
    name: str,
    controllers: Sequence[Controller],
    *,
    lease: tuple[str, str],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run until a signal; return the exit code. `lease`: namespace and name."""
    with stop_signals() as stop:
        try:
            return _command(name, controllers, lease, sys.argv[1:] if arguments is None else arguments, stop)
        finally:
            discard_unwritable_output()


def _command(
    name: str, controllers: Sequence[Controller], lease: tuple[str, str], arguments: Sequence[str], stop: StopSignals
) -> int:
    try:
        line = FlagSet(FLAGS).parse(arguments)
        addresses = {flag: _address(flag, line[flag]) for flag in ("metricsAddr", "probeAddr")}
        if line.arguments:
            raise FlagError(f"{name} takes no arguments, got {' '.join(line.arguments)}")
        if line["workers"] < 1:
            raise FlagError("--workers must be at least 1")
    except FlagError as error:
        for hint in error.hints:
            print_to_stderr(f"hint: {hint}")
        print_to_stderr(f"Error: {error}")
        return 1
    if line["help"]:
        names = ", ".join(controller.name for controller in controllers)
        return answer(f"Runs {names}.\n\nUsage:\n  {name} [flags]\n{usage_of(FLAGS)}".rstrip())
    return _run(name, controllers, lease, line, addresses, stop)


_Address = tuple[str, int] | None


def _address(flag: str, text: str) -> _Address:
    """Host and port of `host:port`; "" is any host. None: no server."""
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise FlagError(f"--{flag}: want host:port or :port, or 0 for none, got {text!r}")
    return host.strip("[]"), int(port)


def _run(
    name: str,
    controllers: Sequence[Controller],
    lease: tuple[str, str],
    line: CommandLine,
    addresses: Mapping[str, _Address],
    stop: StopSignals,
) -> int:
    from stowplan.app.command_line.event_loop import run
    from stowplan.net.client.client_errors import ClientConfigError
    from stowplan.net.client.cluster_flags import ClusterFlags

    with closing(set_up(LogSettings(verbosity=line["v"]))):
        try:
            connection = ClusterFlags(kubeconfig=line["kubeconfig"] or None).connect()
            program = _Program(name, controllers, lease, line, addresses, connection)
            if run(program.run(stop)):
                return 0
            _log.error(None, "leader election lost")
        except (ClientConfigError, _RunError) as error:
            _log.error(error, "unable to start")
        return 1


class _Program:
    def __init__(
        self,
        name: str,
        controllers: Sequence[Controller],
        lease: tuple[str, str],
        line: CommandLine,
        addresses: Mapping[str, _Address],
        connection: Connection,
    ) -> None:
        from stowplan.kube.config import ClientConnection, LeaderElection
        from stowplan.kube.metrics.client_metrics import ClientMetrics
        from stowplan.kube.metrics.registry import MetricsRegistry

        self._name = name
        self._controllers = controllers
        self._line = line
        self._addresses = addresses
        self._connection = connection
        self._client = ClientConnection(qps=line["qps"], burst=line["burst"])
        self._election: LeaderElection = replace(
            LeaderElection(leader_elect=line["enableLeaderElection"]),
            resource_namespace=lease[0],
            resource_name=lease[1],
        )
        self._metrics = MetricsRegistry()
        self._client_metrics = ClientMetrics(self._metrics)

    async def run(self, stop: StopSignals) -> bool:
        """Whether it ended on request, not because the lease was lost."""
        from stowplan.app.daemon.life_cycle import until_stopped, while_leading
        from stowplan.app.daemon.process import opened_election
        from stowplan.controllers.runner import Runner
        from stowplan.net.client.http_api import HttpApi

        stopped, lead = stop.event(), asyncio.Event()
        async with AsyncExitStack() as stack:
            await self._serve(stack)
            elector = None
            if self._election.leader_elect:
                election = await stack.enter_async_context(
                    opened_election(
                        self._connection,
                        self._election,
                        client_settings=self._client,
                        agent=self._agent("leader-election"),
                        source=self._name,
                        metrics=self._client_metrics,
                    )
                )
                elector = election.elector
            api: HttpApi = await stack.enter_async_context(
                HttpApi.open(
                    self._connection,
                    client_settings=self._client,
                    agent=self._agent("controllers"),
                    metrics=self._client_metrics,
                    may_change=None if elector is None else lambda: elector.is_leader,
                )
            )
            runner = Runner(
                api,
                self._controllers,
                workers=self._line["workers"],
                hostname=socket.gethostname(),
                metrics=self._metrics,
            )
            _log.info("Starting controllers", controllers=[one.name for one in self._controllers])
            if elector is None:
                await until_stopped(runner, stopped, lead=lead, on_ready=_ready)
                return True
            return await while_leading(runner, elector, stopped, lead=lead, delayed=False, on_ready=_ready)

    def _agent(self, purpose: str) -> str:
        from stowplan import __version__
        from stowplan.net.client.http.user_agent import user_agent

        return user_agent(command=self._name, version=__version__, purpose=purpose)

    async def _serve(self, stack: AsyncExitStack) -> None:
        from stowplan.kube.metrics.registry import render
        from stowplan.net.serving.pages import metrics_page
        from stowplan.net.serving.requests.health import HealthChecks

        health = {**HealthChecks("healthz", {}).pages, **HealthChecks("readyz", {}).pages}
        metrics = {"/metrics": metrics_page(lambda accept: render([self._metrics], accept))}
        for flag, pages in (("metricsAddr", metrics), ("probeAddr", health)):
            if (address := self._addresses[flag]) is not None:
                await _listen(stack, flag, address, pages)


async def _listen(stack: AsyncExitStack, flag: str, address: tuple[str, int], pages: Mapping[str, Page]) -> None:
    from stowplan.kube.timing.times import REAL_TIMES
    from stowplan.net.serving.loopback import OwnerAccess, local_http

    host, port = address
    http = local_http(pages, OwnerAccess(), times=REAL_TIMES)
    try:
        server = await asyncio.get_running_loop().create_server(http, host or None, port)
    except OSError as error:
        raise _RunError(f"--{flag} {host}:{port}: {os.strerror(error.errno or 0)}") from error
    stack.callback(server.close)
    _log.info("Serving", flag=flag, address=str(server.sockets[0].getsockname()))


def _ready() -> None:
    _log.info("Caches are synced")
