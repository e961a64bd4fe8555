"""Runs on a real local Dask cluster of two workers, one of which is killed."""

from __future__ import annotations

import warnings

import pytest

from stowplan.sweeps.run_all import DIED, run_all
from stowplan.sweeps.workers import Dask, Processes
from support.sweeps.behaviour import behave, die_once

dask = pytest.importorskip("dask", reason="needs the extra dask")
distributed = pytest.importorskip("distributed", reason="needs the extra dask")

# Sockets and loops of a cluster whose worker was killed are closed when they are collected.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def address():
    with (
        warnings.catch_warnings(action="ignore"),
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
    ):
        yield cluster.scheduler_address


def results(workers, function, jobs):
    return sorted(run_all(workers, function, jobs), key=lambda outcome: outcome.job)


def test_results_do_not_depend_on_where_they_ran(address):
    jobs = [3, 1, -2, 5]
    assert results(Dask(address), behave, jobs) == results(Processes(2), behave, jobs)


def test_a_worker_that_is_killed_costs_nothing_but_time(address, tmp_path):
    found = results(Dask(address), die_once, [str(tmp_path / "a"), str(tmp_path / "a")])
    assert [outcome.error for outcome in found] == ["", ""]
    assert all(outcome.result for outcome in found)


def test_a_run_that_kills_every_worker_costs_itself_only(address):
    found = results(Dask(address), behave, ["die", 2, 3])
    assert [outcome.result for outcome in found] == [None, 4, 9]
    assert found[0].error == DIED
