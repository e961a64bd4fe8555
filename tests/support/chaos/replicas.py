"""Replicas of the scheduler that contend for a lease while pods arrive.

Each replica records its inputs. When all have exited, for whatever reason, each recording is replayed.
"""

import threading
from contextlib import contextmanager
from itertools import count, pairwise

import pytest

from support.chaos.lines import Lines
from support.chaos.outside_view import Cluster
from support.examples import SCALE
from support.processes.recorded_scheduler import PROGRAM, recording_to, replayed
from support.processes.scheduler_process import kube_scheduler

#: Seconds; the shortest values that a busy machine keeps up with.
DURATION, DEADLINE, RETRY = 4.0, 3.0, 0.5
_NUMBERS = count(1)

#: Tests that are too slow for every run.
LONG = pytest.mark.skipif(SCALE == 1, reason="slow: STOWPLAN_EXAMPLES=2 runs it")


class Replicas:
    """Schedulers that share a lease, each on a line of its own; the first one leads."""

    def __init__(self, server, folder, stack):
        #: Each scheduler, and the file of its recording.
        self._recorded = []
        # Registered first, so it runs last: once the processes have exited.
        stack.callback(self._replay)
        self.lease = f"failover-{next(_NUMBERS)}"
        self.cluster = stack.enter_context(Cluster(server.kubeconfig))
        self.lines = stack.enter_context(Lines(server.kubeconfig, folder))
        self._folder = folder
        self._stack = stack
        self.line_of = {}

    def start(self, name, *arguments, clients=None, kubeconfig=None):
        """`kubeconfig`: derives the process' kubeconfig from the line's."""
        line = self.line_of[name] = self.lines.new(name, clients=clients)
        if kubeconfig is not None:
            kubeconfig(line)
        recording = self._folder / f"{name}.recording"
        started = self._stack.enter_context(
            kube_scheduler(
                self._folder,
                line.kubeconfig,
                f"--leader-elect-lease-duration={DURATION}s",
                f"--leader-elect-renew-deadline={DEADLINE}s",
                f"--leader-elect-retry-period={RETRY}s",
                f"--leader-elect-resource-name={self.lease}",
                "-v=2",
                *arguments,
                name=name,
                program=PROGRAM,
                env=recording_to(recording),
            )
        )

        self._recorded.append((started, recording))
        return started

    def _replay(self):
        for scheduler, recording in self._recorded:
            was_killed = scheduler.process.returncode != 0
            if was_killed and not recording.stat().st_size:
                # Killed before the first lines were written.
                continue
            steps, whole = replayed(recording)
            print(f"{recording.name}: {steps} steps played again")
            # A process that was killed may have written the header only: lines are written in batches.
            assert steps or was_killed
            assert whole or was_killed

    def leader_and_standby(self):
        leader = self.start("a")
        leader.until("Successfully acquired lease")
        standby = self.start("b")
        standby.until("Attempting to acquire leader lease")
        return leader, standby

    def check(self, *, patience=DURATION):
        self.cluster.until_bound()
        self.cluster.check()
        return self.cluster.check_leaders(self.lines, lease=self.lease, patience=patience)

    def longest_gap(self):
        """The longest time without any binding, in seconds."""
        times = [at for at, _, _ in self.cluster.bound]
        return max(later - sooner for sooner, later in pairwise(times))


@contextmanager
def pods_arriving(cluster, every=0.02):
    """A thread that creates pods at intervals; the list has those created so far."""
    made, over = [], threading.Event()

    def create():
        while not over.is_set():
            name = f"arriving-{len(made)}"
            cluster.create_pods(name)
            made.append(name)
            over.wait(every)

    thread = threading.Thread(target=create)
    thread.start()
    try:
        yield made
    finally:
        over.set()
        thread.join(30)


def report_gap(what, gap):
    print(f"\n{what}: {gap:.2f} s without a binding, {gap / DURATION:.2f} lease periods")
