"""Timelines of recordings, from all of their files, and with another configuration."""

import asyncio

import pytest

from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.sources.timeline_sources import recorded_timeline, rerun_timeline, simulated_timeline
from support.live.recordings import a_run_in_two_files

SPREADING, PACKING = "spreading.yaml", "packing.yaml"
PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    pluginConfig:
      - name: NodeResourcesFit
        args:
          scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
    plugins:
      score:
        disabled: [{name: NodeResourcesBalancedAllocation}]
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("rotated") / "run.recording"
    asyncio.run(a_run_in_two_files(path))
    return path


def figure(timeline, name):
    (column,) = (one for one in timeline.time_record("t").series.columns if one.name == name)
    return column.values


def test_all_files_are_replayed_from_the_oldest(recording):
    timeline = recorded_timeline(str(recording), ())
    placed = figure(timeline, "pods")
    assert sorted(set(placed)) == [0, 1, 2, 3, 4, 5]
    assert list(placed) == sorted(placed)
    assert timeline.frames[-1].time - timeline.frames[0].time > 50
    assert {pod.key for pod in timeline.end().pods.values()} == {f"default/p{i}" for i in range(4)} | {"default/large"}
    assert [(mark.what, mark.detail) for mark in timeline.marks] == [("node added", "c")]


def test_waiting_times(recording):
    timeline = recorded_timeline(str(recording), ())
    assert figure(timeline, "wait95")[0] == 0
    assert figure(timeline, "wait95")[-1] == pytest.approx(10, abs=1)
    assert figure(timeline, "waitHalf")[-1] < 1


def test_deciding_with_another_configuration(recording, tmp_path):
    config = tmp_path / PACKING
    config.write_text(PACKED)
    then = recorded_timeline(str(recording), ()).end().pods
    now = rerun_timeline(str(recording), str(config), ()).end().pods
    assert set(now) == set(then)
    small = [f"default/p{i}" for i in range(4)]
    assert len({then[key].node for key in small}) == 2
    assert len({now[key].node for key in small}) == 1


def test_deciding_with_the_same_configuration(recording, tmp_path):
    config = tmp_path / SPREADING
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    then, now = recorded_timeline(str(recording), ()), rerun_timeline(str(recording), str(config), ())
    assert figure(now, "pods")[-1] == figure(then, "pods")[-1]
    assert figure(now, "pending")[-1] == figure(then, "pending")[-1]


def test_folders_without_a_timeline(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        simulated_timeline(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="--no-decisions"):
        simulated_timeline(str(tmp_path))
    (tmp_path / "timeline.jsonl.gz").write_bytes(b"x")
    with pytest.raises(InputError, match="this is not the timeline of a simulation"):
        simulated_timeline(str(tmp_path))
