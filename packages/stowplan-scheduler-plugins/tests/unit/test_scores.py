"""Go's integer division, rounding and normalizing by bounds, against plain rules."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan_scheduler_plugins.scores import highest_to_lowest, lowest_to_highest, rounded, truncated

LISTS = st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=8)
ALL = slice(None)


@given(LISTS, st.integers(1, 10**6) | st.integers(-(10**6), -1))
def test_division_rounds_toward_zero(dividends, divisor):
    found = truncated(np.array(dividends, np.int64), divisor).tolist()
    assert found == [abs(one) // abs(divisor) * (1 if (one < 0) == (divisor < 0) else -1) for one in dividends]


def test_halves_are_rounded_away_from_zero():
    assert rounded(np.array([0.5, 1.5, 2.5, -0.5, 2.4999, 0.0])).tolist() == [1, 2, 3, -1, 2, 0]


@given(LISTS)
def test_the_highest_score_becomes_100(scores):
    raw = np.array(scores, np.int64)
    found = lowest_to_highest(raw, np.ones(len(raw), bool))
    if len(set(scores)) == 1:
        assert not found.any()
    else:
        assert (found[raw.argmin()], found[raw.argmax()]) == (0, 100)


@given(LISTS)
def test_the_lowest_cost_becomes_100(costs):
    raw = np.array(costs, np.int64)
    found = highest_to_lowest(raw, np.ones(len(raw), bool))
    if not any(costs):
        assert not found.any()
    elif len(set(costs)) == 1:
        assert (found == 100).all()
    else:
        assert (found[raw.argmin()], found[raw.argmax()]) == (100, 0)


def test_only_feasible_nodes_count():
    raw = np.array([5, 10, 1000], np.int64)
    assert lowest_to_highest(raw, np.array([True, True, False]))[:2].tolist() == [0, 100]
    assert highest_to_lowest(raw, np.array([True, True, False]))[:2].tolist() == [100, 0]
    assert lowest_to_highest(raw, np.zeros(3, bool)).tolist() == [0, 0, 0]
