"""The fitted beta distribution and its probabilities."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_scheduler_plugins.beta_distribution import fitted, probability_below


@pytest.mark.parametrize(
    ("share", "alpha", "beta", "probability"),
    [
        (0.3, 1, 1, 0.3),
        (0.5, 2, 2, 0.5),
        (0.2, 2, 1, 0.04),
        (0.25, 0.5, 0.5, 1 / 3),
        (0.4, 2, 3, 0.5248),
        (0.0, 2, 3, 0),
        (1.0, 2, 3, 1),
        pytest.param(-0.1, 2, 3, 0, id="outside"),
    ],
)
def test_known_probabilities(share, alpha, beta, probability):
    assert probability_below(share, alpha, beta) == pytest.approx(probability, rel=1e-12)


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.9))
def test_the_fit_has_the_given_moments(mean, part):
    deviation = math.sqrt(mean * (1 - mean)) * part
    parameters = fitted(mean, deviation)
    assert parameters is not None
    alpha, beta = parameters
    total = alpha + beta
    assert alpha / total == pytest.approx(mean)
    assert math.sqrt(alpha * beta / (total * total * (total + 1))) == pytest.approx(deviation, rel=1e-6)


@given(st.floats(0.001, 0.999), st.floats(0.1, 200), st.floats(0.1, 200))
def test_the_mirrored_distribution_has_the_rest(share, alpha, beta):
    assert probability_below(share, alpha, beta) + probability_below(1 - share, beta, alpha) == pytest.approx(1)


def test_a_deviation_that_is_too_large_has_no_fit():
    assert fitted(0.5, 0.6) is None
