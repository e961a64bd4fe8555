"""Label selectors: matching, canonical form, messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.decode import convert
from stowplan.kube.api.label_selectors import (
    EVERYTHING,
    NOTHING,
    Requirement,
    SelectorError,
    compile_label_selector,
    parse_int64,
    selector_from_map,
    selector_of,
)
from stowplan.kube.api.types import LabelSelector


def a_selector(*expressions, **labels):
    entries = [{"key": key, "operator": operator, "values": list(values)} for key, operator, *values in expressions]
    return convert({"matchLabels": labels, "matchExpressions": entries}, LabelSelector)


@pytest.mark.parametrize(
    ("expression", "labels", "expected"),
    [
        (("a", "In", "x", "y"), {"a": "y"}, True),
        (("a", "In", "x"), {"a": "z"}, False),
        (("a", "In", "x"), {}, False),
        (("a", "In", ""), {"a": ""}, True),
        (("a", "NotIn", "x"), {"a": "y"}, True),
        (("a", "NotIn", "x"), {"a": "x"}, False),
        (("a", "NotIn", "x"), {}, True),
        (("a", "Exists"), {"a": ""}, True),
        (("a", "Exists"), {}, False),
        (("a", "DoesNotExist"), {"a": ""}, False),
        (("a", "DoesNotExist"), {}, True),
    ],
    ids=str,
)
def test_operators(expression, labels, expected):
    assert compile_label_selector(a_selector(expression)).matches(labels) is expected


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Gt", "5", "07", True),
        ("Gt", "5", "5", False),
        ("Gt", "5", "abc", False),
        ("Gt", "-5", "-4", True),
        ("Lt", "5", "+4", True),
        ("Lt", "5", "9223372036854775808", False),
        ("Gt", "5", "1_0", False),
        ("Foo", "5", "6", False),
    ],
)
def test_comparisons(operator, bound, value, expected):
    assert Requirement("gen", operator, (bound,)).matches({"gen": value}) is expected
    assert not Requirement("gen", operator, (bound,)).matches({})


def test_absent_matches_nothing_and_empty_matches_everything():
    assert compile_label_selector(None) is NOTHING
    assert compile_label_selector(a_selector()) == EVERYTHING
    assert (NOTHING.empty, EVERYTHING.empty) == (False, True)
    assert (NOTHING.matches({}), EVERYTHING.matches({"a": "b"})) == (False, True)


def test_equivalent_selectors_are_equal():
    left = compile_label_selector(a_selector(("b", "In", "2", "1", "2"), a="x"))
    right = compile_label_selector(a_selector(("a", "In", "x"), ("b", "In", "1", "2"), ("b", "In", "2", "1")))
    assert left == right
    assert hash(left) == hash(right)


def test_adding_equalities():
    selector = compile_label_selector(a_selector(("a", "Exists"))).with_equalities({"v": "1"})
    assert selector.matches({"a": "", "v": "1"})
    assert not selector.matches({"a": "", "v": "2"})
    assert NOTHING.with_equalities({"v": "1"}) is NOTHING
    assert EVERYTHING.merge(selector) == selector
    assert selector.merge(NOTHING) is NOTHING


def test_a_plain_map_is_not_validated():
    selector = selector_from_map({"not a key": "not a value!"})
    assert selector.matches({"not a key": "not a value!"})
    assert selector_from_map({}).empty


VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (a_selector(service="{{.bad-value.}}"), f'values[0][service]: Invalid value: "{{{{.bad-value.}}}}": {VALUE}'),
        (
            a_selector(("a", "In")),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            a_selector(("a", "Exists", "x")),
            'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        ),
        (a_selector(("a", "Gt", "1")), '"Gt" is not a valid label selector operator'),
        (
            a_selector(("a", "In", "<>", "<>")),
            f'[values[0][a]: Invalid value: "<>": {VALUE}, values[1][a]: Invalid value: "<>": {VALUE}]',
        ),
    ],
    ids=["value", "no values", "values for Exists", "operator", "several"],
)
def test_messages(selector, message):
    with pytest.raises(SelectorError) as caught:
        compile_label_selector(selector)
    assert str(caught.value) == message


keys, values = st.sampled_from("abc"), st.sampled_from(["", "x", "y"])
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1).map(tuple)),
    st.builds(Requirement, keys, st.sampled_from(["Exists", "DoesNotExist"])),
)


@given(st.lists(requirements), st.lists(requirements), st.dictionaries(keys, values))
def test_merging_is_and(left, right, labels):
    merged = selector_of(left).merge(selector_of(right))
    assert merged.matches(labels) == all(requirement.matches(labels) for requirement in left + right)


@given(st.integers(-(2**70), 2**70), st.sampled_from(["", "0", "000"]))
def test_int64_bounds(number, zeros):
    text = f"-{zeros}{-number}" if number < 0 else f"{zeros}{number}"
    assert parse_int64(text) == (number if -(2**63) <= number < 2**63 else None)
