"""Options that select a live cluster and a user, and the connection that they lead to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from stowplan.app.cli.shell_completion import complete_context, file_option
from stowplan.app.command_line.error_reporting import InputError
from stowplan.kube.kubernetes_versions import (
    BINARY_VERSION,
    DEFAULT_VERSION,
    OLDEST_VERSION,
    ClusterVersion,
    KubernetesVersion,
    VersionError,
    emulated_version_of,
)
from stowplan.kube.structs import PlainStruct
from stowplan.net.client.cluster_flags import ClusterFlags

if TYPE_CHECKING:
    from stowplan.app.sources.followed_cluster import FollowedCluster
    from stowplan.ask.offline import Cluster
    from stowplan.kube.api.port import Api
    from stowplan.kube.config import Configuration, FeatureGates
    from stowplan.net.client.connection import Connection
    from stowplan.net.client.http_api import HttpApi

KUBECONFIG = file_option("--kubeconfig", help="Use this kubeconfig. Default: the one that kubectl uses.")
CONTEXT = click.option(
    "--context",
    metavar="NAME",
    shell_complete=complete_context,
    help="Use this context of the kubeconfig. Default: the current one.",
)
EMULATED_VERSION = click.option(
    "--emulated-version",
    metavar="MAJOR.MINOR",
    help=f"Decide as this version of kube-scheduler, from {OLDEST_VERSION} to {BINARY_VERSION}. Default: the cluster's "
    f"as its server, dump or recording tells; {DEFAULT_VERSION} where that is not known.",
)
_OPTIONS = (
    KUBECONFIG,
    CONTEXT,
    click.option(
        "--as", "as_user", metavar="USER", default="", help="Read the live cluster as this user, like --as of kubectl."
    ),
    click.option(
        "--as-group",
        "as_groups",
        metavar="GROUP",
        multiple=True,
        help="Read it as a member of this group, too. Repeatable.",
    ),
    # As `kubectl options` lists them: whoever needs one knows it, and the help of each command stays short.
    *(click.option(f"--{name}", default="", hidden=True) for name in ("as-uid", "cluster", "user")),
    *(click.option(f"--{name}", default="", hidden=True) for name in ("token", "username", "password")),
    click.option("--request-timeout", default="", hidden=True),
    click.option("--disable-compression", is_flag=True, hidden=True),
    # Nothing is cached.
    click.option("--cache-dir", expose_value=False, hidden=True),
    click.option("-s", "--server", default="", hidden=True),
    click.option("--tls-server-name", default="", hidden=True),
    *(file_option(f"--{name}", default="", hidden=True) for name in ("client-certificate", "client-key")),
    file_option(
        "--certificate-authority",
        default="",
        help="Trust certificates that this CA has signed (PEM): the API server's or, with --from-scheduler, the "
        "scheduler's.",
    ),
    click.option("--insecure-skip-tls-verify", is_flag=True, help="Do not verify that server's certificate."),
)


def live_cluster(command: Callable[..., Any]) -> Any:
    """Options that select a live cluster to read, by kubectl's flags; the command gets them as `live`."""

    @wraps(command)
    def with_flags(**given: Any) -> Any:
        live = ClusterFlags.of(given)
        if live.as_groups and not live.as_user:
            raise click.UsageError("--as-group needs --as USER.")
        others = {name: value for name, value in given.items() if name not in live.__struct_fields__}
        return command(live=live, **others)

    return reduce(lambda made, option: option(made), reversed(_OPTIONS), with_flags)


def chosen_version(emulated_version: str | None) -> KubernetesVersion | None:
    """The version that was asked for; raises InputError."""
    try:
        return None if emulated_version is None else emulated_version_of(emulated_version)
    except VersionError as error:
        raise InputError(f"--emulated-version: {error}") from error


class Followed(PlainStruct, frozen=True):
    """A live cluster to follow, and what decides for it."""

    connection: Connection
    features: FeatureGates
    configuration: Configuration


def followed(
    load: Callable[[FeatureGates], Configuration],
    live: ClusterFlags,
    emulated_version: str | None,
    *,
    command: str,
    groups: bool = False,
) -> Followed:
    """The cluster of flags, configuration and environment; asks the server for its version if none was asked for.

    `load` loads the configuration, which may name the kubeconfig. `groups`: with the gates of pod groups. Raises
    InputError.
    """
    from stowplan.app.command_line.event_loop import run
    from stowplan.kube.config.features import group_gates, with_chosen
    from stowplan.kube.klog import without_log

    version = chosen_version(emulated_version)
    if version is None:
        with without_log():
            connection = connection_of(load(with_chosen({})), live)
        version, note = run(_version_of(connection, command))
        if note:
            click.echo(f"note: {note}", err=True)
    features = with_chosen(group_gates(version, trees=True) if groups else {}, version)
    configuration = load(features)
    return Followed(connection_of(configuration, live), features, configuration)


def followed_cluster(
    live: ClusterFlags,
    config: str | None,
    plugins: Sequence[str],
    emulated_version: str | None,
    *,
    groups: bool,
    command: str,
) -> FollowedCluster:
    """A live cluster for questions, with a scheduler of this configuration; raises InputError, ConfigError."""
    from stowplan import __version__
    from stowplan.app.command_line.named_plugins import named_plugins
    from stowplan.app.sources.followed_cluster import FollowedCluster
    from stowplan.ask.offline import Cluster
    from stowplan.kube.config.features import group_gates
    from stowplan.net.client.connection import ClientConfigError
    from stowplan.net.client.http.user_agent import user_agent

    classes = named_plugins(plugins)

    def made(version: KubernetesVersion) -> Cluster:
        gates = group_gates(version, trees=True) if groups else None
        return Cluster((), config, plugins=classes, feature_gates=gates, emulated_version=str(version))

    version = chosen_version(emulated_version)
    # What is wrong with the configuration is wrong with any version.
    live = _as_configured(live, made(version or DEFAULT_VERSION).config)
    agent = user_agent(command="stowplan", version=__version__, purpose=command)
    try:
        return FollowedCluster(live, made, version=version, agent=agent)
    except ClientConfigError as error:
        raise InputError(str(error)) from error


async def _version_of(connection: Connection, command: str) -> ClusterVersion:
    from stowplan.ask.loading.live_cluster import version_of

    async with _opened(connection, command) as api:
        with must_answer(connection.server):
            return await version_of(api)


def connection_of(configuration: Configuration, live: ClusterFlags) -> Connection:
    """The connection according to flags, configuration and environment; raises InputError."""
    # The HTTP client is slow to import.
    from stowplan.net.client.connection import ClientConfigError

    try:
        return _as_configured(live, configuration).connect()
    except ClientConfigError as error:
        raise InputError(str(error)) from error


def _as_configured(live: ClusterFlags, configuration: Configuration) -> ClusterFlags:
    return replace(live, kubeconfig=live.kubeconfig or configuration.client_connection.kubeconfig or None)


@contextmanager
def must_answer(server: str) -> Iterator[None]:
    """Raise InputError if the cluster does not answer a request, or refuses it."""
    from stowplan.kube.api.api_errors import ApiError
    from stowplan.kube.api.port import Unreachable
    from stowplan.net.client.client_errors import CredentialsError, unreachable_message

    try:
        yield
    except CredentialsError as error:
        raise InputError(str(error)) from error
    except (ApiError, Unreachable) as error:
        raise InputError(unreachable_message(server, error)) from error


@asynccontextmanager
async def readable(connection: Connection, *, command: str) -> AsyncIterator[Api]:
    """The API of a cluster to follow, once it has answered: whoever follows it waits for a server forever."""
    from stowplan.kube.api.types import Node

    async with _opened(connection, command) as api:
        with must_answer(connection.server):
            await api.list(Node, limit=1)
        yield api


@asynccontextmanager
async def _opened(connection: Connection, command: str) -> AsyncIterator[HttpApi]:
    from stowplan import __version__
    from stowplan.kube.config import ClientConnection
    from stowplan.net.client.http.user_agent import user_agent
    from stowplan.net.client.http_api import HttpApi

    agent = user_agent(command="stowplan", version=__version__, purpose=command)
    async with HttpApi.open(connection, client_settings=ClientConnection(qps=-1), agent=agent) as api:
        yield api


def not_read(awaited: Mapping[str, str]) -> InputError:
    """Of a command that was stopped before the first list of each kind; `awaited` has the others, and why."""
    from stowplan.scheduler.framework.explanations.formatting import listed

    waits = f"; no list yet of {listed(list(awaited))}: {next(iter(awaited.values()))}" if awaited else ""
    return InputError(f"stopped before the cluster was read{waits}")
