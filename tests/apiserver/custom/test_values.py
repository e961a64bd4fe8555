"""Numbers and values as Go prints them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver.custom.values import go_number, go_value, same


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "1"),
        (1.0, "1"),
        (0.0, "0"),
        (-0.5, "-0.5"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (123456.5, "123456.5"),
        (1000000.0, "1e+06"),
        (1000000, "1000000"),
        (123456789.125, "1.23456789125e+08"),
        (float("inf"), "+Inf"),
    ],
)
def test_numbers(value, shown):
    assert go_number(value) == shown


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_back(value):
    assert float(go_number(value)) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "true"),
        (None, "null"),
        ("a\n", '"a\\n"'),
        ({"b": 1, "a": [None]}, '{"a":[null],"b":1}'),
        ([1.0, 1e20, 1e21, 1e-7, 0.5], "[1,100000000000000000000,1e+21,1e-7,0.5]"),
    ],
)
def test_values(value, shown):
    assert go_value(value) == shown


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [(1, 1.0, True), (1, True, False), ([1], [True], False), ({"a": 0}, {"a": False}, False), ([1, 2], [1], False)],
)
def test_same(left, right, expected):
    assert same(left, right) is expected
