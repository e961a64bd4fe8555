"""Two replicas with one leader: whatever happens to the leader, the other takes over, and they never bind at the same
time.

Pods arrive all the time. The time of each failover is printed, in lease periods.
"""

import signal
import time

import pytest

from support.chaos.replicas import DURATION, LONG, RETRY, pods_arriving, report_gap
from support.examples import SCALE

#: Time to decide and bind a pod on a busy machine.
SLACK = 5.0


def is_terminated(process):
    assert process.end() == 0


def is_killed(process):
    process.process.kill()
    process.process.wait()


@pytest.mark.parametrize(
    ("strike", "within"),
    [
        pytest.param(is_terminated, RETRY * 2.2, id="SIGTERM", marks=LONG),
        pytest.param(is_killed, DURATION, id="SIGKILL"),
    ],
)
def test_the_standby_takes_over(replicas, strike, within):
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


def test_a_leader_that_was_stopped_binds_nothing_when_it_continues(replicas):
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
def test_a_leader_without_api_access_exits_before_the_other_leads(replicas, fault):
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


def test_two_replicas_start_at_once_with_many_pending_pods(replicas):
    number = 2000 if SCALE > 1 else 500
    replicas.cluster.create_pods(*(f"pending-{i}" for i in range(number)))
    for name in ("a", "b"):
        replicas.start(name, "--kube-api-qps=-1")
    changes = replicas.check()
    assert len(changes) == 1
    assert {sent.line for sent in replicas.lines.binds()} == {changes[0][1]}
    assert len(replicas.lines.binds()) == number


def test_a_rolling_update_leaves_no_gap_and_loses_no_pod(replicas):
    """Replicas are replaced one at a time, as by a Deployment with maxUnavailable 1."""
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
