"""Watches over real connections that go silent: they are closed after a timeout, and withheld events are received."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from stowplan.drivers.live.scheduler import Scheduler
from stowplan.kube.config import load_config
from stowplan.net.client.connection import connect_from_flags
from stowplan.net.client.http_api import HttpApi
from stowplan.scheduler.in_tree.registry import in_tree_registry
from support.api.clients import AGENT, UNLIMITED
from support.chaos.proxy import Proxy
from support.chaos.witness import PODS, Witness
from support.processes.servers import embedded_server
from support.soak.checks import nothing_is_under_way

#: Timeout in seconds; three minutes in production.
SILENCE = 0.5


@pytest.fixture
def server(tmp_path):
    with embedded_server(tmp_path, "--nodes=4", "--controllers=") as server:
        yield server


@asynccontextmanager
async def scheduling(kubeconfig):
    registry = in_tree_registry()
    connection = connect_from_flags(kubeconfig=str(kubeconfig))
    async with HttpApi.open(connection, client_settings=UNLIMITED, agent=AGENT, watch_silence=SILENCE) as api:
        scheduler = Scheduler(api, load_config(None, plugins=registry.declarations), registry=registry)
        running = asyncio.create_task(scheduler.run())
        try:
            async with asyncio.timeout(60):
                await scheduler.ready.wait()
            yield scheduler
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_silent_watches_are_restarted(server, tmp_path):
    with Witness(server.kubeconfig) as witness, Proxy(server.kubeconfig, tmp_path) as proxy:
        async with scheduling(proxy.kubeconfig) as scheduler:
            proxy.silent = True
            await asyncio.to_thread(witness.create_pods, *(f"p{i}" for i in range(20)))
            asked = proxy.fates["watches"]
            # New watches are silent, too, until they time out as well.
            await asyncio.to_thread(witness.until, lambda: proxy.fates["watches"] >= asked + 10)
            assert witness.bound == []
            proxy.silent = False
            await asyncio.to_thread(witness.until_bound)
            await asyncio.to_thread(witness.until, lambda: len(scheduler.state.placed_pods()) == 20)
            await asyncio.to_thread(witness.until, lambda: not scheduler.state._assumed and not scheduler.busy)
            nothing_is_under_way(scheduler)
            placed = {info.pod.metadata.name: info.node_name for info in scheduler.state.placed_pods()}
            assert placed == {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in witness.get(PODS)["items"]}
            witness.check()
