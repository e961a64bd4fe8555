"""The process is terminated, or crashes, while binding; whatever the API does, it exits soon.

A pod's termination gives a process thirty seconds. The time taken is printed.
"""

import signal
import time

import pytest

from support.chaos.replicas import LONG, pods_arriving

GRACE = 30.0
NUMBER = 300


def ended(process, what):
    began = time.monotonic()
    code = process.end()
    seconds = time.monotonic() - began
    print(f"\n{what}: {seconds:.2f} s from SIGTERM to the end")
    assert seconds < GRACE
    return code


def holder(replicas):
    names = [record[0] for record in replicas.cluster.records if record[2] == replicas.lease]
    return names[-1]


def events_of(replicas, reason):
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    started = {pod["metadata"]["uid"] for pod in replicas.cluster.pods()}
    events = replicas.cluster.get(path)["items"]
    return [event for event in events if event["reason"] == reason and event["regarding"]["uid"] in started]


def a_successor_binds_the_rest(replicas):
    replicas.start("successor", "--kube-api-qps=-1")
    replicas.check()


def test_binds_behind_a_rate_limit(replicas):
    replicas.cluster.create_pods(*(f"p{i}" for i in range(NUMBER)))
    process = replicas.start("a", "--kube-api-qps=50", "--kube-api-burst=10")
    replicas.line_of["a"].holds = lambda sent: 0.3 if sent.binds else 0.0
    replicas.cluster.until(lambda: len(replicas.cluster.bound) > 5)
    assert ended(process, "binds at 50 a second") == 0
    assert process.messages()[-1] == "Requested to terminate, exiting"
    bound = {name for name, node in replicas.cluster.nodes_of_pods().items() if node}
    assert bound == {sent.binds.split("/")[1] for sent in replicas.lines.binds()}
    assert 0 < len(bound) < NUMBER
    # Completed bindings have events, others do not.
    assert {event["regarding"]["name"] for event in events_of(replicas, "Scheduled")} == bound
    assert events_of(replicas, "FailedScheduling") == []
    assert holder(replicas) == ""
    a_successor_binds_the_rest(replicas)


@pytest.mark.parametrize("fault", [pytest.param("cut", marks=LONG), "go_silent"])
def test_without_an_api_it_exits_in_time(replicas, fault):
    process = replicas.start("a")
    with pods_arriving(replicas.cluster) as made:
        replicas.cluster.until(lambda: len(made) > 20 and replicas.lines.binds("a"))
        getattr(replicas.line_of["a"], fault)()
        assert ended(process, fault) == 0
    assert process.messages()[-1] == "Requested to terminate, exiting"
    a_successor_binds_the_rest(replicas)


def test_a_second_signal_exits_at_once(replicas):
    process = replicas.start("a", "--leader-elect=false")
    with pods_arriving(replicas.cluster) as made:
        replicas.cluster.until(lambda: len(made) > 20 and replicas.lines.binds("a"))
        replicas.line_of["a"].go_silent()
        replicas.cluster.until(lambda: len(made) > len(replicas.cluster.bound) + 5)
    process.process.send_signal(signal.SIGTERM)
    # /readyz fails from the first signal on, while binds without a response are still awaited.
    replicas.cluster.until(lambda: process.ask("/readyz")[0] == 500)
    assert process.process.poll() is None
    assert ended(process, "the second time") == 1
    replicas.line_of["a"].mend()
    replicas.start("successor", "--leader-elect=false")
    replicas.cluster.until_bound()
    replicas.cluster.check()


@pytest.mark.parametrize("lost", ["answers", pytest.param("requests", marks=LONG)])
def test_killed_while_binding_and_restarted(replicas, lost):
    """For some binds it never received a response."""
    process = replicas.start("a")
    line = replicas.line_of["a"]
    if lost == "answers":
        line.loses_answer = lambda sent: bool(sent.binds) and len(replicas.lines.binds()) > 10
    else:
        line.holds = lambda sent: None if sent.binds and len(replicas.lines.binds()) > 10 else 0.0
    replicas.cluster.create_pods(*(f"p{i}" for i in range(60)))
    replicas.cluster.until(lambda: len(replicas.lines.binds()) > 10)
    process.process.kill()
    process.process.wait()
    replicas.cluster.until(lambda: not line.is_open)
    before = sum(1 for node in replicas.cluster.nodes_of_pods().values() if node)
    a_successor_binds_the_rest(replicas)
    sent_again = {sent.binds for sent in replicas.lines.binds("successor")}
    assert len(sent_again) == 60 - before
