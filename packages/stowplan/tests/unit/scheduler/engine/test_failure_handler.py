"""The results of a failed attempt, in order: queue, nomination, event, condition and log."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from stowplan.kube.api.types import PodCondition
from stowplan.kube.klog.logger import configure
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.decision.decision import NO_NODES
from stowplan.scheduler.engine.schedule_one import Failure, FailureHandler, failure_of
from stowplan.scheduler.framework.status import Code, Status, error
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.testing import a_node, a_pod
from support.observing.metrics import attempt_metrics
from support.scheduling.engine_context import context
from support.scheduling.worlds import struct

REJECTED = Status(Code.Unschedulable, ("no room",))


def version(number, uid="u"):
    made = struct(a_pod("p").uid(uid))
    return replace(made, metadata=replace(made.metadata, resource_version=str(number), generation=10 + number))


class HandlerHarness:
    """A pod as it was tried, and as it is now (None: deleted or bound)."""

    def __init__(self, newest, *, tried=None):
        self.heard, self.reports = [], []
        self.state = ClusterState()
        tried = tried or version(1)
        if newest is not None:
            self.state.pending.put(self.state.pod_info(newest))
        self.queued = QueuedPod(pod=self.state.pod_info(tried), timestamp=0.0, attempts=1)
        self.handler = FailureHandler(
            context(state=self.state, queue=self, reports=self.reports),
            profiles={"default-scheduler"},
            statuses=SimpleNamespace(write=self._written),
            metrics=attempt_metrics(),
            schedules_groups=True,
        )
        handle = SimpleNamespace(event_recorder=SimpleNamespace(event=self._told))
        self.framework = SimpleNamespace(profile_name="default-scheduler", handle=handle)

    def fails(self, failure):
        self.handler.handle(self.framework, self.queued, failure, started=0.0)
        return self.heard

    def done(self, uid):
        self.heard.append(("done", uid))

    def add_unschedulable_if_not_present(self, queued):
        of = queued.pod.pod.metadata.resource_version
        plugins = sorted(queued.unschedulable_plugins), sorted(queued.pending_plugins), queued.gating_plugin
        self.heard.append(("requeue", of, *plugins))

    def nominate(self, info, node_name):
        self.heard.append(("nominate", info.pod.metadata.resource_version, node_name))

    def _told(self, regarding, **event):
        self.heard.append(("event", regarding.metadata.resource_version, event["note"]))
        self.event = event

    def _written(self, pod, *, condition, nominated_node_name):
        self.heard.append(("write", pod.metadata.resource_version, condition.message, nominated_node_name))
        self.condition = condition


@pytest.mark.parametrize("nomination", ["", "n", None])
@pytest.mark.parametrize("newest", [version(1), version(2)], ids=["unchanged", "changed"])
def test_a_pending_pod_is_requeued_in_its_newest_version(newest, nomination):
    now = newest.metadata.resource_version
    plugins = frozenset({"A", "B"})
    failure = Failure(
        status=REJECTED,
        unschedulable_plugins=plugins,
        pending_plugins=frozenset({"B"}),
        nominated_node_name=nomination,
    )
    assert HandlerHarness(newest).fails(failure) == [
        ("requeue", now, ["A", "B"], ["B"], ""),
        ("nominate", now, nomination),
        ("event", now, "no room"),
        ("write", now, "no room", nomination),
    ]


def test_the_failure_of_an_earlier_attempt_is_cleared():
    room = HandlerHarness(version(1))
    room.queued.unschedulable_plugins = {"Old"}
    room.queued.pending_plugins = {"Old"}
    room.queued.gating_plugin = "Old"
    assert room.fails(Failure(status=error("broken")))[0] == ("requeue", "1", [], [], "")


def test_a_deleted_or_bound_pod_only_gets_an_event():
    assert HandlerHarness(None).fails(Failure(status=REJECTED)) == [("done", "u"), ("event", "1", "no room")]


def test_a_pod_replaced_by_another_of_its_name_gets_nothing():
    assert HandlerHarness(version(2, uid="another")).fails(Failure(status=REJECTED)) == [("done", "u")]


def test_a_pod_that_is_already_queued_still_gets_event_and_condition():
    room = HandlerHarness(version(1))

    def present(queued):
        raise ValueError("Pod default/p is already present in the active queue")

    room.add_unschedulable_if_not_present = present
    assert [what[0] for what in room.fails(Failure(status=REJECTED))] == ["nominate", "event", "write"]
    assert room.reports == ["Pod default/p is already present in the active queue"]


def test_nothing_is_written_when_every_bind_plugin_skipped():
    assert [what[0] for what in HandlerHarness(version(1)).fails(Failure(status=Status(Code.Skip)))] == [
        "requeue",
        "nominate",
    ]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (Status(Code.Unschedulable, ("no",)), "Unschedulable"),
        (Status(Code.UnschedulableAndUnresolvable, ("no",)), "Unschedulable"),
        (Status(Code.Pending, ("no",)), "Unschedulable"),
        (Status(Code.Error, ("no",)), "SchedulerError"),
    ],
    ids=lambda what: what.code.name if isinstance(what, Status) else what,
)
def test_event_and_condition(status, reason):
    room = HandlerHarness(version(2))
    room.fails(Failure(status=status))
    assert room.event == {"type_": "Warning", "reason": "FailedScheduling", "action": "Scheduling", "note": "no"}
    assert room.condition == PodCondition(
        type="PodScheduled", status="False", reason=reason, message="no", observed_generation=12
    )


@pytest.mark.parametrize(
    ("code", "pending"),
    [(Code.Unschedulable, []), (Code.UnschedulableAndUnresolvable, []), (Code.Pending, ["P"])],
    ids=lambda what: what.name if isinstance(what, Code) else "",
)
def test_a_rejection_by_reserve_or_permit_is_about_one_node(code, pending):
    failure = failure_of(Status(code, ("b is full", "a is full"), "P"))
    assert (failure.status.code, failure.nominated_node_name) == (code, "")
    assert failure.message == "0/1 nodes are available: 1 a is full, 1 b is full."
    assert (sorted(failure.unschedulable_plugins), sorted(failure.pending_plugins)) == (["P"], pending)


def test_a_rejection_without_a_reason():
    assert failure_of(Status(Code.Unschedulable, (), "P")).message == "0/1 nodes are available:"


# -- the log ----------------------------------------------------------------------------------------------------------


class Lines:
    def __init__(self):
        self.lines = []

    def write(self, entry):
        keys = {key: str(getattr(value, "key", value)) for key, value in entry.keys.items() if key != "pod"}
        self.lines.append((entry.severity, entry.level, entry.message, keys))


@pytest.fixture
def lines():
    found = Lines()
    configure(sink=found, verbosity=3)
    yield found.lines
    configure()


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        pytest.param(
            Failure(status=REJECTED, unschedulable_plugins=frozenset("A")),
            ("I", 2, "Unable to schedule pod; no fit; waiting", {"err": "no room"}),
            id="rejected",
        ),
        pytest.param(
            Failure(status=REJECTED, pending_plugins=frozenset("A")),
            ("I", 2, "Unable to schedule pod; no fit; waiting", {"err": "no room"}),
            id="pending",
        ),
        pytest.param(
            Failure(status=Status(Code.UnschedulableAndUnresolvable, error=RuntimeError(NO_NODES))),
            ("I", 2, "Unable to schedule pod; no nodes are registered to the cluster; waiting", {}),
            id="no nodes",
        ),
        pytest.param(
            Failure(status=error("x")),
            ("E", 0, "Error scheduling pod; retrying", {"logger": "UnhandledError"}),
            id="error",
        ),
        pytest.param(
            Failure(status=REJECTED),
            ("E", 0, "Error scheduling pod; retrying", {"logger": "UnhandledError"}),
            id="rejected by Bind",
        ),
    ],
)
def test_the_reason_is_logged(failure, expected, lines):
    HandlerHarness(version(1)).fails(failure)
    assert lines[0] == expected


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        pytest.param(
            Failure(status=Status(Code.Unschedulable, ("wait",), error=RuntimeError("pod group is unschedulable"))),
            ("I", 2, "Unable to schedule pod belonging to a pod group; waiting", "pod group is unschedulable, wait"),
            id="held back",
        ),
        pytest.param(
            Failure(status=REJECTED, unschedulable_plugins=frozenset("A")),
            ("I", 2, "Unable to schedule pod; no fit; waiting", "no room"),
            id="fits nowhere",
        ),
    ],
)
def test_a_pod_of_a_group_is_logged_with_the_group(failure, expected, lines):
    severity, level, text, err = expected
    tried = struct(a_pod("p").uid("u").spec(schedulingGroup={"podGroupName": "g"}))
    HandlerHarness(None, tried=tried).fails(failure)
    assert lines[0] == (severity, level, text, {"podGroup": "default/g", "err": err})


def test_a_missing_pod_is_logged(lines):
    HandlerHarness(None).fails(Failure(status=error("x")))
    assert lines[1:] == [("I", 0, "Pod doesn't exist in informer cache", {})]


def test_a_pod_that_was_bound_elsewhere_is_logged(lines):
    room = HandlerHarness(None)
    room.state.add_node(struct(a_node("n")))
    room.state.add_pod(struct(a_pod("p").uid("u").on("n")))
    room.fails(Failure(status=error("x")))
    text = "Pod has been assigned to node. Abort adding it back to queue."
    assert lines[1:] == [("I", 0, text, {"node": "n"})]


def test_a_recreated_pod_is_logged(lines):
    HandlerHarness(version(2, uid="another")).fails(Failure(status=error("x")))
    text = "Pod was recreated while handling scheduling failure. Skip requeueing and status updates."
    assert lines[1:] == [("I", 2, text, {"oldUID": "u", "newUID": "another"})]


@pytest.mark.parametrize(
    ("nomination", "told"),
    [("", {"nominatedNodeName": "", "nominatingMode": "1"}), (None, {})],
    ids=["a nomination", "none"],
)
def test_status_patches_are_logged(nomination, told, lines):
    HandlerHarness(version(1)).fails(Failure(status=error("x"), nominated_node_name=nomination))
    condition = {"conditionType": "PodScheduled", "conditionStatus": "False", "conditionReason": "SchedulerError"}
    assert lines[1:] == [("I", 3, "Updating pod condition and nominated node name", condition | told)]
