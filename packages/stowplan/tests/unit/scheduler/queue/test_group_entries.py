"""Groups of pods in the queue, one entry each, since 1.37."""

from math import floor, sqrt

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from stowplan.scheduler.framework.events import POD, Action, Hint, on
from stowplan.scheduler.framework.status import unschedulable
from stowplan.scheduler.queue.dumped import DumpedQueue
from stowplan.scheduler.queue.group_entries import TrialEnd
from stowplan.scheduler.queue.queued_pod import Place, QueuedGroup, pods_of
from stowplan.testing import a_pod
from support.examples import times
from support.observing.metrics import numbers
from support.scheduling.queues import QueueHarness, event, plugin_waiting_for

GROUP = "default/g"
SCHEDULED, REJECTED, FAILED, ABORTED = TrialEnd.SCHEDULED, TrialEnd.REJECTED, TrialEnd.FAILED, TrialEnd.ABORTED


def member(name, group="g", priority=0):
    return a_pod(name).priority(priority).spec(schedulingGroup={"podGroupName": group})


class Room(QueueHarness):
    """`shut`: names of pods that the plugin Door gates."""

    def __init__(self, *, shut=(), groups=(GROUP,), **options):
        self.shut, self.groups = set(shut), set(groups)

        def pre_enqueue(info):
            return unschedulable("shut") if info.pod.metadata.name in self.shut else None

        hint = on(POD, Action.UpdatePodLabel, lambda pod, old, new: Hint.QUEUE)
        door = plugin_waiting_for("Door", hint, pre_enqueue=pre_enqueue)
        super().__init__(door, groups=self.groups, **options)

    def open(self, *names):
        self.shut.difference_update(names)
        self.handle_event(event(POD, Action.UpdatePodLabel), a_pod("other"), a_pod("other").labels(a="b"))

    def try_group(self, end=REJECTED, *, bound=(), plugins=("Filter",)):
        """Pop a group, and end its trial; pods that are not bound return."""
        popped = self.queue.pop()
        tried = list(popped.members.values())
        for queued in tried:
            self.end_attempt(queued, bound, plugins)
        self.queue.end_trial(popped.name, end)
        return sorted(queued.pod.pod.metadata.name for queued in tried)

    def end_attempt(self, queued, bound=(), plugins=("Filter",)):
        if queued.pod.pod.metadata.name in bound:
            self.queue.done(queued.pod.uid)
        else:
            self.fail_attempt(queued, *plugins)

    def entry(self, name="g"):
        return next(q for q in self.queue._places.entities() if isinstance(q, QueuedGroup) and q.name.endswith(name))

    def places(self, *names):
        return " ".join(self.place(name) or "-" for name in names)


# -- pods come and go --------------------------------------------------------------------------------------------------


def test_the_pods_of_a_group_are_popped_together():
    room = Room()
    room.add(member("a"), a_pod("single"), member("b"), member("c", priority=7))
    assert room.queue.counts()["active"] == 4
    popped = room.queue.pop()
    assert [queued.pod.pod.metadata.name for queued in pods_of(popped)] == ["a", "b", "c"]
    assert (popped.attempts, {queued.attempts for queued in pods_of(popped)}) == (1, {1})
    assert len(room.queue.in_flight()) == 3
    assert room.queue.scheduling_cycle == 1
    assert room.pop() == "single"


@pytest.mark.parametrize("order", ["g single", "single g"])
def test_a_group_has_the_priority_of_its_pods(order):
    low, high = (member("g0"), a_pod("single")) if order.startswith("s") else (a_pod("single"), member("g0"))
    room = Room()
    room.add(low, high.priority(3))
    first = room.queue.pop()
    assert isinstance(first, QueuedGroup) is order.startswith("g")


def test_a_pod_without_its_pod_group_is_incomplete():
    room = Room(groups=())
    room.add(member("a"), member("b"))
    assert room.places("a", "b") == "INCOMPLETE INCOMPLETE"
    assert room.queue.counts() == {
        "active": 0, "backoff": 0, "unschedulable": 0, "gated": 0, "pending": 0, "incomplete": 2
    }  # fmt: skip
    assert room.queue.summary().endswith("pendingPodGroupMemberPods:0; incompletePodGroupPods:2")
    room.groups.add(GROUP)
    room.queue.group_added(GROUP)
    assert room.places("a", "b") == "ACTIVE ACTIVE"
    room.groups.clear()
    room.queue.group_deleted(GROUP)
    assert room.places("a", "b") == "INCOMPLETE INCOMPLETE"
    assert not room.queue.can_pop
    room.delete(member("a"))
    assert room.places("a", "b") == "- INCOMPLETE"


def test_one_pod_gates_all():
    room = Room(shut=("b",))
    room.add(member("a"))
    assert room.place("a") == "ACTIVE"
    room.add(member("b"), member("c"))
    assert room.places("a", "b", "c") == "UNSCHEDULABLE UNSCHEDULABLE UNSCHEDULABLE"
    assert [room.gate_of(name) for name in "abc"] == ["Door"] * 3
    assert room.queue.counts()["gated"] == 3
    assert numbers(room.queue._metrics._metrics.queue_incoming_pods_total)["unschedulable", "UnscheduledPodAdd"] == 5
    room.open("b")
    assert room.places("a", "b", "c") == "ACTIVE ACTIVE ACTIVE"
    assert [room.gate_of(name) for name in "abc"] == [""] * 3


def test_without_its_gated_pod_a_group_is_let_in():
    room = Room(shut=("b",))
    room.add(member("a"), member("b"))
    room.delete(member("b"))
    assert room.place("a") == "ACTIVE"
    room.delete(member("a"))
    assert not room.queue.can_pop


def test_a_pod_may_move_to_another_group():
    """A successor of its name, if the deletion was missed."""
    room = Room(groups=(GROUP, "default/h"))
    room.add(member("a"), member("b"))
    room.update(member("a"), member("a", "h"))
    assert [len(room.entry(name).members) for name in "gh"] == [1, 1]


def test_activation_of_a_pod_activates_its_group():
    room = Room()
    room.add(member("a"), member("b"))
    room.try_group()
    assert room.places("a", "b") == "ERROR_BACKOFF ERROR_BACKOFF"
    room.queue.activate([room.info(member("b"))])
    assert room.places("a", "b") == "ACTIVE ACTIVE"


# -- attempts ----------------------------------------------------------------------------------------------------------

#: What was tried, the end, which pods were bound, and the pods, counts and timestamp (kept or new) of the next attempt.
#: After TestPodGroupQueueing: the cases in which p3 is added in the middle of a cycle, with p1 and p2 tried.
MID_CYCLE = [
    ("a gang that does not fit", ["p1", "p2"], REJECTED, "", ["p1", "p2", "p3"], (1, 0)),
    ("a gang that fits", ["p1", "p2"], SCHEDULED, "p1 p2", ["p3"], (0, 0)),
    ("a basic group that does not fit", ["p2"], REJECTED, "", ["p2", "p3"], (1, 0)),
    ("a basic group that fits", ["p1", "p2"], SCHEDULED, "p1 p2", ["p3"], (0, 0)),
    ("a group with an error", ["p1"], FAILED, "", ["p1", "p3"], (0, 1)),
    ("a trial that is aborted", ["p1"], ABORTED, "", ["p1", "p3"], (0, 0)),
]


@pytest.mark.parametrize("case", MID_CYCLE, ids=lambda case: case[0])
def test_a_pod_that_comes_while_its_group_is_tried(case):
    _, first, end, bound, then, counts = case
    room = Room()
    room.add(*map(member, first))
    popped = room.queue.pop()
    room.add(member("p3"))
    assert room.place("p3") == "PENDING"
    assert room.queue.counts()["pending"] == 1
    for queued in popped.members.values():
        room.end_attempt(queued, bound.split())
    room.queue.end_trial(GROUP, end)
    assert not room.queue.problems()
    entry = room.entry()
    assert (entry.unschedulable_count, entry.consecutive_errors_count) == counts
    room.advance(30)
    assert room.try_group() == then


@pytest.mark.parametrize(
    ("size", "attempts", "seconds"), [(1, 4, 8), (1, 5, 10), (4, 5, 16), (4, 6, 20), (9, 6, 30), (9, 9, 30)]
)
def test_the_longest_backoff_grows_with_the_root_of_the_size(size, attempts, seconds):
    room = Room()
    room.add(*(member(f"p{i}") for i in range(size)))
    for _ in range(attempts):
        room.advance(100)
        room.try_group()
    assert room.entry().backoff_expiration - room.now == seconds
    assert {queued.backoff_expiration for queued in room.entry().members.values()} == {room.now + seconds}


def test_a_group_in_backoff_is_not_popped_early():
    room = Room()
    room.add(member("a"), member("b"))
    room.try_group()
    assert room.queue.pop() is None
    room.add(member("c"))
    assert room.place("c") == "ERROR_BACKOFF"
    room.advance(3)
    assert room.try_group() == ["a", "b", "c"]


@pytest.mark.parametrize(("bound", "kept"), [("a", True), ("a b", False)])
def test_the_rest_of_a_scheduled_group_keeps_its_turn(bound, kept):
    room = Room()
    room.add(member("a"), member("b"))
    popped = room.queue.pop()
    since = popped.timestamp
    room.now += 5
    room.add(member("c"))
    for queued in popped.members.values():
        room.end_attempt(queued, bound.split())
    room.queue.end_trial(GROUP, SCHEDULED)
    assert (room.entry().timestamp == since) is kept
    assert room.entry().place is Place.ACTIVE


def test_a_pod_that_fails_after_the_trial_brings_its_backoff_along():
    room = Room()
    room.add(member("a"), member("b"))
    popped = room.queue.pop()
    room.queue.end_trial(GROUP, SCHEDULED)
    for queued in popped.members.values():
        room.fail_attempt(queued)
    assert room.places("a", "b") == "ERROR_BACKOFF ERROR_BACKOFF"
    assert room.entry().consecutive_errors_count == 1
    assert not room.queue.problems()


def test_entities_are_counted():
    room = Room()
    room.add(member("a"), member("b"), a_pod("single"))
    sizes = {labels: size for labels, size in room.queue.entity_counts().items() if size}
    assert sizes == {("active", "pod"): 1, ("active", "podgroup"): 1}
    room.try_group()
    metrics = room.queue._metrics._metrics
    # The second pod joins what is in the queue already.
    assert numbers(metrics.queue_incoming_entities_total) == {
        ("active", "UnscheduledPodAdd", "pod"): 1,
        ("active", "UnscheduledPodAdd", "podgroup"): 1,
        ("backoff", "ScheduleAttemptFailure", "podgroup"): 1,
    }
    assert numbers(metrics.queue_incoming_pods_total) == {
        ("active", "UnscheduledPodAdd"): 4,
        ("backoff", "ScheduleAttemptFailure"): 2,
    }


def test_groups_are_dumped_and_loaded():
    groups = (GROUP, "default/h")
    room = Room(shut=("gated",), groups=groups)
    room.add(member("a"), member("b", priority=3))
    room.try_group()
    room.add(member("gated", "h"), member("held", "h"), member("incomplete", "absent"), a_pod("single"))
    dumped = msgspec.json.decode(msgspec.json.encode(room.queue.dump()), type=DumpedQueue)
    other = Room(shut=("gated",), groups=groups)
    for queued in room.queue.pending():
        other.state.pending.put(queued.pod)
    other.queue.load(dumped, other.state.pending)
    assert other.queue.dump() == dumped
    assert not other.queue.problems()
    names = "a", "b", "gated", "held", "incomplete", "single"
    assert other.places(*names) == room.places(*names)
    other.open("gated")
    assert other.places("gated", "held") == "ACTIVE ACTIVE"


# -- compared with the plain rule -------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")


class Machine(RuleBasedStateMachine):
    """A group, and where each of its pods should be, by a plain rule."""

    @initialize(pop=st.booleans())
    def begin(self, pop):
        self.room = Room(pop_from_backoff=pop)
        #: Pods that wait, those in flight, and what is known of the entry.
        self.waiting, self.flying, self.entry = set(), {}, None
        self.trial = False

    # -- what happens -------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), shut=st.booleans(), priority=st.sampled_from((0, 5)))
    def comes(self, name, shut, priority):
        if name in self.waiting | self.flying.keys():
            return
        if shut:
            self.room.shut.add(name)
        self.room.add(member(name, priority=priority))
        self.waiting.add(name)
        self.enter()

    @rule(name=st.sampled_from(NAMES))
    def goes(self, name):
        if name in self.waiting:
            self.room.delete(member(name))
            self.waiting.discard(name)
            self.room.shut.discard(name)
            if not self.waiting and not self.trial:
                self.entry = None

    @rule(name=st.sampled_from(NAMES))
    def opens(self, name):
        self.room.open(name)

    @rule(exists=st.booleans())
    def pod_group(self, exists):
        groups = self.room.groups
        if exists and GROUP not in groups:
            groups.add(GROUP)
            self.room.queue.group_added(GROUP)
            self.enter()
        elif not exists and GROUP in groups:
            groups.discard(GROUP)
            self.room.queue.group_deleted(GROUP)
            if not self.trial:
                self.entry = None

    @rule()
    def pops(self):
        ready = self.where() == "ACTIVE"
        popped = self.room.queue.pop()
        assert (popped is not None) == ready
        if popped is not None:
            assert {queued.pod.pod.metadata.name for queued in pods_of(popped)} == self.waiting
            self.flying = {queued.pod.pod.metadata.name: queued for queued in pods_of(popped)}
            self.waiting, self.trial = set(), True

    @rule(end=st.sampled_from(TrialEnd), bound=st.sets(st.sampled_from(NAMES)), error=st.booleans())
    def trial_ends(self, end, bound, error):
        if not self.trial:
            return
        left = False
        for name, queued in self.flying.items():
            self.room.end_attempt(queued, bound, () if error else ("Filter",))
            if name not in bound:
                left = True
                self.waiting.add(name)
        self.room.queue.end_trial(GROUP, end)
        self.flying, self.trial = {}, False
        if end is not ABORTED:
            counts = {SCHEDULED: (0, 0), REJECTED: (self.entry["rejected"] + 1, 0)}
            self.entry["rejected"], self.entry["errors"] = counts.get(
                end, (self.entry["rejected"], self.entry["errors"] + 1)
            )
            self.entry["size"] = None
            if not (end is SCHEDULED and left):
                self.entry["since"] = self.room.now
        if not self.waiting or GROUP not in self.room.groups:
            self.entry = None
        self.settle()

    @rule(seconds=st.sampled_from((0.5, 1.0, 3.0, 12.0)))
    def time_passes(self, seconds):
        self.room.advance_flushing(seconds)

    # -- the plain rule -----------------------------------------------------------------------------------------------

    def enter(self):
        if self.waiting and not self.trial and self.entry is None and GROUP in self.room.groups:
            self.entry = {"since": self.room.now, "rejected": 0, "errors": 0, "size": None}
        self.settle()

    def settle(self):
        """The size that counts for a backoff is that at its first computation."""
        entry = self.entry
        if entry is not None and not self.trial and entry["size"] is None and (entry["rejected"] or entry["errors"]):
            entry["size"] = len(self.waiting)

    def where(self):
        if not self.waiting:
            return None
        if GROUP not in self.room.groups:
            return "INCOMPLETE"
        if self.trial:
            return "PENDING"
        return self.room.place(min(self.waiting))

    @invariant()
    def places(self):
        if not hasattr(self, "room"):
            return
        assert not self.room.queue.problems()
        found = {self.room.place(name) for name in self.waiting}
        assert found == ({self.where()} if self.waiting else set())
        if found and found <= {"ACTIVE", "BACKOFF", "ERROR_BACKOFF", "UNSCHEDULABLE"}:
            self.check_entry(found.pop())

    def check_entry(self, place):
        entry, plain = self.room.entry(), self.entry
        assert (entry.unschedulable_count, entry.consecutive_errors_count) == (plain["rejected"], plain["errors"])
        assert set(entry.members) == {f"default/{name}" for name in self.waiting}
        shut = bool(self.waiting & self.room.shut)
        if place == "UNSCHEDULABLE":
            assert shut
        elif place == "ACTIVE" or self.room.queue._settings.pop_from_backoff:
            assert not shut
        if place == "ERROR_BACKOFF":
            count = plain["errors"] or plain["rejected"]
            seconds = min(2.0 ** (count - 1), 10 * sqrt(plain["size"]))
            ends = plain["since"] + seconds
            aligned = floor(ends) if self.room.queue._settings.pop_from_backoff else ends
            assert entry.backoff_expiration == aligned >= self.room.now - 1


def test_groups_agree_with_the_plain_rule():
    run_state_machine_as_test(
        Machine, settings=settings(max_examples=times(100), stateful_step_count=40, deadline=None)
    )
