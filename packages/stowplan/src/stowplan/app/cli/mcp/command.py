"""`stowplan mcp`: serve the questions to agents, on stdio or HTTP."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.cli.cluster_options import cluster_of, cluster_options, config_option
from stowplan.app.cli.live_cluster import followed_cluster
from stowplan.app.cli.moment_option import recording_options
from stowplan.app.cli.shell_completion import file_option
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.net.client.cluster_flags import ClusterFlags

if TYPE_CHECKING:
    import asyncio

    from mcp.server import Server

    from stowplan.app.cli.mcp.tools import Tool
    from stowplan.app.sources.cluster_source import ClusterSource
    from stowplan.app.sources.followed_cluster import FollowedCluster, Reads

NO_SDK = "stowplan mcp needs the package mcp: pip install 'stowplan[mcp]'"
_SDK = ("mcp", "mcp_types", "uvicorn", "starlette")


@click.command(short_help="Answer the questions of agents (Model Context Protocol).")
@cluster_options
@recording_options
@config_option()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve HTTP on this port of 127.0.0.1, 0 for a free one. Default: stdin and stdout.",
)
@file_option("--bearer-token-file", help="With --port: require the token in this file. Default: a new one, printed.")
@click.option("--rbac", is_flag=True, help="Print the ClusterRole that this needs in a live cluster, and exit.")
def mcp(
    *,
    files: tuple[str, ...],
    recursive: bool,
    recording: str | None,
    at: str | None,
    live: ClusterFlags,
    config: str | None,
    plugins: tuple[str, ...],
    pod_groups: bool,
    emulated_version: str | None,
    port: int | None,
    bearer_token_file: str | None,
    rbac: bool,
) -> None:
    """Serve the questions explain, pending, fit, drain, survive and what-if to agents, by the Model Context Protocol;
    with stowplan-lab also simulate and compare. All tools only read, with the rights of the kubeconfig.

    A live cluster is listed once and then followed. An agent starts this command itself and talks to it on stdin and
    stdout; with --port, it is an HTTP server, for which an agent needs the token.

    \b
    Examples:
      stowplan mcp
      stowplan mcp --context staging --as agent
      stowplan mcp -f cluster.json --config packing.yaml
      stowplan mcp --recording cluster.recording --at 2026-11-20T12:03
      stowplan mcp --port 8765 --bearer-token-file token
    """
    if rbac:
        with reported(config):
            _print_role(config, plugins)
        return
    if bearer_token_file is not None and port is None:
        raise click.UsageError("--bearer-token-file is for --port; a client on stdio needs no token.")
    if "-" in files and port is None:
        raise click.UsageError("-f -: the client talks on stdin; give a file, or --port.")
    token = _token(bearer_token_file)
    try:
        from stowplan.app.cli.mcp.server import server_of
    except ModuleNotFoundError as error:
        if error.name in _SDK:
            raise InputError(NO_SDK) from error
        raise
    from stowplan.app.sources.cluster_source import collected_notes

    with reported(config), collected_notes() as notes:
        cluster: ClusterSource | FollowedCluster
        if files or recording or at:
            cluster = cluster_of(
                files=files,
                recursive=recursive,
                recording=recording,
                at=at,
                live=live,
                config=config,
                plugins=plugins,
                pod_groups=pod_groups,
                emulated_version=emulated_version,
            )
        else:
            cluster = followed_cluster(live, config, plugins, emulated_version, groups=pod_groups, command="mcp")
    host = ServedCluster(cluster, notes, recording=recording and os.path.abspath(recording), plugins=plugins)
    title = recording or ", ".join(files) or live.context or "the live cluster"
    _serve(server_of(offered_tools(), host, title=f"Stowplan: {title}"), host, port, token)


def _print_role(config: str | None, plugins: Sequence[str]) -> None:
    from stowplan.app.daemon.plugin_registry import registry_with
    from stowplan.app.sources.printed_roles import role_of_reader
    from stowplan.kube.config import load_config

    registry = registry_with(plugins)
    configuration = load_config(config, plugins=registry.declarations)
    click.echo(role_of_reader(configuration, registry, name="stowplan-mcp", follows=True), nl=False)


class ServedCluster:
    """What the tools ask."""

    def __init__(
        self,
        cluster: ClusterSource | FollowedCluster,
        notes: Sequence[str],
        *,
        recording: str | None = None,
        plugins: tuple[str, ...] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cluster, self.recording, self.plugins, self.now = cluster, recording, plugins, now
        self._notes = tuple(notes)

    async def about(self, reads: Reads) -> ClusterSource:
        from stowplan.app.sources.cluster_source import ClusterSource, note

        note(*self._notes)
        found = self.cluster if isinstance(self.cluster, ClusterSource) else await self.cluster.about(reads)
        found.cluster.forget_failures()
        return found


def offered_tools() -> list[Tool]:
    """Those of the commands, and those of installed packages."""
    from stowplan.app.cli.mcp.questions import QUESTIONS
    from stowplan.app.cli.mcp.tools import ENTRY_POINT_GROUP
    from stowplan.app.command_line.standard_streams import print_to_stderr
    from stowplan.scheduler.framework.entry_points import entry_points
    from stowplan.scheduler.framework.status import RAISED

    found = [*QUESTIONS]
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            found.append(point.load())
        except RAISED as error:
            print_to_stderr(f"warning: tool {point.name!r} ({point.value}): {type(error).__name__}: {error}")
    return found


def _token(file: str | None) -> str:
    if file is None:
        return secrets.token_urlsafe(24)
    try:
        with open(file, encoding="utf-8") as given:
            token = given.read().strip()
    except (OSError, UnicodeError) as error:
        raise InputError(f"--bearer-token-file {file}: {getattr(error, 'strerror', None) or error}") from error
    if not token:
        raise InputError(f"--bearer-token-file {file}: it is empty; write a long random text into it")
    return token


def _serve(server: Server[Any], host: ServedCluster, port: int | None, token: str) -> None:
    from stowplan.app.command_line.event_loop import run
    from stowplan.app.command_line.stop_signals import stop_signals
    from stowplan.kube.klog.setup import LogSettings, set_up
    from stowplan.net.serving.serving_error import ServingError

    logs = set_up(LogSettings(verbosity=0, format="text"))
    try:
        if port is None:
            # There is nothing to end in order, and the thread that reads stdin cannot be stopped.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            run(_stdio(server, host))
            return
        with stop_signals(logs.flush) as stop:
            try:
                run(_http(server, host, port, token, stop.event))
            except ServingError as error:
                raise InputError(f"{error}; --port 0 takes a free one") from error
    finally:
        logs.close()


async def _stdio(server: Server[Any], host: ServedCluster) -> None:
    from stowplan.app.cli.mcp.server import serve_stdio

    async with _following(host):
        await serve_stdio(server)


async def _http(
    server: Server[Any], host: ServedCluster, port: int, token: str, stopped: Callable[[], asyncio.Event]
) -> None:
    from stowplan.app.cli.mcp.server import serve_http

    def ready(url: str) -> None:
        click.echo(f"{url}\nAuthorization: Bearer {token}\nCtrl-C ends it.")

    async with _following(host):
        await serve_http(server, port=port, token=token, ready=ready, stopped=stopped().wait())


def _following(host: ServedCluster) -> AbstractAsyncContextManager[object]:
    from stowplan.app.command_line.event_loop import run_in_background
    from stowplan.app.sources.cluster_source import ClusterSource

    return nullcontext() if isinstance(host.cluster, ClusterSource) else run_in_background(host.cluster.run())
