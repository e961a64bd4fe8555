import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.reconcile.jobs import Indexes, format_indexes, parse_indexes


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        pytest.param([], "", id="none"),
        pytest.param([3], "3", id="one"),
        pytest.param([3, 4], "3,4", id="two are not shortened"),
        pytest.param([5, 3, 4], "3-5", id="three are"),
        pytest.param([0, 2, 3, 4, 5, 9], "0,2-5,9", id="several runs"),
    ],
)
def test_formatting_indexes(indexes, text):
    assert format_indexes(indexes) == text
    assert parse_indexes(text, 10) == set(indexes)


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        pytest.param("1,x,3", {1, 3}, id="garbage is skipped"),
        pytest.param("2-20", {2, 3, 4}, id="cut at completions"),
        pytest.param("1-,3-y", {1}, id="incomplete range"),
        pytest.param(f"1,{'9' * 5000},3-{'9' * 5000}", {1}, id="more digits than Python parses"),
    ],
)
def test_parsing_unusual_texts(text, indexes):
    assert parse_indexes(text, 5) == indexes


@given(st.sets(st.integers(0, 60)))
def test_round_trip(indexes):
    assert parse_indexes(format_indexes(indexes), 61) == indexes


def test_the_lowest_free_indexes_come_first():
    assert Indexes(6, {0, 2}).take(3) == [1, 3, 4]
    assert Indexes(4, {0}, [2]).take(10) == [1, 3]


changes = st.one_of(
    st.tuples(st.sampled_from(["complete", "release"]), st.integers(0, 20)),
    st.tuples(st.just("take"), st.integers(0, 5)),
    st.tuples(st.just("resize"), st.integers(0, 20)),
)


@given(st.integers(0, 20), st.lists(changes, max_size=40))
def test_indexes_agree_with_the_plain_rule(completions, steps):
    indexes, completed, used = Indexes(completions), set(), set()
    for what, number in steps:
        if what == "take":
            free = [one for one in range(completions) if one not in completed | used][:number]
            assert indexes.take(number) == free
            used.update(free)
        elif what == "resize":
            completions = number
            indexes.resize(number)
            completed = {one for one in completed if one < number}
        elif number in used:
            getattr(indexes, what)(number)
            used.discard(number)
            if what == "complete" and number < completions:
                completed.add(number)
        assert indexes.completed == completed
