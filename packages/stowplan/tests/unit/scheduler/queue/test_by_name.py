"""Hints about objects that pods name, such as their claims: for which pods they are called, and which pods wake."""

from stowplan.scheduler.framework.events import PVC, Action, Hint, NamedObjects, on
from stowplan.testing import a_pod
from support.scheduling.queues import QueueHarness, event, plugin_waiting_for


def claims(pod):
    return [f"default/{name}" for name in pod.pod.status.nominated_node_name.split()]


def is_freed(old, new):
    return new.metadata.labels.get("freed") == "yes"


class Claims:
    """A plugin that registers for the claims in a pod's status, and records the pods that its hint is called for."""

    def __init__(self, *more, concerns_all=None):
        self.asked = []
        named = NamedObjects(claims, concerns_all)
        self.plugin = plugin_waiting_for("Claims", on(PVC, Action.Add | Action.Update, self.hint, named=named), *more)

    def hint(self, pod, old, new):
        self.asked.append(pod.pod.metadata.name)
        return Hint.QUEUE if f"default/{new.metadata.name}" in claims(pod) or is_freed(old, new) else Hint.SKIP


def waiting_for(name, wanted):
    return a_pod(name).uid(name).status(nominatedNodeName=wanted)


def claim(name, **labels):
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "labels": labels}}


def room_of(rejecting, *more):
    harness = QueueHarness(rejecting.plugin, *more)
    for name, wanted in (("a", "x"), ("b", "y"), ("c", "x y"), ("d", "")):
        harness.add_rejected(waiting_for(name, wanted), "Claims")
    harness.now += 60
    return harness


def woken(harness):
    return [name for name in "abcd" if harness.place(name) != "UNSCHEDULABLE"]


def test_the_hint_is_called_only_for_pods_that_name_the_claim():
    rejecting = Claims()
    harness = room_of(rejecting)
    harness.handle_event(event(PVC), None, claim("x"))
    assert (rejecting.asked, woken(harness)) == (["a", "c"], ["a", "c"])
    harness.handle_event(event(PVC), None, claim("y"))
    assert (rejecting.asked, woken(harness)) == (["a", "c", "b"], ["a", "b", "c"])


def test_some_changes_concern_all_pods():
    rejecting = Claims(concerns_all=is_freed)
    harness = room_of(rejecting)
    harness.handle_event(event(PVC, Action.Update), claim("z"), claim("z", freed="yes"))
    assert (rejecting.asked, woken(harness)) == (["a", "b", "c", "d"], ["a", "b", "c", "d"])


def test_the_number_of_calls_is_linear():
    rejecting = Claims()
    harness = QueueHarness(rejecting.plugin)
    for i in range(1000):
        harness.add_rejected(waiting_for(f"p{i}", f"c{i}"), "Claims")
    for i in range(1000):
        harness.handle_event(event(PVC), None, claim(f"c{i}"))
    assert len(rejecting.asked) == 1000
    assert harness.queue.counts()["unschedulable"] == 0


def test_a_pod_that_now_names_another_claim():
    rejecting = Claims()
    harness = room_of(rejecting)
    harness.handle_event(event(PVC), None, claim("z"))
    harness.update(waiting_for("a", "x"), waiting_for("a", "z"))
    assert woken(harness) == []
    harness.handle_event(event(PVC), None, claim("x"))
    harness.handle_event(event(PVC), None, claim("z"))
    assert (rejecting.asked, woken(harness)) == (["c", "a"], ["a", "c"])
