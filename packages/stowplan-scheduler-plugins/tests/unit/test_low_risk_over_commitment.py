"""LowRiskOverCommitment: what pods may use beyond what there is, and how likely measured load does."""

import pytest

from stowplan.testing import a_pod
from stowplan_scheduler_plugins.low_risk_over_commitment import Shares, probability_within
from support.plugins.measured_load import load, metric, scores


def risk(loads, *, objects=(), **limits):
    pod = a_pod("p").requests(cpu="1").limits(cpu=limits.get("cpu", "1"))
    return scores("LowRiskOverCommitment", loads, pod=pod.obj(), objects=objects)


def test_limits_beyond_what_there_is_are_a_risk():
    idle = [metric("CPU", "AVG", 0)]
    assert risk(load(n1=idle, n2=idle)) == {"n1": 100, "n2": 100}
    overcommitted = a_pod("other").requests(cpu="1").limits(cpu="17").on("n2").obj()
    # 8 of 16 CPUs between requests and limits are not there; the limits weigh half.
    assert risk(load(n1=idle, n2=idle), objects=[overcommitted]) == {"n1": 100, "n2": 75}


def test_a_pod_without_requests_and_limits_risks_nothing_and_scores_nothing():
    found = scores("LowRiskOverCommitment", load(n1=[metric("CPU", "AVG", 90)]), pod=a_pod("p").obj())
    assert found == {"n1": 0, "n2": 0}


@pytest.mark.parametrize(
    ("mean", "deviation", "node", "expected"),
    [
        pytest.param(0, 0.5, Shares(0, 9, 10), 1.0, id="no load"),
        pytest.param(0.4, 0, Shares(5, 10, 10), 1.0, id="steadily below the requests"),
        pytest.param(0.6, 0, Shares(5, 10, 10), 0.0, id="steadily above them"),
        pytest.param(0.5, 0.2, Shares(5, 10, 10), 0.5, id="symmetric"),
        pytest.param(0.5, 0.2, Shares(5, 5, 10), 1.0, id="never more than the limits"),
        pytest.param(0.4, 0.1, Shares(0, 0, 10), 1.0, id="no limits"),
    ],
)
def test_the_probability_that_load_stays_within_requests(mean, deviation, node, expected):
    assert probability_within(mean, deviation, node) == pytest.approx(expected)
