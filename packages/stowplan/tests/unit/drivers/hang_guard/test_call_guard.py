"""Plugins that hang without a running event loop: `Cluster`, `explain`, `live_testing`."""

import signal
import threading
import time

import pytest

import stowplan
from stowplan.drivers.hang_guard import hang_guard
from stowplan.drivers.hang_guard.hang_guard import CallGuard, PluginTimeoutError
from stowplan.plugins import NodeFilterPlugin, NodeScorePlugin, PreBindPlugin
from stowplan.testing import a_node, a_pod
from stowplan.testing.live import live_cluster
from support.plugins.answering_plugins import configuration

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


CONFIG = configuration({"plugins": {"multiPoint": {"enabled": [{"name": "Hangs"}]}}})
NODE = a_node("n1").obj()
GOOD, BAD = a_pod("good").obj(), a_pod("bad").labels(hangs="yes").obj()


def a_cluster(plugin=Hangs):
    return stowplan.Cluster([NODE], config=CONFIG, plugins=[plugin], plugin_timeout=LIMIT)


def test_questions_have_an_answer():
    cluster = a_cluster()
    verdict = cluster.explain(BAD)
    assert 'plugin "Hangs" did not return from Filter within 100ms (test_call_guard.py:' in verdict.error.message
    assert cluster.explain(GOOD).node_name == "n1"


@pytest.mark.parametrize(("plugin", "point"), [(Hangs, "Filter"), (Binds, "PreBind")])
def test_other_pods_are_scheduled(plugin, point):
    decisions = {decision.pod.name: decision for decision in a_cluster(plugin).schedule([BAD, GOOD])}
    assert decisions["good"].node_name == "n1"
    assert decisions["bad"].node_name == ""
    assert f"did not return from {point} within 100ms" in decisions["bad"].status.message


def test_live_testing():
    with live_cluster(NODE, config=CONFIG, plugins=[Hangs], plugin_timeout=LIMIT) as cluster:
        cluster.create(BAD, GOOD)
        assert "did not return from Filter within 100ms" in cluster.why_pending("bad")
        assert cluster.node_of("good") == "n1"


def test_class_attributes_of_plugins_are_kept():
    Hangs.calls = 0
    a_cluster().explain(GOOD)
    assert Hangs.calls == 1


def test_repeated_hangs_share_a_limit(monkeypatch):
    # Even on a busy machine all calls are within the interval of the reduced limit.
    monkeypatch.setattr(hang_guard, "_SHORTENED_FOR", 1000)
    guard, asked = CallGuard(seconds=LIMIT), []

    def hang():
        asked.append(time.monotonic())
        while True:
            pass

    for _ in range(60):
        with pytest.raises(PluginTimeoutError):
            guard.call("P", "Filter", hang)
    assert len(asked) == 17
    assert guard.call("Other", "Filter", lambda: "asked") == "asked"


def test_the_signal_handler_is_removed():
    before = signal.getsignal(signal.SIGURG)
    guard = CallGuard(seconds=LIMIT)
    assert guard.call("P", "Filter", divmod, 7, 2) == (3, 1)
    assert signal.getsignal(signal.SIGURG) == before
    deadline = time.monotonic() + 5.0
    while guard._watched and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not guard._watched
    # And starts again.
    with pytest.raises(PluginTimeoutError):
        guard.call("P", "Filter", _forever)


def _forever():
    while True:
        pass


def test_a_series_of_calls_installs_one_handler(monkeypatch):
    """Nested calls are still interrupted; afterwards the previous signal handler is restored."""
    put_in, theirs = [], signal.getsignal(signal.SIGURG)
    as_ever = signal.signal
    monkeypatch.setattr(signal, "signal", lambda *args: put_in.append(args[1]) or as_ever(*args))
    cluster = a_cluster()
    decisions = {decision.pod.name: decision for decision in cluster.schedule([BAD, GOOD])}
    assert decisions["good"].node_name == "n1"
    assert "did not return from Filter" in decisions["bad"].status.message
    assert put_in[1:] == [theirs], "not one handler for the whole list, or not restored"
    assert signal.getsignal(signal.SIGURG) == theirs


def test_other_threads_are_not_guarded():
    found, guard = [], CallGuard(seconds=0.02)
    thread = threading.Thread(target=lambda: found.append(guard.call("P", "Filter", time.sleep, 0.1)))
    thread.start()
    thread.join()
    assert found == [None]


@pytest.mark.parametrize("score", [0.5, "7", None])
def test_scores_must_be_integers(score):
    class Scores(NodeScorePlugin):
        name = "Hangs"

        def score_node(self, state, pod, node):
            return score

    cluster = stowplan.Cluster([NODE, a_node("n2").obj()], config=CONFIG, plugins=[Scores])
    assert f"want a whole number or a Status, got {score!r}" in cluster.explain(GOOD).error.message
