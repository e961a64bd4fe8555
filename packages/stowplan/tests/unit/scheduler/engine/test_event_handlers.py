"""What each change of an object does, in which order, and which objects are passed to the queue.

The queue is a fake that records its calls with the cluster's state at that moment.
"""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from stowplan.kube.api import types as t
from stowplan.kube.api.port import Change
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.event_handlers import EventHandlers
from stowplan.scheduler.engine.statuses import PodStatuses
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue
from stowplan.testing import a_node, a_pod
from support.observing.metrics import scheduler_metrics
from support.plugins.profiles import framework as framework_of
from support.scheduling.engine_context import context
from support.scheduling.worlds import struct

NOW = "2026-01-01T00:00:00Z"


class HandlersHarness:
    """The handlers, and everything that they did, as `heard`."""

    def __init__(self, *objects):
        self.heard = []
        self.queue = HeardQueue(self)
        self.context = context(queue=self.queue, statuses=HeardStatuses(self))
        self.state = self.context.state
        profile = framework_of(self.state)
        self.waiting = self.context.waiting_pods
        self.checks = []
        self.durations = scheduler_metrics().event_handling_duration_seconds
        self.handlers = EventHandlers(
            self.context,
            algorithm=SchedulingAlgorithm(self.state, dict.fromkeys(("default-scheduler", "other"), profile)),
            durations=self.durations,
            now=lambda: 0.0,
        )
        for obj in objects:
            self.change(None, obj)
        self.heard.clear()

    def change(self, old, new):
        old, new = struct(old), struct(new)
        self.handlers.handle(type(old if new is None else new), [Change(old, new)])

    def take(self):
        taken, self.heard[:] = list(self.heard), []
        return taken

    def assumes(self, pod, node):
        self.state.assume(self.state.pod_info(struct(pod)), node)

    def world(self):
        """Names of nodes; placed pods with their nodes and requests."""
        placed = {
            info.pod.metadata.name: (info.node_name, info.shape.used.get("cpu", 0)) for info in self.state.placed_pods()
        }
        return sorted(self.state.table.row_of), placed


class HeardQueue(SchedulingQueue):
    def __init__(self, room):
        self.room = room

    def move_all(self, event, old, new, *, pre_check=None):
        self.room.checks.append(pre_check)
        self.room.heard.append((event.label, version(old), version(new), *self.room.world()))

    def is_registered(self, event):
        return True

    def add(self, info):
        self.room.heard.append(("add", info.key, info.key in self.room.state.pending))

    def update(self, old, info):
        known = self.room.state.pending.get(info.key)
        self.room.heard.append(("update", version(old), version(info.pod), version(known.pod)))

    def delete(self, info):
        self.room.heard.append(("delete", info.key, info.key in self.room.state.pending))


class HeardStatuses(PodStatuses):
    def __init__(self, room):
        self.room = room

    def observe(self, pod):
        self.room.heard.append(("observe", version(pod)))

    def forget(self, uid):
        self.room.heard.append(("forget", uid))


def version(obj):
    """Name, resourceVersion and node."""
    if obj is None:
        return None
    node = getattr(obj.spec, "node_name", "") if hasattr(obj, "spec") else ""
    return obj.metadata.name, obj.metadata.resource_version, node


def at(obj, resource_version):
    """That version of an object."""
    made = struct(obj)
    return replace(made, metadata=replace(made.metadata, resource_version=str(resource_version)))


def pod(resource_version=1, **more):
    return at(a_pod("p").uid("u").spec(**more), resource_version)


def bound(resource_version=2, cpu="1", node="n"):
    return at(a_pod("p").uid("u").requests(cpu=cpu).on(node), resource_version)


CPU = 10**3


def nominated(node, resource_version):
    made = a_pod("p").uid("u").priority(5)
    return at(made.nominated_to(node) if node else made, resource_version)


def terminating(resource_version):
    return at(a_pod("p").uid("u").deleted(NOW), resource_version)


NODE = at(a_node("n"), 1)
BLUE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "blue", "labels": {"a": "b"}}}
THEIRS = at(a_pod("p").scheduler("somebody-else").requests(cpu=1).on("n"), 1)
FIRST, SECOND = ("p", "1", ""), ("p", "2", "")
LEAVES = [("forget", "u"), ("delete", "default/p", False)]
UPDATED = [("observe", SECOND), ("update", FIRST, SECOND, SECOND)]
#: Events have the nodes and placed pods of the state at that moment.
ROOM_WAS_KEPT = ("AssignedPodDelete", FIRST, None, [], {})
CHANGES = [
    pytest.param(None, NODE, [("NodeAdd", None, ("n", "1", ""), ["n"], {})], id="a node comes, before its event"),
    pytest.param(NODE, None, [("NodeDelete", ("n", "1", ""), None, ["n"], {})], id="a node goes, after its event"),
    pytest.param(None, BLUE, [], id="a kind without events comes"),
    pytest.param(
        None,
        THEIRS,
        [("AssignedPodAdd", None, ("p", "1", "n"), [], {"p": ("n", CPU)})],
        id="a bound pod of any scheduler comes and counts, before its event",
    ),
    pytest.param(
        bound(2, cpu="2"),
        bound(3),
        [("AssignedPodUpdatePodScaleDown", ("p", "2", "n"), ("p", "3", "n"), [], {"p": ("n", CPU)})],
        id="a bound pod is counted again, before its event",
    ),
    pytest.param(
        bound(), None, [("AssignedPodDelete", ("p", "2", "n"), None, [], {})], id="a bound pod goes, before its event"
    ),
    pytest.param(
        None,
        at(a_pod("p").scheduler("other"), 1),
        [("add", "default/p", True)],
        id="a pod of ours comes: pending, then queued",
    ),
    pytest.param(pod(1), pod(2), UPDATED, id="a pending pod changes: in the state, then in the queue"),
    pytest.param(pod(1), None, LEAVES, id="a pending pod goes"),
    pytest.param(nominated("n", 1), nominated("", 2), [*UPDATED, ROOM_WAS_KEPT], id="a nomination is taken away"),
    pytest.param(nominated("n", 1), nominated("m", 2), [*UPDATED, ROOM_WAS_KEPT], id="another nomination"),
    pytest.param(nominated("n", 1), nominated("n", 2), UPDATED, id="the same nomination"),
    pytest.param(nominated("", 1), nominated("n", 2), UPDATED, id="a nomination is given"),
    pytest.param(nominated("n", 1), None, [*LEAVES, ROOM_WAS_KEPT], id="a nominated pod goes"),
]
#: The same for an assumed pod. The events have it as assumed, with its node.
CHANGES_OF_ASSUMED_PODS = [
    pytest.param(nominated("n", 1), nominated("", 2), [("observe", SECOND)], id="changes: it does not reach the queue"),
    pytest.param(terminating(1), terminating(2), [("observe", SECOND)], id="a terminating one changes"),
    pytest.param(
        nominated("n", 1), None, [*LEAVES, ("AssignedPodDelete", ("p", "1", "n"), None, [], {})], id="goes: one event"
    ),
]


@pytest.mark.parametrize(("old", "new", "heard"), CHANGES)
def test_a_change(old, new, heard):
    room = HandlersHarness(*([] if old is None else [old]))
    room.change(old, new)
    assert room.take() == heard


@pytest.mark.parametrize(("old", "new", "heard"), CHANGES_OF_ASSUMED_PODS)
def test_a_change_of_an_assumed_pod(old, new, heard):
    room = HandlersHarness(old)
    room.assumes(old, "n")
    room.change(old, new)
    assert room.take() == heard
    assert room.state.is_assumed("u") is (new is not None)
    assert [info.pod for info in room.state.pending.values()] == ([] if new is None else [new])


# -- nodes and lookup objects -----------------------------------------------------------------------------------------


def test_a_node_update_is_in_the_state_before_its_events():
    room = HandlersHarness(at(a_node("n"), 1))
    row = room.state.table.row_of["n"]
    seen = []
    room.queue.move_all = lambda event, old, new, **_: seen.append((event.label, room.state.table.nodes[row] is new))
    room.change(at(a_node("n"), 1), at(a_node("n").labels(a="b").tainted("k"), 2))
    assert seen == [("NodeUpdateNodeLabel", True), ("NodeUpdateNodeTaint", True)]


def test_a_lookup_object_is_added_updated_and_deleted():
    room = HandlersHarness()

    def known():
        return [o.metadata.resource_version for o in room.state.objects.all(t.StorageClass)]

    def storage_class(resource_version):
        kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x"}
        return at(kind | {"metadata": {"name": "fast"}}, resource_version)

    seen = []
    room.queue.move_all = lambda event, old, new, **_: seen.append((event.label, version(old), version(new), known()))
    for old, new in ((None, 1), (1, 2), (2, None)):
        room.change(old and storage_class(old), new and storage_class(new))
    first, second = ("fast", "1", ""), ("fast", "2", "")
    assert seen == [
        ("storage.k8s.io/StorageClassAdd", None, first, ["1"]),
        ("storage.k8s.io/StorageClassUpdate", first, second, ["2"]),
        ("storage.k8s.io/StorageClassDelete", second, None, []),
    ]


def test_an_object_that_fails_does_not_block_others(caplog):
    room = HandlersHarness()
    bad = at(a_pod("bad").requests(cpu="lots").on("n"), 1)
    room.handlers.handle(t.Pod, [Change(None, bad), Change(None, pod())])
    assert [what[:2] for what in room.take()] == [("add", "default/p")]
    assert "Failed to process a changed object" in caplog.text
    assert "default/bad" in caplog.text


@pytest.mark.parametrize("step", ["comes", "changes", "goes"])
def test_waiters_for_an_object_are_woken_after_the_state_is_updated(step):
    class Sleeper:
        def on_wake(self):
            seen.append(sorted(room.state.table.row_of))

    room, seen = HandlersHarness(), []
    before, after = {"comes": (None, at(a_node("n"), 1)), "goes": (at(a_node("n"), 1), None)}.get(
        step, (at(a_node("n"), 1), at(a_node("n").labels(a="b"), 2))
    )
    if before is not None:
        room.change(None, before)
    outbox = room.context.outbox
    outbox.watch(("Node", "/n"), Sleeper())
    room.change(None, at(a_node("other"), 1))
    room.change(before, after)
    outbox.finish()
    assert seen == [["other"] if step == "goes" else ["n", "other"]]


# -- pods on nodes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheduler", "kept"),
    [
        pytest.param("default-scheduler", False, id="our pod"),
        pytest.param("somebody-else", True, id="another scheduler's pod"),
    ],
)
def test_the_story_of_a_deleted_pod_may_be_dropped(scheduler, kept):
    """Stories of other schedulers' pods are not kept, so nothing is done for them."""
    gone = at(a_pod("p").uid("u").scheduler(scheduler).on("n"), 1)
    room = HandlersHarness(gone)
    told = []
    room.handlers._stories = SimpleNamespace(kept=True, gone=told.append)
    room.change(gone, None)
    assert (told == []) is kept


# -- pods without a node ----------------------------------------------------------------------------------------------


def test_other_schedulers_pods_are_ignored_until_bound():
    theirs = a_pod("p").uid("u").scheduler("somebody-else")
    room = HandlersHarness()
    room.change(None, at(theirs, 1))
    room.change(at(theirs, 1), at(theirs.labels(a="b"), 2))
    room.change(at(theirs, 2), None)
    assert room.take() == []
    assert not room.state.pending
    room.change(at(theirs, 2), at(theirs.on("n"), 3))
    assert room.take() == [("AssignedPodAdd", None, ("p", "3", "n"), [], {"p": ("n", 0)})]


@pytest.mark.parametrize("assumed", ["", "n", "m"])
def test_a_bound_pods_event_precedes_its_removal_from_the_queue(assumed, caplog):
    caplog.set_level("INFO")
    room = HandlersHarness(pod(1))
    if assumed:
        room.assumes(pod(1), assumed)
    room.change(pod(1), bound(2))
    assert room.take() == [
        ("AssignedPodAdd", None, ("p", "2", "n"), [], {"p": ("n", CPU)}),
        ("delete", "default/p", False),
        ("forget", "u"),
    ]
    assert not room.state.is_assumed("u")
    assert ("Pod was added to a different node than it was assumed" in caplog.text) is (assumed == "m")


def test_a_pod_that_is_deleted_leaves_the_queue():
    room = HandlersHarness(pod(1))
    told = []
    room.handlers._stories = SimpleNamespace(kept=True, gone=told.append)
    room.change(pod(1), None)
    assert room.take() == [("forget", "u"), ("delete", "default/p", False)]
    assert told == ["u"]


# -- nominations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("new", [nominated("", 2), None], ids=["removed", "deleted"])
def test_a_lost_nomination_moves_only_pods_of_equal_or_lower_priority(new):
    room = HandlersHarness(nominated("n", 1))
    room.change(nominated("n", 1), new)
    check = room.checks[-1]
    pods = [room.state.pod_info(struct(a_pod().priority(priority))) for priority in (4, 5, 6)]
    assert [check(info) for info in pods] == [True, True, False]


# -- assumed pods -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("new", [terminating(2), None], ids=["terminating", "deleted"])
def test_a_deleted_assumed_pod_frees_its_node_before_its_event(new):
    room = HandlersHarness(pod(1))
    room.assumes(pod(1), "n")
    room.change(pod(1), new)
    # The event has the pod as assumed, with its node.
    assert room.take()[-1] == ("AssignedPodDelete", ("p", "1", "n"), None, [], {})
    assert room.checks == [None]


@pytest.mark.parametrize("new", [terminating(2), None], ids=["terminating", "deleted"])
def test_a_deleted_pod_that_waits_on_permit_is_rejected_and_frees_its_node_later(new):
    room = HandlersHarness(pod(1))
    room.assumes(pod(1), "n")
    waiting = room.waiting.add(room.state.placed("u"), {"P": 10.0})
    room.change(pod(1), new)
    assert room.take()[-1] == ("AssignedPodDelete", ("p", "1", "n"), None, [], {"p": ("n", 0)})
    assert (waiting.decision.plugin, waiting.decision.message) == ("", "removed")


# -- bindings by others -----------------------------------------------------------------------------------------------


def test_a_pod_bound_by_another_client_is_reported():
    pod = struct(a_pod("p"))
    room = HandlersHarness(struct(a_node("n1")), pod)
    room.change(pod, struct(a_pod("p").on("n1")))
    assert room.handlers.bound_by_others == ("default/p", "n1")


def test_our_own_bindings_and_other_schedulers_pods_are_not_reported():
    pod, theirs = struct(a_pod("p")), struct(a_pod("q").spec(schedulerName="theirs"))
    room = HandlersHarness(struct(a_node("n1")), pod, theirs)
    room.state.assume(room.state.pending.get("default/p"), "n1")
    room.change(pod, struct(a_pod("p").on("n1")))
    room.change(theirs, struct(a_pod("q").spec(schedulerName="theirs").on("n1")))
    assert room.handlers.bound_by_others is None
