"""Curves of usage, and what they make of pods."""

import pytest

from stowplan_cluster.reconcile import usage


@pytest.mark.parametrize(
    ("given", "times"),
    [
        pytest.param("300m", {0: 300, 9: 300}, id="a constant"),
        pytest.param({"each": 2}, {0: 2000}, id="an amount of cpu"),
        pytest.param(
            {"each": [["10s", "100m"], ["20s", "300m"], [30, "100m"]]},
            {-5: 100, 0: 100, 10: 100, 15: 200, 20: 300, 25: 200, 30: 100, 99: 100},
            id="points",
        ),
        pytest.param(
            {"each": [[0, 1], [10, 3]], "every": 20}, {-1: 1000, 5: 2000, 15: 3000, 20: 1000, 25: 2000}, id="repeated"
        ),
        pytest.param(
            {"total": {"low": 1, "high": 5, "peak": "14h"}},
            {14 * 3600: 5000, 2 * 3600: 1000, 20 * 3600: 3000, 14 * 3600 + usage.DAY: 5000},
            id="a day",
        ),
    ],
)
def test_amounts_over_time(given, times):
    curve = usage.read_curve(given)
    assert {at: round(curve.at(at, 0)) for at in times} == times


def test_times_count_from_the_start_but_for_those_of_a_day():
    assert usage.read_curve({"each": [[0, 1], [10, 3]]}).at(105, 100) == 2000
    assert usage.read_curve({"each": {"low": 1, "high": 5, "peak": 100}}).at(100, 77) == 5000


def test_an_annotation_is_an_amount_or_json():
    assert usage.curve_in("60%") == usage.Curve(((0.0, 60.0),), relative=True)
    assert usage.curve_in(' {"total": "1Gi"}') == usage.Curve(((0.0, 1024**3 * 1000.0),), shared=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(
            "much",
            "want an amount such as 300m or 2Gi, or a percentage of the request such as 60%, got 'much'",
            id="no amount",
        ),
        pytest.param("-1", "want an amount such as", id="negative"),
        pytest.param("-5%", "want an amount such as", id="a negative share"),
        pytest.param("inf%", "want an amount such as", id="infinite"),
        pytest.param(True, "want an amount such as", id="a boolean"),
        pytest.param(None, "want an amount such as", id="nothing"),
        pytest.param([], "want an amount such as", id="a list"),
        pytest.param({}, "want an amount such as 300m or 60%, or one of each, total; got nothing", id="empty"),
        pytest.param({"each": 1, "total": 1}, "got each, total", id="both"),
        pytest.param({"each": 1, "evry": 1}, "got each, evry", id="a typo"),
        pytest.param({"total": "50%"}, "total: want an amount such as 12 or 24Gi", id="a share of all"),
        pytest.param({"each": []}, "each: want one point or more", id="no points"),
        pytest.param({"each": [1]}, r"each\[0\]: want a time and an amount", id="no point"),
        pytest.param({"each": [[0, 1], [0, 2]]}, r"each\[1\]: want times in order", id="the same time twice"),
        pytest.param({"each": [["soon", 1]]}, r"each\[0\]: want a time such as 90s, 5m or 1h30m", id="no time"),
        pytest.param({"each": [[-1, 1]]}, r"each\[0\]: want a time", id="before the start"),
        pytest.param({"each": [[0, 1], [1, "5%"]]}, "each: want either amounts or percentages", id="mixed"),
        pytest.param({"each": {"low": 1, "high": 2}}, "each: want low, high and peak, got low, high", id="no peak"),
        pytest.param({"each": {"low": 3, "high": 2, "peak": 0}}, "each: high is below low", id="upside down"),
        pytest.param({"each": {"low": 1, "high": "2%", "peak": 0}}, "each: want either", id="a mixed day"),
        pytest.param({"each": {"low": 1, "high": 2, "peak": "24h"}}, "each.peak: want a time of day", id="no day"),
        pytest.param({"each": 1, "every": 5}, "every: only a list of points is repeated", id="repeated constant"),
        pytest.param({"each": [[0, 1], [9, 1]], "every": 5}, "every: must not be shorter", id="too short"),
    ],
)
def test_curves_that_cannot_be(given, message):
    with pytest.raises(usage.UsageError, match=f"^{message}|{message}"):
        usage.read_curve(given)


def test_wrong_annotations_are_named():
    with pytest.raises(usage.UsageError, match=r"^stowplan\.io/usage-cpu: want an amount, or a curve as JSON: "):
        usage.load_of({"stowplan.io/usage-cpu": "{"}, 0.0)


def consumer(*containers, ready=True):
    return usage.Consumer("p", containers, 100.0, ready)


def used(load, one, sharing=1):
    curves = {resource: (usage.read_curve(curve), 0.0) for resource, curve in load.items()}
    return {name: dict(amounts) for name, amounts in usage.measured(one, curves, sharing, 1000.7).containers.items()}


SMALL = usage.ContainerAmounts("small", {"cpu": 100, "memory": 1000}, {})
LARGE = usage.ContainerAmounts("large", {"cpu": 300, "memory": 3000}, {"cpu": 350})
BARE = usage.ContainerAmounts("bare", {}, {})


def test_half_of_the_requests_by_default():
    assert used({}, consumer(SMALL, LARGE, BARE)) == {
        "small": {"cpu": 50, "memory": 500},
        "large": {"cpu": 150, "memory": 1500},
        "bare": {"cpu": 0, "memory": 0},
    }


def test_amounts_are_spread_as_requests_are_up_to_limits():
    found = used({"cpu": "800m", "memory": "200%"}, consumer(SMALL, LARGE))
    assert found == {"small": {"cpu": 200, "memory": 2000}, "large": {"cpu": 350, "memory": 6000}}
    assert used({"cpu": "800m"}, consumer(BARE, BARE._replace(name="other")))["other"]["cpu"] == 400


def test_a_total_is_shared_among_ready_pods():
    assert used({"cpu": {"total": "1"}}, consumer(SMALL), sharing=4)["small"]["cpu"] == 250
    assert used({"cpu": {"total": "1"}}, consumer(SMALL, ready=False), sharing=4)["small"]["cpu"] == 0
    assert used({"cpu": {"total": "1"}}, consumer(SMALL), sharing=0)["small"]["cpu"] == 0


def test_nothing_is_measured_in_the_first_window():
    assert [usage.is_measured(consumer(SMALL), now) for now in (114.9, 115.0)] == [False, True]
    assert usage.measured(consumer(SMALL), {}, 1, 1000.7)[:2] == (1000.0, 15.0)
