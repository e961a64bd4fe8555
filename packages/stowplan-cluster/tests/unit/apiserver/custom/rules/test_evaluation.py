"""Errors of violated rules, of parts that have changed, and if evaluation costs too much.

Single rules are compared with kube-apiserver in tests/integration/test_rules_of_custom_resources.py.
"""

import pytest

from stowplan_cluster.apiserver.custom.rules.evaluation import rule_tree, violations
from stowplan_cluster.apiserver.validation.field_errors import required
from support.http.custom_rules import INTEGER, LIST_MAP, SHORT, STRING, array, mapping, obj, rule, ruled

SMALL = ruled(INTEGER, "self < 5")


def refusals(schema, value, old=None, errors=()):
    """Errors of an object whose `part` has the schema."""
    before = None if old is None else {"part": old}
    return [str(error) for error in violations(rule_tree(obj(part=schema)), {"part": value}, before, list(errors))]


VIOLATED = "part.a: Invalid value: 7: failed rule: self < 5"


@pytest.mark.parametrize(
    ("schema", "old", "new", "errors"),
    [
        pytest.param(obj(a=SMALL), None, {"a": 7}, [VIOLATED], id="a new object"),
        pytest.param(obj(a=SMALL, b=INTEGER), {"a": 7}, {"a": 7, "b": 1}, [], id="the part is as it was"),
        pytest.param(obj(a=SMALL), {"a": 8}, {"a": 7}, [VIOLATED], id="the part has changed"),
        pytest.param(
            obj("self.a < 5", a=INTEGER, b=INTEGER),
            {"a": 7},
            {"a": 7, "b": 1},
            ["part: Invalid value: failed rule: self.a < 5"],
            id="something in the part has changed",
        ),
        pytest.param(
            ruled(INTEGER, "self == 3 || self != oldSelf"),
            7,
            7,
            ["part: Invalid value: 7: failed rule: self == 3 || self != oldSelf"],
            id="rules about the old part hold for an equal one",
        ),
        pytest.param(
            array(obj(name=SHORT, a=SMALL), **LIST_MAP),
            [{"name": "x", "a": 7}, {"name": "y", "a": 1}],
            [{"name": "y", "a": 9}, {"name": "x", "a": 7}],
            ["part[0].a: Invalid value: 9: failed rule: self < 5"],
            id="elements are told apart by their keys",
        ),
        pytest.param(
            array(SMALL),
            [7, 1],
            [7, 1, 2],
            ["part[0]: Invalid value: 7: failed rule: self < 5"],
            id="elements cannot be told apart, and the list has changed",
        ),
        pytest.param(
            obj(l=array(SMALL), b=INTEGER),
            {"l": [7]},
            {"l": [7], "b": 1},
            [],
            id="elements of a list that is as it was",
        ),
        pytest.param(
            mapping(SMALL),
            {"x": 7},
            {"x": 7, "y": 8},
            ["part[y]: Invalid value: 8: failed rule: self < 5"],
            id="entries of a map",
        ),
    ],
)
def test_parts_that_have_not_changed_are_not_judged_again(schema, old, new, errors):
    assert refusals(schema, new, old) == errors


def test_rules_are_not_evaluated_if_the_schema_is_violated():
    found = refusals(SMALL, 7, errors=[required("part.x")])
    assert found == [
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid;"
        " correct the existing errors to complete validation"
    ]


#: Searching it costs 100,000 of the 1,000,000 that one call may cost, and little time.
LONG = ["x" * 1_000_000]


def searches(number):
    return " && ".join(["!self[0].contains('y')"] * number)


def test_cost_limit_per_rule():
    found = refusals(array(STRING, rule(searches(11), "too much"), "false"), LONG)
    assert found == [
        "part: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules"
        " will be run due to call cost exceeds limit for rule: too much"
    ]


def test_cost_limit_of_all_rules():
    found = refusals(array(STRING, *[searches(9)] * 11, rule(searches(9), "the last"), "false"), LONG)
    assert found == [
        "part: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules"
        " will be run due to call cost exceeds limit for rule: the last"
    ]


def test_message_expressions_that_cost_too_much_leave_the_message():
    slow = rule("false", "no", messageExpression=f"{searches(11)} ? 'yes' : 'no'")
    assert refusals(array(STRING, *[slow] * 9), LONG) == ["part: Invalid value: no"] * 9
    said = refusals(array(STRING, *[slow] * 10, "size(self) > 0"), LONG)[-1]
    assert "no further validation rules will be run" in said


def test_values_that_do_not_fit_their_schema_cannot_be_evaluated():
    found = refusals(obj("self.a == 'x'", a=STRING), {"a": 5})
    assert found == ["part: Invalid value: \"object\": invalid data, expected string evaluating rule: self.a == 'x'"]


def test_a_rule_that_does_not_compile_refuses_every_object():
    found = refusals(obj("self.a == 1", a=STRING), {"a": "x"})
    assert len(found) == 1
    assert found[0].startswith('part: Invalid value: "object": rule compile error: compilation failed: ERROR: ')


def test_a_schema_without_rules_costs_nothing():
    assert rule_tree(obj(a=INTEGER)) is None
    assert violations(None, {}, None, []) == []
