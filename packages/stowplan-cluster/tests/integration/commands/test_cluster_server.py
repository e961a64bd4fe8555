"""An embedded cluster within the test's process: order of shutdown, and errors."""

import asyncio
import socket
from urllib.parse import urlsplit

import pytest

from stowplan.app.command_line.event_loop import running
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.types import Pod
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from stowplan_cluster.commands import up
from stowplan_cluster.commands.cluster_server import open_cluster
from stowplan_cluster.commands.embedded_options import ClusterOptions
from support.api import manifests


def options(folder, *, nodes=1, state=None):
    return ClusterOptions(
        port=0,
        bind_address="127.0.0.1",
        kubeconfig_out=folder / "kubeconfig",
        state=state,
        nodes=nodes,
        node_template=None,
        filenames=(),
        controllers="*",
        disable_admission_plugins="",
    )


@pytest.fixture
def cluster(tmp_path):
    with open_cluster(options(tmp_path)) as cluster:
        yield cluster


class Stop:
    """Replaces signals."""

    def __init__(self, *, received=False):
        self.stopped = asyncio.Event()
        if received:
            self.stopped.set()

    def event(self):
        return self.stopped


class Scheduler:
    frameworks = ("default-scheduler",)

    def __init__(self, api, *, run):
        self.ready = asyncio.Event()
        self.api = api
        self._run = run

    def run(self):
        return self._run(self)


def serving(cluster, stop, run):
    return up._serve(cluster, stop, lambda api: Scheduler(api, run=run))


def answers(cluster):
    address = urlsplit(cluster.front.url)
    with socket.socket() as probe:
        return probe.connect_ex((address.hostname, address.port)) == 0


class TestUp:
    async def test_errors_of_the_scheduler_are_raised(self, cluster):
        async def fails(scheduler):
            scheduler.ready.set()
            await asyncio.sleep(0)
            raise ZeroDivisionError("a bug")

        with pytest.raises(ZeroDivisionError, match="a bug"):
            await serving(cluster, Stop(), fails)
        assert not cluster.kubeconfig.exists()
        assert not answers(cluster)

    async def test_stopped_before_it_is_ready(self, cluster, capsys):
        async def never_ready(scheduler):
            await asyncio.Event().wait()

        await serving(cluster, Stop(received=True), never_ready)
        assert not cluster.kubeconfig.exists()
        assert capsys.readouterr().out == ""

    async def test_the_kubeconfig_is_written_after_the_scheduler_starts_and_the_api_stops_after_it(
        self, cluster, capsys
    ):
        stop, seen = Stop(), []

        async def writes_at_the_end(scheduler):
            for _ in range(10):
                await asyncio.sleep(0)
            seen.append(cluster.kubeconfig.exists())
            scheduler.ready.set()
            try:
                await asyncio.Event().wait()
            finally:
                seen.append(cluster.kubeconfig.exists())
                await scheduler.api.create(decode_object(manifests.pod()))
                seen.append(answers(cluster))

        async with running(serving(cluster, stop, writes_at_the_end)) as task:
            while not cluster.kubeconfig.exists():
                assert not task.done()
                await asyncio.sleep(0)
            stop.stopped.set()
            await task
        assert seen == [False, False, True]
        assert not answers(cluster)
        assert (await EmbeddedApi(cluster.server).get(Pod, "web", namespace="default")).metadata.name == "web"
        assert capsys.readouterr().out.startswith(f"Serving on {cluster.front.url}: 1 node, 0 pods\n")


@pytest.mark.parametrize(
    ("nodes", "total", "told"),
    [
        (2, 3, "note: --nodes 2 adds none: there are 3 already, which kubectl delete node removes\n"),
        (3, 3, ""),
        (5, 5, ""),
        (None, 3, ""),
    ],
)
def test_a_number_of_nodes_beside_stored_ones(nodes, total, told, tmp_path, capsys):
    state = tmp_path / "state"
    with open_cluster(options(tmp_path, nodes=3, state=state)):
        pass
    with open_cluster(options(tmp_path, nodes=nodes, state=state)) as cluster:
        assert len(cluster.server.store.list("nodes")) == total
    assert capsys.readouterr().err == told
