"""Objects are converted to their types as the API server decodes them."""

import copy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import compare
from stowplan.kube.api.api_errors import BadRequest
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.apiserver.schema import conform, schema_of, struct_named
from stowplan_cluster.apiserver.schema.conform import MAX_COMPLAINTS, MAX_DEPTH
from stowplan_cluster.apiserver.schema.parse import built_in
from stowplan_cluster.apiserver.schema.type_model import ListType, MapType, Scalar, Struct
from support.examples import times
from support.scheduling.worlds import clusters

CATALOGUE = Catalogue(BUILT_IN)

META = struct_named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
WIDGET = Struct(
    "",
    {
        "apiVersion": Scalar.STRING,
        "kind": Scalar.STRING,
        "metadata": META,
        "spec": Struct("", {"size": Scalar.INT64, "parts": ListType(Scalar.STRING), "free": Scalar.ANY}),
        "open": Struct("", {"known": Struct("", {"a": Scalar.STRING})}, preserve_unknown=True),
    },
)


def schema(kind, api_version="v1"):
    return schema_of(CATALOGUE.of_kind(api_version, kind))


def a_thing(kind, api_version="v1", **parts):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "it"}, **parts}


def a_pod(**spec):
    return a_thing("Pod", spec=spec)


def conformed(obj):
    """The object after conversion, which must report no unknown fields."""
    assert conform(schema(obj["kind"], obj["apiVersion"]), obj) == []
    return obj


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"nodeName": None, "containers": []}, {"containers": []}, id="null is as if unset"),
        pytest.param({"containers": None}, {}, id="a null list"),
        pytest.param(
            {"containers": [None]}, {"containers": [{"name": "", "resources": {}}]}, id="a null element is an empty one"
        ),
        pytest.param({"nodeSelector": {"a": None}}, {"nodeSelector": {"a": ""}}, id="a null value in a map is empty"),
        pytest.param({"overhead": {"cpu": None}}, {"overhead": {"cpu": "0"}}, id="a null quantity is 0"),
        pytest.param({"overhead": {"cpu": "0.5"}}, {"overhead": {"cpu": "500m"}}, id="quantities are canonical"),
        pytest.param({"overhead": {"cpu": 2}}, {"overhead": {"cpu": "2"}}, id="quantities may be numbers"),
        pytest.param({"overhead": {"cpu": 0.1}}, {"overhead": {"cpu": "100m"}}, id="also with fractions"),
    ],
)
def test_what_changes(spec, expected):
    assert conformed(a_pod(**spec))["spec"] == expected


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        pytest.param({"image": "", "stdin": False, "command": [], "env": []}, {}, id="zeros of no pointers go"),
        pytest.param({"restartPolicy": ""}, {"restartPolicy": ""}, id="an empty pointer stays"),
        pytest.param({"securityContext": {}}, {"securityContext": {}}, id="an empty struct stays"),
        pytest.param(
            {"securityContext": {"runAsUser": 0, "privileged": False}},
            {"securityContext": {"runAsUser": 0, "privileged": False}},
            id="pointers to zero stay",
        ),
        pytest.param({"resources": {"limits": {}}}, {"resources": {}}, id="an empty map goes"),
        pytest.param({"resources": None}, {"resources": {}}, id="null where a struct is always there"),
        pytest.param({"env": [{}]}, {"env": [{"name": ""}]}, id="what is always there comes, as zero"),
        pytest.param({"envFrom": [{"configMapRef": {"name": ""}}]}, {"envFrom": [{"configMapRef": {}}]}, id="nested"),
    ],
)
def test_zero_values_as_go_writes_them(container, expected):
    found = conformed(a_pod(containers=[container]))["spec"]["containers"]

    assert found == [{"name": "", "resources": {}, **expected}]


def test_structs_that_are_always_written():
    made = conformed({"apiVersion": "apps/v1", "kind": "StatefulSet"})

    assert (made["metadata"], made["status"]) == ({}, {"replicas": 0, "availableReplicas": 0})
    assert made["spec"] == {
        "serviceName": "",
        "template": {"metadata": {}, "spec": {}},
        "updateStrategy": {},
    }


def test_times_that_go_writes_as_null():
    pod = {
        **a_pod(),
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "A", "status": "", "lastProbeTime": None}]
        },
    }
    first, second = conformed(pod)["status"]["conditions"]

    nulls = {"lastProbeTime": None, "lastTransitionTime": None}
    assert (first, second) == ({"type": "Ready", "status": "True", **nulls}, {"type": "A", "status": "", **nulls})


def test_zero_values_of_custom_resources_are_kept():
    obj = {"metadata": {"labels": {}}, "spec": {"size": 0, "parts": []}, "open": {"known": {"a": ""}}}
    conform(WIDGET, obj)

    assert obj == {"metadata": {}, "spec": {"size": 0, "parts": []}, "open": {"known": {"a": ""}}}


def test_an_empty_list_of_managed_fields_is_kept():
    pod = a_pod()
    pod["metadata"]["managedFields"] = []

    assert conformed(pod)["metadata"]["managedFields"] == []


def test_times_are_canonical():
    pod = a_pod()
    pod["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00.5+01:00"

    assert conformed(pod)["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


def test_numbers_may_be_whole_where_fractions_are_allowed():
    definition = a_thing("CustomResourceDefinition", "apiextensions.k8s.io/v1")
    definition["spec"] = {"versions": [{"schema": {"openAPIV3Schema": {"maximum": 1, "minimum": 0.5}}}]}

    conformed(definition)


@pytest.mark.parametrize(
    ("pod", "complaints"),
    [
        pytest.param(a_pod(foo=1), ['unknown field "spec.foo"'], id="unknown"),
        pytest.param(a_pod(containers=[{"foo": 1}]), ['unknown field "spec.containers[0].foo"'], id="in a list"),
        pytest.param(a_pod(NodeName="n"), ['unknown field "spec.NodeName"'], id="case matters"),
        pytest.param(a_pod(foo=None), ['unknown field "spec.foo"'], id="null"),
        pytest.param({**a_pod(), "a b": 1}, ['unknown field "a b"'], id="of the object"),
        pytest.param(
            a_pod(b=1, containers=[{}, {"c": 1}], a=2),
            ['unknown field "spec.b"', 'unknown field "spec.containers[1].c"', 'unknown field "spec.a"'],
            id="in the order of the object",
        ),
    ],
)
def test_unknown_fields_are_dropped_and_reported(pod, complaints):
    assert conform(schema("Pod"), pod) == complaints
    assert conform(schema("Pod"), pod) == []


def test_unknown_fields_in_maps_are_named_by_key():
    device = {"name": "d", "attributes": {"a": {"int": 1, "foo": 2}}}
    slice_ = a_thing("ResourceSlice", "resource.k8s.io/v1", spec={"devices": [device]})

    assert conform(schema("ResourceSlice", "resource.k8s.io/v1"), slice_) == [
        'unknown field "spec.devices[0].attributes.a.foo"'
    ]


def test_the_number_of_reported_fields_is_bounded():
    many = a_pod(**{f"field{number}": 1 for number in range(MAX_COMPLAINTS + 50)})

    assert len(conform(schema("Pod"), many)) == MAX_COMPLAINTS
    assert many["spec"] == {}


def a_definition(schema_):
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema_}}
    return a_thing("CustomResourceDefinition", "apiextensions.k8s.io/v1", spec={"versions": [version]})


@pytest.mark.parametrize(
    ("written", "left"),
    [
        pytest.param({"items": {"type": "string", "foo": 1}}, {"items": {"type": "string"}}, id="items of one schema"),
        pytest.param({"items": [{"foo": 1}, None]}, {"items": [{}, {}]}, id="items of several"),
        pytest.param({"items": "x"}, {}, id="items of nothing"),
        pytest.param({"additionalProperties": False}, {"additionalProperties": False}, id="none beyond"),
        pytest.param({"additionalProperties": {"foo": 1}}, {"additionalProperties": {}}, id="others of a schema"),
        pytest.param({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["b"]}}, id="dependencies by name"),
        pytest.param({"dependencies": {"a": {"foo": 1}}}, {"dependencies": {"a": {}}}, id="dependencies by schema"),
        pytest.param({"default": {"foo": [None]}}, {"default": {"foo": [None]}}, id="any JSON"),
        pytest.param({"enum": [1, "a", None]}, {"enum": [1, "a", None]}, id="a list of any JSON"),
    ],
)
def test_json_schemas(written, left):
    definition = conformed(a_definition(written))

    assert definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == left


def test_json_schemas_are_recursive():
    definition = a_definition({"properties": {"a": {"properties": {"b": {"foo": 1}}}}})

    assert conform(schema("CustomResourceDefinition", "apiextensions.k8s.io/v1"), definition) == [
        'unknown field "spec.versions[0].schema.openAPIV3Schema.properties.a.properties.b.foo"'
    ]
    with pytest.raises(BadRequest, match="boolean or JSON schema expected"):
        conformed(a_definition({"additionalProperties": 1}))


def nested(levels, key):
    deep = inner = {}
    for _ in range(levels):
        inner[key] = {}
        inner = inner[key]
    return deep


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(a_definition(nested(10_000, "not")), id="a type that holds itself"),
        pytest.param(a_definition(nested(10_000, "items")), id="by way of items"),
        pytest.param(a_definition({"default": nested(10_000, "a")}), id="any JSON"),
        pytest.param(a_thing("ControllerRevision", "apps/v1", data=nested(MAX_DEPTH, "a")), id="just too deep"),
    ],
)
def test_depth_is_bounded(obj):
    with pytest.raises(BadRequest, match="exceeded max depth"):
        conform(schema(obj["kind"], obj["apiVersion"]), obj)


def test_any_json_is_unchanged():
    data = {"a": [None, {"b": 1.5}], "c": None}
    revision = a_thing("ControllerRevision", "apps/v1", revision=1, data=copy.deepcopy(data))

    assert conformed(revision)["data"] == data


def a_widget(**parts):
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, **parts}


@pytest.mark.parametrize(
    ("widget", "left", "complaints"),
    [
        pytest.param(a_widget(spec={"foo": 1}), a_widget(spec={}), ['unknown field "spec.foo"'], id="unknown"),
        pytest.param(
            a_widget(spec={"size": "x", "parts": [1, None]}, open=3),
            a_widget(spec={"size": "x", "parts": [1, None]}, open=3),
            [],
            id="wrong types and nulls are for its validation",
        ),
        pytest.param(a_widget(spec=None), a_widget(spec=None), [], id="a null object"),
        pytest.param(
            a_widget(open={"foo": {"b": None}, "known": {"bar": 1}}),
            a_widget(open={"foo": {"b": None}, "known": {}}),
            ['unknown field "open.known.bar"'],
            id="unknown fields may be kept",
        ),
        pytest.param(
            {**a_widget(), "metadata": {"name": "w", "foo": 1, "labels": None}},
            a_widget(),
            ['unknown field "metadata.foo"'],
            id="metadata is that of every object",
        ),
    ],
)
def test_custom_resources(widget, left, complaints):
    assert conform(WIDGET, widget) == complaints
    assert widget == left


def test_custom_resources_are_bounded_and_their_metadata_is_strict():
    for widget in (a_widget(spec={"free": nested(10_000, "a")}), a_widget(open={"foo": nested(10_000, "a")})):
        with pytest.raises(BadRequest, match="exceeded max depth"):
            conform(WIDGET, widget)
    with pytest.raises(BadRequest) as caught:
        conform(WIDGET, {**a_widget(), "metadata": {"labels": {"a": 1}}})
    assert caught.value.status.message == (
        'Widget in version "v1" cannot be handled as a Widget: '
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
    )


def objects_in(value):
    if isinstance(value, dict):
        if {"apiVersion", "kind", "metadata"} <= value.keys():
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from objects_in(item)


@pytest.mark.parametrize("category", compare.CLAIMED)
def test_recorded_objects_conform(category):
    for obj in objects_in(copy.deepcopy(compare.scenarios(category))):
        # Objects made for the reference's scheduler, which no API server has read, may not have canonical quantities.
        before = msgspec.json.encode(conformed(obj))
        assert msgspec.json.encode(conformed(obj)) == before


@settings(max_examples=times(25))
@given(world=clusters())
def test_generated_clusters_conform(world):
    for objects in world:
        for obj in objects:
            conformed(copy.deepcopy(obj))


NAMES = sorted({name for struct in built_in().structs.values() for name in struct.fields})
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["1", "1Gi", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z", "YWJj"]),
)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


def values_of(type, depth=0):
    """Mostly what fits the type, now and then anything."""
    if depth > 6:
        return json_values
    if isinstance(type, ListType):
        fitting = st.lists(st.deferred(lambda: values_of(type.element, depth + 1)), max_size=2)
    elif isinstance(type, MapType):
        fitting = st.dictionaries(st.text(max_size=2), values_of(type.value, depth + 1), max_size=2)
    elif isinstance(type, Struct):
        fitting = st.lists(st.sampled_from(sorted(type.fields) or ["a"]), max_size=4, unique=True).flatmap(
            lambda names: st.fixed_dictionaries(
                {name: values_of(type.fields.get(name, Scalar.ANY), depth + 1) for name in names}
            )
        )
    else:
        fitting = _FITTING.get(type, scalars)
    return st.integers(0, 30).flatmap(lambda chance: json_values if chance == 0 else fitting)


_FITTING = {
    Scalar.STRING: st.text(max_size=3),
    Scalar.BOOL: st.booleans(),
    Scalar.INT32: st.integers(-5, 5),
    Scalar.INT64: st.integers(-5, 5),
    Scalar.QUANTITY: st.sampled_from(["1", "0.5", "1.5Gi", 2, 0.25]),
    Scalar.TIME: st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00+01:00"]),
}


@settings(max_examples=times(300))
@given(data=st.data(), resource=st.sampled_from(BUILT_IN))
def test_conversion_is_idempotent_or_refuses(data, resource):
    struct = schema_of(resource)
    obj = data.draw(values_of(struct))
    if not isinstance(obj, dict):
        obj = {"spec": obj}
    try:
        conform(struct, obj)
    except BadRequest:
        return
    before = copy.deepcopy(obj)
    assert conform(struct, obj) == []
    assert repr(obj) == repr(before)
