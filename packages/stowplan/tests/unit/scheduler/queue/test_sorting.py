"""QueueSort and Pop: which pod is next."""

import pytest

from stowplan.plugins import QueueSortPlugin
from stowplan.scheduler.framework.events import PVC, Action, on
from stowplan.scheduler.in_tree.priority_sort.plugin import PrioritySort
from stowplan.testing import a_pod
from support.scheduling.queues import QueueHarness, event, plugin_waiting_for


def popped(harness):
    names = []
    while (name := harness.pop()) is not None:
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
    harness = QueueHarness()
    harness.add(*pods)
    assert popped(harness) == expected


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        pytest.param(ByName, ["a1", "b1", "b2", "c1"], id="a total order"),
        pytest.param(OnlyFirstLetter, ["a1", "b2", "b1", "c1"], id="what it leaves open, arrival decides"),
        pytest.param(Raises, ["c1", "b2", "a1", "b1"], id="one that fails decides nothing"),
    ],
)
def test_a_custom_queue_sort(sort, expected):
    harness = QueueHarness(sort=sort)
    harness.add(*map(a_pod, ("c1", "b2", "a1", "b1")))
    assert popped(harness) == expected


def test_a_failing_queue_sort_is_reported_once():
    harness = QueueHarness(sort=Raises)
    harness.add(*map(a_pod, "abcdef"))
    assert len(harness.problems) == 1
    assert 'QueueSort plugin "Raises"' in harness.problems[0]
    assert "no idea" in harness.problems[0]


def test_a_waiting_pod_moves_up_in_a_custom_order():
    class ByLabel(QueueSortPlugin):
        name = "ByLabel"

        def less(self, a, b):
            return a.pod.labels.get("rank", "5") < b.pod.labels.get("rank", "5")

    harness = QueueHarness(sort=ByLabel)
    harness.add(*map(a_pod, "abcdef"))
    for name in "fcfc":
        harness.update(a_pod(name), a_pod(name).labels(rank="9"))
        harness.update(a_pod(name), a_pod(name).labels(rank="1" if name == "f" else "2"))
    assert popped(harness) == ["f", "c", "a", "b", "d", "e"]


# -- crowds of rejected pods ------------------------------------------------------------------------------------------


class ByPriorityAlone(PrioritySort):
    """A custom order: the queue does not know which pods compare equal."""

    def less(self, a, b):
        return a.pod.priority > b.pod.priority


class Declared(ByPriorityAlone):
    name = "Declared"
    by_priority_and_time = True

    def less(self, a, b):
        raise AssertionError("the queue need not ask")


def crowd(harness, size, **priority):
    """Rejected pods that became active again."""
    for i in range(size):
        harness.add_rejected(a_pod(f"old-{i}").priority(priority.get("priority", 0)), "P", pending=())
    harness.now += 60
    harness.queue.move_all(event(PVC), None, None)


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
def test_many_rejected_pods_do_not_delay_a_new_pod(settings, priority, expected):
    harness = QueueHarness(plugin_waiting_for("P", on(PVC, Action.Add)), **settings)
    crowd(harness, 20, priority=priority)
    harness.add(a_pod("new"))
    assert popped(harness).index("new") == expected


# -- from the backoff queue -------------------------------------------------------------------------------------------


def test_pods_in_backoff_are_popped_if_nothing_is_active():
    harness = QueueHarness()
    harness.add_rejected(a_pod("waits"), "P", pending=())
    harness.queue.activate([])
    harness.add_rejected(a_pod("error"))
    assert harness.pop() is None, "a pod with an error was popped early"
    backs_off(harness, "early")
    assert harness.pop() == "early"
    assert harness.queue.incoming["active", "PopFromBackoffQ"] == 1


def backs_off(harness, name, **priority):
    """A rejected pod that an event woke early."""
    harness.add(a_pod(name).priority(priority.get("priority", 0)))
    queued = harness.queue.pop()
    queued.unschedulable_plugins = {"P"}
    # No longer in flight, so events since then are unknown.
    harness.queue.done(queued.pod.uid)
    harness.queue.add_unschedulable_if_not_present(queued)
    assert harness.place(name) == "BACKOFF"


# -- in flight --------------------------------------------------------------------------------------------------------


def test_a_pod_already_in_flight_is_dropped():
    harness = QueueHarness()
    harness.add(a_pod("a").uid("u"))
    harness.pop()
    harness.add(a_pod("a").uid("u"), a_pod("b"))
    assert harness.pop() == "b"
    assert harness.problems == ["the same pod is tracked in multiple places in the scheduler: default/a"]
    assert harness.queue.scheduling_cycle == 2


def test_closing_ends_all_attempts():
    harness = QueueHarness()
    harness.add(a_pod("a").uid("1"), a_pod("b").uid("2"), a_pod("c"))
    harness.pop(), harness.pop()
    assert harness.queue.close() == ["1", "2"]
    assert not harness.queue.in_flight()
    assert harness.pop() == "c"


def test_a_given_pod_can_be_popped_from_any_place():
    harness = QueueHarness()
    harness.add_rejected(a_pod("a"), "P")
    assert harness.place("a") == "UNSCHEDULABLE"
    queued = harness.queue.pop_specific(harness.info(a_pod("a")))
    assert (queued.place.name, harness.place("a")) == ("IN_FLIGHT", None)
    assert harness.queue.pop_specific(harness.info(a_pod("a"))) is None
