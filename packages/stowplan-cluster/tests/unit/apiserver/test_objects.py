"""JSON values compared, copied and printed as in Go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.merge_patches import copy_of
from stowplan_cluster.apiserver.objects import equal, go_number, go_string_verb, go_text, go_value, identity, same

DISTINCT = [None, True, False, 0, 1, 0.0, 1.0, "", "1", [], {}, [1], [True], {"a": 1}, {"a": 1.0}, {"b": 1}]


def test_distinct_values_differ():
    for i, left in enumerate(DISTINCT):
        for j, right in enumerate(DISTINCT):
            assert same(left, copy_of(right)) == (i == j)


def test_keys_of_values_identify_them():
    assert len({identity(value) for value in DISTINCT}) == len(DISTINCT)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "<nil>"),
        (True, "true"),
        (-3, "-3"),
        (1.0, "1"),
        (0.5, "0.5"),
        (1e21, "1e+21"),
        ("a b", "a b"),
        ([1, [None]], "[1 [<nil>]]"),
        ({"b": 1, "a": {}}, "map[a:map[] b:1]"),
    ],
)
def test_go_text(value, text):
    assert go_text(value) == text


def test_go_string_verb():
    assert [go_string_verb(value) for value in (None, 1, [])] == [
        "%!s(<nil>)",
        "%!s(int64=1)",
        "%!s([]interface {}=[])",
    ]


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
def test_equal(left, right, expected):
    assert equal(left, right) is expected
