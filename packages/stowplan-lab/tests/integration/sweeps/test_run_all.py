"""Runs in processes: results do not depend on them, and a process that dies fails only its run."""

from __future__ import annotations

import os
import time

import pytest

import stowplan_lab.sweeps as workers
from stowplan_lab.sweeps import DIED, Dask, Outcome, Processes, ReusedWorkers, WorkersError, run_all
from support.sweeps.behaviour import SLEEP, behave


def outcomes(on, jobs):
    return sorted(run_all(on, behave, jobs), key=lambda outcome: outcome.job)


def test_every_job_has_an_outcome():
    found = outcomes(Processes(2), [1, 2, 3, -4])
    assert found == [Outcome(0, 1), Outcome(1, 4), Outcome(2, 9), Outcome(3, error="-4 is negative")]


def test_a_process_that_dies_fails_only_its_run():
    found = outcomes(Processes(2), [1, "die", 3, 4, 5])
    assert [outcome.result for outcome in found] == [1, None, 9, 16, 25]
    assert found[1].error == DIED


def test_an_executor_is_kept_until_it_breaks():
    with ReusedWorkers(Processes(1)) as kept:
        (first,), (second,) = (outcomes(kept, ["pid"]) for _ in range(2))
        assert first == second
        assert first.result != os.getpid()
        assert outcomes(kept, ["die"])[0].error == DIED
        (third,) = outcomes(kept, ["pid"])
        assert third.result not in (first.result, os.getpid())


def test_an_interrupt_does_not_wait_for_runs():
    def interrupted():
        with ReusedWorkers(Processes(1)) as kept:
            for _ in run_all(kept, behave, [1, "sleep"]):
                raise KeyboardInterrupt

    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - begin < SLEEP / 2


def test_no_jobs():
    assert outcomes(Processes(1), []) == []


def test_dask_is_not_installed(monkeypatch):
    monkeypatch.setattr(workers, "DASK_TIMEOUT", 0.2)
    with pytest.raises(WorkersError, match=r"--dask needs the package|cannot be reached"):
        outcomes(Dask("tcp://127.0.0.1:1"), [1])
