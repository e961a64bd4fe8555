"""Server-side apply: merging, ownership, removal, conflicts, and refused configurations."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import ApiError, BadRequest, Conflict
from stowplan_cluster.apiserver.managed_fields import apply, record_update
from stowplan_cluster.apiserver.managed_fields.applying import LAST_APPLIED
from stowplan_cluster.apiserver.managed_fields.field_sets import path_text, paths
from stowplan_cluster.apiserver.schema import struct_named
from stowplan_cluster.apiserver.schema.type_model import MAP, SET, ListType, MapType, Scalar, Struct

METADATA = struct_named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
DEPLOYMENT = struct_named("io.k8s.api.apps.v1.Deployment")
HEAD = {"apiVersion": Scalar.STRING, "kind": Scalar.STRING, "metadata": METADATA}
PART = Struct("", {"name": Scalar.STRING, "color": Scalar.STRING, "sizes": ListType(Scalar.INT64)})
PIECE = Struct("", {"a": Scalar.STRING, "b": Scalar.STRING}, atomic=True)
SPEC = Struct(
    "",
    {
        "text": Scalar.STRING,
        "flag": Scalar.BOOL,
        "number": Scalar.INT64,
        "map": MapType(Scalar.STRING),
        "tags": ListType(Scalar.STRING, kind=SET),
        "parts": ListType(PART, kind=MAP, keys=("name",)),
        "plain": ListType(PART),
        "piece": PIECE,
        "extra": Struct("", preserve_unknown=True),
    },
)
WIDGET = Struct("", {**HEAD, "spec": SPEC, "status": Struct("", {"ready": Scalar.BOOL})})
T = [f"2026-01-01T00:00:{second:02}Z" for second in range(60)]


def widget(_metadata=None, **spec):
    return {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w", **(_metadata or {})}, "spec": spec}


def applied(live, config, manager="me", *, type=WIDGET, force=False, subresource="", time=T[1], **options):
    before = copy.deepcopy((live, config))
    result = apply(
        live=live,
        applied=config,
        type=type,
        manager=manager,
        force=force,
        subresource=subresource,
        api_version=config["apiVersion"],
        time=time,
        **options,
    )
    assert (live, config) == before
    return result


def updated(live, manager, *, type=WIDGET, time=T[2], **spec):
    new = copy.deepcopy(live)
    new["spec"] |= spec
    record_update(
        old=live,
        new=new,
        type=type,
        manager=manager,
        subresource="",
        api_version=live["apiVersion"],
        time=time,
    )
    return new


def entries(obj):
    return obj["metadata"].get("managedFields", [])


def owned(obj, manager):
    """The fields below spec that a manager owns."""
    found = [path_text(path) for e in entries(obj) if e["manager"] == manager for path in paths(e["fieldsV1"])]
    return sorted(path.removeprefix(".spec") for path in found)


def managers(obj):
    return [(entry["manager"], entry["operation"]) for entry in entries(obj)]


def test_apply_creates():
    obj = applied(None, widget({"labels": {"a": "b"}}, text="x", parts=[{"name": "p", "color": "red"}]))
    assert obj["spec"] == {"text": "x", "parts": [{"name": "p", "color": "red"}]}
    (entry,) = entries(obj)
    assert list(entry.items()) == [
        ("manager", "me"),
        ("operation", "Apply"),
        ("apiVersion", "x.io/v1"),
        ("time", T[1]),
        ("fieldsType", "FieldsV1"),
        (
            "fieldsV1",
            {
                "f:metadata": {"f:labels": {"f:a": {}}},
                "f:spec": {"f:parts": {'k:{"name":"p"}': {".": {}, "f:color": {}, "f:name": {}}}, "f:text": {}},
            },
        ),
    ]


def test_applying_the_same_again_changes_nothing():
    config = widget(text="x", map={"a": "1"}, tags=["t"])
    obj = applied(None, config)
    assert applied(obj, config, time=T[9]) == obj


def test_equal_configurations_share_ownership():
    config = widget(text="x")
    obj = applied(applied(None, config, "one"), config, "two")
    assert managers(obj) == [("two", "Apply"), ("one", "Apply")]
    assert ["time" in entry for entry in entries(obj)] == [False, True]
    assert owned(obj, "one") == owned(obj, "two") == [".text"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(widget(map={"a": None, "b": None}), [".map.a", ".map.b"], id="nulls are owned"),
        pytest.param(widget(map={}), [".map"], id="an empty map is owned"),
        pytest.param(widget(map=None), [".map"], id="a null map is owned"),
        pytest.param(widget(tags=[]), [], id="an empty list that merges is not"),
        pytest.param(widget(plain=[]), [".plain"], id="an empty atomic list is"),
        pytest.param(widget(piece={"a": "1"}), [".piece"], id="an atomic object is one"),
        pytest.param(widget(tags=["x"]), ['.tags[="x"]'], id="a value"),
        pytest.param(widget(extra={"a": {"b": [1]}}), [".extra.a", ".extra.a.b"], id="untyped objects own the path"),
        pytest.param(widget(), [""], id="an empty spec"),
    ],
)
def test_what_a_configuration_owns(config, expected):
    obj = applied(None, config)
    assert owned(obj, "me") == expected
    assert managers(obj) == ([("me", "Apply")] if expected else [])


def test_merging_keeps_fields_of_others():
    obj = updated(applied(None, widget(map={"a": "1"}), "one"), "two", number=3, map={"a": "1", "b": "2"})
    obj = applied(obj, widget(map={"c": "3"}), "three")
    assert obj["spec"] == {"map": {"a": "1", "b": "2", "c": "3"}, "number": 3}


@pytest.mark.parametrize(
    ("live", "config", "expected"),
    [
        pytest.param("abc", "", "abc", id="nothing"),
        pytest.param("abc", "d", "abcd", id="new elements go last"),
        pytest.param("abc", "ba", "bca", id="the configuration's order"),
        pytest.param("abc", "c", "abc", id="one that is there"),
        pytest.param("abc", "xb", "axbc", id="new before a shared one"),
        pytest.param("abc", "bx", "abcx", id="new behind a shared one"),
        pytest.param("abcd", "dxa", "bcdxa", id="both"),
        pytest.param("", "ba", "ba", id="an empty list"),
    ],
)
def test_order_of_elements(live, config, expected):
    obj = applied(None, widget(tags=list(live)), "one")
    assert "".join(applied(obj, widget(tags=list(config)), "two")["spec"].get("tags", [])) == expected


def test_elements_of_live_twins_are_not_merged():
    obj = widget(parts=[{"name": "a", "color": "red"}, {"name": "b"}, {"name": "a", "color": "blue"}])
    record_update(old=None, new=obj, type=WIDGET, manager="one", subresource="", api_version="x.io/v1", time=T[0])
    obj = applied(obj, widget(parts=[{"name": "a", "sizes": [1]}]), "two", force=True)
    assert obj["spec"]["parts"] == [{"name": "a", "sizes": [1]}, {"name": "b"}]


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        pytest.param({"text": "x", "number": 1}, {"number": 1}, {"number": 1}, id="a field"),
        pytest.param({"map": {"a": "1", "b": "2"}}, {"map": {"b": "2"}}, {"map": {"b": "2"}}, id="an entry"),
        pytest.param({"tags": ["a", "b"]}, {"tags": ["b"]}, {"tags": ["b"]}, id="a value"),
        pytest.param(
            {"parts": [{"name": "a"}, {"name": "b", "color": "red"}]},
            {"parts": [{"name": "b"}]},
            {"parts": [{"name": "b"}]},
            id="an element, and a field of another",
        ),
        pytest.param({"plain": [{"name": "a"}]}, {}, {}, id="an atomic list"),
        pytest.param({"piece": {"a": "1"}}, {}, {}, id="an atomic object"),
        pytest.param({"extra": {"a": {"b": 1}, "c": 1}}, {"extra": {"c": 1}}, {"extra": {"c": 1}}, id="untyped"),
    ],
)
def test_fields_no_longer_applied_are_removed(before, after, left):
    obj = applied(applied(None, widget(**before)), widget(**after), time=T[3])
    assert obj["spec"] == left
    assert applied(obj, widget(**after), time=T[4]) == obj


def test_a_field_that_another_manager_also_applies_is_kept():
    obj = applied(applied(None, widget(text="x", number=1), "one"), widget(text="x"), "two")
    obj = applied(obj, widget(number=1), "one")
    assert obj["spec"] == {"text": "x", "number": 1}
    assert (owned(obj, "one"), owned(obj, "two")) == ([".number"], [".text"])


def test_a_field_that_another_manager_changed_is_kept():
    obj = updated(applied(None, widget(text="x", number=1), "one"), "two", text="y")
    obj = applied(obj, widget(number=1), "one")
    assert obj["spec"] == {"text": "y", "number": 1}


def test_an_element_with_fields_of_others_is_kept_with_its_key():
    obj = applied(None, widget(parts=[{"name": "a", "color": "red"}], number=1), "one")
    obj = applied(obj, widget(parts=[{"name": "a", "sizes": [1]}]), "two")
    obj = applied(obj, widget(number=1), "one")
    assert obj["spec"] == {"parts": [{"name": "a", "sizes": [1]}], "number": 1}


def test_an_element_is_removed_with_fields_that_others_set():
    obj = applied(None, widget(parts=[{"name": "a"}, {"name": "b"}]), "one")
    obj = updated(obj, "defaults", parts=[{"name": "a", "color": "red"}, {"name": "b", "color": "red"}])
    obj = applied(obj, widget(parts=[{"name": "b"}]), "one")
    assert obj["spec"]["parts"] == [{"name": "b", "color": "red"}]
    assert owned(obj, "defaults") == ['.parts[name="b"].color']


def test_an_empty_configuration_releases_all_fields():
    obj = applied(
        applied(None, widget(text="x")), {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}}
    )
    assert "text" not in obj.get("spec", {})
    assert entries(obj) == []


def test_server_set_metadata_is_kept():
    obj = applied(None, widget({"labels": {"a": "b"}}))
    obj["metadata"] |= {"uid": "u", "resourceVersion": "5", "creationTimestamp": T[0]}
    assert applied(obj, widget())["metadata"].items() >= {"name": "w", "uid": "u", "resourceVersion": "5"}.items()


def conflict_of(*args, **options):
    with pytest.raises(Conflict) as refused:
        applied(*args, **options)
    causes = refused.value.status.details.causes
    assert {cause.reason for cause in causes} == {"FieldManagerConflict"}
    return str(refused.value), [(cause.field, cause.message) for cause in causes]


def test_one_conflict():
    obj = updated(applied(None, widget(text="x"), "one"), "two", text="y")
    message, causes = conflict_of(obj, widget(text="z"), "one")
    assert message == 'Apply failed with 1 conflict: conflict with "two" using x.io/v1: .spec.text'
    assert causes == [(".spec.text", 'conflict with "two" using x.io/v1')]


def test_several_conflicts():
    obj = applied(None, widget(text="x", parts=[{"name": "p", "color": "red"}]), "one")
    obj = updated(obj, "two", number=1, flag=True)
    message, causes = conflict_of(
        obj, widget(text="z", number=2, flag=False, parts=[{"name": "p", "color": "blue"}]), "three"
    )
    assert message == (
        'Apply failed with 4 conflicts: conflicts with "one":\n- .spec.text\n- .spec.parts[name="p"].color\n'
        'conflicts with "two" using x.io/v1:\n- .spec.flag\n- .spec.number'
    )
    assert [cause[1] for cause in causes] == ['conflict with "one"'] * 2 + ['conflict with "two" using x.io/v1'] * 2


def test_a_conflict_with_an_endpoint_names_it():
    obj = applied(None, widget(number=1), "one")
    new = widget({"managedFields": entries(obj)}, number=2)
    record_update(old=obj, new=new, type=WIDGET, manager="hpa", subresource="scale", api_version="x.io/v1", time=T[2])
    message, _ = conflict_of(new, widget(number=3), "one")
    owner = 'conflict with "hpa" with subresource "scale" using x.io/v1'
    assert message == f"Apply failed with 1 conflict: {owner}: .spec.number"


def test_force_takes_the_fields():
    obj = updated(applied(None, widget(text="x", number=1), "one"), "two", text="y", flag=True)
    obj = applied(obj, widget(text="z"), "three", force=True, time=T[5])
    assert obj["spec"]["text"] == "z"
    assert [owned(obj, name) for name in ("one", "two", "three")] == [[".number"], [".flag"], [".text"]]
    assert {entry["manager"]: entry["time"] for entry in entries(obj)} == {"one": T[1], "two": T[2], "three": T[5]}


def test_an_equal_value_is_no_conflict():
    obj = updated(applied(None, widget(), "one"), "two", text="y")
    obj = applied(obj, widget(text="y"), "one")
    assert (owned(obj, "one"), owned(obj, "two")) == ([".text"], [".text"])


def test_earlier_fields_are_owned_by_before_first_apply():
    live = widget({"uid": "u"}, text="x", number=1)
    message, _ = conflict_of(live, widget(text="y"))
    assert message == 'Apply failed with 1 conflict: conflict with "before-first-apply" using x.io/v1: .spec.text'
    obj = applied(live, widget(text="y"), force=True)
    assert managers(obj) == [("me", "Apply"), ("before-first-apply", "Update")]
    assert owned(obj, "before-first-apply") == ["", ".number"]


def test_status_is_owned_on_its_own_endpoint_only():
    config = {**widget(text="x"), "status": {"ready": True}}
    obj = applied(None, config)
    assert owned(obj, "me") == [".text"]
    obj = applied(obj, config, subresource="status")
    assert [(e.get("subresource"), e["fieldsV1"]) for e in entries(obj)] == [
        ("status", {"f:status": {"f:ready": {}}}),
        (None, {"f:spec": {"f:text": {}}}),
    ]
    assert ".status.ready" in owned(applied(None, config, reset={}), "me")


def test_the_result_does_not_alias_the_live_object():
    live = applied(None, widget(map={"a": "1"}, extra={"x": [1]}))
    before = copy.deepcopy(live)
    result = applied(live, widget(map={"a": "1"}, extra={"x": [1]}), "two")
    result["spec"]["map"]["b"] = "2"
    result["spec"]["extra"]["x"].append(2)
    assert live == before


TYPED = "failed to create typed patch object (/w; x.io/v1, Kind=Widget)"


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        pytest.param(
            {**widget(), "kind": "Gadget"}, BadRequest, "invalid object type: x.io/v1, Kind=Gadget", id="kind"
        ),
        pytest.param(
            widget({"managedFields": []}), BadRequest, "metadata.managedFields must be nil", id="managed fields"
        ),
        pytest.param(widget(foo=1), ApiError, f"{TYPED}: .spec.foo: field not declared in schema", id="unknown field"),
        pytest.param(
            widget(number="x"),
            ApiError,
            f"{TYPED}: .spec.number: expected numeric (int or float), got string",
            id="int",
        ),
        pytest.param(
            widget(text=1),
            ApiError,
            f"{TYPED}: .spec.text: expected string, got &value.valueUnstructured{{Value:1}}",
            id="text",
        ),
        pytest.param(widget(flag=1), ApiError, f"{TYPED}: .spec.flag: expected boolean, got &{{1}}", id="bool"),
        pytest.param(
            widget(tags={"a": "b"}), ApiError, f"{TYPED}: .spec.tags: expected list, got &{{map[a:b]}}", id="list"
        ),
        pytest.param(widget(map=[1]), ApiError, f"{TYPED}: .spec.map: expected map, got &{{[1]}}", id="map"),
        pytest.param(
            widget(parts=[{"name": "a"}, {"name": "a"}]),
            ApiError,
            f'{TYPED}: .spec.parts: duplicate entries for key [name="a"]',
            id="duplicate elements",
        ),
        pytest.param(
            widget(parts=[{"color": "x"}]),
            ApiError,
            f"{TYPED}: .spec.parts: element 0: associative list with keys has an element that omits all key fields "
            '["name"] (and doesn\'t have default values for any key fields)',
            id="no key",
        ),
        pytest.param(
            widget(number="x", plain=[{"name": 1}]),
            ApiError,
            f"{TYPED}: errors:\n  .spec.number: expected numeric (int or float), got string\n"
            "  .spec.plain[0].name: expected string, got &value.valueUnstructured{Value:1}",
            id="two things",
        ),
    ],
)
def test_refused_configurations(config, error, message):
    with pytest.raises(ApiError) as refused:
        applied(applied(None, widget()), config)
    assert (type(refused.value), str(refused.value)) == (error, message)


def test_schemas_of_definitions_are_applied():
    """They hold schemas where there may be a list, a boolean or names as well."""
    definition = struct_named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition")
    schema = {"type": "array", "items": {"type": "string"}, "additionalProperties": {}, "dependencies": {"a": {}}}
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    config = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "a.b.c"},
        "spec": {"versions": [version]},
    }
    assert applied(None, config, type=definition)["spec"] == {"versions": [version]}


def test_another_version_is_refused():
    with pytest.raises(BadRequest, match=r"^invalid object type: x\.io/v2, Kind=Widget$"):
        apply(
            live=None,
            applied={**widget(), "apiVersion": "x.io/v2"},
            type=WIDGET,
            manager="me",
            force=False,
            subresource="",
            api_version="x.io/v1",
            time=T[0],
        )


def test_a_too_deeply_nested_configuration_is_refused():
    deep = {}
    for _ in range(5_000):
        deep = {"x": deep}
    with pytest.raises(BadRequest, match="nested too deeply"):
        apply(
            live=None,
            applied=widget(extra=deep),
            type=WIDGET,
            manager="me",
            force=False,
            subresource="",
            api_version="x.io/v1",
            time=T[0],
        )


def deployment(image, *, replicas=None, labels=None, annotation=None):
    metadata = {"name": "d", "namespace": "default", "labels": labels or {"app": "d"}}
    if annotation is not None:
        metadata["annotations"] = {LAST_APPLIED: annotation}
    spec = {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {
            "metadata": {"labels": {"app": "d"}},
            "spec": {"containers": [{"name": "c", "image": image}]},
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def client_side_applied(config, **changes):
    """The object after `kubectl apply`, and a later change by another client."""
    live = copy.deepcopy(config)
    live["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(config)}
    options = {"type": DEPLOYMENT, "subresource": "", "api_version": "apps/v1"}
    record_update(old=None, new=live, manager="kubectl-client-side-apply", time=T[0], **options)
    return updated(live, "someone", type=DEPLOYMENT, **changes)


def test_kubectl_takes_over_client_side_applied_fields():
    obj = client_side_applied(deployment("v1"), paused=True)
    obj = applied(obj, deployment("v2"), "kubectl", type=DEPLOYMENT)
    assert obj["spec"]["template"]["spec"]["containers"][0]["image"] == "v2"
    assert ("kubectl", "Apply") in managers(obj)
    text = obj["metadata"]["annotations"][LAST_APPLIED]
    assert text.endswith("}\n")
    assert json.loads(text) == deployment("v2")


def test_kubectl_does_not_take_over_fields_changed_since():
    obj = client_side_applied(deployment("v1", replicas=1), replicas=5)
    message, _ = conflict_of(obj, deployment("v2", replicas=2), "kubectl", type=DEPLOYMENT)
    assert message == 'Apply failed with 1 conflict: conflict with "someone" using apps/v1: .spec.replicas'


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"apiVersion": "v1"}', '{"apiVersion": "apps/v1", "x": 1}'])
def test_without_a_good_annotation_kubectl_conflicts(text):
    live = deployment("v1", annotation=text)
    record_update(old=None, new=live, type=DEPLOYMENT, manager="x", subresource="", api_version="apps/v1", time=T[0])
    message, _ = conflict_of(live, deployment("v2"), "kubectl", type=DEPLOYMENT)
    assert message.startswith('Apply failed with 1 conflict: conflict with "x" using apps/v1: .spec.template.spec.')
    obj = applied(live, deployment("v2"), "kubectl", type=DEPLOYMENT, force=True)
    assert ("v2" in obj["metadata"]["annotations"][LAST_APPLIED]) == bool(text)


def test_other_managers_ignore_the_annotation():
    obj = client_side_applied(deployment("v1"), paused=True)
    conflict_of(obj, deployment("v2"), "ci", type=DEPLOYMENT)
    before = obj["metadata"]["annotations"]
    assert applied(obj, deployment("v2"), "ci", type=DEPLOYMENT, force=True)["metadata"]["annotations"] == before


def test_an_annotation_too_large_is_dropped():
    obj = client_side_applied(deployment("v1"), paused=True)
    labels = {f"l{i}": "x" * 60 for i in range(4500)}
    obj = applied(obj, deployment("v1", labels=labels), "kubectl", type=DEPLOYMENT, force=True)
    assert LAST_APPLIED not in obj["metadata"]["annotations"]


CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "text": st.sampled_from("xy"),
        "number": st.integers(0, 1),
        "map": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
        "tags": st.lists(st.sampled_from("abc"), unique=True, min_size=1, max_size=3),
        "parts": st.dictionaries(st.sampled_from("pq"), st.sampled_from(["red", None]), min_size=1).map(
            lambda parts: [{"name": n, **({"color": c} if c else {})} for n, c in parts.items()]
        ),
        "plain": st.lists(st.just({"name": "a"}), max_size=1),
        "piece": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
        "extra": st.dictionaries(st.sampled_from("ab"), st.integers(0, 1), max_size=2),
    },
)
WRITES = st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), st.booleans(), CONFIGS), max_size=4)


def after(writes):
    obj = applied(None, widget(text="start"), "zero")
    for second, (manager, by_apply, spec) in enumerate(writes, start=2):
        if by_apply:
            obj = applied(obj, widget(**spec), manager, force=True, time=T[second])
        else:
            obj = updated(obj, manager, time=T[second], **spec)
    return obj


@given(WRITES, CONFIGS)
def test_apply_is_idempotent(writes, spec):
    once = applied(after(writes), widget(**spec), "me", force=True, time=T[30])
    assert applied(once, widget(**spec), "me", time=T[31]) == once


@given(WRITES, CONFIGS)
def test_applied_values_are_stored(writes, spec):
    obj = applied(after(writes), widget(**spec), "me", force=True)
    for name in ("text", "number", "plain", "piece"):
        if name in spec:
            assert obj["spec"][name] == spec[name]
    assert set(spec.get("tags", [])) <= set(obj["spec"].get("tags", []))
    assert [tag for tag in obj["spec"].get("tags", []) if tag in spec.get("tags", [])] == spec.get("tags", [])
    if isinstance(spec.get("map"), dict):
        assert spec["map"].items() <= obj["spec"]["map"].items()


@given(WRITES, CONFIGS)
def test_releasing_keeps_fields_of_others(writes, spec):
    """Apply something, then apply an empty configuration: values of other managers are unchanged."""
    obj = applied(after(writes), widget(**spec), "me", force=True)
    bare = {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}}
    left = applied(obj, bare, "me")
    assert "me" not in [manager for manager, _ in managers(left)]
    assert entries(left) == [e for e in entries(obj) if e["manager"] != "me"]
    for entry in entries(left):
        for path in paths(entry["fieldsV1"]):
            assert value_at(left, path) == value_at(obj, path)


def value_at(obj, path):
    """The value at a path; for a container that is owned itself only its presence."""
    for step in path:
        kind, text = step[:2], step[2:]
        if kind == "f:":
            obj = obj[text]
        elif kind == "k:":
            (obj,) = [item for item in obj if item["name"] == json.loads(text)["name"]]
        else:
            (obj,) = [item for item in obj if item == json.loads(text)]
    return obj.__class__ if isinstance(obj, dict | list) else obj


@given(WRITES)
def test_owned_leaves_have_values(writes):
    obj = after(writes)
    for entry in entries(obj):
        for path in paths(entry["fieldsV1"]):
            value_at(obj, path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "x.io/v1", "Widget", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*SPEC.fields, "name", "color", "labels", "annotations"]), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(CONFIGS, JSON, JSON)
def test_any_json_is_applied_or_refused(live, metadata, spec):
    config = {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": metadata, "spec": spec}
    answered = None
    try:
        answered = applied(applied(None, widget(**live)), config, force=True)
    except ApiError as error:
        answered = str(error)
    assert answered
