"""JSON merge patch: the examples of its RFC, and deviations of the reference's library."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import BadRequest
from stowplan_cluster.apiserver.patches import apply_merge_patch


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="set"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="add"),
        pytest.param({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, id="take away"),
        pytest.param({"a": "b"}, {"c": None}, {"a": "b"}, id="take away nothing"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="text for a list"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="deep"),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="lists are replaced"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="null that was there"),
        pytest.param({"a": "foo"}, {"a": {"bb": {"cc": None}}}, {"a": {"bb": {}}}, id="nulls of what is new go"),
        pytest.param({}, {"a": [{"b": None}, None]}, {"a": [{}, None]}, id="in a new list, of its objects"),
        pytest.param({"a": [0]}, {"a": [{"b": None}]}, {"a": [{}]}, id="in a list for a list"),
        pytest.param({"a": {"x": 1}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}, id="stay in a list for an object"),
        pytest.param({"a": {"x": 1}}, {"a": {"y": {"z": None}}}, {"a": {"x": 1, "y": {}}}, id="of a new key inside"),
    ],
)
def test_merges(obj, patch, expected):
    assert apply_merge_patch(obj, patch) == expected


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param(None, "Invalid JSON Patch", id="null"),
        pytest.param(
            [1], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        ),
        pytest.param(
            "x", "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"
        ),
    ],
)
def test_patches_must_be_objects(patch, message):
    with pytest.raises(BadRequest) as refused:
        apply_merge_patch({}, patch)
    assert str(refused.value) == message


PLAIN = st.recursive(
    st.booleans() | st.integers(0, 3) | st.sampled_from("xy"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), PLAIN, max_size=3)


def diff(old, new):
    changes = {key: None for key in old if key not in new}
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            changes[key] = diff(old[key], value)
        elif key not in old or old[key] is not value:
            changes[key] = value
    return changes


@given(OBJECTS, OBJECTS)
def test_applying_a_diff_gives_the_new_object(old, new):
    assert apply_merge_patch(old, diff(old, new)) == new


@given(OBJECTS, OBJECTS)
def test_merging_is_idempotent(obj, patch):
    once = apply_merge_patch(obj, patch)
    assert apply_merge_patch(once, patch) == once
