"""What can be counted and seen of the queue."""

from stowplan.framework.events import NODE, POD, Action, Hint, on
from stowplan.framework.status import Code, Status
from stowplan.testing import a_node, a_pod
from support.scheduling.queues import Room, event, waits_for

CLOSED = Status(Code.UnschedulableAndUnresolvable, ("closed",))


def test_pending_pods():
    room = Room(
        waits_for("P", on(NODE, Action.Add, lambda p, o, n: Hint.QUEUE if p.pod.metadata.name == "b" else Hint.SKIP)),
        waits_for("A", pre_enqueue=lambda info: CLOSED if info.pod.metadata.name == "gated" else None),
    )
    assert room.queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
    room.rejected(a_pod("error"))
    room.rejected(a_pod("u"), "P")
    room.rejected(a_pod("b"), "P")
    room.happens(event(NODE), None, a_node())
    room.add(a_pod("gated"), a_pod("a"))
    assert room.queue.counts() == {"active": 1, "backoff": 2, "unschedulable": 1, "gated": 1}
    assert [queued.pod.pod.metadata.name for queued in room.queue.pending()] == ["a", "b", "error", "u", "gated"]
    assert room.queue.summary() == "activeQ:1; backoffQ:2; unschedulablePods:2"
    assert room.pop() == "a"
    assert [queued.key for queued in room.queue.in_flight()] == ["default/a"]


def test_incoming_pods():
    room = Room(
        waits_for("P", on(NODE, Action.Add)),
        waits_for("A", on(NODE, Action.Add), pre_enqueue=lambda info: CLOSED if "gated" in info.labels else None),
    )
    room.add(a_pod("gated").labels(gated="yes"))
    room.rejected(a_pod("a"), "P")
    room.happens(event(NODE), None, a_node())
    room.goes_on(2)
    room.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert room.queue.incoming == {
        ("unschedulable", "UnschedulablePodAdd"): 1,
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        # The gated pod is examined, and stays.
        ("unschedulable", "NodeAdd"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
    }


def test_unschedulable_pods_by_plugin():
    shut = set()
    room = Room(
        waits_for("P"),
        waits_for("A", on(POD, Action.UpdatePodLabel), pre_enqueue=lambda info: CLOSED if shut else None),
    )

    def rejected_by():
        return {key: n for key, n in room.queue.rejected_by.items() if n}

    default = "default-scheduler"
    room.rejected(a_pod("a"), "P", pending=("Q",))
    assert rejected_by() == {("P", default): 1, ("Q", default): 1}
    shut.add("A")
    room.queue.activate([room.info(a_pod("a"))])
    room.queue.activate([room.info(a_pod("a"))])
    assert rejected_by() == {("P", default): 1, ("Q", default): 1, ("A", default): 1}
    shut.clear()
    room.queue.activate([room.info(a_pod("a"))])
    queued = room.queue.pop()
    assert rejected_by() == {}
    assert queued.unschedulable_plugins == {"P", "A"}, "until the failure handler knows better"
    room.fails(queued, "P")
    room.delete(a_pod("a"))
    assert rejected_by() == {}
