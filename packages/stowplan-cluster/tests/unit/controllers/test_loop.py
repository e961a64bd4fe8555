from collections import defaultdict

import pytest

from stowplan.kube.api.api_errors import Forbidden, conflict, forbidden, not_found
from stowplan_cluster.apiserver.store import Store
from stowplan_cluster.controllers.loop import Loop, select_controllers


class Registry:
    def __init__(self):
        self.store = Store()

    def put(self, name, storage="pods"):
        self.store.put(storage, {"metadata": {"name": name, "namespace": "default"}})


class Scripted:
    """Returns or raises the answer in `answers` for each key."""

    def __init__(self, name="scripted", watches=("pods",)):
        self.name = name
        self.watches = watches
        self.seen = []
        self.answers = defaultdict(list)

    def keys_of(self, event):
        return [event.stored.name]

    def reconcile(self, key):
        self.seen.append(key)
        answer = self.answers[key].pop(0) if self.answers[key] else None
        if isinstance(answer, Exception):
            raise answer
        return answer


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def registry():
    return Registry()


def test_existing_objects_are_reconciled_at_the_start(registry, clock):
    registry.put("b")
    registry.put("a")
    registry.put("node", "nodes")
    controller = Scripted()
    loop = Loop(registry, [controller], clock)
    loop.settle()
    assert controller.seen == ["a", "b"]


def test_several_changes_are_reconciled_once(registry, clock):
    controller = Scripted()
    loop = Loop(registry, [controller], clock)
    assert not loop.step()
    for name in ("a", "b", "a", "a"):
        registry.put(name)
    assert loop.step(limit=10)
    assert controller.seen == ["a", "b"]
    registry.put("a")
    loop.settle()
    assert controller.seen == ["a", "b", "a"]


def test_keys_of_all_controllers_are_served_in_order(registry, clock):
    order = []

    class Noting(Scripted):
        def reconcile(self, key):
            order.append((self.name, key))

    loop = Loop(registry, [Noting("one"), Noting("two"), Noting("nodes", ("nodes",))], clock)
    registry.put("a")
    registry.put("n", "nodes")
    registry.put("b")
    loop.settle()
    assert order == [("one", "a"), ("two", "a"), ("nodes", "n"), ("one", "b"), ("two", "b")]


def test_a_change_by_a_reconcile_causes_another(registry, clock):
    class Writing(Scripted):
        def reconcile(self, key):
            super().reconcile(key)
            if len(self.seen) < 3:
                registry.put(key)

    controller = Writing()
    loop = Loop(registry, [controller], clock)
    registry.put("a")
    loop.settle()
    assert controller.seen == ["a", "a", "a"]


def test_controllers_that_never_settle_are_detected(registry, clock, monkeypatch):
    class Restless(Scripted):
        def reconcile(self, key):
            registry.put(key)

    monkeypatch.setattr("stowplan_cluster.controllers.loop.SETTLE_LIMIT", 100)
    loop = Loop(registry, [Restless("restless")], clock)
    registry.put("a")
    with pytest.raises(RuntimeError, match="next is restless with a"):
        loop.settle()


def test_a_timer_requeues_the_key(registry, clock):
    controller = Scripted()
    controller.answers["a"] = [10.0]
    loop = Loop(registry, [controller], clock)
    registry.put("a")
    loop.settle()
    assert loop.next_due() == 1010.0
    clock.now = 1009.9
    assert not loop.step()
    clock.now = 1010.0
    loop.settle()
    assert controller.seen == ["a", "a"]
    assert loop.next_due() is None


@pytest.mark.parametrize(
    ("second", "due"), [pytest.param(None, None, id="cancelled"), pytest.param(30.0, 1030.0, id="replaced")]
)
def test_only_the_last_timer_counts(registry, clock, second, due):
    controller = Scripted()
    controller.answers["a"] = [10.0, second]
    loop = Loop(registry, [controller], clock)
    registry.put("a")
    loop.settle()
    registry.put("a")
    loop.settle()
    assert loop.next_due() == due


def test_failures_are_retried_with_exponential_backoff(registry, clock):
    controller = Scripted()
    controller.answers["a"] = [conflict("pods", "", "a", "changed")] * 16
    loop = Loop(registry, [controller], clock)
    registry.put("a")
    loop.settle()
    delays = []
    while (due := loop.next_due()) is not None:
        delays.append(round(due - clock.now, 6))
        clock.now = due
        loop.settle()
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-2:] == [60.0, 60.0]
    assert len(controller.seen) == 17


def test_a_success_resets_the_backoff(registry, clock):
    controller = Scripted()
    controller.answers["a"] = [not_found("pods", "", "x"), not_found("pods", "", "x"), None, not_found("pods", "", "x")]
    loop = Loop(registry, [controller], clock)
    registry.put("a")
    for _ in range(3):
        loop.settle()
        clock.now += 1
    registry.put("a")
    loop.settle()
    assert loop.next_due() == pytest.approx(clock.now + 0.005)


def test_a_refusal_is_logged_once_and_a_conflict_not_at_all(registry, clock, caplog):
    controller = Scripted()
    refused = [forbidden("pods", "", name, "no") for name in ("web-x7k2p", "web-b9q4d")]
    controller.answers["a"] = [conflict("pods", "", "a", "x"), *refused, Forbidden("no"), Forbidden("still no")]
    loop = Loop(registry, [controller], clock)
    registry.put("a")
    for _ in range(6):
        loop.settle()
        clock.now += 60
    assert [record.message for record in caplog.records] == [
        'scripted: a: pods "web-x7k2p" is forbidden: no; trying again',
        "scripted: a: no; trying again",
        "scripted: a: still no; trying again",
    ]


def test_unexpected_exceptions_are_raised(registry, clock):
    controller = Scripted()
    controller.answers["a"] = [ZeroDivisionError()]
    loop = Loop(registry, [controller], clock)
    registry.put("a")
    with pytest.raises(ZeroDivisionError):
        loop.settle()


def test_a_closed_loop_ignores_changes(registry, clock):
    controller = Scripted()
    loop = Loop(registry, [controller], clock)
    loop.close()
    registry.put("a")
    loop.settle()
    assert controller.seen == []


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        pytest.param(["*"], ["one", "two", "three"], id="all"),
        pytest.param(["*", "-two"], ["one", "three"], id="all but one"),
        pytest.param(["two"], ["two"], id="one only"),
        pytest.param([], [], id="none"),
    ],
)
def test_controllers_are_selected_by_name(selection, expected):
    controllers = [Scripted(name) for name in ("one", "two", "three")]
    assert [one.name for one in select_controllers(controllers, selection)] == expected


def test_an_unknown_controller_is_refused():
    with pytest.raises(ValueError, match="unknown controller '-four'; there are one, two"):
        select_controllers([Scripted("one"), Scripted("two")], ["*", "-four"])
