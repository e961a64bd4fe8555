"""Any JSON as a patch has a result or an ApiError, and the arguments are not modified."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import ApiError, BadRequest
from stowplan_cluster.apiserver.patches import apply_json_patch, apply_merge_patch, apply_strategic_merge_patch
from stowplan_cluster.apiserver.schema.type_model import ListType, MapType, Scalar, Struct

NODE = Struct("example.Node", {"name": Scalar.STRING, "any": Scalar.ANY, "map": MapType(Scalar.STRING)})
NODE.fields |= {
    "node": NODE,
    "nodes": ListType(NODE, merge_key="name"),
    "names": ListType(Scalar.STRING, merge_values=True),
}

KEYS = st.sampled_from(
    [
        *NODE.fields,
        "$patch",
        "$retainKeys",
        "$setElementOrder/nodes",
        "$setElementOrder/names",
        "$setElementOrder",
        "$deleteFromPrimitiveList/names",
        "$deleteFromPrimitiveList/nodes",
        "$deleteFromPrimitiveList/node",
        "op",
        "path",
        "from",
        "value",
        "",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(0, 1)
TEXTS = st.sampled_from(["a", "b", "delete", "replace", "merge", "add", "/nodes/0", "/nodes/-", "name", ""])
ANY = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
OBJECTS = st.dictionaries(KEYS, ANY, max_size=5)


@given(OBJECTS, ANY | st.lists(OBJECTS) | OBJECTS)
def test_any_json_is_applied_or_refused(obj, patch):
    before = copy.deepcopy((obj, patch))
    for apply in (apply_json_patch, apply_merge_patch, lambda o, p: apply_strategic_merge_patch(o, p, NODE)):
        code, answer = result_or_error(apply, obj, patch)
        assert code in (200, 400, 413, 422, 500)
        assert isinstance(answer, dict if code == 200 else str)
        assert (obj, patch) == before


def result_or_error(apply, obj, patch):
    try:
        return 200, apply(obj, patch)
    except ApiError as error:
        return error.status.code, str(error)


@pytest.mark.parametrize(
    ("apply", "patch_of"),
    [
        pytest.param(apply_json_patch, lambda deep: [{"op": "add", "path": "/node", "value": deep}], id="json"),
        pytest.param(apply_merge_patch, lambda deep: deep, id="merge"),
        pytest.param(lambda o, p: apply_strategic_merge_patch(o, p, NODE), lambda deep: deep, id="strategic"),
    ],
)
def test_too_deeply_nested_json_is_refused(apply, patch_of):
    deep = {}
    for _ in range(20_000):
        deep = {"node": deep}
    with pytest.raises(BadRequest, match="nested too deeply"):
        apply({"node": {}}, patch_of(deep))
