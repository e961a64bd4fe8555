"""How fast an autoscaler follows its recommendations."""

import pytest

from stowplan.kube.api.decode import convert
from stowplan_cluster.reconcile.scaling_rates import Behavior, Limits, Memory, paced

#: The defaults of an API server.
UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
ANY = Limits(1, 1000)


def behavior(up=None, down=None):
    return convert({"scaleUp": {**UP, **(up or {})}, "scaleDown": {**DOWN, **(down or {})}}, Behavior)


def policy(kind, value, seconds=60):
    return {"type": kind, "value": value, "periodSeconds": seconds}


def played(given, recommendations, start=10, limits=ANY, every=15.0):
    """The replicas after each recommendation."""
    memory, replicas, found = Memory(), start, []
    for number, recommended in enumerate(recommendations):
        now = 1000 + number * every
        memory.begin(replicas, now)
        pace = paced(given, memory, replicas, recommended, limits, now)
        if pace.replicas != replicas:
            memory.rescaled(given, replicas, pace.replicas, now)
        replicas = pace.replicas
        found.append(replicas)
    return found


def why(given, recommended, current=10, limits=ANY, before=()):
    memory = Memory()
    for number in before:
        memory.recommend(number, 990, lambda one: False)
    pace = paced(given, memory, current, recommended, limits, 1000)
    return pace.replicas, pace.able.reason, pace.limit.reason, pace.is_limited


@pytest.mark.parametrize(
    ("recommended", "current", "limits", "expected"),
    [
        pytest.param(15, 10, ANY, (15, "ReadyForNewScale", "DesiredWithinRange", False), id="up"),
        pytest.param(30, 10, ANY, (20, "ReadyForNewScale", "ScaleUpLimit", True), id="at most double"),
        pytest.param(9, 1, ANY, (4, "ReadyForNewScale", "ScaleUpLimit", True), id="or four"),
        pytest.param(15, 10, Limits(1, 12), (12, "ReadyForNewScale", "TooManyReplicas", True), id="the maximum"),
        pytest.param(2, 5, Limits(3, 12), (3, "ReadyForNewScale", "TooFewReplicas", True), id="the minimum"),
    ],
)
def test_without_behavior(recommended, current, limits, expected):
    assert why(None, recommended, current, limits) == expected


def test_the_highest_of_five_minutes_counts():
    assert why(None, 5, before=[8]) == (8, "ScaleDownStabilized", "DesiredWithinRange", False)
    # What is found at the beginning counts as well; one is exactly five minutes old at the end.
    assert played(None, [4] * 22) == [10] * 21 + [4]


def test_windows_of_behavior():
    both = behavior({"stabilizationWindowSeconds": 30}, {"stabilizationWindowSeconds": 30})
    assert played(both, [20, 20, 20, 20]) == [10, 10, 20, 20]
    assert played(both, [5, 5, 5]) == [10, 10, 5]
    assert why(both, 20, before=[12]) == (12, "ScaleUpStabilized", "DesiredWithinRange", False)
    assert why(both, 5, before=[8]) == (8, "ScaleDownStabilized", "DesiredWithinRange", False)
    # Between both, nothing happens.
    assert why(both, 10, before=[5, 15])[0] == 10


def test_the_window_for_scaling_down_is_five_minutes_by_default():
    assert played(behavior(), [4] * 21) == [10] * 20 + [4]


@pytest.mark.parametrize(
    ("up", "expected"),
    [
        pytest.param({}, [20, 40, 80, 100], id="default"),
        pytest.param({"policies": [policy("Pods", 5)]}, [15, 15, 15, 15, 20], id="pods per minute"),
        pytest.param({"policies": [policy("Percent", 15)]}, [12, 12, 12, 12, 14], id="rounded up"),
        pytest.param(
            {"policies": [policy("Pods", 5, 15), policy("Percent", 10, 15)], "selectPolicy": "Min"},
            [11, 13, 15, 17],
            id="the slower one",
        ),
        pytest.param({"selectPolicy": "Disabled"}, [10, 10], id="disabled"),
    ],
)
def test_policies_up(up, expected):
    assert played(behavior(up), [100] * len(expected)) == expected


@pytest.mark.parametrize(
    ("down", "expected"),
    [
        pytest.param({}, [1], id="default"),
        pytest.param({"policies": [policy("Pods", 2)]}, [8, 8, 8, 8, 6], id="pods per minute"),
        pytest.param({"policies": [policy("Percent", 25)]}, [7, 7, 7, 7, 5], id="rounded down"),
        pytest.param(
            {"policies": [policy("Pods", 4, 15), policy("Percent", 10, 15)], "selectPolicy": "Min"},
            [9, 8, 7, 6],
            id="the slower one",
        ),
        pytest.param({"selectPolicy": "Disabled"}, [10, 10], id="disabled"),
    ],
)
def test_policies_down(down, expected):
    rules = {"stabilizationWindowSeconds": 0, **down}
    assert played(behavior(down=rules), [1] * len(expected)) == expected


def test_changes_of_the_other_direction_count():
    # Five were removed fifteen seconds ago, so there were fifteen when the minute began.
    given = behavior({"policies": [policy("Pods", 2)]}, {"stabilizationWindowSeconds": 0})
    assert played(given, [5, 20]) == [5, 12]


def test_reasons_of_limits():
    given = behavior({"policies": [policy("Pods", 2)]}, {"policies": [policy("Pods", 2)]})
    assert why(given, 20)[2:] == ("ScaleUpLimit", True)
    assert why(given, 5)[2:] == ("ScaleDownLimit", True)
    assert why(given, 20, limits=Limits(1, 11))[2:] == ("TooManyReplicas", True)
    assert why(given, 5, limits=Limits(9, 20))[2:] == ("TooFewReplicas", True)
