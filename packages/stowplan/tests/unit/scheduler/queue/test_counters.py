"""Counts and other statistics of the queue."""

from stowplan.scheduler.framework.events import NODE, POD, Action, Hint, on
from stowplan.scheduler.framework.status import Code, Status
from stowplan.testing import a_node, a_pod
from support.scheduling.queues import QueueHarness, event, plugin_waiting_for

CLOSED = Status(Code.UnschedulableAndUnresolvable, ("closed",))


def test_pending_pods():
    harness = QueueHarness(
        plugin_waiting_for(
            "P", on(NODE, Action.Add, lambda p, o, n: Hint.QUEUE if p.pod.metadata.name == "b" else Hint.SKIP)
        ),
        plugin_waiting_for("A", pre_enqueue=lambda info: CLOSED if info.pod.metadata.name == "gated" else None),
    )
    assert harness.queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
    harness.add_rejected(a_pod("error"))
    harness.add_rejected(a_pod("u"), "P")
    harness.add_rejected(a_pod("b"), "P")
    harness.handle_event(event(NODE), None, a_node())
    harness.add(a_pod("gated"), a_pod("a"))
    assert harness.queue.counts() == {"active": 1, "backoff": 2, "unschedulable": 1, "gated": 1}
    assert [queued.pod.pod.metadata.name for queued in harness.queue.pending()] == ["a", "b", "error", "u", "gated"]
    assert harness.queue.summary() == "activeQ:1; backoffQ:2; unschedulablePods:2"
    assert harness.pop() == "a"
    assert [queued.key for queued in harness.queue.in_flight()] == ["default/a"]


def test_incoming_pods():
    harness = QueueHarness(
        plugin_waiting_for("P", on(NODE, Action.Add)),
        plugin_waiting_for(
            "A", on(NODE, Action.Add), pre_enqueue=lambda info: CLOSED if "gated" in info.labels else None
        ),
    )
    harness.add(a_pod("gated").labels(gated="yes"))
    harness.add_rejected(a_pod("a"), "P")
    harness.handle_event(event(NODE), None, a_node())
    harness.advance_flushing(2)
    harness.update(a_pod("a"), a_pod("a").labels(a="b"))
    assert harness.queue.incoming == {
        ("unschedulable", "UnschedulablePodAdd"): 1,
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        # PreEnqueue is called for the gated pod, which stays gated.
        ("unschedulable", "NodeAdd"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
    }


def test_unschedulable_pods_by_plugin():
    shut = set()
    harness = QueueHarness(
        plugin_waiting_for("P"),
        plugin_waiting_for("A", on(POD, Action.UpdatePodLabel), pre_enqueue=lambda info: CLOSED if shut else None),
    )

    def rejected_by():
        return {key: n for key, n in harness.queue.rejected_by.items() if n}

    default = "default-scheduler"
    harness.add_rejected(a_pod("a"), "P", pending=("Q",))
    assert rejected_by() == {("P", default): 1, ("Q", default): 1}
    shut.add("A")
    harness.queue.activate([harness.info(a_pod("a"))])
    harness.queue.activate([harness.info(a_pod("a"))])
    assert rejected_by() == {("P", default): 1, ("Q", default): 1, ("A", default): 1}
    shut.clear()
    harness.queue.activate([harness.info(a_pod("a"))])
    queued = harness.queue.pop()
    assert rejected_by() == {}
    assert queued.unschedulable_plugins == {"P", "A"}, "kept until the failure handler updates it"
    harness.fail_attempt(queued, "P")
    harness.delete(a_pod("a"))
    assert rejected_by() == {}
