"""Which changes of a pod are printed, and how many lines are printed when there are many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.ask.explain.text.tables import plain
from stowplan.kube.api.decode import decode_object
from stowplan_cluster.apiserver.api_server import ApiServer
from stowplan_cluster.commands.pod_changes import (
    SHOWN,
    ChangeReporter,
    Placed,
    Preempted,
    Unschedulable,
    change_of,
    change_spans,
)
from support.api import manifests
from support.examples import examples


def a_pod(node="", **conditions):
    """Conditions are type=(status, reason, message)."""
    manifest = manifests.pod(**({"nodeName": node} if node else {}))
    manifest["status"] = {
        "conditions": [
            {"type": type_, "status": status, "reason": reason, "message": message}
            for type_, (status, reason, message) in conditions.items()
        ]
    }
    return decode_object(manifest)


FRESH = a_pod()
WAITING = a_pod(PodScheduled=("False", "Unschedulable", "no room"))
ELSEWISE = a_pod(PodScheduled=("False", "Unschedulable", "no light"))
GATED = a_pod(PodScheduled=("False", "SchedulingGated", "gated"))
BOUND = a_pod("n1", PodScheduled=("True", "", ""))
PREEMPTED = a_pod("n1", DisruptionTarget=("True", "PreemptionByScheduler", "room is needed"))
EVICTED = a_pod("n1", DisruptionTarget=("True", "EvictionByEvictionAPI", "drained"))


@pytest.mark.parametrize(
    ("before", "pod", "news"),
    [
        pytest.param(None, FRESH, None, id="created"),
        pytest.param(None, BOUND, Placed("n1"), id="seen first on a node"),
        pytest.param(FRESH, BOUND, Placed("n1"), id="bound"),
        pytest.param(WAITING, BOUND, Placed("n1"), id="bound after waiting"),
        pytest.param(BOUND, BOUND, None, id="still on its node"),
        pytest.param(FRESH, WAITING, Unschedulable("no room"), id="refused"),
        pytest.param(WAITING, WAITING, None, id="refused again"),
        pytest.param(WAITING, ELSEWISE, Unschedulable("no light"), id="refused for another reason"),
        pytest.param(FRESH, GATED, None, id="gated"),
        pytest.param(BOUND, PREEMPTED, Preempted("n1"), id="preempted"),
        pytest.param(PREEMPTED, PREEMPTED, None, id="still preempted"),
        pytest.param(BOUND, EVICTED, None, id="evicted by another client"),
    ],
)
def test_which_changes_are_printed(before, pod, news):
    assert change_of(before, pod) == news


@pytest.mark.parametrize(
    ("pods", "news", "line"),
    [
        (["a/b"], Placed("n1"), "a/b → n1"),
        (["a/b"], Preempted("n1"), "a/b gives way on n1"),
        (["a/b"], Unschedulable("no room"), "a/b waits: no room"),
        (["a/b", "a/c", "a/d"], Unschedulable("no room"), "a/b and 2 more wait: no room"),
    ],
)
def test_lines(pods, news, line):
    assert "".join(text for text, _ in change_spans(pods, news)) == line


class Terminal:
    """Collects the printed lines, one batch per call of `pass_time`."""

    def __init__(self):
        self.server = ApiServer(clock=lambda: 0.0)
        self.told = []
        self.alarms = []
        news = ChangeReporter(self._tell, lambda seconds, alarm: self.alarms.append(alarm))
        self.server.store.on_change(news.observe)

    def _tell(self, lines):
        self.told.append(plain(lines).splitlines())

    def create(self, *names):
        for name in names:
            self.server.create_all([manifests.pod(name)])

    def bind(self, name, node):
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self.server.registry.bind("default", name, binding)

    def refuse(self, name, why):
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
        resource = self.server.registry.of_storage("pods")
        patch = {"status": {"conditions": [condition]}}
        self.server.registry.patch(resource, "default", name, patch, kind="strategic", subresource="status")

    def pass_time(self):
        """The lines about what happened since the last call; there is one timer for all changes, and none without
        changes."""
        alarms, self.alarms[:] = list(self.alarms), []
        for alarm in alarms:
            alarm()
        told, self.told = self.told, []
        assert len(alarms) == len(told) <= 1
        return told[0] if told else []


def test_one_line_per_pod():
    terminal = Terminal()
    terminal.create("a", "b")
    assert terminal.pass_time() == []
    terminal.bind("a", "n1")
    terminal.refuse("b", "no room")
    terminal.refuse("b", "no room")
    assert terminal.pass_time() == ["default/a → n1", "default/b waits: no room"]
    terminal.refuse("b", "no light")
    assert terminal.pass_time() == ["default/b waits: no light"]


def test_waiting_pods_are_grouped():
    terminal = Terminal()
    terminal.create("a", "b", "c", "d")
    for name, why in zip("abcd", ("no room", "no light", "no room", "no room"), strict=True):
        terminal.refuse(name, why)
    assert terminal.pass_time() == ["default/a and 2 more wait: no room", "default/b waits: no light"]


@given(st.lists(st.booleans(), max_size=3 * SHOWN))
@examples(20)
def test_many_pods_are_summarized(bound):
    terminal = Terminal()
    names = [f"p-{number}" for number in range(len(bound))]
    terminal.create(*names)
    for name, is_bound in zip(names, bound, strict=True):
        if is_bound:
            terminal.bind(name, "n1")
    lines = terminal.pass_time()
    placed = sum(bound)
    assert len(lines) == min(placed, SHOWN + 1)
    if placed > SHOWN:
        noun = "pod" if placed == SHOWN + 1 else "pods"
        assert lines[-1] == f"… and the like of {placed - SHOWN} {noun} more"
