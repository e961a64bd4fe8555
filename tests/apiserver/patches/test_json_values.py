"""JSON values told apart, copied and printed as Go prints them."""

import pytest

from stowplan.apiserver.patches.json_values import copy_of, go_string_verb, go_text, identity, same

DISTINCT = [None, True, False, 0, 1, 0.0, 1.0, "", "1", [], {}, [1], [True], {"a": 1}, {"a": 1.0}, {"b": 1}]


def test_values_are_the_same_only_as_themselves():
    for i, left in enumerate(DISTINCT):
        for j, right in enumerate(DISTINCT):
            assert same(left, copy_of(right)) == (i == j)


def test_identity_tells_the_same_apart():
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
