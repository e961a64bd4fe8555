"""Time spans, rates and distributions in scenarios."""

from __future__ import annotations

import pickle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_lab.simulation.definition.amounts import Distribution, Rate, Span, Times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("1h30m", 5400), ("7d", 604_800), ("1d12h", 129_600), ("1w", 604_800), (15, 15), (0, 0)],
)
def test_a_time_span(text, seconds):
    assert Span.read(text) == seconds


@pytest.mark.parametrize("text", ["5 minutes", "", "-5m", -1, True, None, [], "d", float("inf"), "1dd"])
def test_invalid_time_spans(text):
    with pytest.raises(ValueError, match="want a time span"):
        Span.read(text)


@pytest.mark.parametrize(
    ("text", "per_second"), [("2/s", 2), ("100/h", 100 / 3600), ("5/10m", 5 / 600), ("1/2d", 1 / 172_800)]
)
def test_a_rate(text, per_second):
    assert Rate.read(text) == pytest.approx(per_second)


@pytest.mark.parametrize("text", ["100", "0/s", "-1/s", "x/s", "1/", "1/0s", "nan/s", 5])
def test_invalid_rates(text):
    with pytest.raises(ValueError, match="want a rate"):
        Rate.read(text)


@pytest.mark.parametrize(
    "given_value",
    [
        {"exponential": "10m"},
        {"uniform": ["1m", "5m"]},
        {"lognormal": {"median": "3m", "p95": "10m"}},
        {"pareto": {"least": "1m", "shape": 3}},
        {"choice": ["30s", "5m"], "weights": [3, 1]},
        "2m",
    ],
    ids=str,
)
def test_the_mean_of_draws(given_value):
    distribution = Distribution.read(given_value)
    random = Random(1)
    drawn = [distribution.draw(random) for _ in range(20_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(distribution.mean, rel=0.05)


def test_quantiles_of_a_lognormal():
    distribution, random = Distribution.read({"lognormal": {"median": "3m", "p95": "40m"}}), Random(1)
    drawn = sorted(distribution.draw(random) for _ in range(20_001))
    assert drawn[10_000] == pytest.approx(180, rel=0.05)
    assert drawn[19_000] == pytest.approx(2400, rel=0.05)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"exponentail": "5m"}, "did you mean exponential"),
        ({"exponential": 0}, "longer than 0"),
        ({"uniform": ["5m", "1m"]}, "second time span is shorter"),
        ({"uniform": "5m"}, "want two time spans"),
        ({"lognormal": {"median": "5m"}}, "want median and p95"),
        ({"lognormal": {"median": "5m", "p95": "1m"}}, "longer than the median"),
        ({"pareto": {"least": "1m", "shape": 0}}, "above 0"),
        ({"choice": []}, "want a list"),
        ({"choice": [1, 2], "weights": [1]}, "as many numbers"),
        ({"choice": [1], "weights": [0]}, "all of them are 0"),
        ({"choice": [1], "weights": [float("inf")]}, "as many numbers"),
        ({"lognormal": {"median": 1, "p95": 1e300}}, "lognormal: its longest time spans are too long to count"),
        ({"pareto": {"least": "1m", "shape": 0.01}}, "pareto: its longest time spans are too long to count"),
        ({"pareto": {"least": "1m", "shape": float("inf")}}, "above 0"),
        ({}, "want a time span, or one of"),
        ({"uniform": [1, 2], "choice": [1]}, "want a time span, or one of"),
    ],
    ids=str,
)
def test_invalid_distributions(wrong, message):
    with pytest.raises(ValueError, match=message):
        Distribution.read(wrong)


@given(st.floats(0, 1, exclude_max=True))
def test_draws_are_finite_and_not_negative(number):
    class Fixed(Random):
        def random(self):
            return number

    for source in ({"exponential": 60}, {"lognormal": {"median": 60, "p95": 90}}, {"pareto": {"least": 1, "shape": 2}}):
        assert 0 <= Distribution.read(source).draw(Fixed()) < float("inf")


def test_amounts_can_be_pickled():
    for amount in (Distribution.read({"exponential": 60}), Span(5), Rate(2), Times.read([3, 1]), Times.read(2)):
        again = pickle.loads(pickle.dumps(amount))
        assert again == amount
        assert getattr(again, "listed", None) == getattr(amount, "listed", None)
