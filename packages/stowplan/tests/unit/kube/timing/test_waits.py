"""The distribution of waits, compared with the waits themselves."""

from __future__ import annotations

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.timing.waits import Waits

SECONDS = st.floats(0, 1e7, allow_nan=False) | st.sampled_from([0.0, 1e-4, 1.0, 60.0, 4096.0])


@given(st.lists(SECONDS, min_size=1, max_size=60), st.floats(0.01, 1))
def test_quantiles_are_accurate_to_one_percent(waits, share):
    found = Waits()
    for wait in waits:
        found.add(wait)
    exact = sorted(waits)[max(0, ceil(share * len(waits)) - 1)]
    if exact < 1e-3:
        assert found.quantile(share) == 0
    else:
        assert exact * 0.999 <= found.quantile(share) <= exact * 1.011
    assert found.longest == max((one for one in waits if one >= 1e-3), default=0)


@given(st.lists(SECONDS, max_size=60), st.floats(0.01, 1e6))
def test_the_number_of_longer_waits(waits, bound):
    found = Waits()
    for wait in waits:
        found.add(wait)
    least, most = (sum(one > bound * factor and one >= 1e-3 for one in waits) for factor in (1.02, 0.98))
    assert least <= found.above(bound) <= most
