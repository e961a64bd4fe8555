"""QueueSort and Pop: who is next."""

import pytest

from stowplan.framework.events import PVC, Action, on
from stowplan.in_tree.priority_sort.plugin import PrioritySort
from stowplan.plugins import QueueSortPlugin
from stowplan.testing import a_pod
from support.scheduling.queues import Room, event, waits_for


def popped(room):
    names = []
    while (name := room.pop()) is not None:
        names.append(name)
    return names


class ByName(QueueSortPlugin):
    name = "ByName"

    def less(self, a, b):
        return a.pod.pod.metadata.name < b.pod.pod.metadata.name


class OnlyFirstLetter(QueueSortPlugin):
    name = "OnlyFirstLetter"

    def less(self, a, b):
        return a.pod.pod.metadata.name[0] < b.pod.pod.metadata.name[0]


class Raises(QueueSortPlugin):
    name = "Raises"

    def less(self, a, b):
        raise LookupError("no idea")


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([a_pod("low").priority(1), a_pod("high").priority(2)], ["high", "low"], id="priority"),
        pytest.param([a_pod("negative").priority(-1), a_pod("none")], ["none", "negative"], id="missing means 0"),
        pytest.param([a_pod("first"), a_pod("second")], ["first", "second"], id="equal ones as they came"),
    ],
)
def test_priority_sort(pods, expected):
    room = Room()
    room.add(*pods)
    assert popped(room) == expected


def test_of_equal_priority_the_one_that_waits_longer():
    room = Room()
    room.rejected(a_pod("old"))
    room.now += 1
    room.add(a_pod("new"))
    room.now += 1
    room.queue.activate([room.info(a_pod("old"))])
    assert popped(room) == ["old", "new"]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        pytest.param(ByName, ["a1", "b1", "b2", "c1"], id="a total order"),
        pytest.param(OnlyFirstLetter, ["a1", "b2", "b1", "c1"], id="what it leaves open, arrival decides"),
        pytest.param(Raises, ["c1", "b2", "a1", "b1"], id="one that fails decides nothing"),
    ],
)
def test_a_queue_sort_of_ones_own(sort, expected):
    room = Room(sort=sort)
    room.add(*map(a_pod, ("c1", "b2", "a1", "b1")))
    assert popped(room) == expected


def test_a_queue_sort_that_fails_is_told_of_once():
    room = Room(sort=Raises)
    room.add(*map(a_pod, "abcdef"))
    assert len(room.problems) == 1
    assert 'QueueSort plugin "Raises"' in room.problems[0]
    assert "no idea" in room.problems[0]


def test_a_waiting_pod_moves_up_when_its_priority_changes():
    room = Room()
    room.add(a_pod("a"), a_pod("b"))
    room.update(a_pod("b"), a_pod("b").priority(5))
    assert popped(room) == ["b", "a"]


def test_a_waiting_pod_moves_up_in_an_order_of_ones_own():
    class ByLabel(QueueSortPlugin):
        name = "ByLabel"

        def less(self, a, b):
            return a.pod.labels.get("rank", "5") < b.pod.labels.get("rank", "5")

    room = Room(sort=ByLabel)
    room.add(*map(a_pod, "abcdef"))
    for name in "fcfc":
        room.update(a_pod(name), a_pod(name).labels(rank="9"))
        room.update(a_pod(name), a_pod(name).labels(rank="1" if name == "f" else "2"))
    assert popped(room) == ["f", "c", "a", "b", "d", "e"]


# -- crowds of rejected pods ------------------------------------------------------------------------------------------


class ByPriorityAlone(PrioritySort):
    """Somebody's own order: which pods it takes for equals is not known."""

    def less(self, a, b):
        return a.pod.priority > b.pod.priority


class Declared(ByPriorityAlone):
    name = "Declared"
    by_priority_and_time = True

    def less(self, a, b):
        raise AssertionError("the queue need not ask")


def crowd(room, size, **priority):
    """Pods that were rejected long ago and are active again."""
    for i in range(size):
        room.rejected(a_pod(f"old-{i}").priority(priority.get("priority", 0)), "P", pending=())
    room.now += 60
    room.queue.move_all(event(PVC), None, None)


@pytest.mark.parametrize(
    ("settings", "priority", "expected"),
    [
        pytest.param({}, 0, 8, id="a new pod has its turn after eight"),
        pytest.param({"rejected_in_a_row": 3}, 0, 3, id="or as many as the settings say"),
        pytest.param({"rejected_in_a_row": 0}, 0, 20, id="or all of them"),
        pytest.param({}, 1, 20, id="more important ones go first all the same"),
        pytest.param({}, -1, 0, id="and it goes before lesser ones"),
        pytest.param({"sort": ByPriorityAlone}, 0, 20, id="another plugin's order is kept"),
        pytest.param({"sort": Declared}, 0, 8, id="unless it declares that it is by priority and time"),
    ],
)
def test_a_crowd_does_not_hold_up_a_new_pod(settings, priority, expected):
    room = Room(waits_for("P", on(PVC, Action.Add)), **settings)
    crowd(room, 20, priority=priority)
    room.add(a_pod("new"))
    assert popped(room).index("new") == expected


def test_new_pods_do_not_hold_up_a_crowd_either():
    room = Room(waits_for("P", on(PVC, Action.Add)), rejected_in_a_row=2)
    crowd(room, 5)
    room.add(*map(a_pod, "abcd"))
    assert popped(room) == ["old-0", "old-1", "a", "old-2", "old-3", "b", "old-4", "c", "d"]


def test_a_new_pod_that_is_deleted_leaves_no_turn_behind():
    room = Room(waits_for("P", on(PVC, Action.Add)), rejected_in_a_row=1)
    crowd(room, 3)
    gone = room.add(a_pod("gone"))
    room.queue.delete(gone)
    assert popped(room) == ["old-0", "old-1", "old-2"]


# -- from the backoff queue -------------------------------------------------------------------------------------------


def test_when_nothing_is_active_a_pod_is_popped_before_its_backoff_is_over():
    room = Room()
    room.rejected(a_pod("waits"), "P", pending=())
    room.queue.activate([])
    room.rejected(a_pod("error"))
    assert room.pop() is None, "who met an error is not popped early"
    backs_off(room, "early")
    assert room.pop() == "early"
    assert room.queue.incoming["active", "PopFromBackoffQ"] == 1


def backs_off(room, name, **priority):
    """A rejected pod that an event woke too early."""
    room.add(a_pod(name).priority(priority.get("priority", 0)))
    queued = room.queue.pop()
    queued.unschedulable_plugins = {"P"}
    # No longer in flight, so that what happened meanwhile is unknown.
    room.queue.done(queued.pod.uid)
    room.queue.add_unschedulable_if_not_present(queued)
    assert room.place(name) == "BACKOFF"


def test_an_active_pod_goes_first_whatever_its_priority():
    room = Room()
    backs_off(room, "important", priority=100)
    room.add(a_pod("active"))
    assert popped(room) == ["active", "important"]


def test_without_pop_from_backoff_nobody_is_tried_early():
    room = Room(pop_from_backoff=False)
    backs_off(room, "waits")
    assert room.pop() is None
    room.goes_on(3)
    assert room.pop() == "waits"


def test_those_that_become_free_in_one_second_are_popped_in_the_order_of_the_queue():
    room = Room()
    for name, priority in (("low", 0), ("high", 5)):
        backs_off(room, name, priority=priority)
        room.now += 0.25
    assert popped(room) == ["high", "low"]


def test_without_pop_from_backoff_they_are_freed_by_expiry_alone():
    room = Room(pop_from_backoff=False)
    for name, priority in (("first", 0), ("second", 5)):
        backs_off(room, name, priority=priority)
        room.now += 0.25
    room.take_moves()
    room.goes_on(4)
    assert [move[0] for move in room.take_moves()] == ["first", "second"]


# -- in flight --------------------------------------------------------------------------------------------------------


def test_pop_begins_an_attempt():
    room = Room()
    info = room.add(a_pod("a").uid("u"))
    queued = room.queue.pop()
    assert (queued.pod, queued.attempts, queued.place.name) == (info, 1, "IN_FLIGHT")
    assert room.queue.is_in_flight("u")
    assert room.queue.scheduling_cycle == 1
    assert room.queue.get("default/a") is None
    room.queue.done("u")
    assert not room.queue.is_in_flight("u")
    room.queue.done("u")
    assert room.take_moves() == [
        ("a", "ACTIVE", "UnschedulablePodAdd"),
        ("a", "IN_FLIGHT", "Popped"),
        ("a", "GONE", "Done"),
    ]


def test_a_pod_that_is_in_flight_already_is_dropped_and_the_next_one_popped():
    room = Room()
    room.add(a_pod("a").uid("u"))
    room.pop()
    room.add(a_pod("a").uid("u"), a_pod("b"))
    assert room.pop() == "b"
    assert room.problems == ["the same pod is tracked in multiple places in the scheduler: default/a"]
    assert room.queue.scheduling_cycle == 2


@pytest.mark.parametrize("place", ["ACTIVE", "BACKOFF", "UNSCHEDULABLE"])
def test_a_certain_pod_can_be_popped_from_anywhere(place):
    room = Room()
    if place == "BACKOFF":
        backs_off(room, "a")
    elif place == "UNSCHEDULABLE":
        room.rejected(a_pod("a"), "P")
    else:
        room.add(a_pod("a"))
    assert room.place("a") == place
    queued = room.queue.pop_specific(room.info(a_pod("a")))
    assert queued.place.name == "IN_FLIGHT"
    assert room.queue.is_in_flight(queued.pod.uid)
    assert room.place("a") is None
    assert room.queue.pop_specific(room.info(a_pod("a"))) is None


def test_closing_ends_all_attempts():
    room = Room()
    room.add(a_pod("a").uid("1"), a_pod("b").uid("2"), a_pod("c"))
    room.pop(), room.pop()
    assert room.queue.close() == ["1", "2"]
    assert not room.queue.in_flight()
    assert room.pop() == "c"
