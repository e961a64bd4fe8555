"""JSONPaths of printer columns, compared with results of client-go's jsonpath."""

import pytest

from stowplan_cluster.apiserver.tables.custom import JsonPath, JsonPathError

#: More digits than Python parses.
LONG = "9" * 5000
OBJ = {
    "spec": {
        "containers": [{"image": "a", "ports": [1, 2]}, {"image": "b"}, {"image": "c"}],
        "a.b": {"c": 1},
        "empty": None,
        "size": 3,
    },
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "weight": 5},
            {"type": "Synced", "status": "False", "weight": 7},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        ("spec.size", None),
        (".spec.missing.deep", []),
        (".spec.empty", [None]),
        (".spec.empty.deep", []),
        (".spec.containers[0].image", ["a"]),
        (".spec.containers[-1].image", ["c"]),
        (".spec.containers[0:2].image", ["a", "b"]),
        (".spec.containers[::2].image", ["a", "c"]),
        (".spec.containers[*].image", ["a", "b", "c"]),
        (".spec.containers[0,2].image", ["a", "c"]),
        (".spec.containers[0:0].image", []),
        (".spec['a.b'].c", [1]),
        (r".spec.a\.b.c", [1]),
        ("..image", ["a", "b", "c"]),
        (".status.conditions[?(@.type=='Ready')].status", ["True"]),
        ('.status.conditions[?(@.type == "Synced")].status', ["False"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".status.conditions[?(@.weight>5)].type", ["Synced"]),
        (".status.conditions[?(@.weight<=5)].type", ["Ready"]),
        (".status.conditions[?(@.weight)].type", ["Ready", "Synced"]),
        (".status.conditions[?(@.missing)].type", []),
        (".status.conditions[?(@.missing=='x')].type", []),
        (".status.conditions[?(@.type==')')].type", []),
    ],
)
def test_find(path, found):
    if found is None:
        with pytest.raises(JsonPathError):
            JsonPath(path)
    else:
        assert JsonPath(path).find(OBJ) == found


@pytest.mark.parametrize(
    "path",
    [
        ".spec.containers[3]",
        ".spec.containers[1:9]",
        ".spec.size[0]",
        ".status.conditions[?(@.weight=='5')]",
        ".spec.size[?(@.x)]",
    ],
)
def test_paths_that_do_not_fit_the_object(path):
    with pytest.raises(JsonPathError):
        JsonPath(path).find(OBJ)


@pytest.mark.parametrize(
    "path",
    [
        *(".a[", ".a[?(@.b", ".a[?(@.b)", ".a[b]", ".a[]", ".a[1:2:0]", "{.a}", ".a[?(@.b=~'c')]"),
        *(".a[-]", ".a[:-]", f".a[{LONG}]", f".a[-{LONG}]", f".a[0:{LONG}]", f".a[?(@.b=={LONG})]"),
    ],
    ids=lambda path: path[:20],
)
def test_paths_that_do_not_parse(path):
    with pytest.raises(JsonPathError):
        JsonPath(path)
