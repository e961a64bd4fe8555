"""Sets of fields compared with Python sets of paths, and their JSON form."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.apiserver.managed_fields.field_sets import (
    BadElementError,
    decoded,
    difference,
    element_of,
    has,
    in_order,
    intersection,
    is_member,
    ordered,
    path_text,
    paths,
    union,
    without,
)
from stowplan_cluster.apiserver.schema.type_model import MAP, SET, ListType, Scalar, Struct

STEPS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "i:0"])
PATHS = st.frozensets(st.lists(STEPS, min_size=1, max_size=3).map(tuple), max_size=6)


def set_of(members):
    """Built field by field, in the simplest way."""
    fields = {}
    for member in sorted(members):
        fields = union(fields, single(member))
    return fields


def single(path):
    fields = {}
    for step in reversed(path):
        fields = {step: fields}
    return fields


def members_of(fields):
    return frozenset(paths(fields))


@given(PATHS)
def test_a_set_has_its_members(members):
    fields = set_of(members)
    assert members_of(fields) == members
    assert all(has(fields, path) for path in members)


@given(PATHS, PATHS)
def test_algebra(left, right):
    one, other = set_of(left), set_of(right)
    assert members_of(union(one, other)) == left | right
    assert members_of(intersection(one, other)) == left & right
    assert members_of(difference(one, other)) == left - right
    below = {path for path in left if any(path[: i + 1] in right for i in range(len(path)))}
    assert members_of(without(one, other)) == left - below


@given(PATHS, PATHS)
def test_results_are_normalized(left, right):
    one, other = set_of(left), set_of(right)
    for fields in (union(one, other), intersection(one, other), difference(one, other), without(one, other)):
        assert fields == set_of(members_of(fields))


@given(PATHS, PATHS)
def test_arguments_are_not_modified(left, right):
    one, other = set_of(left), set_of(right)
    for operation in (union, intersection, difference, without):
        operation(one, other)
    assert (one, other) == (set_of(left), set_of(right))


@given(PATHS)
def test_json_round_trip(members):
    fields = ordered(set_of(members))
    again = decoded(json.loads(json.dumps(fields)))
    assert json.dumps(again) == json.dumps(fields)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(None, {}, id="null"),
        pytest.param({}, {}, id="nothing"),
        pytest.param({"f:a": {".": {}}}, {"f:a": {}}, id="a member said twice"),
        pytest.param({"f:a": None}, {"f:a": {}}, id="null is a leaf"),
        pytest.param({"f:a": {"f:b": {}, ".": {}}}, {"f:a": {".": {}, "f:b": {}}}, id="member with children"),
        pytest.param({'k:{"b":1, "a":"x"}': {}}, {'k:{"a":"x","b":1}': {}}, id="keys are sorted"),
        pytest.param({'v: "x"': {}, "i:07": {}}, {'v:"x"': {}, "i:7": {}}, id="values and indices"),
        pytest.param({"z:future": {}, "f:a": {}}, {"f:a": {}}, id="unknown kinds are dropped"),
        pytest.param({"f:z": {}, "f:a": {}}, {"f:a": {}, "f:z": {}}, id="sorted"),
    ],
)
def test_reading_unusual_json(raw, expected):
    assert json.dumps(decoded(raw)) == json.dumps(expected)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param([], id="a list"),
        pytest.param({"f": {}}, id="too short"),
        pytest.param({"name": {}}, id="no colon"),
        pytest.param({"k:[1]": {}}, id="keys that are a list"),
        pytest.param({"k:{": {}}, id="broken keys"),
        pytest.param({"i:x": {}}, id="no index"),
        pytest.param({"f:a": 1}, id="a number below"),
    ],
)
def test_invalid_sets(raw):
    with pytest.raises(ValueError, match=r"."):
        decoded(raw)


def test_order_is_by_kind_and_size():
    steps = ['v:"b"', "i:10", "i:9", 'k:{"p":443}', 'k:{"p":8080}', 'k:{"p":80}', "f:b", ".", 'v:"a!"', 'v:"a"', "f:a"]
    expected = [".", "f:a", "f:b", 'k:{"p":80}', 'k:{"p":443}', 'k:{"p":8080}', 'v:"a"', 'v:"a!"', 'v:"b"', "i:9"]
    assert in_order(steps) == [*expected, "i:10"]


def test_long_steps_are_in_order_too():
    steps = [f'v:"{letter * 999}"' for letter in "cab"]
    assert in_order(steps) == sorted(steps)


def test_members_of_a_level_come_before_those_below():
    fields = {"f:a": {"f:x": {}}, "f:b": {".": {}, "f:y": {}}, "f:c": {}}
    assert list(paths(fields)) == [("f:b",), ("f:c",), ("f:a", "f:x"), ("f:b", "f:y")]


def test_leaves_are_members_and_their_parents_are_not():
    assert (is_member({}), is_member({".": {}, "f:a": {}}), is_member({"f:a": {}})) == (True, True, False)


def test_paths_in_messages():
    path = ("f:spec", 'k:{"containerPort":80,"protocol":"TCP"}', 'v:"a\\"b"', "v:true", "i:3", "f:x")
    assert path_text(path) == '.spec[containerPort=80,protocol="TCP"][="a\\"b"][=true][3].x'


ANYTHING = Struct("example.Port", {"port": Scalar.INT32})
PORTS = ListType(ANYTHING, kind=MAP, keys=("port", "protocol"), key_defaults={"protocol": "TCP"})
NAMES = ListType(ANYTHING, kind=MAP, keys=("name",))
VALUES = ListType(Scalar.STRING, kind=SET)


@pytest.mark.parametrize(
    ("item", "type", "step"),
    [
        pytest.param({"name": "x", "other": 1}, NAMES, 'k:{"name":"x"}', id="a name"),
        pytest.param({"name": '<&"é'}, NAMES, 'k:{"name":"\\u003c\\u0026\\"é"}', id="escapes"),
        pytest.param({"name": "x" * 999}, NAMES, 'k:{"name":"' + "x" * 999 + '"}', id="a long name"),
        pytest.param({"name": 1}, NAMES, 'k:{"name":1}', id="a number"),
        pytest.param({"name": True}, NAMES, 'k:{"name":true}', id="true"),
        pytest.param({"port": 80}, PORTS, 'k:{"port":80,"protocol":"TCP"}', id="a default"),
        pytest.param({"protocol": "UDP"}, PORTS, 'k:{"protocol":"UDP"}', id="a key that is left out"),
        pytest.param("x", VALUES, 'v:"x"', id="a value"),
    ],
)
def test_steps_to_elements(item, type, step):
    assert element_of(item, type) == step


@pytest.mark.parametrize(
    ("item", "type", "message"),
    [
        pytest.param(None, NAMES, "may not have a null element", id="null"),
        pytest.param(1, NAMES, "may not have non-map elements", id="a number"),
        pytest.param({}, NAMES, r'omits all key fields \["name"\]', id="no key"),
        pytest.param({}, VALUES, "an element that's a map type", id="an object"),
        pytest.param([], VALUES, "lists as elements", id="a list"),
        pytest.param(None, VALUES, "an explicit null", id="a null value"),
    ],
)
def test_elements_without_a_path(item, type, message):
    with pytest.raises(BadElementError, match=message):
        element_of(item, type)
