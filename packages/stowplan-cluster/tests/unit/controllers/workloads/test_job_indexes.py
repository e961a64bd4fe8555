import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.controllers.workloads.job_indexes import first_free, format_indexes, give_index, parse_indexes


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
    assert first_free({0, 2}, 6, 3) == [1, 3, 4]
    assert first_free({0, 2}, 4, 10) == [1, 3]


def test_long_names_are_shortened_before_the_index():
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a", "env": [{"name": "JOB_COMPLETION_INDEX"}]}]}}
    give_index(pod, "j" * 70, 12)
    assert pod["metadata"]["generateName"] == "j" * 54 + "-12-"
    assert pod["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX"}]
