"""Carrying out a preemption: which pods are evicted, how, in which order, and when it is cancelled.

The API server is the embedded one. Tests decide when the scheduler sees its changes, so every lag can be tested.
"""

import pytest

from stowplan.kube.api.api_errors import Conflict, Forbidden, NotFound
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import PodCondition
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.scheduler.engine.eviction.victim_evictions import MAX_CONCURRENT_EVICTIONS
from stowplan.scheduler.framework.eviction_plan import EvictionPlan, GroupEvictionPlan
from stowplan.scheduler.framework.requests import Refused
from stowplan.testing import a_pod
from support.observing.log_lines import logged
from support.observing.metrics import numbers
from support.scheduling.evicting import PLUGIN, World
from support.scheduling.groups import a_group, member
from support.scheduling.worlds import struct

REFUSED = Forbidden("no")


@pytest.fixture
def world():
    made = World()
    yield made
    made.calls.close()


# -- metrics since 1.37 -----------------------------------------------------------------------------------------------


def victim_of(world, name, group):
    pod = member(name, group, nodeName="n1") if group else a_pod(name).on("n1")
    return world.state.pod_info(struct(pod))


#: Who preempts, groups of the victims ("": none), violated budgets, and units of groups. After TestPrepareCandidate in
#: pkg/scheduler/framework/preemption/executor_test.go, with what makes up a unit.
DISRUPTIONS = [
    ("pod", ["", ""], 3, 0),
    ("pod", ["whole", "whole"], 0, 1),
    ("podgroup", ["whole", "single", "single", "absent", ""], 0, 4),
    ("podgroup", ["whole"], 1, 1),
]


@pytest.mark.parametrize(("preemptor", "groups", "budgets", "units"), DISRUPTIONS)
def test_disruptions_of_groups_and_budgets_are_counted(world, preemptor, groups, budgets, units):
    for group in (a_group("whole", mode={"all": {}}), a_group("single", mode={"single": {}})):
        world.state.put_object(struct(group))
    boss = world.pending("boss")
    victims = tuple(victim_of(world, f"v{i}", group) for i, group in enumerate(groups))
    what = {"victims": victims, "plugin": PLUGIN, "pdb_violations": budgets}
    if preemptor == "pod":
        plan = EvictionPlan(preemptor=boss, node_name="n1", **what)
    else:
        plan = GroupEvictionPlan(group=struct(a_group("new", mode={"single": {}})), pods=(boss,), **what)
    world.evictions.carry_out(plan, world.recorder)
    metrics = world.metrics
    assert metrics.preemption_pdb_violations_total.with_label_values(preemptor).value == budgets
    assert metrics.preemption_workload_disruptions.with_label_values(preemptor).sum == units
    sums = metrics.preemption_victims.sum, metrics.workload_preemption_victims.sum
    assert sums == ((len(victims), 0) if preemptor == "pod" else (0, len(victims)))
    world.settle()
    assert [labels[0] for labels in numbers(metrics.preemption_execution_duration_seconds)] == [preemptor]


@pytest.mark.parametrize("names", [("v1",), ("v1", "v2")])
def test_the_victims_of_a_group_are_evicted_after_its_cycle(world, names):
    """TestActuatePodGroupPreemption of executor_test.go: 2 of 3 cases, as there is no plan without victims."""
    victims, group = tuple(world.placed(*names)), struct(a_group("new", mode={"single": {}}))
    boss = world.state.pod_info(struct(member("boss", "new")))
    world.state.pending.put(boss)
    world.state.put_object(group)
    world.evictions.carry_out(
        GroupEvictionPlan(group=group, pods=(boss,), victims=victims, plugin=PLUGIN, pdb_violations=0), world.recorder
    )
    assert world.calls.log == []
    world.settle()
    assert [call[1] for call in world.calls.log if call[0] == "delete"] == list(names)


# -- one victim -------------------------------------------------------------------------------------------------------


def test_a_victims_condition_is_written_before_it_is_deleted(world):
    boss, (victim,) = world.pending("boss"), world.placed("v")
    world.preempt(boss, victim)
    assert world.calls.log == [], "no request is sent within the scheduling cycle"
    world.settle()
    assert world.calls.log == [("patch", "v"), ("delete", "v", victim.uid)]
    left = world.cluster.get("pods", "default", "v")
    [condition] = left["status"]["conditions"]
    assert {name: value for name, value in condition.items() if value is not None} == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
        "observedGeneration": 1,
    }
    assert left["metadata"]["deletionGracePeriodSeconds"] == 30, "the victim's own grace period applies"
    note = f"Preempted by pod {boss.uid} on node n1"
    assert world.recorder.events == [("v", "Normal", "Preempted", "Preempting", note, "boss")]
    assert (world.activated, world.reports) == ([], []), "the victim's deletion wakes the preemptor"


def waits_on_permit(world, victim):
    world.waiting_pods.add(victim, {"Gang": 60.0})
    return world.waiting_pods.get(victim.uid)


def is_allowed_already(world, victim):
    waits_on_permit(world, victim).allow("Gang")


def is_in_pre_bind(world, victim):
    world.cancelled = []
    return world.pods_in_pre_bind.add(victim.uid, world.cancelled.append)


def is_through_pre_bind(world, victim):
    is_in_pre_bind(world, victim).mark_prebound()


def test_a_victim_that_waits_on_permit_is_rejected(world):
    boss, victim = world.pending("boss"), world.assumed("v")
    waiting = waits_on_permit(world, victim)
    world.preempt(boss, victim)
    world.settle()
    decision = waiting.decision
    assert (decision.code.name, decision.plugin, decision.message) == ("Error", PLUGIN, "preempted")
    assert world.calls.log == []
    note = f"Preempted by pod {boss.uid} on node n1 (in kube-scheduler memory)."
    assert world.recorder.events == [("v", "Normal", "Preempted", "Preempting", note, "boss")]
    assert len(world.evictions) == 0, "no trace of it is left"


def test_a_victim_that_permit_has_rejected_is_not_deleted(world):
    boss, victim = world.pending("boss"), world.assumed("v")
    waits_on_permit(world, victim).reject("Gang", "its gang is refused")
    world.preempt(boss, victim)
    world.settle()
    assert (world.calls.log, world.recorder.events, world.activated) == ([], [], []), "its leaving wakes the preemptor"
    assert len(world.evictions) == 0, "no trace of it is left"


def test_a_victim_in_pre_bind_is_cancelled(world):
    boss, victim = world.pending("boss"), world.assumed("v")
    is_in_pre_bind(world, victim)
    world.preempt(boss, victim)
    world.settle()
    assert world.cancelled == ["preempted by DefaultPreemption"]
    assert world.calls.log == []
    assert world.recorder.events[0][4].endswith(" on node n1 (in kube-scheduler memory).")


@pytest.mark.parametrize(
    "state", [pytest.param(is_allowed_already, id="allowed"), pytest.param(is_through_pre_bind, id="through PreBind")]
)
def test_a_victim_past_pre_bind_is_deleted(world, state):
    boss, victim = world.pending("boss"), world.assumed("v")
    state(world, victim)
    world.preempt(boss, victim)
    world.settle()
    assert world.calls.log == [("patch", "v"), ("delete", "v", victim.uid)]
    assert world.recorder.events[0][4] == f"Preempted by pod {boss.uid} on node n1"


# -- log --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "level", "text", "who"),
    [
        pytest.param(waits_on_permit, 2, "Preemptor preempted a waiting pod", "waitingPod", id="waiting"),
        pytest.param(is_in_pre_bind, 2, "Preemptor rejected a pod in preBind", "podInPreBind", id="in PreBind"),
        pytest.param(
            is_through_pre_bind,
            5,
            "Failed to reject a pod in preBind, falling back to deletion via api call",
            "podInPreBind",
            id="through PreBind",
        ),
    ],
)
def test_rejecting_a_victim_is_logged(world, state, level, text, who):
    boss, victim = world.pending("boss"), world.assumed("v")
    state(world, victim)
    with logged() as found:
        world.preempt(boss, victim)
        world.settle()
    type_ = {"preemptorType": "pod"} if level == 2 else {}
    keys = type_ | {"preemptor": "default/boss", who: "default/v", "node": "n1"}
    assert (level, text, keys) in found.of("victim_evictions")


def test_spared_victims_are_logged(world):
    boss, victims = world.pending("boss"), world.placed("a", "b")
    world.delete("b", grace=30)
    world.deliver_changes()
    world.calls.refusals["patch", "a"] = NotFound('pods "a" not found')
    with logged() as found:
        world.preempt(boss, victims[0], world.info("b"))
        world.settle()
    where = {"preemptor": "default/boss", "node": "n1"}
    leaving = "Victim Pod is already being deleted, skipping the API call for it"
    assert (2, leaving, where | {"victim": "default/b"}) in found.of("victim_evictions")
    assert (2, "Victim Pod is already deleted", where | {"victim": "default/a"}) in found.of("victim_evictions")


GONE = NotFound('pods "v" not found')
LOST = OutcomeUnknown("connection reset")


@pytest.mark.parametrize(
    "refusals",
    [
        pytest.param({("patch", "v"): REFUSED}, id="condition refused"),
        pytest.param({("delete", "v"): REFUSED}, id="deletion refused"),
        pytest.param({("delete", "v"): Unreachable("refused")}, id="no server"),
        pytest.param({("delete", "v"): Conflict("webhook")}, id="a conflict with the pod still there"),
        pytest.param({("delete", "v"): LOST}, id="request lost"),
        pytest.param({("delete", "v"): LOST, ("get", "v"): Unreachable("refused")}, id="request and read back lost"),
    ],
)
def test_when_a_victim_cannot_be_evicted(world, refusals):
    boss, (victim,) = world.pending("boss"), world.placed("v")
    world.calls.refusals = refusals
    world.preempt(boss, victim)
    world.settle()
    assert (world.recorder.events, world.activated) == ([], ["default/boss"])
    (report,) = world.reports
    assert "default/boss on node n1: cannot evict pod default/v: " in report
    assert not world.evictions.under_way(boss)
    assert numbers(world.metrics.preemption_goroutines_execution_total) == {"error": 1}
    assert numbers(world.metrics.preemption_goroutines_duration_seconds) == {"error": 1}


# -- several victims --------------------------------------------------------------------------------------------------


def test_after_a_failure_no_further_eviction_starts(world):
    names = [f"v{i:02}" for i in range(MAX_CONCURRENT_EVICTIONS + 5)]
    boss, victims = world.pending("boss"), world.placed(*names)
    world.calls.refusals = {("patch", "v00"): REFUSED}
    world.calls.held.add(("patch", "v01"))
    world.preempt(boss, *victims)
    world.run_until("patch", "v01")
    world.complete(next(call for call in world.calls.under_way if call.name == "v02"))
    world.settle()
    begun = {call[1] for call in world.calls.log}
    assert begun == set(names[:MAX_CONCURRENT_EVICTIONS])
    assert numbers(world.metrics.goroutines) == {PLUGIN: 1}, "the one in progress"
    world.calls.held.clear()
    world.settle()
    assert {call[1] for call in world.calls.log} == begun
    assert (world.calls.most, world.activated) == (MAX_CONCURRENT_EVICTIONS, ["default/boss"])
    assert world.reports == [
        "Preemption for pod default/boss on node n1: cannot evict pod default/v00: no",
    ]
    dead = {name for name in names if world.terminating(name)}
    assert dead == {"v02"}, "its deletion had started"
    assert set(world.recorder.victims) == dead, "a victim whose condition was written gets an event"
    assert names[-1] not in begun


# -- nominations ------------------------------------------------------------------------------------------------------


def lesser_pod(world, name="lesser", *, priority="low", told=True):
    info = world.pending(name, priority=priority, nominated="n1" if told else "")
    world.state.nominator.add(info, "n1")
    return info


def test_nominations_of_lesser_pods_are_cleared_before_any_eviction(world):
    lesser_pod(world)
    boss, (victim,) = world.pending("boss"), world.placed("v")
    world.preempt(boss, victim)
    assert world.calls.log == [], "no request is sent within the scheduling cycle"
    world.settle()
    assert world.calls.log == [("patch", "lesser"), ("patch", "v"), ("delete", "v", victim.uid)]
    assert "nominatedNodeName" not in world.cluster.get("pods", "default", "lesser")["status"]


def test_an_unwritten_nomination_is_removed_in_memory(world):
    lesser = lesser_pod(world, told=False)
    world.preempt(world.pending("boss"), *world.placed("v"))
    world.settle()
    assert world.state.nominator.node_of(lesser.uid) == ""
    assert world.calls.log[0] == ("write", "lesser", ""), "the pending patch is replaced"


def test_other_nominations_are_kept(world):
    lesser_pod(world, "equal", priority="high")
    elsewhere = world.pending("elsewhere", priority="low", nominated="n2")
    world.state.nominator.add(elsewhere, "n2")
    gone = lesser_pod(world, "gone")
    world.delete("gone")
    world.deliver_changes()
    world.preempt(world.pending("boss"), *world.placed("v"))
    world.settle()
    assert [call[1] for call in world.calls.log] == ["v", "v"]
    assert world.state.nominator.node_of(gone.uid) == "n1", "left to the queue"


@pytest.mark.parametrize(
    ("refusal", "activated", "reports"),
    [
        pytest.param(GONE, [], [], id="gone"),
        pytest.param(
            REFUSED,
            ["default/boss"],
            [
                "Preemption for pod default/boss on node n1: cannot clear nominatedNodeName of pod default/lesser: no",
            ],
            id="refused",
        ),
    ],
)
def test_victims_are_evicted_even_if_a_nomination_cannot_be_cleared(world, refusal, activated, reports):
    lesser_pod(world)
    world.calls.refusals = {("patch", "lesser"): refusal}
    world.preempt(world.pending("boss"), *world.placed("v"))
    world.settle()
    assert (world.evicted(), world.activated, world.reports) == (["v"], activated, reports)


def test_clearing_a_nomination_replaces_a_pending_status_patch():
    """A patch for a lesser pod's failed attempt is queued when a pod of higher priority takes its node."""
    world = World(real_statuses=True)
    lesser = lesser_pod(world, told=False)
    boss, (victim,) = world.pending("boss"), world.placed("v")
    failed = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="no room")
    world.statuses.write(lesser.pod, condition=failed, nominated_node_name="n1")
    world.preempt(boss, victim)
    world.settle()
    status = world.cluster.get("pods", "default", "lesser")["status"]
    assert [condition["message"] for condition in status["conditions"]] == ["no room"]
    assert "nominatedNodeName" not in status
    [condition] = world.cluster.get("pods", "default", "v")["status"]["conditions"]
    assert (condition["type"], condition["lastTransitionTime"]) == ("DisruptionTarget", "2027-01-15T08:00:00Z")
    assert world.terminating("v")


# -- the gate ---------------------------------------------------------------------------------------------------------


def test_the_gate_opens_after_an_internal_error(world):
    boss, (victim,) = world.pending("boss"), world.placed("v")
    world.calls.refusals = {("patch", "v"): Refused(ZeroDivisionError("a bug"))}
    world.preempt(boss, victim)
    world.settle()
    assert not world.evictions.under_way(boss)
    assert world.reports == ["Preemption for pod default/boss on node n1: cannot evict pod default/v: a bug"]


# -- cancelled preemptions --------------------------------------------------------------------------------------------


def boss_is_gone(world):
    world.delete("boss")
    world.deliver_changes()


def boss_terminates(world):
    manifest = world.cluster.get("pods", "default", "boss")
    manifest["metadata"]["finalizers"] = ["example.com/wait"]
    world.cluster.update("pods", manifest)
    boss_is_gone(world)


def boss_was_replaced(world):
    world.delete("boss")
    world.pending("boss")


def boss_is_bound(world):
    world.cluster.registry.bind("default", "boss", BINDING)
    world.deliver_changes()


BINDING = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "boss"},
    "target": {"kind": "Node", "name": "n2"},
}


def boss_is_assumed(world):
    world.state.assume(world.info("boss"), "n2")


def node_is_gone(world):
    world.state.remove_node("n1")


def a_higher_priority_pod_takes_the_node(world):
    world.preempt(world.pending("top", priority="top"), *world.placed("other"))


MEANWHILE = [
    pytest.param(boss_is_gone, id="the preemptor is gone"),
    pytest.param(boss_terminates, id="the preemptor terminates"),
    pytest.param(boss_was_replaced, id="another pod has the preemptor's name"),
    pytest.param(boss_is_bound, id="the preemptor is bound"),
    pytest.param(boss_is_assumed, id="the preemptor has found a node"),
    pytest.param(node_is_gone, id="the node is gone"),
    pytest.param(a_higher_priority_pod_takes_the_node, id="a more important pod takes the node"),
]


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_a_preemption_that_became_pointless_evicts_no_pod(world, meanwhile):
    boss, victims = world.pending("boss"), world.placed("a", "b")
    world.preempt(boss, *victims)
    meanwhile(world)
    world.settle()
    assert {"a", "b"}.isdisjoint(world.recorder.victims)
    assert {"a", "b"}.isdisjoint(call[1] for call in world.calls.log)
    assert "default/boss" in world.activated
    assert not world.evictions.under_way(boss)


# -- repeated refusals ------------------------------------------------------------------------------------------------


def refused(world, boss, victims, times):
    for _ in range(times):
        world.preempt(boss, *victims)
        world.settle()


def test_repeated_refusals_are_retried_with_growing_delays(world):
    boss, victims = world.pending("boss"), world.placed("a")
    world.calls.refusals["delete", "a"] = REFUSED
    refused(world, boss, victims, 7)
    assert world.delays == [1, 2, 4, 8, 10, 10], "no backoff after the first refusal"
    assert world.activated == ["default/boss"] * 7


def test_a_successful_preemption_resets_the_delay(world):
    boss, victims = world.pending("boss"), world.placed("a")
    world.calls.refusals["delete", "a"] = REFUSED
    refused(world, boss, victims, 2)
    del world.calls.refusals["delete", "a"]
    refused(world, boss, victims, 1)
    world.calls.refusals["delete", "b"] = REFUSED
    refused(world, boss, world.placed("b"), 1)
    assert world.delays == [1]


def test_refusals_are_forgotten_with_the_pod(world):
    boss, victims = world.pending("boss"), world.placed("a")
    world.calls.refusals["delete", "a"] = REFUSED
    refused(world, boss, victims, 1)
    world.delete("boss")
    world.deliver_changes()
    refused(world, world.pending("other"), victims, 1)
    assert list(world.evictions._refusals) == [world.info("other").uid]
