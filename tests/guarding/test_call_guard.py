"""Plugins that hang where no event loop turns: `Cluster`, `explain`, `live_testing`."""

import signal
import threading
import time

import pytest

import stowplan
from stowplan.guarding import hang_guard
from stowplan.guarding.hang_guard import CallGuard, PluginTimeoutError
from stowplan.live_testing import live_cluster
from stowplan.plugins import NodeFilterPlugin, NodeScorePlugin, PreBindPlugin
from stowplan.testing import a_node, a_pod

LIMIT = 0.1


class Hangs(NodeFilterPlugin):
    name = "Hangs"
    calls = 0

    def filter_node(self, state, pod, node):
        type(self).calls += 1
        while "hangs" in pod.labels:
            pass


class Binds(PreBindPlugin):
    name = "Hangs"

    async def pre_bind(self, state, pod, node_name):
        while "hangs" in pod.labels:
            pass


CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Hangs"}]}}}],
}
NODE = a_node("n1").obj()
GOOD, BAD = a_pod("good").obj(), a_pod("bad").labels(hangs="yes").obj()


def a_cluster(plugin=Hangs):
    return stowplan.Cluster([NODE], config=CONFIG, plugins=[plugin], plugin_timeout=LIMIT)


def test_a_question_is_answered():
    cluster = a_cluster()
    verdict = cluster.explain(BAD)
    assert 'plugin "Hangs" did not return from Filter within 100ms (test_call_guard.py:' in verdict.error.message
    assert cluster.explain(GOOD).node_name == "n1"


@pytest.mark.parametrize(("plugin", "point"), [(Hangs, "Filter"), (Binds, "PreBind")])
def test_the_others_are_scheduled(plugin, point):
    decisions = {decision.pod.name: decision for decision in a_cluster(plugin).schedule([BAD, GOOD])}
    assert decisions["good"].node_name == "n1"
    assert decisions["bad"].node_name == ""
    assert f"did not return from {point} within 100ms" in decisions["bad"].status.message


def test_live_testing():
    with live_cluster(NODE, config=CONFIG, plugins=[Hangs], plugin_timeout=LIMIT) as cluster:
        cluster.create(BAD, GOOD)
        assert "did not return from Filter within 100ms" in cluster.why_pending("bad")
        assert cluster.node_of("good") == "n1"


def test_what_a_plugin_keeps_at_its_class_is_its_own():
    Hangs.calls = 0
    a_cluster().explain(GOOD)
    assert Hangs.calls == 1


def test_many_pods_that_it_hangs_for_do_not_cost_a_limit_each(monkeypatch):
    # However busy the machine is, all are within the time for which it gets less.
    monkeypatch.setattr(hang_guard, "_SHORTENED_FOR", 1000)
    guard, asked = CallGuard(seconds=LIMIT), []

    def hang():
        asked.append(time.monotonic())
        while True:
            pass

    for _ in range(60):
        with pytest.raises(PluginTimeoutError):
            guard.call("P", "Filter", hang, (), {})
    assert len(asked) == 17
    assert guard.call("Other", "Filter", lambda: "asked", (), {}) == "asked"


def test_nothing_is_left_behind():
    before = signal.getsignal(signal.SIGURG)
    guard = CallGuard(seconds=LIMIT)
    assert guard.call("P", "Filter", divmod, (7, 2), {}) == (3, 1)
    assert signal.getsignal(signal.SIGURG) == before
    deadline = time.monotonic() + 5.0
    while guard._watched and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not guard._watched
    # And begins again.
    with pytest.raises(PluginTimeoutError):
        guard.call("P", "Filter", _forever, (), {})


def _forever():
    while True:
        pass


def test_one_handler_serves_the_calls_of_a_series(monkeypatch):
    """Calls within are broken off as ever; afterwards whoever had the signal has it again."""
    put_in, theirs = [], signal.getsignal(signal.SIGURG)
    as_ever = signal.signal
    monkeypatch.setattr(signal, "signal", lambda *args: put_in.append(args[1]) or as_ever(*args))
    cluster = a_cluster()
    decisions = {decision.pod.name: decision for decision in cluster.schedule([BAD, GOOD])}
    assert decisions["good"].node_name == "n1"
    assert "did not return from Filter" in decisions["bad"].status.message
    assert put_in[1:] == [theirs], "one for the whole list, and given back"
    assert signal.getsignal(signal.SIGURG) == theirs


def test_another_thread_is_left_alone():
    found, guard = [], CallGuard(seconds=0.02)
    thread = threading.Thread(target=lambda: found.append(guard.call("P", "Filter", time.sleep, (0.1,), {})))
    thread.start()
    thread.join()
    assert found == [None]


@pytest.mark.parametrize("score", [0.5, "7", None])
def test_a_score_is_a_whole_number(score):
    class Scores(NodeScorePlugin):
        name = "Hangs"

        def score_node(self, state, pod, node):
            return score

    cluster = stowplan.Cluster([NODE, a_node("n2").obj()], config=CONFIG, plugins=[Scores])
    assert f"want a whole number or a Status, got {score!r}" in cluster.explain(GOOD).error.message
