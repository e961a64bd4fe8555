"""All failures of a table are reported, each with the name of its case."""

import pytest

from support.tables import every_case


def only_two(numbers):
    with every_case() as case:
        for name, value in numbers.items():
            with case(name):
                assert value == 2


def test_all_failures_are_reported_by_name():
    with pytest.raises(ExceptionGroup, match="2 of 3 cases failed") as raised:
        only_two({"one": 1, "two": 2, "three": 3})
    assert [error.__notes__ for error in raised.value.exceptions] == [["case: one"], ["case: three"]]


def test_an_empty_table_is_a_failure():
    with pytest.raises(AssertionError, match="the table is empty"):
        only_two({})
