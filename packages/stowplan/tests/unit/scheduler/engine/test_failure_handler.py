"""The results of a failed attempt, in order: queue, nomination, event, condition and log."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from stowplan.kube.klog.logger import configure
from stowplan.scheduler.engine.decision.decision import NO_NODES
from stowplan.scheduler.engine.schedule_one import Failure, FailureHandler, Observers, failure_of
from stowplan.scheduler.engine.statuses import PodStatuses
from stowplan.scheduler.framework.status import Code, Status, error
from stowplan.testing import a_node, a_pod
from support.observing.metrics import attempt_metrics
from support.scheduling.engine_context import context
from support.scheduling.queues import DEFAULT, QueueHarness
from support.scheduling.scripted_effects import ScriptedEffects
from support.scheduling.worlds import struct

REJECTED = Status(Code.Unschedulable, ("no room",))


def version(number, uid="u"):
    made = struct(a_pod("p").uid(uid))
    return replace(made, metadata=replace(made.metadata, resource_version=str(number), generation=10 + number))


class Attempt:
    """An attempt of a pod that changes meanwhile: `newest` is the pod as it is now (None: deleted or bound)."""

    def __init__(self, newest, *, tried=None):
        self.reports, self.events = [], []
        self.room, self.effects = QueueHarness(), ScriptedEffects()
        self.state = self.room.state
        key = self.room.add(tried or version(1)).key
        self.queued = self.room.queue.pop()
        self.state.pending.remove(key)
        if newest is not None:
            self.state.pending.put(self.state.pod_info(newest))
        statuses = PodStatuses(self.effects.outbox, random=lambda: 0.5, report=pytest.fail)
        self.handler = FailureHandler(
            context(
                state=self.state,
                queue=self.room.queue,
                reports=self.reports,
                profiles={DEFAULT},
                statuses=statuses,
            ),
            observers=Observers(metrics=attempt_metrics()),
            schedules_groups=True,
        )
        self.framework = self.room.frameworks[DEFAULT]
        self.framework.handle.event_recorder = SimpleNamespace(event=self._event)

    def _event(self, regarding, **event):
        self.events.append((regarding.metadata.resource_version, event))

    def fails(self, failure):
        with self.effects.step():
            self.handler.handle(self.framework, self.queued, failure, started=0.0)
        assert not self.room.queue.is_in_flight("u")
        return self

    @property
    def notes(self):
        return [(of, event["note"]) for of, event in self.events]

    @property
    def written(self):
        return [request.body["status"] for request in self.effects.actions]

    @property
    def waits(self):
        """Its place, version and rejecting plugins in the queue."""
        queued = self.room.queue.get("default/p")
        if queued is not None:
            plugins = sorted(queued.unschedulable_plugins), sorted(queued.pending_plugins), queued.gating_plugin
            return (queued.place.name, queued.pod.pod.metadata.resource_version, *plugins)
        return None


@pytest.mark.parametrize(("nomination", "node"), [("", ""), ("n", "n"), (None, "")])
@pytest.mark.parametrize("newest", [version(1), version(2)], ids=["unchanged", "changed"])
def test_a_pending_pod_is_requeued_in_its_newest_version(newest, nomination, node):
    now = newest.metadata.resource_version
    failure = Failure(
        status=REJECTED,
        unschedulable_plugins=frozenset({"A", "B"}),
        pending_plugins=frozenset({"B"}),
        nominated_node_name=nomination,
    )
    attempt = Attempt(newest)
    attempt.state.nominator.add(attempt.queued.pod, "before")
    attempt.fails(failure)
    assert attempt.waits == ("UNSCHEDULABLE", now, ["A", "B"], ["B"], "")
    assert attempt.state.nominator.node_of("u") == node
    assert attempt.notes == [(now, "no room")]
    assert [(one["conditions"][0]["message"], one.get("nominatedNodeName")) for one in attempt.written] == [
        ("no room", nomination or None)
    ]


def test_the_failure_of_an_earlier_attempt_is_cleared():
    attempt = Attempt(version(1))
    attempt.queued.unschedulable_plugins = attempt.queued.pending_plugins = {"Old"}
    attempt.queued.gating_plugin = "Old"
    assert attempt.fails(Failure(status=error("broken"))).waits == ("ERROR_BACKOFF", "1", [], [], "")


@pytest.mark.parametrize(
    ("newest", "notes"),
    [
        pytest.param(None, [("1", "no room")], id="deleted or bound: an event only"),
        pytest.param(version(2, uid="another"), [], id="replaced by another of its name: nothing"),
    ],
)
def test_a_pod_that_is_no_longer_pending(newest, notes):
    attempt = Attempt(newest).fails(Failure(status=REJECTED))
    assert (attempt.waits, attempt.notes, attempt.written) == (None, notes, [])


def test_a_pod_that_is_already_queued_still_gets_event_and_condition():
    attempt = Attempt(version(1))
    attempt.room.add(version(1))
    attempt.fails(Failure(status=REJECTED, unschedulable_plugins=frozenset("A")))
    assert (attempt.waits[0], attempt.notes, len(attempt.written)) == ("ACTIVE", [("1", "no room")], 1)
    assert attempt.reports == ["Pod default/p is already present in the active queue"]


def test_nothing_is_written_when_every_bind_plugin_skipped():
    attempt = Attempt(version(1)).fails(Failure(status=Status(Code.Skip)))
    assert (attempt.waits[0], attempt.notes, attempt.written) == ("ERROR_BACKOFF", [], [])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (Code.Unschedulable, "Unschedulable"),
        (Code.UnschedulableAndUnresolvable, "Unschedulable"),
        (Code.Pending, "Unschedulable"),
        (Code.Error, "SchedulerError"),
    ],
    ids=lambda what: what.name if isinstance(what, Code) else what,
)
def test_event_and_condition(code, reason):
    attempt = Attempt(version(2)).fails(Failure(status=Status(code, ("no",))))
    event = {"type_": "Warning", "reason": "FailedScheduling", "action": "Scheduling", "note": "no"}
    assert attempt.events == [("2", event)]
    condition = attempt.written[0]["conditions"][0]
    told = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "no", "observedGeneration": 12}
    assert condition | told == condition


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
    Attempt(version(1)).fails(failure)
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
    Attempt(None, tried=tried).fails(failure)
    assert lines[0] == (severity, level, text, {"podGroup": "default/g", "err": err})


def test_a_missing_pod_is_logged(lines):
    Attempt(None).fails(Failure(status=error("x")))
    assert lines[1:] == [("I", 0, "Pod doesn't exist in informer cache", {})]


def test_a_pod_that_was_bound_elsewhere_is_logged(lines):
    room = Attempt(None)
    room.state.add_node(struct(a_node("n")))
    room.state.add_pod(struct(a_pod("p").uid("u").on("n")))
    room.fails(Failure(status=error("x")))
    text = "Pod has been assigned to node. Abort adding it back to queue."
    assert lines[1:] == [("I", 0, text, {"node": "n"})]


def test_a_recreated_pod_is_logged(lines):
    Attempt(version(2, uid="another")).fails(Failure(status=error("x")))
    text = "Pod was recreated while handling scheduling failure. Skip requeueing and status updates."
    assert lines[1:] == [("I", 2, text, {"oldUID": "u", "newUID": "another"})]


@pytest.mark.parametrize(
    ("nomination", "told"),
    [("", {"nominatedNodeName": "", "nominatingMode": "1"}), (None, {})],
    ids=["a nomination", "none"],
)
def test_status_patches_are_logged(nomination, told, lines):
    Attempt(version(1)).fails(Failure(status=error("x"), nominated_node_name=nomination))
    condition = {"conditionType": "PodScheduled", "conditionStatus": "False", "conditionReason": "SchedulerError"}
    assert lines[-1] == ("I", 3, "Updating pod condition and nominated node name", condition | told)
