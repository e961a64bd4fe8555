"""Sets and maps as list types, defaulting, and pruning of nulls."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.apiserver.custom.object_checks import list_errors
from stowplan_cluster.apiserver.custom_resources import apply_schema_defaults

SET = {"type": "array", "x-kubernetes-list-type": "set", "items": {}}
MAP = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": {"type": "object", "properties": {"tags": SET}},
}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (SET, ["a", "b"], []),
        (SET, ["a", "b", "a", "a"], ['l[2]: Duplicate value: "a"']),
        (SET, [1, True, "1"], []),
        (SET, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], ['l[1]: Duplicate value: {"a":1,"b":2}']),
        (MAP, [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}], []),
        (MAP, [{"port": 1, "x": 1}, {"port": 1, "x": 2}], ['l[1]: Duplicate value: {"port":1}']),
        (MAP, [{}, None], ["l[1]: Duplicate value: {}"]),
        (MAP, [{}, "a"], ['l[1]: Invalid value: "a": must be an object for an array of list-type map']),
        (MAP, [{"port": 1, "tags": ["a", "a"]}], ['l[0].tags[1]: Duplicate value: "a"']),
    ],
)
def test_lists(schema, value, expected):
    assert [str(error) for error in list_errors({"properties": {"l": schema}}, {"l": value})] == expected


def test_lists_in_maps():
    assert [error.field for error in list_errors({"additionalProperties": SET}, {"k": [1, 1]}, "spec")] == [
        "spec[k][1]"
    ]


SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "default": {},
            "properties": {
                "size": {"type": "integer", "default": 3},
                "note": {"type": "string"},
                "maybe": {"type": "string", "nullable": True, "default": "x"},
                "parts": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"port": {"type": "integer", "default": 80}}},
                },
                "labels": {"type": "object", "additionalProperties": {"type": "string", "default": "d"}},
            },
        }
    },
}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param({}, {"spec": {"size": 3, "maybe": "x"}}, id="defaults within defaults"),
        pytest.param(
            {"spec": {"size": 5, "maybe": "y"}}, {"spec": {"size": 5, "maybe": "y"}}, id="existing values are kept"
        ),
        pytest.param({"spec": {"size": None}}, {"spec": {"size": 3, "maybe": "x"}}, id="null where it may not be"),
        pytest.param({"spec": {"maybe": None}}, {"spec": {"size": 3, "maybe": None}}, id="null where it may be"),
        pytest.param({"spec": {"note": None}}, {"spec": {"size": 3, "maybe": "x"}}, id="null without default"),
        pytest.param(
            {"spec": {"parts": [{}, {"port": 1}], "labels": {"a": None, "b": "c"}}},
            {"spec": {"size": 3, "maybe": "x", "parts": [{"port": 80}, {"port": 1}], "labels": {"a": "d", "b": "c"}}},
            id="in lists and maps",
        ),
    ],
)
def test_defaults(obj, expected):
    apply_schema_defaults(SCHEMA, obj)
    assert obj == expected


def test_defaults_are_not_shared():
    first, second = {}, {}
    apply_schema_defaults(SCHEMA, first)
    first["spec"]["size"] = 9
    apply_schema_defaults(SCHEMA, second)
    assert second["spec"]["size"] == 3


_FIELDS = {"size": st.integers() | st.none(), "note": st.text() | st.none(), "maybe": st.none() | st.text()}


@given(st.fixed_dictionaries({}, optional={"spec": st.none() | st.fixed_dictionaries({}, optional=_FIELDS)}))
def test_defaulting_is_idempotent(obj):
    apply_schema_defaults(SCHEMA, obj)
    once = copy.deepcopy(obj)
    apply_schema_defaults(SCHEMA, obj)
    assert obj == once
