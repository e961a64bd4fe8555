"""A recording as a trace: creation times and lifetimes of pods."""

import asyncio

import pytest

from stowplan.testing import a_node, a_pod
from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario
from stowplan_lab.traces.trace import TraceError, open_trace
from support.live.live_scheduler import live
from support.live.recordings import RecordedToFile, a_run_in_two_files


async def record(path):
    """`stays` runs forever; `short` for 20 s; `waits` is unschedulable until deleted; `gated` starts when ungated."""
    to_file = RecordedToFile(path)
    async with live(a_node("n").allocatable(cpu="4", pods=10).obj(), recorder=to_file.recorder) as cluster:
        await cluster.create(a_pod("stays").requests(cpu="1").obj(), a_pod("waits").requests(cpu="9").obj())
        await cluster.advance(10)
        await cluster.create(a_pod("short").requests(cpu="1").obj())
        await cluster.create(a_node("later").allocatable(cpu="1", pods=10).obj())
        await cluster.advance(20)
        await cluster.delete("pods", "short")
        await cluster.advance(10)
        await cluster.delete("pods", "waits")
        await cluster.create(a_pod("short").requests(cpu="1").obj())
        await cluster.advance(5)
    to_file.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    asyncio.run(record(folder / "r"))
    asyncio.run(a_run_in_two_files(folder / "rotated"))
    return folder


def test_creation_times_and_lifetimes(folder):
    trace = open_trace("recording", {"file": "r"}, folder)
    found = [(one.pod.metadata.name, one.at, one.lifetime) for one in trace.arrivals()]
    names, times, lifetimes = zip(*found, strict=True)
    assert names == ("stays", "waits", "short", "short-2")
    assert times == pytest.approx((0, 0, 10, 40), abs=0.5)
    assert lifetimes == (None, pytest.approx(40, abs=0.5), pytest.approx(20, abs=0.5), None)
    assert all(not one.pod.spec.node_name and not one.pod.status.conditions for one in trace.arrivals())
    assert [node.metadata.name for node in trace.nodes()] == ["n"]


def test_all_files_of_a_run_are_read(folder):
    trace = open_trace("recording", {"file": "rotated"}, folder)
    assert [one.pod.metadata.name for one in trace.arrivals()] == ["p0", "p1", "p2", "p3", "large"]


def test_a_recording_from_the_middle_has_existing_pods(folder, tmp_path):
    (tmp_path / "r").write_bytes((folder / "rotated").read_bytes())
    trace = open_trace("recording", {"file": "r"}, tmp_path)
    assert [(one.pod.metadata.name, one.at > 0) for one in trace.arrivals()] == [
        ("p0", False),
        ("p1", False),
        ("p2", False),
        ("p3", True),
        ("large", True),
    ]
    assert sorted(node.metadata.name for node in trace.nodes()) == ["a", "b"]


def test_a_simulation_of_it(folder):
    trace = {"format": "recording", "file": str(folder / "r")}
    found = simulate_scenario(
        {"cluster": {"trace": trace}, "workloads": [{"name": "then", "trace": trace}], "duration": 120}
    )
    ends = {row.pod: row.end for row in found.decisions}
    assert ends == {
        "default/stays": "running",
        "default/waits": "pending",
        "default/short": "finished",
        "default/short-2": "running",
    }


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "want file, the path of a recording"),
        ({"file": "r", "sort": True}, "unknown field `sort`"),
        ({"file": "nowhere"}, "no such file or directory"),
        ({"file": "r", "daemonSets": 3}, "daemonSets"),
    ],
)
def test_invalid_options(folder, options, problem):
    with pytest.raises(TraceError, match=problem):
        open_trace("recording", options, folder)


def test_an_invalid_file(tmp_path):
    (tmp_path / "r").write_bytes(b"{}\n")
    workload = {"name": "w", "trace": {"format": "recording", "file": str(tmp_path / "r")}}
    with pytest.raises(ScenarioError, match=r"workloads: w: .*no header of a recording"):
        simulate_scenario({"cluster": {"groups": [{"name": "a", "capacity": {}}]}, "workloads": [workload]})
