"""`stowplan demo`: start a cluster, schedule a workload, explain the result, clean up.

The cluster is a `stowplan up` in its own process; everything else uses its API over HTTP, as kubectl does: create
manifests, watch pods until they are placed, read the objects to draw and explain them. Anything that takes too long
fails the demo.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click

from stowplan import __version__
from stowplan.app.command_line.commands import Command
from stowplan.app.command_line.error_reporting import InputError, reported
from stowplan.app.command_line.event_loop import first_of, run, running
from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.explain.text.tables import Block, Cell, Grid, Line, write
from stowplan.ask.explain.text.verdict_text import explanation
from stowplan.kube.api.custom_objects import CustomObject, custom_resource
from stowplan.kube.api.decode import convert, to_dict
from stowplan.kube.api.meta import ApiStruct, ObjectMeta
from stowplan.kube.api.port import Api
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.config import ClientConnection
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.scheduler.cluster.objects import STORED
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.explanations.formatting import amount, count
from stowplan_cluster.commands import demo_cluster
from stowplan_cluster.commands.embedded_options import WITHOUT_A_CLUSTER
from stowplan_cluster.commands.pod_changes import PodWatcher

# A one-screen overview of a cluster: utilization and pods per node.

_BAR = 10


def picture(state: ClusterState) -> Grid:
    """One row per node, by name."""
    rows = [
        [((name, "name"),), *_usage(state, row, "cpu"), *_usage(state, row, "memory"), _pods(state, row)]
        for name, row in sorted(state.table.row_of.items())
    ]
    return Grid(rows, ("node", "cpu", "", "memory", "", "pods"), frozenset((2, 4)))


def _usage(state: ClusterState, row: int, resource: str) -> list[Cell]:
    """A bar and a text such as `3500m of 4`."""
    table = state.table
    index = table.resources[resource]
    used, total = int(table.requested[index, row]), int(table.allocatable[index, row])
    filled = round(_BAR * used / total) if total else 0
    bar = (("█" * filled, "full" if filled == _BAR else "bar"), ("░" * (_BAR - filled), "dim"))
    return [bar, f"{amount(resource, used)} of {amount(resource, total)}"]


def _pods(state: ClusterState, row: int) -> Cell:
    """The node's pods, grouped by application."""
    counts = Counter(_app_of(info) for info in state.row_pods[row])
    listed = ", ".join(app if number == 1 else f"{app} ×{number}" for app, number in sorted(counts.items()))
    if state.table.unschedulable[row]:
        return (("cordoned", "pending"),)
    return listed or (("none", "dim"),)


def _app_of(info: PodInfo) -> str:
    return info.labels.get("app") or info.pod.metadata.name


#: Timeout in seconds for the cluster to become ready, for pods to be placed, and for shutdown.
PATIENCE = 30.0

_TERMINATED = 128 + signal.SIGTERM


class DemoError(click.ClickException):
    """The demo failed."""

    exit_code = 1


@click.command(
    cls=Command, section=WITHOUT_A_CLUSTER, short_help="Start a small cluster, place a workload, explain a pending pod."
)
@click.option("--save", metavar="FILE", help="Save the final cluster, to try `stowplan explain` on it.")
def demo(save: str | None) -> None:
    """Start a small cluster, place a workload on it, explain a pending pod, and clean up.

    Nothing but this program is needed: no cluster, no kubectl, no network.

    \b
    Examples:
      stowplan demo
      stowplan demo --save demo.yaml && stowplan explain -f demo.yaml --pod ml/notebook
    """
    if save is not None and not Path(save).parent.is_dir():
        raise InputError(f"{save}: No such file or directory")
    with reported(), tempfile.TemporaryDirectory(prefix="stowplan-demo-") as folder:
        try:
            run(_demo(Path(folder), save))
        except asyncio.CancelledError:
            sys.exit(_TERMINATED)


async def _demo(folder: Path, save: str | None) -> None:
    task = asyncio.current_task()
    assert task is not None
    # The cluster must end with the demo, however that ends.
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    async with _up(folder) as kubeconfig, _connected(kubeconfig) as api:
        await _show(api, str(kubeconfig))
        if save:
            _write_documents(save, await _objects(api))
    _write([*_chapter("Try next"), *_next(save)])


# -- output -----------------------------------------------------------------------------------------------------------


async def _show(api: Api, kubeconfig: str) -> None:
    from stowplan.kube.timing.times import REAL_TIMES
    from stowplan.net.client.list_watch import ListWatch

    watcher = PodWatcher(clock=REAL_TIMES.clock, write=lambda line: _write([line]))
    pods = ListWatch(api, Pod, times=REAL_TIMES, report=lambda problem: click.echo(problem, err=True))
    workload, late_workloads = demo_cluster.workload(), demo_cluster.late_workloads()
    total = demo_cluster.pod_count(workload)
    async with running(pods.run(watcher.deliver)) as watching:
        _write(_chapter("A workload arrives"))
        await _create(api, workload, watcher, watching, total)
        seconds = watcher.seconds
        _write(_placed(await _asked(kubeconfig), total, seconds))
        _write(_chapter("Then come a checkout, which is critical, and a notebook"))
        total += demo_cluster.pod_count(late_workloads)
        await _create(api, late_workloads, watcher, watching, total, may_wait=demo_cluster.MAY_WAIT)
    _write(_chapter(f"Why does {demo_cluster.WAITING} wait, and what would help?"))
    _write(_explained(await _asked(kubeconfig)))


async def _asked(kubeconfig: str) -> ClusterSource:
    """The cluster as `stowplan explain` reads it."""
    return await ClusterSource.of_live_cluster(live=ClusterFlags(kubeconfig=kubeconfig), config=None, plugins=())


def _placed(about: ClusterSource, total: int, seconds: float) -> list[Block]:
    state = about.cluster.state
    placed = f"{count(total, 'pod')} placed on {count(state.table.count, 'node')} in {seconds:.2f} s"
    return [Line(), Line(((placed, "head"),)), Line(), picture(state)]


def _explained(about: ClusterSource) -> list[Block]:
    info = about.find(demo_cluster.WAITING)
    return explanation(about.cluster.engine, about.verdict(info), reported=about.reported(info))


async def _create(
    api: Api,
    manifests: Sequence[Mapping[str, Any]],
    watcher: PodWatcher,
    watching: asyncio.Task[None],
    total: int,
    *,
    may_wait: Collection[str] = (),
) -> None:
    """Create objects and wait until all pods are settled; raise DemoError if that takes too long."""
    watcher.begin()
    for manifest in manifests:
        await api.create(_whole(manifest))
    try:
        async with asyncio.timeout(PATIENCE):
            await first_of(watcher.settled(total, may_wait=may_wait), watching)
    except TimeoutError:
        problems = "\n  ".join(watcher.open(total, may_wait=may_wait))
        raise DemoError(f"after {PATIENCE:g} s the pods are not placed:\n  {problems}") from None


def _write(blocks: Sequence[Block]) -> None:
    write(blocks, sys.stdout)
    # Flush, so that progress is also visible in a file.
    sys.stdout.flush()


def _chapter(title: str) -> list[Block]:
    return [Line(), Line((("── ", "dim"), (title, "head"), (" ──", "dim"))), Line()]


def _next(save: str | None) -> list[Block]:
    file = save or "demo.yaml"
    saved = "" if save else f"stowplan demo --save {file} && "
    commands = [
        "stowplan up                      a cluster of your own, for kubectl",
        f"{saved}stowplan explain -f {file} --pod {demo_cluster.WAITING} -o wide",
    ]
    return [Line(command, 2) for command in commands]


# -- the cluster ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _up(folder: Path) -> AsyncIterator[Path]:
    """Run `stowplan up` and yield its kubeconfig."""
    manifests, kubeconfig = folder / "cluster.json", folder / "kubeconfig"
    objects = {"apiVersion": "v1", "kind": "List", "items": demo_cluster.cluster()}
    manifests.write_text(json.dumps(objects), encoding="utf-8")
    arguments = ["up", "-f", str(manifests), "--kubeconfig-out", str(kubeconfig), "--until-end-of-input"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "stowplan", *arguments),
        # It ends with us, even if we are killed.
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Ctrl-C must reach us only; we stop the cluster then.
        start_new_session=True,
    )
    try:
        await _ready(process)
        yield kubeconfig
    finally:
        await _stop(process)
    if process.returncode:
        raise DemoError(f"`stowplan up` ended with exit code {process.returncode}")


async def _ready(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            ready = await process.stdout.readline()
    except TimeoutError:
        raise DemoError(f"`stowplan up` was not ready after {PATIENCE:g} s") from None
    if not ready:
        raise DemoError(f"`stowplan up` ended with exit code {await process.wait()} before it was ready")
    _write([Line((("$ ", "dim"), ("stowplan up -f cluster.yaml", "name"))), Line(ready.decode().rstrip())])


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(PATIENCE):
            # Also drain its remaining output: a full pipe could keep it from exiting.
            await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()


@asynccontextmanager
async def _connected(kubeconfig: Path) -> AsyncIterator[Api]:
    # Imported here, as HTTP libraries are slow to import and other commands do not need them.
    from stowplan.net.client.http.user_agent import user_agent
    from stowplan.net.client.http_api import HttpApi

    agent = user_agent(command="stowplan", version=__version__, purpose="demo")
    connection = ClusterFlags(kubeconfig=str(kubeconfig)).connect()
    async with HttpApi.open(connection, client_settings=ClientConnection(qps=-1), agent=agent) as api:
        yield api


def _whole(manifest: Mapping[str, Any]) -> ApiStruct:
    """An object with all its fields: our own types have only those that the scheduler reads."""
    from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue

    api_version, kind = manifest["apiVersion"], manifest["kind"]
    served = Catalogue(BUILT_IN).of_kind(api_version, kind)
    assert served is not None, kind
    resource = custom_resource(f"{served.plural}.{served.version}.{served.group}", namespaced=served.namespaced)
    metadata = convert(manifest["metadata"], ObjectMeta)
    return resource(api_version=api_version, kind=kind, metadata=metadata, content=dict(manifest))


# -- saving -----------------------------------------------------------------------------------------------------------


async def _objects(api: Api) -> list[ApiStruct]:
    """All objects that the scheduler reads."""
    kinds: tuple[type[Any], ...] = (Node, Pod, *STORED)
    objects: list[ApiStruct] = []
    for kind in kinds:
        if kind is not CustomObject and await api.serves(kind):
            objects += (await api.list(kind)).items
    return objects


def _write_documents(file: str, objects: Sequence[ApiStruct]) -> None:
    from stowplan.kube.api.yaml_text import to_yaml

    try:
        Path(file).write_text(to_yaml(*map(to_dict, objects)), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error
    click.echo(f"note: {count(len(objects), 'object')} written to {file}", err=True)
