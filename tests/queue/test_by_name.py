"""Hints about objects that pods name, such as their claims: who is asked, and who is woken."""

from stowplan.framework.events import NODE, PVC, Action, Hint, NamedObjects, on
from stowplan.testing import a_pod
from support.scheduling.queues import Room, event, waits_for


def claims(pod):
    return [f"default/{name}" for name in pod.pod.status.nominated_node_name.split()]


def is_freed(old, new):
    return new.metadata.labels.get("freed") == "yes"


class Claims:
    """A plugin that waits for the claims that a pod's status names, and notes whom its hint was asked about."""

    def __init__(self, *more, concerns_all=None):
        self.asked = []
        named = NamedObjects(claims, concerns_all)
        self.plugin = waits_for("Claims", on(PVC, Action.Add | Action.Update, self.hint, named=named), *more)

    def hint(self, pod, old, new):
        self.asked.append(pod.pod.metadata.name)
        return Hint.QUEUE if f"default/{new.metadata.name}" in claims(pod) or is_freed(old, new) else Hint.SKIP


def waiting_for(name, wanted):
    return a_pod(name).uid(name).status(nominatedNodeName=wanted)


def claim(name, **labels):
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "labels": labels}}


def room_of(rejecting, *more):
    room = Room(rejecting.plugin, *more)
    for name, wanted in (("a", "x"), ("b", "y"), ("c", "x y"), ("d", "")):
        room.rejected(waiting_for(name, wanted), "Claims")
    room.now += 60
    return room


def woken(room):
    return [name for name in "abcd" if room.place(name) != "UNSCHEDULABLE"]


def test_only_pods_that_name_the_claim_are_asked():
    rejecting = Claims()
    room = room_of(rejecting)
    room.happens(event(PVC), None, claim("x"))
    assert (rejecting.asked, woken(room)) == (["a", "c"], ["a", "c"])
    room.happens(event(PVC), None, claim("y"))
    assert (rejecting.asked, woken(room)) == (["a", "c", "b"], ["a", "b", "c"])


def test_a_claim_of_another_namespace_is_another_claim():
    rejecting = Claims()
    room = room_of(rejecting)
    room.happens(event(PVC), None, {**claim("x"), "metadata": {"name": "x", "namespace": "else"}})
    assert (rejecting.asked, woken(room)) == ([], [])


def test_some_changes_concern_everybody():
    rejecting = Claims(concerns_all=is_freed)
    room = room_of(rejecting)
    room.happens(event(PVC, Action.Update), claim("z"), claim("z", freed="yes"))
    assert (rejecting.asked, woken(room)) == (["a", "b", "c", "d"], ["a", "b", "c", "d"])


def test_a_pod_that_names_another_claim_by_now():
    rejecting = Claims()
    room = room_of(rejecting)
    room.happens(event(PVC), None, claim("z"))
    room.update(waiting_for("a", "x"), waiting_for("a", "z"))
    assert woken(room) == []
    room.happens(event(PVC), None, claim("x"))
    room.happens(event(PVC), None, claim("z"))
    assert (rejecting.asked, woken(room)) == (["c", "a"], ["a", "c"])


def test_who_also_waits_for_something_else_is_asked_about_every_claim():
    rejecting = Claims(on(PVC, Action.Update, lambda pod, old, new: Hint.QUEUE))
    room = room_of(rejecting)
    room.happens(event(PVC, Action.Update), claim("z"), claim("z"))
    assert woken(room) == ["a", "b", "c", "d"]


def test_another_plugin_that_rejected_the_pod_too_is_asked_nothing_it_did_not_register():
    rejecting = Claims()
    room = Room(rejecting.plugin, waits_for("Nodes", on(NODE, Action.Add)))
    room.rejected(waiting_for("a", "x"), "Claims", "Nodes")
    room.rejected(waiting_for("b", "y"), "Claims", "Nodes")
    room.happens(event(PVC), None, claim("x"))
    assert (rejecting.asked, room.place("a"), room.place("b")) == (["a"], "BACKOFF", "UNSCHEDULABLE")


def test_a_thousand_claims_for_a_thousand_pods_are_a_thousand_questions():
    rejecting = Claims()
    room = Room(rejecting.plugin)
    for i in range(1000):
        room.rejected(waiting_for(f"p{i}", f"c{i}"), "Claims")
    for i in range(1000):
        room.happens(event(PVC), None, claim(f"c{i}"))
    assert len(rejecting.asked) == 1000
    assert room.queue.counts()["unschedulable"] == 0
