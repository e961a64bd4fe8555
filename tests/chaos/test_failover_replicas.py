"""Two replicas, of which one leads: whatever becomes of the leader, the other one takes over, and never both bind.

Pods arrive all the time. How long the change took is printed, in lease periods.
"""

import signal
import time
from contextlib import ExitStack

import pytest

from support.chaos.replicas import DURATION, LONG, RETRY, Replicas, pods_arriving, report_gap
from support.examples import SCALE
from support.processes.servers import embedded_server

#: To decide and bind a pod, on a machine that has other things to do.
SLACK = 5.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with embedded_server(tmp_path_factory.mktemp("failover"), "--nodes=30", "--controllers=") as server:
        yield server


@pytest.fixture
def replicas(server, tmp_path):
    with ExitStack() as stack:
        made = Replicas(server, tmp_path, stack)
        yield made
        made.cluster.delete_all_pods()


def ends(process):
    assert process.end() == 0


def is_killed(process):
    process.process.kill()
    process.process.wait()


@pytest.mark.parametrize(
    ("strike", "within"),
    [
        pytest.param(ends, RETRY * 2.2, id="SIGTERM", marks=LONG),
        pytest.param(is_killed, DURATION, id="SIGKILL"),
    ],
)
def test_the_other_takes_over(replicas, strike, within):
    leader, standby = replicas.leader_and_standby()
    with pods_arriving(replicas.cluster) as made:
        replicas.cluster.until(lambda: len(made) > 20 and replicas.lines.binds("a"))
        strike(leader)
        standby.until("Successfully acquired lease")
        replicas.cluster.until(lambda: len(replicas.lines.binds("b")) > 20)
    changes = replicas.check()
    assert [line for _, line in changes] == ["a", "b"]
    report_gap(strike.__name__, replicas.longest_gap())
    assert replicas.longest_gap() <= within + SLACK


def test_a_leader_that_stood_still_binds_nothing_when_it_goes_on(replicas):
    leader, standby = replicas.leader_and_standby()
    with pods_arriving(replicas.cluster) as made:
        replicas.cluster.until(lambda: len(made) > 20 and replicas.lines.binds("a"))
        leader.process.send_signal(signal.SIGSTOP)
        standby.until("Successfully acquired lease")
        replicas.cluster.until(lambda: replicas.lines.binds("b"))
        leader.process.send_signal(signal.SIGCONT)
        assert leader.process.wait(30) == 1
        replicas.cluster.until(lambda: len(replicas.lines.binds("b")) > 20)
    assert leader.messages()[-1] == "Leaderelection lost"
    changes = replicas.check()
    assert [line for _, line in changes] == ["a", "b"]
    report_gap("SIGSTOP", replicas.longest_gap())


@pytest.mark.parametrize("fault", ["cut", pytest.param("go_silent", marks=LONG)])
def test_a_leader_that_does_not_reach_the_api_ends_before_the_other_begins(replicas, fault):
    leader, standby = replicas.leader_and_standby()
    with pods_arriving(replicas.cluster) as made:
        replicas.cluster.until(lambda: len(made) > 20 and replicas.lines.binds("a"))
        getattr(replicas.line_of["a"], fault)()
        standby.until("Successfully acquired lease")
        replicas.line_of["a"].mend()
        assert leader.process.wait(30) == 1
        replicas.cluster.until(lambda: len(replicas.lines.binds("b")) > 20)
    assert leader.messages()[-1] == "Leaderelection lost"
    assert [line for _, line in replicas.check()] == ["a", "b"]
    report_gap(fault, replicas.longest_gap())


def test_two_that_start_at_once_with_many_pods_pending(replicas):
    number = 2000 if SCALE > 1 else 500
    replicas.cluster.create_pods(*(f"pending-{i}" for i in range(number)))
    for name in ("a", "b"):
        replicas.start(name, "--kube-api-qps=-1")
    changes = replicas.check()
    assert len(changes) == 1
    assert {sent.line for sent in replicas.lines.binds()} == {changes[0][1]}
    assert len(replicas.lines.binds()) == number


def test_a_rolling_update_leaves_no_gap_and_loses_no_pod(replicas):
    """One at a time is replaced, as a Deployment does with maxUnavailable 1."""
    running = {"a": replicas.start("a"), "b": replicas.start("b")}
    for process in running.values():
        process.until("Attempting to acquire leader lease")
    with pods_arriving(replicas.cluster) as made:
        replicas.cluster.until(lambda: len(made) > 20 and replicas.lines.binds())
        for old, new in (("a", "c"), ("b", "d")):
            assert running.pop(old).end() == 0
            running[new] = replicas.start(new)
            running[new].until("Attempting to acquire leader lease")
            since = len(replicas.cluster.bound)
            replicas.cluster.until(lambda since=since: len(replicas.cluster.bound) > since + 5)
        end = time.monotonic()
        replicas.cluster.until(lambda: replicas.cluster.bound[-1][0] > end)
    changes = replicas.check()
    assert len(changes) >= 2
    report_gap("rolling update", replicas.longest_gap())
    assert replicas.longest_gap() <= RETRY * 2.2 + SLACK
