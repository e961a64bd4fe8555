"""`stowplan apiserver`: the embedded API alone, for kubectl, tests and other people's schedulers."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import secrets
import signal
import socket
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stowplan.api.api_errors import ApiError
from stowplan.api.load import load_manifests
from stowplan.cli.errors import InputError, reported

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stowplan.apiserver.controllers.loop import Loop
    from stowplan.apiserver.front.server import Front
    from stowplan.apiserver.server import ApiServer

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Serve a cluster without machines, for kubectl and schedulers.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on; 0 takes a free one.")
@click.option("--bind-address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--kubeconfig-out",
    type=_FILE,
    default=Path("stowplan.kubeconfig"),
    show_default=True,
    help="Where the kubeconfig goes. It appears when the server answers and goes when it ends.",
)
@click.option("--state", type=_FILE, help="File that keeps the cluster; without it, all is gone at the end.")
@click.option("--nodes", type=click.IntRange(0, 100_000), default=0, help="So many nodes, made of --node-template.")
@click.option(
    "--node-template",
    type=click.Path(exists=True, dir_okay=False),
    help="File with a Node; {n} in it is the node's number, {zone} one of a, b, c.",
)
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    type=click.Path(exists=True),
    help="Manifests to create at the start, as far as they are not there yet. Repeatable.",
)
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    metavar="LIST",
    help="What makes the cluster live: '*' all, 'NAME' one, '*,-NAME' all but one, '' none.",
)
@click.option(
    "--disable-admission-plugins",
    default="",
    metavar="LIST",
    help="Admission plugins to leave out, by their upstream names.",
)
def apiserver(
    *,
    port: int,
    bind_address: str,
    kubeconfig_out: Path,
    state: Path | None,
    nodes: int,
    node_template: str | None,
    filenames: Sequence[str],
    controllers: str,
    disable_admission_plugins: str,
) -> None:
    """An API server in this process: a cluster without machines that kubectl works with.

    Pods that are bound to a node start, Deployments make pods, deletions finish; nothing is scheduled. It
    listens on 127.0.0.1, with TLS and a token that the kubeconfig holds.

    \b
      stowplan apiserver --nodes 100 &
      kubectl --kubeconfig stowplan.kubeconfig get nodes
    """
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    with reported(), ExitStack() as stack:
        _check_replaceable(kubeconfig_out)
        server = stack.enter_context(_server(state))
        loop = stack.enter_context(closing(_living(server, controllers, disable_admission_plugins)))
        _fill(server, filenames, nodes, node_template)
        front = _front(server, bind_address, port, state)
        _run(_serve(front, loop, kubeconfig_out))


@contextmanager
def _server(state: Path | None) -> Iterator[ApiServer]:
    # What talks HTTP takes a while to import; other commands do without.
    from stowplan.apiserver.journal import JournalError
    from stowplan.apiserver.server import ApiServer

    try:
        with closing(ApiServer(state=state)) as server:
            yield server
    except JournalError as error:
        raise InputError(str(error)) from error


def _fill(server: ApiServer, filenames: Sequence[str], nodes: int, template: str | None) -> None:
    problems: list[str] = []
    for source, obj in load_manifests(filenames):
        with _problem_at(str(source), problems):
            server.create_all([obj])
    if template is not None and not nodes:
        raise InputError("--node-template: how many nodes? Say so with --nodes")
    if nodes:
        documents = None if template is None else load_manifests([template])
        with _problem_at(template or "--nodes", problems):
            server.create_all(_nodes(nodes, documents))
    if problems:
        raise InputError(*problems)


@contextmanager
def _problem_at(where: str, problems: list[str]) -> Iterator[None]:
    try:
        yield
    except (ApiError, ValueError) as error:
        problems.append(f"{where}: {error}")


def _nodes(count: int, documents: Sequence[tuple[object, dict[str, Any]]] | None) -> Iterator[dict[str, Any]]:
    from stowplan.apiserver.nodes import TEMPLATE, TemplateError, check_template, nodes_of

    if documents is None:
        return nodes_of(TEMPLATE, count)
    if len(documents) != 1:
        raise TemplateError(f"expected one Node, got {len(documents)} objects")
    template = documents[0][1]
    check_template(template)
    return nodes_of(template, count)


def _living(server: ApiServer, controllers: str, disabled_admission: str) -> Loop:
    from stowplan.apiserver.living import living_cluster

    try:
        return living_cluster(server, controllers=_listed(controllers), disabled_admission=_listed(disabled_admission))
    except ValueError as error:
        raise InputError(str(error)) from error


def _listed(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _front(server: ApiServer, host: str, port: int, state: Path | None) -> Front:
    from stowplan.apiserver.front.server import Front
    from stowplan.apiserver.front.settings import FrontSettings

    if state is None:
        return Front(server, settings=FrontSettings(host=host, port=port))
    # A cluster that is kept keeps its credentials, so that its kubeconfig stays good.
    folder = state.with_name(f"{state.name}.credentials")
    token = _kept_token(folder)
    return Front(server, settings=FrontSettings(host=host, port=port, certificates=folder, token=token))


def _kept_token(folder: Path) -> str:
    from stowplan.apiserver.front.certificates import write_private

    file = folder / "token"
    try:
        if not file.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            write_private(file, secrets.token_urlsafe(32).encode())
        return file.read_text().strip()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error


def _run(main: Any) -> None:
    # Requests make many objects and no cycles: looking for those less often is a tenth of a create.
    gc.set_threshold(50_000, 20, 100)
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


async def _serve(front: Front, loop: Loop, kubeconfig: Path) -> None:
    from stowplan.apiserver.controllers.pump import run

    try:
        await front.start()
    except OSError as error:
        raise InputError(_no_listening(error)) from error
    living = asyncio.create_task(run(loop))
    # Before the announcement: who has waited for that may send a signal at once.
    stopped = _signalled()
    try:
        with _announced(front, kubeconfig):
            await _until_stopped(stopped, living)
    finally:
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)
        await front.stop()


def _check_replaceable(kubeconfig: Path) -> None:
    """A kubeconfig of somebody else's clusters is not ours to overwrite."""
    from stowplan.apiserver.front.kubeconfig_file import is_ours

    if not kubeconfig.parent.is_dir():
        raise InputError(f"{kubeconfig}: {kubeconfig.parent} is no folder")
    if kubeconfig.exists() and not is_ours(kubeconfig):
        raise InputError(f"{kubeconfig}: is there already and was not written by stowplan; name another file")


def _no_listening(error: OSError) -> str:
    elsewhere = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
    hint = "--bind-address wants an address of this machine" if elsewhere else "--port 0 takes a free port"
    return f"cannot listen: {error.strerror or error}; {hint}"


@contextmanager
def _announced(front: Front, kubeconfig: Path) -> Iterator[None]:
    try:
        front.write_kubeconfig(kubeconfig)
        written = kubeconfig.read_bytes()
    except OSError as error:
        raise InputError(f"{kubeconfig}: {error.strerror or error}") from error
    click.echo(f"Serving on {front.url}\n  export KUBECONFIG={kubeconfig.absolute()}")
    try:
        yield
    finally:
        # A server that was started later with the same name has its own there now.
        with suppress(FileNotFoundError):
            if kubeconfig.read_bytes() == written:
                kubeconfig.unlink()


def _signalled() -> asyncio.Event:
    """Set when the process is told to end."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped


async def _until_stopped(stopped: asyncio.Event, living: asyncio.Task[None]) -> None:
    """Until a signal comes, or the controllers fail, which is a bug to be seen."""
    waiting = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((waiting, living), return_when=asyncio.FIRST_COMPLETED)
        if living.done():
            living.result()
    finally:
        waiting.cancel()
