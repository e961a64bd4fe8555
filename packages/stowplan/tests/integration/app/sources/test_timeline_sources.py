"""Moments of simulations, of recordings, and of recordings decided with another configuration."""

import asyncio
import shutil

import pytest

from stowplan.app.sources.timeline_sources import recorded_source, rerun_source, simulated_source
from stowplan.ui.plan import plan_of
from stowplan.ui.timeline_file import read_timeline
from stowplan.ui.timeline_routes import MomentError
from stowplan_lab.simulation.definition.scenario_loading import load_scenario
from stowplan_lab.simulation.simulate import simulate_scenario
from support.browser.pages import PACKING
from support.live.recordings import a_short_run

#: Finishing pods, failing nodes, randomness, and a manifest of its own.
WILD = """
name: wild
duration: 600
seed: 4
cluster:
  groups:
  - {name: a, count: 4, capacity: {cpu: "8", memory: 32Gi, pods: "20"}, zones: [x, z]}
workloads:
- {name: web, file: pod.yaml, poisson: 12/m, lifetime: {exponential: 2m}}
events:
- {at: 200s, fail: {count: 1, for: 100s}}
models: {latency: {uniform: [5ms, 50ms]}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '2', memory: 1Gi}}}]}
"""


def stop():
    return False


def places(plan):
    return {key: row.node for key, row in plan.pods.items()}


@pytest.fixture(scope="module")
def wild(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wild")
    (folder / "wild.yaml").write_text(WILD)
    (folder / "pod.yaml").write_text(POD)
    (folder / "packing.yaml").write_text(PACKING)
    simulate_scenario(folder / "wild.yaml", folder=folder / "out", config=folder / "packing.yaml", seed=9)
    return folder


@pytest.mark.parametrize("share", [0, 0.3, 0.34, 0.7, 1])
def test_a_simulation_is_rerun_until_the_moment(wild, share):
    timeline = read_timeline(wild / "out" / "timeline.jsonl.gz")[1]
    frame = timeline.frames[round(share * (len(timeline.frames) - 1))]
    about = simulated_source(str(wild / "out")).moment(frame.time, stop)
    assert places(plan_of(about.engine.state)) == places(timeline.at(frame.time))
    assert plan_of(about.engine.state).nodes == timeline.at(frame.time).nodes
    args = about.cluster.config.to_dict()["profiles"][0]["pluginConfig"]
    assert "MostAllocated" in str(args)


def test_the_end_can_be_questioned(wild):
    about = simulated_source(str(wild / "out")).moment(None, stop)
    timeline = read_timeline(wild / "out" / "timeline.jsonl.gz")[1]
    assert places(plan_of(about.engine.state)) == places(timeline.end())
    info = next(about.pods())
    assert about.verdict(info).names


def test_a_moved_folder(wild, tmp_path):
    shutil.copytree(wild, tmp_path / "elsewhere")
    assert simulated_source(str(tmp_path / "elsewhere" / "out")).moment(None, stop).engine.state.table.count


def test_a_missing_or_changed_file(wild, tmp_path):
    folder = tmp_path / "elsewhere"
    shutil.copytree(wild, folder)
    (folder / "pod.yaml").write_text(POD.replace("'2'", "'1'"))
    with pytest.raises(
        MomentError, match=r"running the simulation again gave a different result: \d+ pods are elsewhere"
    ):
        simulated_source(str(folder / "out")).moment(None, stop)
    (folder / "pod.yaml").unlink()
    with pytest.raises(MomentError, match=r"the simulation cannot be run again: .*pod.yaml"):
        simulated_source(str(folder / "out")).moment(None, stop)


def test_a_scenario_from_python(tmp_path):
    scenario = load_scenario(
        {"cluster": {"groups": [{"name": "a", "count": 1, "capacity": {"cpu": 4}}]}, "duration": 9}
    )
    simulate_scenario(scenario.scenario, folder=tmp_path / "out")
    with pytest.raises(MomentError, match="built in Python"):
        simulated_source(str(tmp_path / "out")).moment(None, stop)
    simulate_scenario(scenario, folder=tmp_path / "out")
    assert simulated_source(str(tmp_path / "out")).moment(None, stop).engine.state.table.count == 1


def test_cancellation(wild):
    about = simulated_source(str(wild / "out")).moment(None, lambda: True)
    assert not list(about.pods())


def test_moments_of_a_recording_and_of_one_decided_again(tmp_path):
    path, config = tmp_path / "run.recording", tmp_path / "packing.yaml"
    asyncio.run(a_short_run(path))
    config.write_text(PACKING)
    for source in (recorded_source(str(path), ()), rerun_source(str(path), str(config), ())):
        timeline = source.timeline()
        first, last = timeline.frames[0].time, timeline.frames[-1].time
        assert places(plan_of(source.moment(first + 5, stop).engine.state)).keys() == {"default/web"}
        assert places(plan_of(source.moment(last, stop).engine.state)) == places(timeline.at(last))
        assert places(plan_of(source.moment(None, stop).engine.state)) == places(timeline.end())


def test_a_missing_recording(tmp_path):
    with pytest.raises(MomentError, match=r"gone.recording"):
        recorded_source(str(tmp_path / "gone.recording"), ()).moment(None, stop)
