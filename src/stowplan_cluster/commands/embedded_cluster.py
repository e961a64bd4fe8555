"""An embedded cluster as commands run it: what it is filled with, its life from the first request to the last signal.

`stowplan apiserver` serves it alone, `stowplan up` with a scheduler in it. One event loop owns everything: the HTTP
front, the controllers, and whoever lives there besides. The kubeconfig appears when the cluster can be used and goes
as soon as it is told to end, before anything else of it ends.
"""

from __future__ import annotations

import errno
import secrets
import socket
import sys
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stowplan.api.api_errors import ApiError
from stowplan.api.load import load_manifests
from stowplan.command_line.errors import InputError
from stowplan.command_line.event_loop import running

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from stowplan_cluster.apiserver.server import ApiServer
    from stowplan_cluster.controllers.loop import Loop
    from stowplan_cluster.front.server import Front

CommandT = TypeVar("CommandT", bound="Callable[..., Any]")

#: How many nodes a cluster gets that would have none, where it is to be used at once.
DEFAULT_NODES = 3

_STDIN = "-"
_FILE = click.Path(dir_okay=False, path_type=Path)

_OPTIONS = (
    click.option(
        "--node-template",
        type=click.Path(exists=True, dir_okay=False),
        help="File with a Node; {n} in it is the node's number, {zone} one of a, b, c.",
    ),
    click.option(
        "-f",
        "--filename",
        "filenames",
        multiple=True,
        type=click.Path(exists=True, allow_dash=True),
        help="Manifests to create at the start, as far as they are not there yet. Repeatable; - is stdin.",
    ),
    click.option("--state", type=_FILE, help="File that keeps the cluster; without it, all is gone at the end."),
    click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on; 0 takes a free one."),
    click.option("--bind-address", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option(
        "--kubeconfig-out",
        type=_FILE,
        default=Path("stowplan.kubeconfig"),
        show_default=True,
        help="Where the kubeconfig goes. It appears when the server answers and goes when it ends.",
    ),
    click.option(
        "--controllers",
        default="*",
        show_default=True,
        metavar="LIST",
        help="What makes the cluster live: '*' all, 'NAME' one, '*,-NAME' all but one, '' none.",
    ),
    click.option(
        "--disable-admission-plugins",
        default="",
        metavar="LIST",
        help="Admission plugins to leave out, by their upstream names.",
    ),
)


def cluster_options(command: CommandT) -> CommandT:
    """Give a command the options that `ClusterOptions` is made of, but for --nodes, whose default is the command's."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    port: int
    bind_address: str
    kubeconfig_out: Path
    state: Path | None
    #: None: some, if the cluster has none otherwise.
    nodes: int | None
    node_template: str | None
    filenames: Sequence[str]
    controllers: str
    disable_admission_plugins: str


@dataclass(frozen=True)
class EmbeddedCluster:
    server: ApiServer
    controllers: Loop
    front: Front
    kubeconfig: Path


@contextmanager
def embedded_cluster(options: ClusterOptions) -> Iterator[EmbeddedCluster]:
    """The cluster, filled and not yet served; InputError for options that make no sense."""
    _check_replaceable(options.kubeconfig_out)
    with ExitStack() as stack:
        server = stack.enter_context(_server(options.state))
        controllers = stack.enter_context(closing(_living(server, options)))
        _fill(server, options)
        yield EmbeddedCluster(server, controllers, _front(server, options), options.kubeconfig_out)


def _check_replaceable(kubeconfig: Path) -> None:
    """A kubeconfig of somebody else's clusters is not ours to overwrite."""
    # What talks HTTP takes a while to import; other commands do without.
    from stowplan_cluster.front.kubeconfig_file import is_ours

    if not kubeconfig.parent.is_dir():
        raise InputError(f"{kubeconfig}: {kubeconfig.parent} is no folder")
    if kubeconfig.exists() and not is_ours(kubeconfig):
        raise InputError(f"{kubeconfig}: is there already and was not written by stowplan; name another file")


@contextmanager
def _server(state: Path | None) -> Iterator[ApiServer]:
    from stowplan_cluster.apiserver.journal import JournalError
    from stowplan_cluster.apiserver.server import ApiServer

    try:
        with closing(ApiServer(state=state)) as server:
            yield server
    except JournalError as error:
        raise InputError(str(error)) from error


def _living(server: ApiServer, options: ClusterOptions) -> Loop:
    from stowplan_cluster.controllers.controller_manager import set_up_controllers

    controllers, disabled = _listed(options.controllers), _listed(options.disable_admission_plugins)
    try:
        return set_up_controllers(server, controllers=controllers, disabled_admission=disabled)
    except ValueError as error:
        raise InputError(str(error)) from error


def _listed(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


# -- what is in it ----------------------------------------------------------------------------------------------------


def _fill(server: ApiServer, options: ClusterOptions) -> None:
    problems: list[str] = []
    for source, obj in load_manifests(options.filenames, sys.stdin.buffer if _STDIN in options.filenames else None):
        with _problem_at(str(source), problems):
            server.create_all([obj])
    template = options.node_template
    count = _node_count(server, options)
    if count:
        documents = None if template is None else load_manifests([template])
        with _problem_at(template or "--nodes", problems):
            server.create_all(_nodes(count, documents))
    if problems:
        raise InputError(*problems)


def _node_count(server: ApiServer, options: ClusterOptions) -> int:
    if options.nodes is None:
        return DEFAULT_NODES if options.node_template or not server.store.list("nodes") else 0
    if options.node_template and not options.nodes:
        raise InputError("--node-template: how many nodes? Say so with --nodes")
    return options.nodes


@contextmanager
def _problem_at(where: str, problems: list[str]) -> Iterator[None]:
    try:
        yield
    except (ApiError, ValueError) as error:
        problems.append(f"{where}: {error}")


def _nodes(count: int, documents: Sequence[tuple[object, dict[str, Any]]] | None) -> Iterator[dict[str, Any]]:
    from stowplan_cluster.apiserver.nodes import TEMPLATE, TemplateError, check_template, nodes_of

    if documents is None:
        return nodes_of(TEMPLATE, count)
    if len(documents) != 1:
        raise TemplateError(f"expected one Node, got {len(documents)} objects")
    template = documents[0][1]
    check_template(template)
    return nodes_of(template, count)


# -- the front --------------------------------------------------------------------------------------------------------


def _front(server: ApiServer, options: ClusterOptions) -> Front:
    from stowplan_cluster.front.server import Front
    from stowplan_cluster.front.settings import FrontSettings

    host, port, state = options.bind_address, options.port, options.state
    if state is None:
        return Front(server, settings=FrontSettings(host=host, port=port))
    # A cluster that is kept keeps its credentials, so that its kubeconfig stays good.
    folder = state.with_name(f"{state.name}.credentials")
    token = _kept_token(folder)
    return Front(server, settings=FrontSettings(host=host, port=port, certificates=folder, token=token))


def _kept_token(folder: Path) -> str:
    from stowplan.serving.certificates import write_private

    file = folder / "token"
    try:
        if not file.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            write_private(file, secrets.token_urlsafe(32).encode())
        return file.read_text().strip()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error


# -- its life ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def served(cluster: EmbeddedCluster) -> AsyncIterator[asyncio.Task[None]]:
    """The cluster answers and lives; what comes is the controllers' task, which ends only if they fail."""
    from stowplan_cluster.controllers.pump import run

    try:
        await cluster.front.start()
    except OSError as error:
        raise InputError(_no_listening(error)) from error
    try:
        async with running(run(cluster.controllers)) as living:
            yield living
    finally:
        await cluster.front.stop()


def _no_listening(error: OSError) -> str:
    elsewhere = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
    hint = "--bind-address wants an address of this machine" if elsewhere else "--port 0 takes a free port"
    return f"cannot listen: {error.strerror or error}; {hint}"


@contextmanager
def announced(cluster: EmbeddedCluster) -> Iterator[None]:
    """The kubeconfig is where it was asked for."""
    kubeconfig = cluster.kubeconfig
    try:
        cluster.front.write_kubeconfig(kubeconfig)
        written = kubeconfig.read_bytes()
    except OSError as error:
        raise InputError(f"{kubeconfig}: {error.strerror or error}") from error
    try:
        yield
    finally:
        # A server that was started later with the same name has its own there now.
        with suppress(FileNotFoundError):
            if kubeconfig.read_bytes() == written:
                kubeconfig.unlink()
