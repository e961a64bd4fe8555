"""Strategic merge patch: lists with merge keys, directives, order, and refusals."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import ApiError, BadRequest, Invalid
from stowplan_cluster.apiserver.patches import apply_strategic_merge_patch
from stowplan_cluster.apiserver.schema.type_model import ListType, MapType, Scalar, Struct

TEXT = Scalar.STRING
ENV = Struct("io.k8s.api.core.v1.EnvVar", {"name": TEXT, "value": TEXT, "valueFrom": MapType(TEXT)})
CONTAINER = Struct(
    "io.k8s.api.core.v1.Container",
    {
        "name": TEXT,
        "image": TEXT,
        "args": ListType(TEXT),
        "env": ListType(ENV, merge_key="name"),
        "ports": ListType(
            Struct("io.k8s.api.core.v1.ContainerPort", {"containerPort": Scalar.INT32, "name": TEXT}),
            merge_key="containerPort",
        ),
    },
)
SOURCE = Struct("io.k8s.api.core.v1.EmptyDirVolumeSource", {"medium": TEXT})
VOLUME = Struct("io.k8s.api.core.v1.Volume", {"name": TEXT, "emptyDir": SOURCE, "hostPath": SOURCE})
KIND = Struct(
    "io.k8s.api.core.v1.Thing",
    {
        "labels": MapType(TEXT),
        "finalizers": ListType(TEXT, merge_values=True),
        "containers": ListType(CONTAINER, merge_key="name"),
        "volumes": ListType(VOLUME, merge_key="name", retain_keys=True),
        "tolerations": ListType(Struct("io.k8s.api.core.v1.Toleration", {"key": TEXT})),
        "strategy": Struct(
            "io.k8s.api.apps.v1.DeploymentStrategy", {"type": TEXT, "rollingUpdate": SOURCE}, retain_keys=True
        ),
        "raw": Scalar.ANY,
        "count": Scalar.INT32,
    },
)
BUDGET_SPEC = Struct("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", {"selector": KIND, "other": KIND})


def patched(obj, patch, type=KIND):
    return apply_strategic_merge_patch(obj, patch, type)


def named(*names, **fields):
    return [{"name": name, **fields} for name in names]


def names_of(elements):
    return "".join(element["name"] for element in elements)


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    [
        pytest.param({"count": 1}, {"count": 2}, {"count": 2}, id="a value"),
        pytest.param({"count": 1}, {"count": None}, {}, id="null takes away"),
        pytest.param({"labels": {"a": "1"}}, {"labels": {"b": "2"}}, {"labels": {"a": "1", "b": "2"}}, id="a map"),
        pytest.param({}, {"labels": {"a": None, "b": "2"}}, {"labels": {"b": "2"}}, id="nulls of what is new go"),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="a list without key is replaced",
        ),
        pytest.param(
            {"containers": named("a", "b", image="old")},
            {"containers": named("b", image="new")},
            {"containers": [{"name": "a", "image": "old"}, {"name": "b", "image": "new"}]},
            id="an element",
        ),
        pytest.param(
            {"containers": [{"name": "a", "env": named("X", value="1")}]},
            {"containers": [{"name": "a", "env": named("Y", value="2")}]},
            {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}]},
            id="a list in an element",
        ),
        pytest.param(
            {"containers": named("a", "b")},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": named("b")},
            id="an element deleted",
        ),
        pytest.param(
            {"containers": named("a", "b")},
            {"containers": [{"$patch": "replace"}, {"name": "c"}]},
            {"containers": named("c")},
            id="all elements replaced",
        ),
        pytest.param(
            {"containers": named("a")}, {"containers": [{"$patch": "replace"}]}, {"containers": []}, id="all deleted"
        ),
        pytest.param(
            {"labels": {"a": "1"}, "count": 1},
            {"labels": {"$patch": "replace", "b": "2"}},
            {"labels": {"b": "2"}, "count": 1},
            id="a map replaced",
        ),
        pytest.param({"labels": {"a": "1"}}, {"labels": {"$patch": "delete"}}, {"labels": {}}, id="a map emptied"),
        pytest.param({"count": 1}, {"$patch": "replace", "labels": {}}, {"labels": {}}, id="everything replaced"),
        pytest.param({}, {"labels": {"$patch": "delete"}}, {}, id="deletion of what is not there"),
        pytest.param(
            {}, {"containers": [{"name": "a", "$patch": "delete"}, {"name": "b"}]}, {"containers": named("b")}, id="new"
        ),
        pytest.param(
            {"finalizers": ["a", "b"]}, {"finalizers": ["c", "a"]}, {"finalizers": ["c", "a", "b"]}, id="a set"
        ),
        pytest.param(
            {"finalizers": ["a", "b", "c"]},
            {"$deleteFromPrimitiveList/finalizers": ["b", "x"]},
            {"finalizers": ["a", "c"]},
            id="values deleted",
        ),
        pytest.param(
            {"count": 1}, {"$deleteFromPrimitiveList/finalizers": ["b"]}, {"count": 1}, id="values of no list deleted"
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {
                "$deleteFromPrimitiveList/finalizers": ["a"],
                "$setElementOrder/finalizers": ["c", "b"],
                "finalizers": ["c"],
            },
            {"finalizers": ["c", "b"]},
            id="values deleted, added and put in order",
        ),
        pytest.param(
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"medium": "x"}}},
            {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
            id="retained keys",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"medium": "x"}}]},
            {"volumes": [{"name": "v", "hostPath": {"medium": "x"}}]},
            id="retained keys of an element",
        ),
        pytest.param({"raw": {"a": 1}}, {"raw": {"b": 2}}, {"raw": {"a": 1, "b": 2}}, id="any JSON, one level"),
        pytest.param({"raw": [1]}, {"raw": {"b": 2}}, {"raw": {"b": 2}}, id="another JSON type"),
        pytest.param(
            {"containers": [{"name": "a", "ports": [{"containerPort": 53, "name": "u"}, {"containerPort": 53}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 53, "name": "x"}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 53, "name": "x"}, {"containerPort": 53}]}]},
            id="the first of two with one key",
        ),
        pytest.param({"count": 1}, None, {"count": 1}, id="null is no patch"),
        pytest.param({"count": 1}, {"unknown": {"a": 1}}, {"count": 1, "unknown": {"a": 1}}, id="an unknown field"),
    ],
)
def test_merges(obj, patch, expected):
    before = copy.deepcopy((obj, patch))
    assert patched(obj, patch) == expected
    assert (obj, patch) == before


def test_a_budgets_selector_is_replaced():
    merged = patched(
        {"selector": {"labels": {"a": "1"}}, "other": {"count": 1}},
        {"selector": {"labels": {"b": "2"}}, "other": {"labels": {}}},
        BUDGET_SPEC,
    )
    assert merged == {"selector": {"labels": {"b": "2"}}, "other": {"count": 1, "labels": {}}}


@pytest.mark.parametrize(
    ("live", "patch", "order", "expected"),
    [
        pytest.param("abc", "", "cba", "cba", id="only the order"),
        pytest.param("abc", "d", "dcba", "dcba", id="added in front"),
        pytest.param("abc", "d", "adbc", "adbc", id="added in between"),
        pytest.param("axb", "", "ab", "axb", id="the server's own stays in between"),
        pytest.param("axb", "", "ba", "xba", id="before the first that it stood before"),
        pytest.param("xab", "", "ba", "xba", id="in front"),
        pytest.param("xab", "c", "cab", "cxab", id="in front, with one added there"),
        pytest.param("abx", "c", "abc", "abcx", id="what is added goes before the server's last"),
        pytest.param("xyz", "a", "a", "axyz", id="all of the server's own"),
        pytest.param("", "ab", "ab", "ab", id="an empty list"),
        pytest.param("ab", "c", "", "abc", id="an order that names nothing"),
        pytest.param(
            "abx", "-a c", "bc", "bxc", id="what is added counts as last of the live list where something is deleted"
        ),
        pytest.param("axb", "-a c", "cb", "xcb", id="deleted and added"),
        pytest.param("bx", "-b c", "c", "xc", id="what is added takes the array place of what is deleted"),
    ],
)
def test_order(live, patch, order, expected):
    changes = []
    for step in patch.split():
        changes += [{"name": step[1:], "$patch": "delete"}] if step[0] == "-" else named(*step)
    body = {"$setElementOrder/containers": named(*order)}
    if patch:
        body["containers"] = sorted(changes, key=lambda change: "$patch" in change)
    assert names_of(patched({"containers": named(*live)}, body)["containers"]) == expected


@pytest.mark.parametrize(
    ("live", "patch", "expected"),
    [
        pytest.param("abc", "d", "dabc", id="what is new comes first"),
        pytest.param("abc", "ca", "bca", id="the patch's order"),
        pytest.param("abc", "dc", "dabc", id="with one that is there"),
        pytest.param("abc", "cd", "abcd", id="behind one that is there"),
    ],
)
def test_order_without_a_directive(live, patch, expected):
    assert names_of(patched({"containers": named(*live)}, {"containers": named(*patch)})["containers"]) == expected


NO_KEY = "map: map[image:x] does not contain declared merge key: name"


@pytest.mark.parametrize(
    ("obj", "patch", "error", "message"),
    [
        pytest.param({}, [1], BadRequest, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        pytest.param({"containers": named("a")}, {"containers": [{"image": "x"}]}, ApiError, NO_KEY, id="no key"),
        pytest.param({"containers": [{"image": "x"}]}, {"containers": named("a")}, ApiError, NO_KEY, id="no live key"),
        pytest.param(
            {"containers": named("a")},
            {"containers": [{"image": "x", "$patch": "delete"}]},
            ApiError,
            "map: map[$patch:delete image:x] does not contain declared merge key: name",
            id="no key to delete by",
        ),
        pytest.param(
            {"labels": {}},
            {"labels": {"$patch": "merge"}},
            ApiError,
            "unknown patch type: merge in map: map[$patch:merge]",
            id="a map's directive",
        ),
        pytest.param(
            {"containers": named("a")},
            {"containers": [{"$patch": "merge"}]},
            ApiError,
            "merging lists cannot yet be specified in the patch",
            id="merge in a list",
        ),
        pytest.param(
            {"containers": named("a")},
            {"containers": [{"$patch": 1}]},
            ApiError,
            "unknown patch type: %!s(int64=1) in map: map[$patch:1]",
            id="a directive that is no text",
        ),
        pytest.param(
            {"strategy": {}},
            {"strategy": {"$retainKeys": ["a"], "type": "x"}},
            BadRequest,
            "invalid patch format of retainKeys",
            id="a key that is not retained",
        ),
        pytest.param(
            {"strategy": {}},
            {"strategy": {"$retainKeys": "a"}},
            BadRequest,
            "invalid patch format of retainKeys",
            id="retained keys that are no list",
        ),
        pytest.param(
            {}, {"$setElementOrder": []}, BadRequest, "invalid patch format of setElementOrder list", id="no field"
        ),
        pytest.param(
            {},
            {"$deleteFromPrimitiveList": ["a"]},
            BadRequest,
            "invalid patch format of primitive list",
            id="values of no field",
        ),
        pytest.param(
            {},
            {"$setElementOrder/containers": {}},
            ApiError,
            "expected a []interface {}, but received a map[string]interface {}",
            id="an order that is no list",
        ),
        pytest.param(
            {"containers": named("a")},
            {"containers": named("b"), "$setElementOrder/containers": named("a")},
            ApiError,
            "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
            id="an order without a patched element",
        ),
        pytest.param(
            {"unknown": {}},
            {"unknown": {}},
            ApiError,
            'unable to find api field in struct Thing for the json field "unknown"',
            id="an unknown object",
        ),
        pytest.param(
            {"finalizers": ["a"]},
            {"finalizers": [1]},
            ApiError,
            "list element types are not identical: [[a] [1]]",
            id="mixed values",
        ),
        pytest.param(
            {"finalizers": [["a"]]},
            {"finalizers": ["a"]},
            Invalid,
            "the server rejected our request due to an error in our request",
            id="a list of lists",
        ),
        pytest.param(
            {"finalizers": [{}]},
            {"finalizers": [{}]},
            ApiError,
            "cannot merge lists without merge key for string",
            id="objects in a list of values",
        ),
    ],
)
def test_refusals(obj, patch, error, message):
    with pytest.raises(ApiError) as refused:
        patched(obj, patch)
    assert (type(refused.value), str(refused.value)) == (error, message)
    assert refused.value.status.code == (500 if error is ApiError else error.code)


LETTERS = st.lists(st.sampled_from("abcdefg"), unique=True)


@given(LETTERS, LETTERS, st.data())
def test_both_orders_are_kept(live, order, data):
    """The patch's elements are in its order, the server's own keep theirs, and none is lost."""
    changes = [name for name in order if name not in live or data.draw(st.booleans())]
    body = {"$setElementOrder/containers": named(*order), "containers": named(*changes)}
    if not live and not changes:
        return
    result = [element["name"] for element in patched({"containers": named(*live)}, body)["containers"]]
    assert sorted(result) == sorted({*live, *changes})
    assert [name for name in result if name in order] == [n for n in order if n in live or n in changes]
    assert [name for name in result if name not in order] == [name for name in live if name not in order]


CONTAINERS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)


@given(CONTAINERS, CONTAINERS)
def test_elements_merge_as_a_dict_by_their_keys(live, patch):
    def as_list(images):
        return [{"name": name, "image": image} for name, image in images.items()]

    result = patched({"containers": as_list(live)}, {"containers": as_list(patch)})["containers"]
    assert {element["name"]: element["image"] for element in result} == {**live, **patch}
