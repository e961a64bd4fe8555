"""DefaultPreemption: eligibility, the choice of the node, and messages if there is none."""

import pytest

from stowplan.plugins import FilterPlugin, SignPlugin, error
from stowplan.scheduler.cluster.hypothetical import HypotheticalNodes
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.decision.cycle_steps import run_at_once
from stowplan.scheduler.engine.schedule_one import schedule_pod
from stowplan.scheduler.framework.status import Code
from stowplan.testing import a_node, a_pod
from support.plugins.profiles import framework
from support.scheduling.worlds import budget, state_of, struct

OLD, MIDDLE, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"
WEB = {"matchLabels": {"app": "web"}}


def victim(name, node, priority=0, started=None, cpu="1", **labels):
    pod = a_pod(name).uid(name).priority(priority).requests(cpu=cpu).labels(labels).on(node)
    return pod.started(started) if started else pod


def big(cpu="2"):
    return a_pod("big").priority(100).requests(cpu=cpu)


class UnderWay:
    """Reports that the preemptions by the pods with these keys are in progress."""

    def __init__(self, *keys):
        self.keys = keys

    def under_way(self, pod):
        return pod.key in self.keys


def decide(pod, nodes, placed=(), objects=(), random=None, nominated=()):
    state = state_of(nodes, placed, objects)
    for name, node, priority in nominated:
        state.nominator.add(state.pod_info(struct(a_pod(name).uid(name).priority(priority))), node)
    profile = framework(state)
    profile.handle.random = random
    decision = run_at_once(
        schedule_pod(SchedulingAlgorithm(state, {"default-scheduler": profile}), profile, state.pod_info(struct(pod)))
    )
    return decision, decision.post_filter[-1][1]


def two_nodes():
    return [a_node(name).allocatable(cpu=2) for name in ("a", "b")]


@pytest.mark.parametrize(
    ("placed", "objects", "chosen"),
    [
        pytest.param(
            [victim("a1", "a", 90, cpu="2"), victim("b1", "b", 0, cpu="2", app="web")],
            [budget("all", WEB, 0)],
            "a",
            id="1: fewest violations",
        ),
        pytest.param(
            [victim("a1", "a", 5), victim("a2", "a", 0), victim("b1", "b", 6, cpu="2")],
            [],
            "a",
            id="2: lowest of the most important victims",
        ),
        pytest.param(
            [victim("a1", "a", 5), victim("a2", "a", 4), victim("b1", "b", 5), victim("b2", "b", 3)],
            [],
            "b",
            id="3: lowest sum of priorities",
        ),
        pytest.param(
            [victim("a1", "a", 5), victim("a2", "a", -2147483648), victim("b1", "b", 5, cpu="2")],
            [],
            "b",
            id="4: fewest victims",
        ),
        pytest.param(
            [victim("a1", "a", 5, OLD, cpu="2"), victim("b1", "b", 5, NEW, cpu="2")], [], "b", id="5: latest start"
        ),
        pytest.param(
            [victim("a1", "a", 5, NEW, cpu="2"), victim("b1", "b", 5, cpu="2")], [], "b", id="5: not started is now"
        ),
    ],
)
def test_choice_of_the_node(placed, objects, chosen):
    decision, result = decide(big(), two_nodes(), placed, objects)
    assert (result.status.code, result.nominated_node_name) == (Code.Success, chosen)
    assert decision.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert decision.node_name == ""


def test_ties_are_broken_by_order_or_at_random():
    class Last:
        @staticmethod
        def randrange(stop):
            return stop - 1

    placed = [victim("a1", "a", cpu="2"), victim("b1", "b", cpu="2")]
    assert decide(big(), two_nodes(), placed)[1].nominated_node_name == "a"
    _, result = decide(big(), two_nodes(), placed, random=Last)
    assert result.nominated_node_name == "b"
    assert result.detail.run.best == ["a", "b"]
    assert result.plan.node_name == "b"


def preempted(name, node, priority=0, reason="PreemptionByScheduler", status="True"):
    pod = victim(name, node, priority, cpu="2").deleted(OLD)
    return pod.condition("DisruptionTarget", status, reason=reason)


NEVER = "preemption: not eligible due to preemptionPolicy=Never."
TERMINATING = "preemption: not eligible due to a terminating pod on the nominated node."


@pytest.mark.parametrize(
    ("pod", "placed", "reason"),
    [
        pytest.param(big().never_preempts(), [victim("v", "a", cpu="2")], NEVER, id="never"),
        pytest.param(big().nominated_to("a"), [preempted("v", "a")], TERMINATING, id="its victim is still terminating"),
        pytest.param(big().nominated_to("a"), [victim("v", "a", cpu="2").deleted(OLD)], "", id="terminating by itself"),
        pytest.param(big().nominated_to("a"), [preempted("v", "a", reason="Other")], "", id="for another reason"),
        pytest.param(big().nominated_to("a"), [preempted("v", "a", status="False")], "", id="no longer so"),
        pytest.param(
            big().nominated_to("a"),
            [preempted("v", "a", 100), victim("w", "b", cpu="2")],
            "",
            id="victim of another pod: of equal priority",
        ),
        pytest.param(big().nominated_to("b"), [preempted("v", "a")], "", id="on another node"),
        pytest.param(big().nominated_to("gone"), [preempted("v", "a")], "", id="the node is gone"),
        pytest.param(big("3").nominated_to("a"), [preempted("v", "a")], "", id="the node is no longer possible"),
        pytest.param(big(), [preempted("v", "a")], "", id="no nomination"),
    ],
)
def test_eligibility(pod, placed, reason):
    nodes = [a_node("a").allocatable(cpu=2), a_node("b").allocatable(cpu=1)]
    _, result = decide(pod, nodes, placed)
    if reason:
        assert (result.status.code, result.status.message) == (Code.Unschedulable, reason)
        assert result.nominated_node_name is None, "the nomination changed"
        assert result.detail.ineligible_reason == reason.removeprefix("preemption: ")
    else:
        assert "not eligible" not in result.status.message


@pytest.mark.parametrize(
    ("nodes", "placed", "message"),
    [
        pytest.param(
            [a_node("a").allocatable(cpu=1), a_node("b").tainted("x")],
            [],
            "0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            id="no node that eviction could help",
        ),
        pytest.param(
            [a_node("a").allocatable(cpu=2), *(a_node(n).allocatable(cpu=1) for n in "bcd")],
            [victim("v", "a", 100, cpu="2")],
            "0/4 nodes are available: 1 No preemption victims found for incoming pod, "
            "3 Preemption is not helpful for scheduling.",
            id="no pod of lower priority",
        ),
        pytest.param(
            [a_node("a").allocatable(cpu=2)],
            [victim("v", "a", 100), victim("w", "a", 0)],
            "0/1 nodes are available: 1 Insufficient cpu.",
            id="not enough, even without all lesser pods",
        ),
    ],
)
def test_when_there_is_no_candidate(nodes, placed, message):
    decision, result = decide(big(), nodes, placed)
    assert (result.status.code, result.status.message) == (Code.Unschedulable, f"preemption: {message}")
    assert result.nominated_node_name == "", "a useless nomination was kept"
    assert decision.message.endswith(f" preemption: {message}")


def test_the_result_is_an_eviction_plan():
    placed = [victim("v", "a", cpu="2", app="web"), victim("important", "b", 200, cpu="2")]
    decision, result = decide(big(), two_nodes(), placed, [budget("all", WEB, 0)])
    assert result.nominated_node_name == "a"
    plan = decision.plan
    assert (plan.preemptor, plan.node_name, plan.plugin) == (decision.pod, "a", "DefaultPreemption")
    assert ([v.uid for v in plan.victims], plan.pdb_violations) == (["v"], 1)


@pytest.mark.parametrize(
    ("pod", "priority"),
    [
        pytest.param(big().never_preempts(), 0, id="not eligible"),
        pytest.param(big(), 100, id="no candidate"),
    ],
)
def test_without_a_choice_there_is_no_plan(pod, priority):
    decision, _ = decide(pod, [a_node("a").allocatable(cpu=2)], [victim("v", "a", priority, cpu="2")])
    assert decision.plan is None


@pytest.mark.parametrize(
    "told",
    [
        pytest.param("", id="the API server does not know of the nomination yet"),
        pytest.param("a", id="it has"),
        pytest.param("b", id="it knows an older one"),
    ],
)
def test_a_nomination_in_memory_counts(told):
    """Its victims are terminating: more must not be evicted because a status was written late."""
    placed = [preempted("v", "a"), victim("w", "b", cpu="2")]
    pod = big().uid("big").nominated_to(told) if told else big().uid("big")
    _, result = decide(pod, two_nodes(), placed, nominated=[("big", "a", 100)])
    assert (result.status.message, result.plan) == (TERMINATING, None)
    assert result.nominated_node_name == "a", "the nomination was lost"


def test_a_nomination_outlives_a_failed_dry_run():
    class Breaks(FilterPlugin, SignPlugin):
        name = "Breaks"

        def sign_pod(self, pod):
            return {}

        def filter(self, state, pod, nodes):
            return error("broken") if isinstance(nodes, HypotheticalNodes) else None

    state = state_of([a_node("a").allocatable(cpu=2)], [victim("v", "a", cpu="2")])
    profile = framework(state, Breaks)
    pod = state.pod_info(struct(big().uid("big")))
    state.nominator.add(pod, "a")
    decision = run_at_once(schedule_pod(SchedulingAlgorithm(state, {"default-scheduler": profile}), profile, pod))
    _, result = decision.post_filter[-1]
    assert (result.status.code, result.nominated_node_name) == (Code.Error, "a")
    assert result.status.message.startswith("preemption: ")


def test_a_pod_is_gated_during_its_preemption(bench):
    from stowplan.scheduler.in_tree.default_preemption.plugin import DefaultPreemption

    world = bench(DefaultPreemption)
    world.handle.preemptions = UnderWay("default/big")
    status = world.plugin.pre_enqueue(world.pod(big()))
    assert (status.code, status.message) == (
        Code.UnschedulableAndUnresolvable,
        "waiting for the preemption for this pod to be finished",
    )
    assert world.plugin.pre_enqueue(world.pod(a_pod("other"))) is None
