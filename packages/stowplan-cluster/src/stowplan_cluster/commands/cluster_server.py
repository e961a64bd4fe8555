"""Start, fill, serve and stop an embedded cluster, for the commands that run one.

`stowplan apiserver` serves only the cluster, `stowplan up` adds a scheduler in the same process. One event loop runs
the HTTP front, the controllers and the scheduler. The kubeconfig is written once the cluster is ready, and removed
first on shutdown.
"""

from __future__ import annotations

import errno
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.event_loop import running
from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.manifest_files import load_manifests
from stowplan.kube.kubernetes_versions import version_or_default
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.commands.embedded_options import ClusterOptions

if TYPE_CHECKING:
    import asyncio

    from stowplan_cluster.apiserver.api_server import ApiServer
    from stowplan_cluster.apiserver.registry import Stages
    from stowplan_cluster.controllers.loop import Loop
    from stowplan_cluster.controllers.nodes.cluster_autoscaler import ClusterAutoscaler
    from stowplan_cluster.controllers.nodes.node_groups import ScaledGroup
    from stowplan_cluster.front.http_front import Front

#: Number of nodes of a cluster that would have none, by default.
DEFAULT_NODES = 3

_STDIN = "-"


class EmbeddedCluster(PlainStruct, frozen=True):
    server: ApiServer
    controllers: Loop
    front: Front
    kubeconfig: Path
    #: If there are groups of nodes.
    autoscaler: ClusterAutoscaler | None = None


@contextmanager
def open_cluster(options: ClusterOptions) -> Iterator[EmbeddedCluster]:
    """Create and fill the cluster, without serving it; raise InputError for invalid options."""
    _check_replaceable(options.kubeconfig_out)
    with ExitStack() as stack:
        server = stack.enter_context(_server(options))
        groups = _groups(options.node_groups)
        autoscaler = _autoscaler(server, groups)
        controllers = stack.enter_context(closing(_controllers(server, options, autoscaler)))
        _fill(server, options, groups)
        yield EmbeddedCluster(server, controllers, _front(server, options), options.kubeconfig_out, autoscaler)


def _check_replaceable(kubeconfig: Path, *, own: str = "") -> None:
    """Raise InputError if the file is not a kubeconfig of ours, or belongs to a cluster that is still running."""
    # Imported here, as HTTP libraries are slow to import and other commands do not need them.
    from stowplan_cluster.front.credentials import is_ours, running_server_url

    if not kubeconfig.parent.is_dir():
        raise InputError(f"{kubeconfig}: {kubeconfig.parent} is not a directory")
    if kubeconfig.exists() and not is_ours(kubeconfig):
        raise InputError(f"{kubeconfig}: already exists and was not written by stowplan; name another file")
    other = running_server_url(kubeconfig, own=own)
    if other:
        raise InputError(
            f"{kubeconfig}: belongs to the cluster at {other}, which still runs; "
            "--kubeconfig-out FILE gives this one a file of its own"
        )


@contextmanager
def _server(options: ClusterOptions) -> Iterator[ApiServer]:
    from stowplan_cluster.apiserver.api_server import ApiServer
    from stowplan_cluster.apiserver.journal import JournalError

    stages, version = _stages(options), version_or_default(options.kubernetes_version)
    try:
        with closing(ApiServer(state=options.state, stages=stages, version=version)) as server:
            yield server
    except JournalError as error:
        raise InputError(str(error)) from error


def _stages(options: ClusterOptions) -> Stages:
    from stowplan_cluster.apiserver.registry import Stages

    try:
        return Stages.without(_listed(options.without))
    except ValueError as error:
        raise InputError(f"--without: {error}") from error


def _groups(file: str | None) -> list[ScaledGroup]:
    from stowplan_cluster.apiserver.simulated_nodes import TemplateError
    from stowplan_cluster.controllers.nodes.node_groups import groups_of

    if file is None:
        return []
    try:
        return groups_of([template for _, template in load_manifests([file])])
    except TemplateError as error:
        raise InputError(f"{file}: {error}") from None


def _autoscaler(server: ApiServer, groups: Sequence[ScaledGroup]) -> ClusterAutoscaler | None:
    from stowplan_cluster.controllers.nodes.cluster_autoscaler import ClusterAutoscaler

    return ClusterAutoscaler(server.registry, groups) if groups else None


def _controllers(server: ApiServer, options: ClusterOptions, autoscaler: ClusterAutoscaler | None) -> Loop:
    from stowplan_cluster.controllers.controller_manager import set_up_controllers
    from stowplan_cluster.reconcile.kubelet import Containers

    containers = Containers(start_after=options.start_after, stop_after=options.stop_after)
    controllers, disabled = _listed(options.controllers), _listed(options.disable_admission_plugins)
    try:
        return set_up_controllers(
            server,
            controllers=controllers,
            disabled_admission=disabled,
            containers=containers,
            others=() if autoscaler is None else (autoscaler,),
        )
    except ValueError as error:
        raise InputError(str(error)) from error


def _listed(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


# -- its objects -------------------------------------------------------------------------------------------------------


def _fill(server: ApiServer, options: ClusterOptions, groups: Sequence[ScaledGroup]) -> None:
    from stowplan_cluster.commands.initial_objects import InitialObjects

    stdin = sys.stdin.buffer if _STDIN in options.filenames else None
    initial = InitialObjects(server)
    initial.add(load_manifests(options.filenames, stdin, recursive=options.recursive, report=_note))
    problems = initial.problems
    template = options.node_template
    count, before = _node_count(server, options), len(server.store.list("nodes"))
    if count:
        documents = None if template is None else load_manifests([template])
        with _problem_at(template or "--nodes", problems):
            server.create_all(_nodes(count, documents))
    for group in groups:
        with _problem_at(f"{options.node_groups}: {group.name}", problems):
            # What is wrong with a node that comes later would be in the log only.
            server.create_all([group.node(0)], dry_run=True)
            server.create_all(group.node(number) for number in range(group.limits.least))
    if problems:
        raise InputError(*problems)
    for note in initial.notes():
        _note(note)
    if options.nodes and len(server.store.list("nodes")) == before != options.nodes:
        _note(f"--nodes {options.nodes} adds none: there are {before} already, which kubectl delete node removes")


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


def _node_count(server: ApiServer, options: ClusterOptions) -> int:
    if options.nodes is None and options.node_groups:
        return 0
    if options.nodes is None:
        return DEFAULT_NODES if options.node_template or not server.store.list("nodes") else 0
    if options.node_template and not options.nodes:
        raise InputError("--node-template requires --nodes N")
    return options.nodes


@contextmanager
def _problem_at(where: str, problems: list[str]) -> Iterator[None]:
    try:
        yield
    except (ApiError, ValueError) as error:
        problems.append(f"{where}: {error}")


def _nodes(count: int, documents: Sequence[tuple[object, dict[str, Any]]] | None) -> Iterator[dict[str, Any]]:
    from stowplan_cluster.apiserver.simulated_nodes import TEMPLATE, TemplateError, check_template, nodes_of

    if documents is None:
        return nodes_of(TEMPLATE, count)
    if len(documents) != 1:
        raise TemplateError(f"expected one Node, got {len(documents)} objects")
    template = documents[0][1]
    check_template(template)
    return nodes_of(template, count)


# -- the front --------------------------------------------------------------------------------------------------------


def _front(server: ApiServer, options: ClusterOptions) -> Front:
    from stowplan_cluster.front.front_settings import FrontSettings
    from stowplan_cluster.front.http_front import Front

    host, port, state = options.bind_address, options.port, options.state
    if state is None:
        return Front(server, settings=FrontSettings(host=host, port=port))
    # A persistent cluster keeps its credentials, so that its kubeconfig stays valid.
    folder = state.with_name(f"{state.name}.credentials")
    token = _kept_token(folder)
    settings = FrontSettings(host=host, port=port, certificates=folder, token=token)
    return Front(server, settings=settings)


def _kept_token(folder: Path) -> str:
    from stowplan.net.serving.tls.certificates import write_private

    file = folder / "token"
    try:
        if not file.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            write_private(file, secrets.token_urlsafe(32).encode())
        return file.read_text().strip()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error


# -- start and stop ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def served(cluster: EmbeddedCluster) -> AsyncIterator[asyncio.Task[None]]:
    """Serve requests and run the controllers; yields the controllers' task, which ends only on failure."""
    from stowplan_cluster.controllers.pump import run

    try:
        await cluster.front.start()
    except OSError as error:
        raise InputError(_no_listening(error)) from error
    try:
        async with running(run(cluster.controllers)) as task:
            yield task
    finally:
        await cluster.front.stop()


def _no_listening(error: OSError) -> str:
    elsewhere = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
    hint = "--bind-address must be an address of this machine" if elsewhere else "--port 0 takes a free port"
    return f"cannot listen: {error.strerror or error}; {hint}"


@contextmanager
def kubeconfig_written(cluster: EmbeddedCluster) -> Iterator[None]:
    """Write the kubeconfig, and remove it on exit."""
    kubeconfig = cluster.kubeconfig
    # Check again: another process may have written it in the meantime.
    _check_replaceable(kubeconfig, own=cluster.front.url)
    try:
        cluster.front.write_kubeconfig(kubeconfig)
        written = kubeconfig.read_bytes()
    except OSError as error:
        raise InputError(f"{kubeconfig}: {error.strerror or error}") from error
    try:
        yield
    finally:
        # A server started later with the same --kubeconfig-out may have replaced it.
        with suppress(FileNotFoundError):
            if kubeconfig.read_bytes() == written:
                kubeconfig.unlink()
