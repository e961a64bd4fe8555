"""Numbers are formatted as in Go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.metrics.prometheus_text import go_float


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (-2.0, "-2"),
        (0.5, "0.5"),
        (100.0, "100"),
        (604800.0, "604800"),
        (999999.0, "999999"),
        (1000000.0, "1e+06"),
        (1048576.0, "1.048576e+06"),
        (2592000.0, "2.592e+06"),
        (124416000.0, "1.24416e+08"),
        (-1500000.5, "-1.5000005e+06"),
        (1e15, "1e+15"),
        (1e16, "1e+16"),
        (1.25e21, "1.25e+21"),
        (18446744073709551615.0, "1.8446744073709552e+19"),
        (0.001, "0.001"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.5000000000000002e-05, "1.5000000000000002e-05"),
        (0.02216837820053101, "0.02216837820053101"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
    ],
)
def test_numbers_as_go_prints_them(number, text):
    assert go_float(number) == text


@given(st.floats(allow_nan=False))
def test_they_read_back_as_they_were(number):
    assert float(go_float(number)) == number
