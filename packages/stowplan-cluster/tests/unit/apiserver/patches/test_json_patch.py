"""JSON patch: each operation, deviations from the RFC, and refusals."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import BadRequest, Invalid, RequestEntityTooLarge
from stowplan_cluster.apiserver.patches import apply_json_patch, apply_merge_patch
from stowplan_cluster.apiserver.patches.json_patch import MAX_OPERATIONS

OBJ = {"a": 1, "list": ["x", "y"], "map": {"k": "v", "odd/key": 1, "til~de": 2}, "none": None}


def op(kind, path, **rest):
    return {"op": kind, "path": path, **rest}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param([op("add", "/b", value=2)], {"b": 2}, id="add a key"),
        pytest.param([op("add", "/a", value=2)], {"a": 2}, id="add replaces"),
        pytest.param([op("add", "/list/-", value="z")], {"list": ["x", "y", "z"]}, id="append"),
        pytest.param([op("add", "/list/0", value="z")], {"list": ["z", "x", "y"]}, id="insert"),
        pytest.param([op("add", "/list/2", value="z")], {"list": ["x", "y", "z"]}, id="insert at the end"),
        pytest.param([op("add", "/list/-1", value="z")], {"list": ["x", "y", "z"]}, id="negative index appends"),
        pytest.param([op("add", "/b")], {"b": None}, id="no value is null"),
        pytest.param([op("remove", "/list/0")], {"list": ["y"]}, id="remove an element"),
        pytest.param([op("remove", "/list/-1")], {"list": ["x"]}, id="remove the last element"),
        pytest.param([op("replace", "/a", value={"b": []})], {"a": {"b": []}}, id="replace"),
        pytest.param([op("replace", "/missing", value=1)], {"missing": 1}, id="replace of a missing key sets it"),
        pytest.param([op("replace", "/list/1", value="z")], {"list": ["x", "z"]}, id="replace an element"),
        pytest.param([op("copy", "/b", **{"from": "/list"})], {"b": ["x", "y"]}, id="copy"),
        pytest.param([op("copy", "/b", **{"from": "/missing"})], {"b": None}, id="copy of nothing is null"),
        pytest.param([op("add", "/map/odd~1key", value=2)], {"map": {**OBJ["map"], "odd/key": 2}}, id="~1 is a slash"),
        pytest.param([op("add", "/map/til~0de", value=3)], {"map": {**OBJ["map"], "til~de": 3}}, id="~0 is a tilde"),
        pytest.param([op("add", "/map/~01", value=3)], {"map": {**OBJ["map"], "~1": 3}}, id="~01 is ~1"),
        pytest.param([op("add", "no/b", value=1)], {"b": 1}, id="anything may stand before the first slash"),
        pytest.param([op("test", "/a", value=1), op("add", "/a", value=2)], {"a": 2}, id="test holds"),
        pytest.param([op("test", "/none")], {}, id="null is no value"),
        pytest.param([op("test", "/missing", value=None)], {}, id="a missing key is null"),
        pytest.param([op("test", "/map", value=dict(reversed(OBJ["map"].items())))], {}, id="order of keys"),
        pytest.param(None, {}, id="null is no operation"),
        pytest.param([], {}, id="no operation"),
    ],
)
def test_operations(operations, expected):
    assert apply_json_patch(OBJ, operations) == {**OBJ, **expected}


def test_move_takes_from_the_old_place():
    moved = apply_json_patch(OBJ, [op("move", "/map/moved", **{"from": "/list"})])
    assert moved == {"a": 1, "map": {**OBJ["map"], "moved": ["x", "y"]}, "none": None}


def test_the_whole_object_can_be_replaced():
    assert apply_json_patch(OBJ, [op("test", "", value=OBJ), op("replace", "", value={"new": 1})]) == {"new": 1}


def test_copy_does_not_alias():
    patched = apply_json_patch(OBJ, [op("copy", "/b", **{"from": "/map"}), op("add", "/b/k", value="w")])
    assert (patched["map"]["k"], patched["b"]["k"]) == ("v", "w")


def test_a_patch_can_be_applied_twice():
    patch = [op("add", "/b", value={}), op("add", "/b/c", value=1)]
    before = copy.deepcopy(patch)
    assert apply_json_patch(OBJ, patch) == apply_json_patch(OBJ, patch)
    assert patch == before


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(op("remove", "/missing"), id="remove of a missing key"),
        pytest.param(op("remove", "/list/2"), id="remove beyond the end"),
        pytest.param(op("remove", "/list/-"), id="remove of -"),
        pytest.param(op("remove", ""), id="remove of everything"),
        pytest.param(op("add", "b", value=1), id="no slash"),
        pytest.param(op("add", "/missing/b", value=1), id="no parent"),
        pytest.param(op("add", "/a/b", value=1), id="parent is a number"),
        pytest.param(op("add", "/none/b", value=1), id="parent is null"),
        pytest.param(op("add", "/list/3", value=1), id="add beyond the end"),
        pytest.param(op("add", "/list/x", value=1), id="no index"),
        pytest.param(op("add", "/list/1_0", value=1), id="an index that only Python reads"),
        pytest.param(op("replace", "/list/2", value=1), id="replace beyond the end"),
        pytest.param(op("replace", "", value=1), id="replace of everything by a number"),
        pytest.param(op("test", "/a", value=2), id="test fails"),
        pytest.param(op("test", "/a", value=True), id="1 is not true"),
        pytest.param(op("test", "/a", value=1.0), id="1 is not 1.0"),
        pytest.param(op("test", "/list", value=["y", "x"]), id="order of elements"),
        pytest.param(op("move", "/b", **{"from": "/missing"}), id="move of nothing"),
        pytest.param(op("move", "/map/k/x", **{"from": "/map"}), id="move into itself"),
        pytest.param(op("move", "/b"), id="move without from"),
        pytest.param(op("frobnicate", "/a"), id="unknown operation"),
        pytest.param({"path": "/a"}, id="no operation"),
        pytest.param({"op": "add", "value": 1}, id="no path"),
        pytest.param(None, id="null"),
    ],
)
def test_inapplicable_operations_are_invalid(operation):
    with pytest.raises(Invalid) as refused:
        apply_json_patch(OBJ, [op("add", "/first", value=1), operation])
    assert str(refused.value) == "the server rejected our request due to an error in our request"
    assert refused.value.status.code == 422
    assert "first" not in OBJ


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param({}, "cannot unmarshal object into Go value of type []handlers.jsonPatchOp", id="an object"),
        pytest.param("x", "cannot unmarshal string into Go value of type []handlers.jsonPatchOp", id="a string"),
        pytest.param([1], "cannot unmarshal number into Go value of type handlers.jsonPatchOp", id="a number in it"),
        pytest.param(
            [{"op": "add", "path": 1}],
            "cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
            id="a path that is a number",
        ),
    ],
)
def test_malformed_patches_are_bad_requests(patch, message):
    with pytest.raises(BadRequest) as refused:
        apply_json_patch(OBJ, patch)
    assert str(refused.value) == f"error decoding patch: json: {message}"


def test_too_many_operations():
    with pytest.raises(RequestEntityTooLarge) as refused:
        apply_json_patch(OBJ, [op("add", "/b", value=1)] * (MAX_OPERATIONS + 1))
    limit = "The allowed maximum operations in a JSON patch is 10000, got 10001"
    assert str(refused.value) == f"Request entity too large: {limit}"


def test_exponential_copies_are_refused():
    doubling = [op("copy", f"/map/{i}", **{"from": "/map"}) for i in range(100)]
    with pytest.raises(Invalid):
        apply_json_patch(OBJ, doubling)


def test_a_result_that_is_not_an_object_is_invalid():
    with pytest.raises(Invalid) as refused:
        apply_json_patch(OBJ, [op("replace", "", value=[1])])
    assert 'patch: Invalid value: "[1]"' in str(refused.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from("xy"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=8,
)
POINTERS = st.lists(st.sampled_from(["a", "b", "0", "1", "-"]), min_size=1, max_size=3)
OPERATIONS = st.tuples(
    st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), POINTERS, POINTERS, VALUES
)


class NoFit(Exception):
    pass


def plainly_changed(node, steps, change):
    """A second implementation: nothing is modified in place; each level is rebuilt."""
    step, *rest = steps
    if isinstance(node, dict):
        if rest:
            if step not in node:
                raise NoFit
            return {**node, step: plainly_changed(node[step], rest, change)}
        return change(dict(node), step)
    if isinstance(node, list):
        if rest:
            place = plain_index(step, len(node))
            return [*node[:place], plainly_changed(node[place], rest, change), *node[place + 1 :]]
        return change(list(node), step)
    raise NoFit


def plain_index(step, length):
    if step == "-" or not step.isdigit() or int(step) >= length:
        raise NoFit
    return int(step)


def plain_add(value):
    def change(node, step):
        if isinstance(node, dict):
            return {**node, step: value}
        place = len(node) if step == "-" else plain_index(step, len(node) + 1)
        return [*node[:place], value, *node[place:]]

    return change


def plain_remove(node, step):
    if isinstance(node, dict):
        if step not in node:
            raise NoFit
        return {key: value for key, value in node.items() if key != step}
    place = plain_index(step, len(node))
    return node[:place] + node[place + 1 :]


def plain_replace(value):
    def change(node, step):
        return {**node, step: value} if isinstance(node, dict) else plain_add(value)(plain_remove(node, step), step)

    return change


def plain_get(node, steps):
    found = []

    def look(parent, step):
        found.append(parent.get(step) if isinstance(parent, dict) else parent[plain_index(step, len(parent))])
        return parent

    plainly_changed(node, steps, look)
    return found[0]


def plain_patch(obj, operations):
    for kind, path, source, value in operations:
        if kind == "test":
            if repr(plain_get(obj, path)) != repr(value):
                raise NoFit
            continue
        if kind in ("move", "copy"):
            value = plain_get(obj, source)
        if kind == "move":
            obj = plainly_changed(obj, source, plain_remove)
        change = {"remove": plain_remove, "replace": plain_replace(value)}.get(kind, plain_add(value))
        obj = plainly_changed(obj, path, change)
    return obj


@given(st.dictionaries(st.sampled_from("ab"), VALUES), st.lists(OPERATIONS, max_size=5))
def test_agrees_with_the_second_implementation(obj, operations):
    patch = [
        {"op": kind, "path": "/" + "/".join(path), "from": "/" + "/".join(source), "value": value}
        for kind, path, source, value in operations
        # Objects of two keys may have either order, which `repr` would distinguish.
        if not (kind == "test" and isinstance(value, dict | list))
    ]
    kept = [o for o in operations if not (o[0] == "test" and isinstance(o[3], dict | list))]
    try:
        expected = plain_patch(obj, kept)
    except NoFit:
        with pytest.raises(Invalid):
            apply_json_patch(obj, patch)
    else:
        assert apply_json_patch(obj, patch) == expected


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
