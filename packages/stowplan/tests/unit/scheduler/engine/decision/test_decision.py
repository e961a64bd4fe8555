"""A decision's results besides the node: nominations, plugins, counts, and the attempt's state."""

import pytest

from stowplan.plugins import NodeFilterPlugin, PostFilterPlugin, PostFilterResult, Reads, ShapeSigned, unschedulable
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.decision.decision import Decision
from stowplan.scheduler.engine.schedule_one import schedule_pod
from stowplan.scheduler.framework.status import Code, Status
from stowplan.testing import a_node, a_pod
from support.plugins.profiles import framework
from support.plugins.raised import in_short
from support.scheduling.worlds import state_of, struct


def a_scheduler(*plugins, nodes=4, cpu="4", random=None, first=False):
    state = state_of(a_node(f"n{i}").allocatable(cpu=cpu) for i in range(nodes))
    profile = framework(state, *plugins, first=first)
    return SchedulingAlgorithm(state, {"default-scheduler": profile}, random=random), profile


def schedule(scheduler, profile, pod=None):
    return run_at_once(
        schedule_pod(scheduler, profile, scheduler.cluster.pod_info(struct(pod or a_pod().requests(cpu="1"))))
    )


# -- nominations ------------------------------------------------------------------------------------------------------

CLEARED, LEFT = "", None


def result(code, node, text="no"):
    error = RuntimeError(text) if code == Code.Error else None
    status = Status(code, () if error or code == Code.Success else (text,), error=error)
    return PostFilterResult(status, node)


@pytest.mark.parametrize(
    ("results", "nomination"),
    [
        pytest.param((), CLEARED, id="no PostFilter plugin"),
        pytest.param((result(Code.Success, "n1"),), "n1", id="success"),
        pytest.param((result(Code.Success, None),), LEFT, id="success without a nomination"),
        pytest.param((result(Code.Unschedulable, ""),), CLEARED, id="no candidate"),
        pytest.param((result(Code.Unschedulable, None),), LEFT, id="not eligible"),
        pytest.param((result(Code.Error, None),), LEFT, id="an error"),
        pytest.param((result(Code.Error, "n1"),), LEFT, id="an error makes no nomination"),
        pytest.param((result(Code.Unschedulable, ""), result(Code.Error, None)), LEFT, id="an error later on"),
        pytest.param(
            (result(Code.Unschedulable, ""), result(Code.Unschedulable, None)), CLEARED, id="the last with a nomination"
        ),
        pytest.param((result(Code.Unschedulable, "n1"), result(Code.Pending, "")), CLEARED, id="the last of two"),
        pytest.param((result(Code.UnschedulableAndUnresolvable, "n1"),), "n1", id="unresolvable is final"),
        pytest.param(
            (result(Code.Unschedulable, ""), result(Code.UnschedulableAndUnresolvable, None)),
            LEFT,
            id="unresolvable without a nomination",
        ),
    ],
)
def test_the_nomination(results, nomination):
    named = tuple((f"plugin {i}", result) for i, result in enumerate(results))
    assert Decision(None, post_filter=named).nominated_node_name == nomination


class Helps(PostFilterPlugin):
    name = "Helps"
    answer = PostFilterResult(unschedulable("helps not"))

    def post_filter(self, state, pod, diagnosis):
        if self.answer is None:
            raise RuntimeError("broken")
        return self.answer


SUFFIX = "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."


@pytest.mark.parametrize(
    ("answer", "suffix", "nomination"),
    [
        pytest.param(
            PostFilterResult(unschedulable("a", "b")),
            f"no new claims to deallocate, {SUFFIX}, a, b",
            CLEARED,
            id="rejected",
        ),
        pytest.param(result(Code.Error, "n1", "no API"), "no API", LEFT, id="an error"),
        pytest.param(None, 'running PostFilter plugin "Helps": broken', LEFT, id="raised"),
        pytest.param(
            result(Code.UnschedulableAndUnresolvable, None, "hopeless"), "hopeless", LEFT, id="unresolvable is final"
        ),
        pytest.param(result(Code.Success, "n1"), "", "n1", id="helped"),
    ],
)
def test_post_filters_message_is_in_the_status(answer, suffix, nomination, monkeypatch):
    monkeypatch.setattr(Helps, "answer", answer)
    decision = schedule(*a_scheduler(Helps), a_pod().requests(cpu="5"))
    assert decision.status.code == Code.Unschedulable
    assert in_short(decision.message) == f"0/4 nodes are available: 4 Insufficient cpu. {suffix}".rstrip()
    assert decision.nominated_node_name == nomination


# -- plugins, counts and state ----------------------------------------------------------------------------------------


class Waits(NodeFilterPlugin, ShapeSigned):
    name = "Waits"
    reads = Reads.NODES

    def filter_node(self, state, pod, node):
        state.write("Waits", "was here")
        return Status(Code.Pending, ("later",)) if node.name in ("n0", "n1") else None


def test_pending_plugins_are_distinguished_from_rejecting_ones():
    decision = schedule(*a_scheduler(Waits, first=True), a_pod().requests(cpu="5"))
    assert decision.pending_plugins == {"Waits"}
    assert decision.unschedulable_plugins == {"Waits", "NodeResourcesFit"}
    assert Decision(None).pending_plugins == frozenset()


@pytest.mark.parametrize(
    ("pod", "evaluated", "feasible"),
    [
        pytest.param(a_pod(), 4, 2, id="some"),
        pytest.param(a_pod().requests(cpu="5"), 4, 0, id="none"),
        pytest.param(a_pod().nominated_to("n3"), 1, 1, id="the nominated one"),
        pytest.param(a_pod().nominated_to("n1"), 4, 2, id="not the nominated one"),
        pytest.param(a_pod().claims_volume("missing"), 0, 0, id="refused as a whole"),
    ],
)
def test_counts_of_evaluated_and_feasible_nodes(pod, evaluated, feasible):
    decision = schedule(*a_scheduler(Waits), pod)
    assert (decision.evaluated, decision.feasible) == (evaluated, feasible)


def test_without_nodes_no_plugin_is_called():
    decision = schedule(*a_scheduler(nodes=0))
    assert (decision.state, decision.message) == (None, "no nodes available to schedule pods")
    assert decision.status.code == Code.UnschedulableAndUnresolvable
    assert decision.nominated_node_name == CLEARED
