"""The tools `simulate` and `compare` of `stowplan mcp`, by the SDK's own client."""

import asyncio

import pytest
from mcp import Client

from stowplan.app.cli.mcp.command import ServedCluster, offered_tools
from stowplan.app.cli.mcp.server import server_of
from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.offline import Cluster
from stowplan_lab.commands.mcp_tools import COMPARE, SIMULATE

POD = {"kind": "Pod", "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
BATCH = {"name": "batch", "manifest": POD, "every": "10m", "lifetime": "30m"}
GROUP = {"name": "general", "count": 2, "capacity": {"cpu": 8, "pods": 10}}
SCENARIO = {"duration": "2h", "cluster": {"groups": [GROUP]}, "workloads": [BATCH]}
CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@pytest.fixture
def client():
    host = ServedCluster(ClusterSource(Cluster(), {}), [])
    return Client(server_of((SIMULATE, COMPARE), host, title="lab"))


async def test_both_are_offered_and_answer(client):
    assert {"simulate", "compare"} <= {tool.name for tool in offered_tools()}
    async with client:
        await client.list_tools()
        found = await client.call_tool("simulate", {"scenario": SCENARIO, "seed": 3})
        assert (found.structured_content["arrived"], found.structured_content["seed"]) == (13, 3)
        assert found.content[0].text.startswith("scenario: 2 h simulated, seed 3")
        assert "Results are in" not in found.content[0].text
        sides = [{"version": "1.36"}, {"config": CONFIG, "version": "1.37"}]
        found = await client.call_tool("compare", {"scenario": SCENARIO, "sides": sides, "seeds": 1})
        assert found.structured_content["emulatedVersions"] == ["1.36", "1.37"]
        assert found.structured_content["configs"] == ["1.36", "config-2.json@1.37"]


async def test_a_long_simulation_ends_with_what_it_has(client, tmp_path, monkeypatch):
    async def time_is_up(tasks, **_):
        """When the simulation has begun."""
        while not [*tmp_path.glob("*/results/*")]:  # noqa: ASYNC110 - another process writes there
            await asyncio.sleep(0.05)
        return set(), tasks

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("stowplan_lab.commands.mcp_tools.asyncio.wait", time_is_up)
    endless = SCENARIO | {"duration": "100000d"}
    async with client:
        found = await client.call_tool("simulate", {"scenario": endless})
    assert found.structured_content["interrupted"]


async def test_what_is_refused(client):
    named = [
        ({"cluster": {"files": ["/etc/passwd"]}}, "cluster.files"),
        ({"cluster": {"live": True}}, "cluster.live"),
        ({"workloads": [{"name": "w", "file": "/etc/passwd"}]}, "file of a workload"),
        ({"scheduler": {"plugins": ["os:system"]}}, "scheduler.plugins"),
        ({"scheduler": {"config": "/etc/passwd"}}, "scheduler.config as a file"),
        ({"events": [{"at": 1, "rebalance": {"policy": "/etc/passwd"}}]}, "policy of a rebalance event"),
        ({"scheduler": {"config": CONFIG | {"extenders": [{}]}}}, "extenders: leave them out"),
    ]
    others = [
        ("simulate", {"scenario": {"nix": 1}}, "scenario: nix: there is no such field"),
        ("simulate", {"scenario": SCENARIO, "config": {"kind": "Nix"}}, "'apiVersion' is missing"),
        ("simulate", {"scenario": SCENARIO, "seconds": 0}, "Expected `int` >= 1 - at `$.seconds`"),
        ("compare", {"scenario": SCENARIO, "sides": [{}]}, "Expected `array` of length >= 2 - at `$.sides`"),
        ("compare", {"scenario": SCENARIO, "sides": [{}, {}]}, "sides: 1: give config, version or both"),
        ("compare", {"sides": [{}, {"version": "1.36"}]}, "scenario: give one"),
    ]
    cases = [("simulate", {"scenario": SCENARIO | part}, f"{field}") for part, field in named]
    async with client:
        for tool, arguments, says in [*cases, *others]:
            found = await client.call_tool(tool, arguments)
            assert (found.is_error, says in found.content[0].text) == (True, True), found.content[0].text
