"""Updates and deletions of pods in the queue: upstream's tables, scheduling_queue_test.go of June 2026.

TestPriorityQueue_Update, all 11 cases, …_UpdateWhenInflight, and …_Delete, all 5 cases.
"""

import pytest

from stowplan.plugins import PreEnqueuePlugin
from stowplan.scheduler.framework.events import TARGET_POD, UNSCHEDULABLE_TIMEOUT, Action, Hint, on
from stowplan.scheduler.framework.status import unresolvable
from stowplan.testing import a_pod
from support.scheduling.queues import DEFAULT, QueueHarness, plugin_waiting_for


class Denies(PreEnqueuePlugin):
    name = "Denies"

    def pre_enqueue(self, pod):
        return unresolvable("denied") if pod.pod.metadata.labels.get("deny") else None


def answering(name, hint):
    return plugin_waiting_for(name, on(TARGET_POD, Action.Update, lambda pod, old, new: hint))


PLUGINS = Denies, answering("Queues", Hint.QUEUE), answering("Skips", Hint.SKIP)


def pod(*, node="", deny=False, note="", **more):
    made = a_pod("a").uid("a").priority(500).spec(**more)
    if node:
        made.status(nominatedNodeName=node)
    if deny:
        made.labels(deny="true")
    return made.annotations(note=note) if note else made


#: What is done before; the pod before and after; where it is then.
UPDATES = {
    "not in the queue": (None, pod(), pod(note="x"), "ACTIVE"),
    "not in the queue, gated": (None, pod(deny=True), pod(deny=True, note="x"), "UNSCHEDULABLE"),
    "not in the queue, nominated": (None, pod(), pod(node="n"), "ACTIVE"),
    "not in the queue, gated, nominated": (None, pod(deny=True), pod(deny=True, node="n"), "UNSCHEDULABLE"),
    "active": ("add", pod(), pod(), "ACTIVE"),
    "backing off": ("backoff", pod(), pod(), "BACKOFF"),
    "rejected, backing off": ("Queues", pod(), pod(note="x"), "BACKOFF"),
    "rejected, backoff over": ("Queues, later", pod(), pod(note="x"), "ACTIVE"),
    "rejected, the hint says Skip": ("Skips", pod(), pod(note="x"), "UNSCHEDULABLE"),
    "in flight": ("pop", pod(), pod(note="x"), None),
    "in flight, then rejected": ("pop, reject", pod(), pod(tolerations=[{"key": "foo"}]), "BACKOFF"),
}


@pytest.mark.parametrize(("before", "old", "new", "place"), UPDATES.values(), ids=UPDATES)
def test_updates(before, old, new, place):
    harness = QueueHarness(*PLUGINS)
    queued = None
    if before == "add":
        harness.add(old)
    elif before == "backoff":
        harness.add_rejected(old, "Queues")
        harness.handle_event(UNSCHEDULABLE_TIMEOUT)
    elif before is not None and before.startswith("pop"):
        harness.add(old)
        queued = harness.queue.pop()
    elif before is not None:
        harness.add_rejected(old, before.partition(",")[0])
        harness.now += 60 if "later" in before else 0
    info = harness.update(old, new)
    if before == "pop, reject":
        queued.pod = info
        harness.fail_attempt(queued, "Queues")
    if place is None:
        assert harness.queue.get(info.key) is None or harness.place("a") == "IN_FLIGHT"
    else:
        assert harness.place("a") == place
        assert harness.queue.get("default/a").pod.pod == info.pod
    # Since 1.37 also for gated pods.
    nominated = new.obj().get("status", {}).get("nominatedNodeName", "")
    assert harness.state.nominator.node_of("a") == nominated


#: What is done with two pods, the one that goes, and how many pods each plugin rejects then.
DELETIONS = {
    "active": (("add", "add"), "p1", {"A": 0, "B": 0}),
    "backing off": (("backoff", "add"), "p1", {"A": 0, "B": 0}),
    "rejected": (("reject", "reject"), "p1", {"A": 0, "B": 1}),
    "nominated": (("nominated",), "p1", {"A": 0, "B": 0}),
    "not in the queue": (("reject",), "p2", {"A": 1, "B": 0}),
}


@pytest.mark.parametrize(("steps", "gone", "rejected"), DELETIONS.values(), ids=DELETIONS)
def test_deletions(steps, gone, rejected):
    harness = QueueHarness(*(plugin_waiting_for(name) for name in "AB"))
    made = [a_pod(f"p{i}").uid(f"p{i}") for i in (1, 2)]
    for step, one, plugin in zip(steps, made, "AB", strict=False):
        if step in ("reject", "backoff"):
            harness.add_rejected(one, plugin)
            if step == "backoff":
                harness.handle_event(UNSCHEDULABLE_TIMEOUT)
        else:
            harness.add(one.status(nominatedNodeName="n") if step == "nominated" else one)
    harness.delete(made[int(gone[1]) - 1])
    assert harness.place(gone) is None
    left = {f"p{i + 1}" for i in range(len(steps))} - {gone}
    assert all(harness.place(name) for name in left)
    assert {name: harness.queue.rejected_by.get((name, DEFAULT), 0) for name in "AB"} == rejected
    assert not list(harness.state.nominator.nodes())
