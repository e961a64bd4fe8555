"""Measures, objectives, and the Pareto front."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.ui.report_records import ReportRecord
from stowplan_lab.simulation.results.simulation_records import (
    DecisionRow,
    SampleRow,
    SummaryRecord,
    WaitsRecord,
    gang_measures,
)
from stowplan_lab.simulation.simulate import SimulationResult
from stowplan_lab.tuning.objective import TuningError, axes_of, front, measured_since, read_objective


def tail(measures):
    return measures["waits.longest"] - measures["waits.mean"]


def broken(measures):
    raise KeyError("nothing")


def endless(measures):
    return float("inf")


def test_a_blend_is_relative_to_the_baseline():
    blended = read_objective("waits=1,utilization.cpu=2")
    baseline = [{"waits.mean": 10.0, "utilization.cpu": 50.0}, {"waits.mean": 30.0, "utilization.cpu": 50.0}]
    found = [{"waits.mean": 12.0, "utilization.cpu": 55.0}, {"waits.mean": 30.0, "utilization.cpu": 45.0}]
    # Of a mean wait of 20 s, 2 s are 10 %. 5 more than 50 % in use are 10 %, an improvement.
    assert blended.scores(found, baseline) == [10 - 20, 20]
    assert blended.scores(baseline, baseline) == [0, 0]


def test_waits_of_gangs():
    def row(gang, arrived, placed):
        return DecisionRow(pod="p", gang=gang, arrived=arrived, placed=placed, attempts=1)

    rows = [row("a", 0, 5), row("b", 10, 12), row("b", 10, 20), row("b", 50, 90), row("c", 20, None), row("", 11, 99)]
    assert gang_measures(rows, 100, since=10) == {"gangs.mean": 45.0, "gangs.longest": 80.0}
    assert gang_measures(rows[-1:], 100) == {}


def test_a_measure_with_a_zero_baseline_is_absolute():
    assert read_objective("evictions").scores([{"evictions": 3.0}], [{"evictions": 0.0}]) == [3.0]


def test_a_custom_function():
    found = read_objective(f"{__name__}:tail").scores([{"waits.longest": 9.0, "waits.mean": 2.0}], [{}])
    assert found == [7.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("wait.mean", "did you mean waits.mean", id="measure"),
        pytest.param("waits=much", "is not a number", id="weight"),
        pytest.param("waits=-1", "must be above 0", id="negative"),
        pytest.param("waits=nan", "must be above 0", id="nan"),
        pytest.param("no_such_module:f", "cannot import no_such_module", id="module"),
        pytest.param("math:no_such", "has no function no_such", id="function"),
    ],
)
def test_invalid_objectives(text, message):
    with pytest.raises(TuningError, match=message):
        read_objective(text)


@pytest.mark.parametrize(("name", "message"), [("broken", "KeyError"), ("endless", "finite number")])
def test_failing_functions(name, message):
    with pytest.raises(TuningError, match=message):
        read_objective(f"{__name__}:{name}").scores([{}], [{}])


def row(arrived, **fields):
    return DecisionRow(pod="p", arrived=arrived, **fields)


def sample(time, used, cost):
    return SampleRow(
        time=time, nodes=2, running=1, pending=0, allocatable={"cpu": 10, "pods": 9}, used={"cpu": used}, cost=cost
    )


def test_a_part_counts_the_pods_created_in_it():
    waits = WaitsRecord(pods=0, unplaced=0, at_once=0, mean=0, p50=0, p90=0, p95=0, p99=0, longest=0)
    summary = SummaryRecord(
        name="n",
        seed=1,
        emulated_version="1.37",
        simulated=100.0,
        arrived=5,
        placements=3,
        attempts=3,
        ends={},
        evictions=1,
        waits=waits,
    )
    rows = [
        row(10.0, attempts=9, placed=49.0, ended=60.0, evicted=55.0, end="preempted"),
        row(50.0, attempts=2, placed=52.0, end="running"),
        row(50.0, placed=50.0, end="running"),
        row(60.0, end="pending"),
        row(70.0, ended=76.0, end="deleted"),
        row(80.0, end="refused"),
    ]
    series = [sample(0.0, 1, 0.0), sample(50.0, 2, 4.0), sample(100.0, 4, 9.0)]
    result = SimulationResult(summary=summary, series=series, record=ReportRecord(title=""), decisions=rows)
    found = measured_since(result, 50.0)
    # 2 s; nothing, as one came with a node; 40 s so far, which count; 6 s until it was deleted.
    assert found["waits.mean"] == 16.0
    assert (found["waits.longest"], found["unplaced"]) == (40.0, 2.0)
    assert found["evictions"] == 1, "created before, and evicted in this part"
    assert (found["utilization.cpu"], found["utilization"]) == pytest.approx((30.0, 30.0))
    assert (found["cost"], found["nodes.mean"]) == (5.0, 2.0)


POINTS = st.dictionaries(
    st.integers(0, 30),
    st.fixed_dictionaries({"cost": st.integers(0, 6).map(float), "utilization": st.integers(0, 6).map(float)}),
    max_size=12,
)


def dominates(one, other):
    """Less cost and more use are better."""
    as_good = one["cost"] <= other["cost"] and one["utilization"] >= other["utilization"]
    return as_good and one != other


@given(POINTS)
def test_the_front_is_undominated_and_dominates_the_rest(points):
    kept = front(("cost", "utilization"), points)
    for key, values in points.items():
        dominated = any(dominates(points[other], values) for other in points)
        if key in kept:
            assert not dominated
        else:
            assert dominated or any(points[other] == values for other in kept)


def test_axes_are_measures_that_differ():
    found = [{"cost": 1.0, "waits.mean": 2.0, "evictions": 0.0}, {"cost": 1.0, "waits.mean": 3.0, "evictions": 1.0}]
    assert axes_of(["cost"], found) == ("waits.mean", "evictions")
    assert axes_of(["evictions"], found) == ("evictions", "waits.mean")
    assert axes_of(["cost"], found[:1]) == ()
