"""Engine.validate finds contradictions: each invariant between its parts is broken by hand once."""

import pytest

from stowplan.kube.api.types import Pod
from stowplan.scheduler.engine.binding_cycle import BindingStage
from stowplan.scheduler.engine.inputs import Closing, Started, Stopped
from stowplan.scheduler.engine.validation import InvalidStateError
from stowplan.scheduler.framework.status import SUCCESS
from stowplan.testing import a_node, a_pod
from support.plugins.switchable_plugins import PluginSwitches, plugins_of
from support.scheduling.engine_by_hand import EngineByHand
from support.scheduling.fake_extender import FakeExtender

STRANGER = object()


def pinned(name, node):
    return a_pod(name).uid(name).spec(nodeSelector={"kubernetes.io/hostname": node})


def busy_engine(*, validates):
    """An engine with a pod in each stage, named after the stage."""
    extenders = [FakeExtender("e", filters=True, only="asks")]
    hand = EngineByHand(*plugins_of(PluginSwitches()), extenders=extenders, validates=validates)
    hand.create(
        a_node("n").allocatable(cpu=10), a_node("m").allocatable(cpu=1), pinned("victim", "m").requests(cpu=1).on("m")
    )
    hand.submit(Started())
    # Its status is still pending when it is bound.
    hand.create(pinned("withdraws", "later"))
    hand.schedule()
    hand.create(a_node("later"))
    hand.advance(12.0)
    hand.schedule()
    for name, label in (
        *(("waits", "wait"), ("announced", "wait"), ("sleeps", "sleep"), ("watches", "node"), ("patches", "patch")),
        *(("runs", "run"), ("binds", "b"), ("posts", "p"), ("asks", "asks")),
    ):
        hand.create(pinned(name, "n").labels({label: ""}))
    hand.create(pinned("unschedulable", "nowhere"), pinned("preemptor", "m").requests(cpu=1).priority(10))
    hand.schedule()
    for name in ("waits", "sleeps", "watches", "patches", "runs", "posts"):
        hand.answer_about(name)
    hand.create(pinned("active", "n"))
    hand.validates = True
    return hand


@pytest.fixture
def hand():
    hand = busy_engine(validates=False)
    yield hand
    hand.close()


def problems(hand):
    try:
        hand.engine.validate()
    except InvalidStateError as error:
        return error.problems
    return ()


def binding(hand, name):
    return hand.engine.bindings.under_way[name]


def call(hand, name):
    return binding(hand, name).calls[0]


def test_no_problem_is_reported_while_building_the_engine():
    busy_engine(validates=True).close()


def test_no_problem_is_reported(hand):
    engine = hand.engine
    assert {uid: one.stage for uid, one in engine.bindings.under_way.items()} == {
        "withdraws": BindingStage.WITHDRAWING,
        "waits": BindingStage.PERMIT,
        "announced": BindingStage.ANNOUNCING,
        "sleeps": BindingStage.PRE_BIND,
        "watches": BindingStage.PRE_BIND,
        "patches": BindingStage.PRE_BIND,
        "runs": BindingStage.PRE_BIND,
        "binds": BindingStage.BIND,
        "posts": BindingStage.POST_BIND,
    }
    assert list(engine.suspended.under_way) == ["asks"]
    assert sorted(queued.pod.uid for queued in engine.queue.pending()) == ["active", "preemptor", "unschedulable"]
    assert engine.evictions.plans_under_way == 1
    engine.validate()


def test_all_problems_are_reported_at_once(hand):
    hand.engine.bindings.writes = 7
    hand.engine.state.table.count = 9
    with pytest.raises(InvalidStateError) as raised:
        hand.engine.validate()
    assert raised.value.problems == (
        "9 nodes are counted, 3 are there",
        "7 writes of bindings are counted, 2 are under way",
    )
    assert str(raised.value) == "; ".join(raised.value.problems)


def test_no_problem_is_reported_during_shutdown(hand):
    hand.submit(Stopped())
    hand.engine.queue.close()
    hand.submit(Closing())
    hand.answer_all()
    assert problems(hand) == ()


# -- bindings ---------------------------------------------------------------------------------------------------------


def rename(under_way, uid):
    under_way["other"] = under_way.pop(uid)


def forget_binding(hand, name):
    del hand.engine.bindings.under_way[name]


def take_off(hand, name):
    hand.engine.state.remove_pod(name)


def assume_elsewhere(hand, name):
    state = hand.engine.state
    info = state.placed(name)
    state.forget(info)
    state.assume(info, "later")


def end_call(hand, name):
    """Its binding loses its call; the waiter for the answer is not informed."""
    binding(hand, name).calls.clear()


BINDINGS = [
    pytest.param(
        lambda hand: rename(hand.engine.bindings.under_way, "binds"),
        "binding of pod default/binds (binds): under way under the UID other",
        id="UID",
    ),
    pytest.param(
        lambda hand: setattr(binding(hand, "binds"), "stage", BindingStage.OVER),
        "binding of pod default/binds: over between steps",
        id="stage",
    ),
    pytest.param(
        lambda hand: hand.engine.waiting_pods.remove("waits"),
        "binding of pod default/waits: permit, but the pod is not among those that wait on Permit",
        id="not among the waiting pods",
    ),
    pytest.param(
        lambda hand: setattr(binding(hand, "waits"), "stage", BindingStage.WITHDRAWING),
        "binding of pod default/waits: withdrawing, but the pod is among those that wait on Permit",
        id="still among the waiting pods",
    ),
    pytest.param(
        lambda hand: setattr(binding(hand, "waits").waiting, "decision", SUCCESS),
        "binding of pod default/waits: permit, but nothing is left to be decided",
        id="decided",
    ),
    pytest.param(
        lambda hand: binding(hand, "waits").timer.cancel(),
        "binding of pod default/waits: waits on Permit until 1800000017.250, but its alarm rings at inf",
        id="no alarm",
    ),
    pytest.param(
        lambda hand: setattr(binding(hand, "waits").timer, "at", 1800000018.0),
        "binding of pod default/waits: waits on Permit until 1800000017.250, but its alarm rings at 1800000018.000",
        id="late alarm",
    ),
    pytest.param(
        lambda hand: hand.engine.context.pods_in_pre_bind.remove("runs"),
        "binding of pod default/runs: pre-bind, but the pod is not among those in PreBind",
        id="not among the pods in PreBind",
    ),
    pytest.param(
        lambda hand: setattr(binding(hand, "runs"), "stage", BindingStage.BIND),
        "binding of pod default/runs: bind, but the pod is among those in PreBind",
        id="still among the pods in PreBind",
    ),
    pytest.param(
        lambda hand: binding(hand, "binds").calls.append(call(hand, "posts")),
        "binding of pod default/binds: bind with 2 calls",
        id="calls",
    ),
    pytest.param(
        lambda hand: setattr(binding(hand, "binds"), "number", call(hand, "posts").number),
        "whose answer goes to call of Runner in the binding of pod default/posts",
        id="number",
    ),
    pytest.param(
        lambda hand: setattr(call(hand, "runs"), "number", 0),
        "call of Runner in the binding of pod default/runs: waits for nothing",
        id="waits for nothing",
    ),
    pytest.param(
        lambda hand: setattr(call(hand, "sleeps"), "writes", True),
        "call of Preparer in the binding of pod default/sleeps: counted as a write, but no effect is under way",
        id="writes nothing",
    ),
    pytest.param(
        lambda hand: take_off(hand, "binds"),
        "binding of pod default/binds to n: bind, but the pod is on no node",
        id="on no node",
    ),
    pytest.param(
        lambda hand: assume_elsewhere(hand, "binds"),
        "binding of pod default/binds to n: but the pod is assumed on later",
        id="on another node",
    ),
    pytest.param(
        lambda hand: forget_binding(hand, "waits"),
        "pod default/waits: waits on Permit, but its binding is not under way",
        id="waits without a binding",
    ),
    pytest.param(
        lambda hand: forget_binding(hand, "runs"),
        "pod runs: in PreBind, but its binding is not under way",
        id="in PreBind without a binding",
    ),
    pytest.param(
        lambda hand: end_call(hand, "runs"),
        "call of Runner in the binding of pod default/runs: not under way, but gets the answer to ",
        id="answer without a call",
    ),
    pytest.param(
        lambda hand: setattr(binding(hand, "waits"), "stage", BindingStage.BIND),
        "binding of pod default/waits: bind, but is woken at 1800000017.250",
        id="alarm of a binding",
    ),
    pytest.param(
        lambda hand: end_call(hand, "sleeps"),
        "call of Preparer in the binding of pod default/sleeps: does not sleep, but is woken at 1800000014.250",
        id="alarm of a call",
    ),
    pytest.param(
        lambda hand: end_call(hand, "watches"),
        "call of Preparer in the binding of pod default/watches: not under way, but waits for Node /n to change",
        id="watcher",
    ),
    pytest.param(
        lambda hand: setattr(hand.engine.bindings, "writes", 3),
        "3 writes of bindings are counted, 2 are under way",
        id="writes",
    ),
]

# -- effects and alarms -----------------------------------------------------------------------------------------------


def ring_too_late(hand):
    """Advances time and skips an alarm."""
    outbox = hand.engine.context.outbox
    outbox.now += 100.0
    outbox._rung = (outbox.now, outbox._alarm_number)


def wait_twice(hand):
    hand.engine.context.outbox._waiters[1] = binding(hand, "binds")


OUTBOX = [
    pytest.param(
        lambda hand: hand.engine.context.outbox.at_step_end(binding(hand, "runs")),
        "the step is over, and these were to be woken before: binding of pod default/runs",
        id="pending wake-up",
    ),
    pytest.param(
        lambda hand: hand.engine.context.outbox._waiters.update({999: hand.engine.evictions}),
        "waits for effect 999, and the last was ",
        id="unknown effect",
    ),
    pytest.param(
        wait_twice,
        "binding of pod default/binds waits for effect ",
        id="two effects",
    ),
    pytest.param(
        ring_too_late,
        "the alarm of binding of pod default/waits was to ring at 1800000017.250, and did not at 1800000112.250",
        id="missed alarm",
    ),
    pytest.param(
        lambda hand: setattr(hand.engine.context.outbox, "_announced_wake", 1900000000.0),
        "the alarm of binding of pod default/waits rings at 1800000017.250, the driver knows of 1900000000.000",
        id="alarm unknown to the driver",
    ),
    pytest.param(
        lambda hand: hand.engine.context.outbox._waiters.update({1: STRANGER}),
        f"effect 1: its answer goes to {STRANGER}, which is no part's",
        id="answer without a waiter",
    ),
    pytest.param(
        lambda hand: hand.engine.context.outbox.wake(1900000000.0, STRANGER),
        f"the alarm at 1900000000.000 wakes {STRANGER}, which is no part's",
        id="alarm without an owner",
    ),
]

# -- pods -------------------------------------------------------------------------------------------------------------


def change_quietly(hand, name, **more):
    """Replaces a pod among the pending pods without informing the queue."""
    state = hand.engine.state
    state.pending.put(state.pod_info(Pod(**{**_fields(state.pending.by_uid(name).pod), **more})))


def _fields(pod):
    return {name: getattr(pod, name) for name in pod.__struct_fields__}


PODS = [
    pytest.param(
        lambda hand: hand.engine.frameworks.clear(),
        "pod default/active: pending, but its scheduler default-scheduler is no profile",
        id="profile",
    ),
    pytest.param(
        lambda hand: hand.engine.queue.delete(hand.engine.state.pending.by_uid("active")),
        "pod default/active (active): pending, and nowhere",
        id="nowhere",
    ),
    pytest.param(
        lambda hand: hand.engine.queue.add(hand.engine.state.pending.by_uid("binds")),
        "pod default/binds (binds): pending, and waits in the queue: active and is on its way: bind",
        id="waits and is on its way",
    ),
    pytest.param(
        lambda hand: hand.engine.state.assume(hand.engine.state.pending.by_uid("active"), "n"),
        "pod default/active (active): pending, and waits in the queue: active and is on node n",
        id="waits and is on a node",
    ),
    pytest.param(
        lambda hand: hand.engine.state.pending.remove("default/active"),
        "pod default/active (active): waits in the queue, the pending pods have nothing",
        id="not pending",
    ),
    pytest.param(
        lambda hand: change_quietly(hand, "active"),
        "pod default/active (active): waits in the queue, the pending pods have another version (active)",
        id="another version",
    ),
    pytest.param(
        lambda hand: forget_binding(hand, "waits"),
        "pod default/waits (waits): in flight, but its binding is not under way",
        id="in flight without an attempt",
    ),
    pytest.param(
        lambda hand: setattr(binding(hand, "waits"), "stage", BindingStage.BIND),
        "pod default/waits (waits): in flight, but its binding is in the stage bind",
        id="in flight too long",
    ),
    pytest.param(
        lambda hand: hand.engine.queue.done("waits"),
        "binding of pod default/waits (waits): permit, but the pod is not in flight",
        id="not in flight",
    ),
    pytest.param(
        lambda hand: (hand.engine.state.pending.remove("default/binds"), forget_binding(hand, "binds")),
        "pod default/binds (binds): assumed on n, but neither pending nor on its way",
        id="assumed without a binding",
    ),
    pytest.param(
        lambda hand: hand.engine.statuses._known["announced"].sent.listeners.clear(),
        "binding of pod default/announced: waits for a status to be written 1 times, but the statuses know of 0",
        id="status listener without a binding",
    ),
    pytest.param(
        lambda hand: hand.engine.statuses._known["announced"].sent.listeners.append(binding(hand, "binds")),
        "binding of pod default/binds: waits for a status to be written 0 times, but the statuses know of 1",
        id="unexpected status listener",
    ),
    pytest.param(
        lambda hand: hand.engine.statuses._known["withdraws"].withdrawals.clear(),
        "binding of pod default/withdraws: waits for a status to be withdrawn 1 times, but the statuses know of 0",
        id="missing withdrawal listener",
    ),
    pytest.param(
        lambda hand: hand.engine.statuses._known["victim"].sent.listeners.clear(),
        "eviction of pod default/victim: waits for a status to be written 1 times, but the statuses know of 0",
        id="missing eviction listener",
    ),
]

# -- turns and evictions ----------------------------------------------------------------------------------------------


def eviction(hand):
    return next(iter(hand.engine.evictions._victims._at_work))


OTHERS = [
    pytest.param(
        lambda hand: hand.engine._queue_timer._alarm.cancel(),
        "pods are scheduled, and no alarm is set to look after the queue",
        id="no turn for the queue",
    ),
    pytest.param(
        lambda hand: hand.engine.context.outbox._waiters.update({1: eviction(hand)}),
        "eviction of pod default/victim: announcing, but gets the answer to 1",
        id="answer of an eviction",
    ),
    pytest.param(
        lambda hand: hand.engine.context.outbox.wake(1900000000.0, eviction(hand).preemption),
        "preemption for pod default/preemptor on node m: last, but is woken at 1900000000.000",
        id="alarm of a preemption",
    ),
    pytest.param(
        lambda hand: hand.engine.queue._places._queued.clear(),
        "active, but it is not what waits under its name",
        id="the queue",
    ),
    pytest.param(
        lambda hand: setattr(hand.engine.statuses, "under_way", 0),
        "0 patches are counted, of ",
        id="the statuses",
    ),
    pytest.param(
        lambda hand: hand.engine.queue.done("asks"),
        "suspended cycle of pod default/asks (asks): the pod is not in flight",
        id="the suspended cycles",
    ),
]


@pytest.mark.parametrize(("breaks", "text"), [*BINDINGS, *OUTBOX, *PODS, *OTHERS])
def test_a_contradiction_is_found(hand, breaks, text):
    breaks(hand)
    assert any(text in problem for problem in problems(hand)), problems(hand)
