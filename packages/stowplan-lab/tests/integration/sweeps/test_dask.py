"""Runs on a real local Dask cluster of two workers, one of which is killed."""

from __future__ import annotations

import os
import signal
import warnings

import pytest

from stowplan_lab.compare.comparison import Scheduler, compare
from stowplan_lab.sweeps import DIED, Dask, Processes, run_all
from stowplan_lab.tuning.tune import Effort, tune_scenario
from support.sweeps.behaviour import behave, die_once
from support.sweeps.in_process import InProcessWorkers

WANTED = "the extra dask is not installed"

# Sockets and loops of a cluster whose worker was killed are closed by the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

SCENARIO = """
name: small
duration: 20m
cluster:
  groups:
  - {name: a, count: 3, capacity: {cpu: "4", memory: 16Gi}, price: 1, autoscale: {min: 1, max: 5, boot: 30s, idle: 30s}}
workloads:
- name: batch
  poisson: 10/m
  lifetime: {exponential: 1m}
  manifest: {kind: Pod, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1", memory: 1Gi}}}]}}
"""
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PACKING = """profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


@pytest.fixture(scope="module")
def cluster():
    dask = pytest.importorskip("dask", reason=WANTED)
    distributed = pytest.importorskip("distributed", reason=WANTED)
    with (
        warnings.catch_warnings(action="ignore"),
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def address(cluster):
    return cluster.scheduler_address


@pytest.fixture
def kills(cluster):
    """Kills a worker on its first call."""
    killed = []

    def kill(*_):
        if not killed:
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    yield kill
    assert killed


def results(workers, function, jobs):
    return sorted(run_all(workers, function, jobs), key=lambda outcome: outcome.job)


def test_results_do_not_depend_on_the_worker(address):
    jobs = [3, 1, -2, 5]
    assert results(Dask(address), behave, jobs) == results(Processes(2), behave, jobs)


def test_a_killed_worker_loses_no_result(address, tmp_path):
    found = results(Dask(address), die_once, [str(tmp_path / "a"), str(tmp_path / "a")])
    assert [outcome.error for outcome in found] == ["", ""]
    assert all(outcome.result for outcome in found)


def test_a_run_that_kills_every_worker_fails_alone(address):
    found = results(Dask(address), behave, ["die", 2, 3])
    assert [outcome.result for outcome in found] == [None, 4, 9]
    assert found[0].error == DIED


def test_compare_is_unaffected_by_killed_workers(address, kills, tmp_path):
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "a.yaml").write_text(HEAD)
    (tmp_path / "b.yaml").write_text(HEAD + PACKING)
    schedulers = [Scheduler(str(tmp_path / name)) for name in ("a.yaml", "b.yaml")]
    about = {"names": ("a", "b"), "seeds": (1, 2, 3)}
    found = compare(str(tmp_path / "s.yaml"), schedulers, workers=Dask(address), progress=kills, **about)
    assert found == compare(str(tmp_path / "s.yaml"), schedulers, workers=InProcessWorkers(), **about)
    assert found.seeds == (1, 2, 3)
    assert not found.is_same


def test_tune_is_unaffected_by_killed_workers(address, kills, tmp_path):
    pytest.importorskip("optuna", reason="the extra tune is not installed")
    (tmp_path / "s.yaml").write_text(SCENARIO)
    space = {"profiles": [{"strategy": ["MostAllocated", "LeastAllocated"]}]}
    effort = Effort(trials=3, seeds=2, judged_seeds=2)
    written = []
    for workers, progress in ((Dask(address), kills), (InProcessWorkers(), lambda *_: None)):
        folder = tmp_path / type(workers).__name__
        tune_scenario(
            str(tmp_path / "s.yaml"), folder=folder, space=space, effort=effort, workers=workers, progress=progress
        )
        written.append([(folder / name).read_bytes() for name in ("report.json", "report.html")])
    assert written[0] == written[1]
