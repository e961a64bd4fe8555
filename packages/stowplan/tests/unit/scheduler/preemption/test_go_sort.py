"""The sort of Go's sort.Slice: sorted, a permutation, deterministic, and stable for short lists."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.preemption.go_sort import INSERTION_LIMIT, go_sort

few_keys = st.integers(0, 3)


def sort(items):
    found = list(items)
    go_sort(found, lambda a, b: a[0] < b[0])
    return found


def numbered(keys):
    return [(key, i) for i, key in enumerate(keys)]


@given(st.one_of(st.lists(few_keys, max_size=200), st.lists(st.integers(), max_size=300)))
def test_a_sorted_permutation(keys):
    items = numbered(keys)
    found = sort(items)
    assert sorted(found) == sorted(items)
    assert all(a[0] <= b[0] for a, b in pairwise(found))


@given(st.lists(few_keys, max_size=INSERTION_LIMIT))
def test_short_lists_are_stable(keys):
    assert sort(numbered(keys)) == sorted(numbered(keys))


@given(st.lists(few_keys, max_size=120))
def test_the_order_depends_on_comparisons_alone(keys):
    items = numbered(keys)
    assert [i for _, i in sort(items)] == [i for _, i in sort([(key * 10 - 7, i) for key, i in items])]


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(range(1000), id="sorted"),
        pytest.param(range(1000, 0, -1), id="reversed"),
        pytest.param([0] * 1000, id="all equal"),
        pytest.param([i % 2 for i in range(1000)], id="two values"),
        pytest.param([*range(500), *range(500)], id="two runs"),
        pytest.param([*range(500), *range(500, 0, -1)], id="an organ pipe"),
        pytest.param([(i * 7919) % 1009 for i in range(1000)], id="mixed"),
        pytest.param([*range(990), 3, 1, 2], id="nearly sorted"),
    ],
)
def test_patterns(keys):
    items = numbered(keys)
    compared = 0

    def less(a, b):
        nonlocal compared
        compared += 1
        return a[0] < b[0]

    found = list(items)
    go_sort(found, less)
    assert [key for key, _ in found] == sorted(keys)
    assert sorted(found) == sorted(items)
    assert compared < 40 * len(items), "too many comparisons"


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        pytest.param([0] * 13, list(range(13)), id="13 equals stay"),
        pytest.param([0, 1] * 3, [0, 2, 4, 1, 3, 5], id="6 of two kinds: stable"),
        pytest.param([1] * 6 + [0] * 6, [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5], id="12 of two kinds: stable"),
    ],
)
def test_known_orders(keys, order):
    assert [i for _, i in sort(numbered(keys))] == order


def test_longer_lists_are_not_stable():
    """So the node's order of equal pods is not simply kept."""
    items = numbered([i % 2 for i in range(20)])
    assert sort(items) != sorted(items)
