"""The process' wall clock is set while it is working: it keeps the lease, and no counter or duration goes backwards.

libfaketime sets the clock: like a real change, it moves the wall clock and not the monotonic one.
"""

import os
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.chaos.witness import Witness
from support.processes.scheduler_process import ADMIN, kube_scheduler
from support.processes.servers import embedded_server

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
SHORT_LEASE = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
)
#: Clock offsets, one after another: forwards, back to before the start, and to the original time.
OFFSETS = ("+3600", "-3600", "+0")
#: Pods created between two jumps; the Lease is renewed meanwhile.
PODS = 5
GROWING = re.compile(r"_(total|bucket|count|sum)(\{|$)")

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed")


class WallClock:
    def __init__(self, folder):
        self._file, self._new = folder / "offset", folder / "offset.new"
        self.set("+0")
        self.environment = {
            **os.environ,
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_NO_CACHE": "1",
        }

    def set(self, offset):
        self._new.write_text(offset + "\n")
        self._new.replace(self._file)


def metrics(scheduler):
    status, _, body = scheduler.ask("/metrics", who=ADMIN)
    assert status == 200
    pairs = (line.rpartition(" ") for line in body.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, _, value in pairs}


def went_backwards(before, after):
    return {
        series: (before[series], value)
        for series, value in after.items()
        if GROWING.search(series) and value < before.get(series, 0.0)
    }


def test_the_clock_is_set_while_pods_come(tmp_path):
    clock = WallClock(tmp_path)
    with ExitStack() as stack:
        server = stack.enter_context(embedded_server(tmp_path, "--nodes=4", "--controllers="))
        witness = stack.enter_context(Witness(server.kubeconfig))
        scheduler = stack.enter_context(
            kube_scheduler(tmp_path, server.kubeconfig, *SHORT_LEASE, env=clock.environment)
        )
        scheduler.until("Successfully acquired lease")
        before = metrics(scheduler)
        for number, offset in enumerate(OFFSETS):
            clock.set(offset)
            renewed = len(witness.records)
            names = [f"p{number}-{i}" for i in range(PODS)]
            witness.create_pods(*names)
            witness.until_bound(*names)
            # Twice: the first renewal may have been in progress when the clock was set.
            witness.until(lambda renewed=renewed: len(witness.records) >= renewed + 2)
            after = metrics(scheduler)
            assert not went_backwards(before, after)
            assert not [series for series, value in after.items() if value < 0]
            assert after['leader_election_master_status{name="kube-scheduler"}'] == 1
            before = after
        hours = {renewed[:13] for _, renewed, _ in witness.records if renewed}
        assert len(hours) >= len(OFFSETS), "the process has seen the clock jump"
        assert len({holder for holder, _, _ in witness.records if holder}) == 1
        witness.check_all_bound_except()
        assert not scheduler.said("Traceback")
        assert scheduler.end() == 0
