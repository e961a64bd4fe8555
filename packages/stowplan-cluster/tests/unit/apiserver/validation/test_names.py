import pytest

from stowplan_cluster.apiserver.validation.names import parse

ORDERED = ["1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-a", "1.0.0-a.1", "1.0.0-b", "1.0.0", "1.0.1", "1.2.0", "1.10.0"]


def test_precedence():
    assert sorted(ORDERED, key=parse) == ORDERED
    assert parse("1.0.0+a") == parse("1.0.0+b")


@pytest.mark.parametrize("text", ["", "1", "1.0", "01.0.0", "v1.0.0", "1.0.0-01", "1.0.x", f"1.0.{'9' * 5000}"])
def test_texts_that_are_no_version(text):
    assert parse(text) is None
