"""The queue's self-check: each invariant is broken once, and must be reported."""

import pytest

from stowplan.scheduler.framework.events import NODE, PVC, Action, Hint, NamedObjects, on
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.queue.in_flight import InFlightEvent
from stowplan.scheduler.queue.queued_pod import Place
from stowplan.testing import a_node, a_pod
from support.scheduling.queues import QueueHarness, event, plugin_waiting_for

CLOSED = Status(Code.UnschedulableAndUnresolvable, ("closed",))


def asks_for_b(pod, old, new):
    return Hint.QUEUE if pod.pod.metadata.name == "backing" else Hint.SKIP


#: Each pod names a claim with the pod's own name.
ITS_CLAIM = NamedObjects(lambda pod: [pod.key])


def full_queue():
    """A pod in each place, and two in flight, the first of which has relevant events."""
    harness = QueueHarness(
        plugin_waiting_for("P", on(NODE, Action.Add, asks_for_b), on(PVC, Action.Add, named=ITS_CLAIM)),
        plugin_waiting_for("A", pre_enqueue=lambda info: CLOSED if info.pod.metadata.name == "gated" else None),
    )
    harness.add_rejected(a_pod("error"))
    harness.add_rejected(a_pod("sleeping"), "P")
    harness.add_rejected(a_pod("backing"), "P")
    harness.handle_event(event(NODE), None, a_node())
    harness.add(a_pod("gated"), a_pod("flying").uid("f1"))
    harness.queue.pop()
    harness.handle_event(event(NODE), None, a_node())
    harness.add(a_pod("later").uid("f2"))
    harness.queue.pop()
    harness.handle_event(event(NODE), None, a_node())
    harness.add(a_pod("active"))
    return harness


def found(harness, name):
    return harness.queue.get(f"default/{name}")


def rename(pods, name):
    """Store a pod under another name."""
    pods["default/other"] = pods.pop(f"default/{name}")


def group_of(asleep, name):
    return asleep._bucket[f"default/{name}"][0]


def test_a_valid_queue_has_no_problem():
    harness = full_queue()
    places = {queued.key.partition("/")[2]: queued.place.value for queued in harness.queue.pending()}
    assert places == {
        "active": "active", "backing": "backoff", "error": "error backoff", "sleeping": "unschedulable",
        "gated": "unschedulable",
    }  # fmt: skip
    assert [queued.pod.uid for queued in harness.queue.in_flight()] == ["f1", "f2"]
    assert harness.queue.problems() == []


PLACES = [
    pytest.param(
        lambda harness, places: places._queued.pop("default/active"),
        "pod default/active: active, but it is not what waits under its name",
        id="not found by its name",
    ),
    pytest.param(
        lambda harness, places: places.active.discard("default/active"),
        "pod default/active: waits, but it is not found where it should be: active",
        id="found by its name only",
    ),
    pytest.param(
        lambda harness, places: setattr(found(harness, "active"), "place", Place.BACKOFF),
        "pod default/active: found among the pods that are active, but its place is backoff",
        id="another place",
    ),
    pytest.param(
        lambda harness, places: places.unschedulable.put(found(harness, "active")),
        "pod default/active: waits twice, as active and as unschedulable",
        id="two places",
    ),
    pytest.param(
        lambda harness, places: places.rejected_by.subtract([("P", "default-scheduler")]),
        "plugin P of default-scheduler: rejected 2 waiting pods, 1 are counted",
        id="rejectors",
    ),
]

HEAPS = [
    pytest.param(
        lambda harness, places: rename(places.active.pods.entries, "active"),
        "pod default/active: held under the name default/other",
        id="heap's name",
    ),
    pytest.param(
        lambda harness, places: places.backoff.errors._heap.clear(),
        "pod default/error: has an entry, but the heap has not",
        id="heap's entry",
    ),
    pytest.param(
        lambda harness, places: new_ones(places).discard("default/active"),
        "pod default/active: never rejected, but not among the new pods",
        id="new",
    ),
    pytest.param(
        lambda harness, places: new_ones(places) and setattr(found(harness, "active"), "unschedulable_count", 1),
        "pod default/active: among the new ones, but it was rejected before, or is not active",
        id="not new",
    ),
    pytest.param(
        lambda harness, places: vars_of(found(harness, "backing"), unschedulable_count=0, backoff_expiration=None),
        "pod default/backing: backs off, but it has no backoff",
        id="backoff",
    ),
]


def new_ones(places):
    """The new pods, while rejected ones have used their turns."""
    active = places.active
    active._new = active.pods.subset(lambda queued: not queued.unschedulable_count)
    return active._new


def vars_of(obj, **values):
    for name, value in values.items():
        setattr(obj, name, value)


def by_claim(asleep):
    """The index of pods rejected by P by their claims."""
    group = group_of(asleep, "sleeping")
    group.naming(ITS_CLAIM, "default/sleeping")
    return group._by_name[ITS_CLAIM]


ASLEEP = [
    pytest.param(
        lambda harness, asleep: by_claim(asleep).discard("default/sleeping"),
        "pod default/sleeping: in its group, but not by the objects that it names, or the reverse",
        id="not by its claim",
    ),
    pytest.param(
        lambda harness, asleep: by_claim(asleep)._names.update({"default/sleeping": ("default/other",)}),
        "pod default/sleeping: found by the objects that an earlier version of it named",
        id="by an earlier claim",
    ),
    pytest.param(
        lambda harness, asleep: by_claim(asleep)._pods.update({"default/c": {"default/sleeping": None}}),
        "pods are not found by just the objects that they name",
        id="by another's claim",
    ),
    pytest.param(
        lambda harness, asleep: rename(asleep.by_key, "sleeping"),
        "pod default/sleeping: unschedulable under the name default/other",
        id="name",
    ),
    pytest.param(
        lambda harness, asleep: asleep._bucket.pop("default/sleeping"),
        "pod default/sleeping: unschedulable, but in no group",
        id="no group",
    ),
    pytest.param(
        lambda harness, asleep: asleep.by_key.pop("default/sleeping"),
        "pod default/sleeping: in a group, but not unschedulable",
        id="only in a group",
    ),
    pytest.param(
        lambda harness, asleep: group_of(asleep, "sleeping").by_shape.clear(),
        "pod default/sleeping: not in its group P",
        id="not in its group",
    ),
    pytest.param(
        lambda harness, asleep: asleep._groups.pop(group_of(asleep, "sleeping").rejection),
        "pod default/sleeping: its group P is not known",
        id="unknown group",
    ),
    pytest.param(
        lambda harness, asleep: setattr(
            found(harness, "sleeping"), "pod", harness.info(a_pod("sleeping").labels(a="b"))
        ),
        "pod default/sleeping: in its group among pods of another shape",
        id="shape",
    ),
    pytest.param(
        lambda harness, asleep: found(harness, "gated").unschedulable_plugins.add("P"),
        "pod default/gated: rejected by A, P, gated by A, in the group A, gated by A",
        id="another group's",
    ),
    pytest.param(lambda harness, asleep: setattr(asleep, "gated", 2), "2 pods are counted as gated, 1 are", id="gated"),
    pytest.param(
        lambda harness, asleep: group_of(asleep, "sleeping").by_shape.update({None: {"default/a": None}}),
        "3 pods are in groups, 2 have one",
        id="a group's pods",
    ),
    pytest.param(
        lambda harness, asleep: asleep._rejected_by.pop(("default-scheduler", "P")),
        "plugin P of default-scheduler does not find the group P",
        id="group of a plugin",
    ),
    pytest.param(
        lambda harness, asleep: asleep._rejected_by.update(
            {("default-scheduler", "Q"): {group_of(asleep, "gated").rejection: group_of(asleep, "gated")}}
        ),
        "plugin Q of default-scheduler finds the group A, gated by A",
        id="group of no plugin",
    ),
]


def swap(flying):
    """Swap the two pods in flight."""
    flying.by_uid = dict(reversed(flying.by_uid.items()))


def end_all(flying):
    """End the attempts without telling the events."""
    flying.by_uid.clear()


IN_FLIGHT = [
    pytest.param(
        lambda harness, flying: flying.by_uid.update(g=flying.by_uid.pop("f2")),
        "pod default/later (f2): in flight under the UID g",
        id="UID",
    ),
    pytest.param(
        lambda harness, flying: setattr(flying.pods()[0], "place", Place.GONE),
        "pod default/flying: in flight, but its place is gone",
        id="place",
    ),
    pytest.param(
        lambda harness, flying: end_all(flying), "2 events are kept for pods in flight, and there is none", id="no pod"
    ),
    pytest.param(
        lambda harness, flying: swap(flying),
        "pods in flight are not in the order of their first events: [1, 0]",
        id="order",
    ),
    pytest.param(
        lambda harness, flying: setattr(flying, "_needed", 1),
        "events from 1 to 2 are needed; pods in flight begin with [0, 1]",
        id="needed events",
    ),
    pytest.param(
        lambda harness, flying: flying._events.clear(),
        "events from 0 to 0 are needed; pods in flight begin with [0, 1]",
        id="lost events",
    ),
    pytest.param(
        lambda harness, flying: keep_too_many(harness, flying),
        "600 of 601 events are needed by no pod in flight, and still kept",
        id="too many events",
    ),
    pytest.param(
        lambda harness, flying: harness.add(a_pod("flying").uid("f1")),
        "pod default/flying (f1): in flight, and waits: active",
        id="waits as well",
    ),
]


def keep_too_many(harness, flying):
    for _ in range(599):
        flying.record(InFlightEvent(event(NODE), None, None))
    flying.by_uid = {"f2": (600, flying.by_uid["f2"][1])}
    flying._needed = 600


@pytest.mark.parametrize(("breaks", "text"), [*PLACES, *HEAPS])
def test_places(breaks, text):
    harness = full_queue()
    breaks(harness, harness.queue._places)
    assert text in harness.queue.problems()


@pytest.mark.parametrize(("breaks", "text"), ASLEEP)
def test_unschedulable_pods(breaks, text):
    harness = full_queue()
    breaks(harness, harness.queue._places.unschedulable)
    assert text in harness.queue._places.unschedulable.problems()


@pytest.mark.parametrize(("breaks", "text"), IN_FLIGHT)
def test_pods_in_flight(breaks, text):
    harness = full_queue()
    breaks(harness, harness.queue._in_flight)
    assert text in harness.queue.problems()


class TestMembers:
    """Queued pods by pod group."""

    def harness(self):
        harness = QueueHarness()
        for name, group in (("a", "g"), ("b", "h"), ("c", "g")):
            harness.add(a_pod(name).spec(schedulingGroup={"podGroupName": group}))
        return harness

    def members(self, harness, group="default/g"):
        return [info.pod.metadata.name for info in harness.queue.waiting_members(group)]

    def test_in_order_of_arrival_and_not_those_in_flight(self):
        harness = self.harness()
        assert (self.members(harness), self.members(harness, "default/other")) == (["a", "c"], [])
        assert harness.queue.pop().pod.pod.metadata.name == "a"
        assert self.members(harness) == ["c"]
        harness.queue.pop(), harness.queue.pop()
        assert self.members(harness) == []
        assert harness.queue.problems() == []

    def test_a_successor_in_another_group(self):
        harness = self.harness()
        harness.add(a_pod("a").uid("2").spec(schedulingGroup={"podGroupName": "h"}))
        old = harness.queue.get("default/a").pod
        assert (self.members(harness), self.members(harness, "default/h")) == (["c"], ["b", "a"])
        harness.queue.update(old.pod, harness.info(a_pod("a").uid("2")))
        assert (self.members(harness), self.members(harness, "default/h")) == (["c"], ["b"])
        assert harness.queue.problems() == []

    def test_a_pod_under_the_wrong_group_is_a_problem(self):
        harness = self.harness()
        places = harness.queue._places
        places._members["default/h"]["default/a"] = places._members["default/g"].pop("default/a")
        assert any("pods of another group do" in problem for problem in harness.queue.problems())
        del places._members["default/h"]["default/a"]
        assert any("are found by group" in problem for problem in harness.queue.problems())
