"""The `.types` files and their format."""

import re
from pathlib import Path

import pytest

import stowplan_cluster
from stowplan_cluster.apiserver.resources import BUILT_IN
from stowplan_cluster.apiserver.schema import schema_of, struct_named
from stowplan_cluster.apiserver.schema.parse import TypesError, built_in, parse
from stowplan_cluster.apiserver.schema.type_model import ATOMIC, MAP, SET, ListType, MapType, Scalar, Struct, Zero
from support.tables import every_case

PACKAGE = "package example.v1 serves example.com/v1\n"


def fields_of(text, struct="Thing"):
    return parse({"some.types": PACKAGE + text}).structs[f"example.v1.{struct}"].fields


def shape(of):
    return (of.kind, of.keys, of.key_defaults, of.merge_key, of.merge_values, of.retain_keys)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("[string]", (ATOMIC, (), {}, "", False, False), id="atomic unless said otherwise"),
        pytest.param("[string] set", (SET, (), {}, "", False, False), id="set"),
        pytest.param("[string] set merged", (SET, (), {}, "", True, False), id="set that strategic merge adds to"),
        pytest.param("[Part] by name", (MAP, ("name",), {}, "name", False, False), id="by one key"),
        pytest.param(
            "[Part] by port, protocol=TCP",
            (MAP, ("port", "protocol"), {"protocol": "TCP"}, "port", False, False),
            id="by two keys, one with a default",
        ),
        pytest.param("[Part] keyed name", (MAP, ("name",), {}, "", False, False), id="keyed for apply only"),
        pytest.param("[Part] merge name", (ATOMIC, (), {}, "name", False, False), id="keyed for strategic merge only"),
        pytest.param("[Part] by name retainKeys", (MAP, ("name",), {}, "name", False, True), id="retainKeys"),
    ],
)
def test_options_of_lists(written, expected):
    found = fields_of(f"struct Part\n  name string\n  port int32\n  protocol string\nstruct Thing\n  parts {written}\n")

    assert shape(found["parts"]) == expected


def test_types_nest():
    found = fields_of("struct Thing\n  a {[Thing]}\n  b {string} atomic\n")

    assert isinstance(found["a"], MapType)
    assert isinstance(found["a"].value, ListType)
    assert found["a"].value.element.fields is found
    assert found["b"].atomic


def test_a_kind_has_metadata_and_a_list():
    meta = "package io.k8s.apimachinery.pkg.apis.meta.v1\nstruct ObjectMeta\n  name string\nstruct ListMeta\n"
    read = parse({"a.types": PACKAGE + "kind Thing -- A thing.\n  spec! string -- What.\n", "b.types": meta})

    thing = read.kinds["example.com/v1", "Thing"]
    assert list(thing.fields) == ["apiVersion", "kind", "metadata", "spec"]
    assert thing.required == {"spec"}
    assert (thing.descriptions[""], thing.descriptions["spec"]) == ("A thing.", "What.")
    assert read.structs["example.v1.ThingList"].fields["items"].element is thing
    assert ("example.com/v1", "ThingList") not in read.kinds


def test_included_fields_belong_to_the_struct():
    text = "struct Source\n  a! string -- First.\nstruct Thing\n  ...Source\n  b string\n"
    thing = parse({"some.types": PACKAGE + text}).structs["example.v1.Thing"]

    assert (list(thing.fields), thing.required, thing.descriptions) == (["a", "b"], {"a"}, {"a": "First."})


def test_a_variant_of_a_struct_differs_only_in_merging():
    text = "struct Ref atomic\n  name! string\nstruct Thing\n  a Ref\n  b Ref granular\n  c Ref replace\n"
    found = fields_of(text)

    assert [(each.atomic, each.replaced) for each in found.values()] == [(True, False), (False, False), (True, True)]
    assert found["a"].fields is found["b"].fields is found["c"].fields
    assert found["b"].required == {"name"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("struct Thing\n  a Nothing\n", "some.types:3: unknown type 'Nothing'", id="unknown type"),
        pytest.param("struct Thing\n  a [Nothing]\n", "some.types:3: unknown type 'Nothing'", id="in a list"),
        pytest.param("struct Thing\n  a [string\n", "some.types:3: unknown type '[string'", id="open bracket"),
        pytest.param("struct Thing\n  ...Nothing\n", "some.types:3: unknown type 'Nothing'", id="unknown to include"),
        pytest.param("struct Thing\n  ...Thing\n", "some.types:3: Thing includes itself", id="includes itself"),
        pytest.param("struct Thing\n  a\n", "some.types:3: field a has no type", id="no type"),
        pytest.param(
            "struct Thing\n  a string\n  a string\n",
            "some.types:4: field a of Thing is already at some.types:3",
            id="field twice",
        ),
        pytest.param(
            "struct Thing\nstruct Thing\n",
            "some.types:3: example.v1.Thing is already at some.types:2",
            id="struct twice",
        ),
        pytest.param("struct Thing tiny\n", "some.types:2: unknown option 'tiny' of a struct", id="struct's option"),
        pytest.param("struct Thing\n  a string set\n", "some.types:3: string cannot be 'set'", id="a scalar's option"),
        pytest.param("struct Thing\n  a [string] big\n", "some.types:3: unknown option 'big' of a list", id="a list's"),
        pytest.param("struct Thing\n  a [string] by\n", "some.types:3: expected the name of a key", id="by what"),
        pytest.param("struct Thing\n  a [string] by b,\n", "some.types:3: expected the name of a key", id="and what"),
        pytest.param("  a string\n", "some.types:2: a field before the first struct or kind", id="field alone"),
        pytest.param("thing Thing\n", "some.types:2: expected package, struct or kind, got 'thing Thing'", id="word"),
        pytest.param(
            "package a b\n",
            "some.types:2: expected `package NAME [serves APIVERSION]`, got 'package a b'",
            id="package line",
        ),
        pytest.param(
            "package a\nkind Thing\n",
            "some.types:3: kind Thing before a package line that tells where it belongs",
            id="kind without version",
        ),
    ],
)
def test_errors_have_file_and_line(text, message):
    with pytest.raises(TypesError, match=f"^{re.escape(message)}$"):
        parse({"some.types": PACKAGE + text})


def test_every_built_in_kind_is_described():
    with every_case() as case:
        for resource in BUILT_IN:
            with case(f"{resource.api_version} {resource.kind}"):
                is_described(resource)


def is_described(resource):
    struct = schema_of(resource)

    assert {"apiVersion", "kind", "metadata"} <= struct.fields.keys()
    assert struct.name.rpartition(".")[2] == resource.kind
    assert struct.descriptions[""]
    if resource.has_status:
        assert isinstance(struct.fields["status"], Struct)
    if "list" in resource.verbs:
        assert struct_named(f"{struct.name}List").fields["items"].element is struct


def all_lists():
    for struct in built_in().structs.values():
        for name, type in struct.fields.items():
            if isinstance(type, ListType):
                yield f"{struct.name}.{name}", type


def test_keys_of_lists_are_scalars_of_their_elements():
    with every_case() as case:
        for name, of in all_lists():
            if of.kind == MAP or of.merge_key:
                with case(name):
                    keys_are_scalars_of_the_elements(of)


def keys_are_scalars_of_the_elements(of):
    for key in {*of.keys, *filter(None, [of.merge_key])}:
        assert isinstance(of.element.fields[key], Scalar)
    assert of.key_defaults.keys() <= set(of.keys)
    # Keys are required or have a default, except a device's shareID, the keys of pod lists, and conditions of flow
    # control, which upstream does not require.
    if len(of.keys) == 1 and of.keys != ("name",) and ".flowcontrol." not in of.element.name:
        assert of.keys[0] in of.element.required


def test_sets_have_scalar_elements():
    sets = [of for _, of in all_lists() if of.kind == SET or of.merge_values]

    assert sets
    assert all(isinstance(each.element, Scalar) for each in sets)


def test_required_fields_exist():
    for struct in built_in().structs.values():
        assert struct.required <= struct.fields.keys()
        assert struct.descriptions.keys() - {""} <= struct.fields.keys()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("PodSpec.containers", (MAP, ("name",), {}, "name", False, False), id="containers"),
        pytest.param(
            "Container.ports",
            (MAP, ("containerPort", "protocol"), {"protocol": "TCP"}, "containerPort", False, False),
            id="container ports: two keys for apply, one for strategic merge",
        ),
        pytest.param("PodSpec.volumes", (MAP, ("name",), {}, "name", False, True), id="volumes retain keys"),
        pytest.param("PodSpec.tolerations", (ATOMIC, (), {}, "", False, False), id="tolerations"),
        pytest.param("PodStatus.hostIPs", (ATOMIC, (), {}, "ip", False, False), id="host addresses"),
        pytest.param("NodeSpec.podCIDRs", (SET, (), {}, "", True, False), id="pod CIDRs"),
    ],
)
def test_unusual_merge_keys(path, expected):
    struct, _, name = path.partition(".")

    assert shape(struct_named(f"io.k8s.api.core.v1.{struct}").fields[name]) == expected


def test_atomic_structs():
    spec = struct_named("io.k8s.api.core.v1.PersistentVolumeSpec").fields

    assert struct_named("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").atomic
    assert struct_named("io.k8s.api.core.v1.ObjectReference").atomic
    assert not spec["claimRef"].atomic
    assert struct_named("io.k8s.api.apps.v1.DeploymentStrategy").retain_keys
    assert struct_named("io.k8s.api.policy.v1.PodDisruptionBudgetSpec").fields["selector"].replaced


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        pytest.param("a string", Zero.DROPPED, id="text"),
        pytest.param("a [string]", Zero.DROPPED, id="list"),
        pytest.param("a {string}", Zero.DROPPED, id="map"),
        pytest.param("a! string", Zero.ALWAYS, id="required"),
        pytest.param("a Thing", Zero.KEPT, id="struct"),
        pytest.param("a! Thing", Zero.ALWAYS, id="required struct"),
        pytest.param("a time", Zero.KEPT, id="a scalar that Go keeps in a struct"),
        pytest.param("a? string", Zero.KEPT, id="marked as kept"),
        pytest.param("a= Thing", Zero.ALWAYS, id="marked as always there"),
        pytest.param("a!- string", Zero.DROPPED, id="required but left out"),
        pytest.param("a!? Thing", Zero.KEPT, id="required and kept"),
    ],
)
def test_handling_of_zero_values(field, expected):
    thing = parse({"some.types": f"{PACKAGE}struct Thing\n  {field}\n"}).structs["example.v1.Thing"]

    assert (thing.zeros, thing.required) == ({"a": expected}, {"a"} if "!" in field else set())


def test_field_numbers():
    part = "struct Part\n  x string\n"
    text = f"{part}struct Thing\n  a string @-\n  b string\n  c [Part] @7 by x\n  ...Part\n  d string @2\n"
    wire = parse({"some.types": PACKAGE + text}).structs["example.v1.Thing"].wire

    assert {number: field.name for number, field in wire.items()} == {1: "b", 7: "c", 8: "", 2: "d"}
    assert (wire[7].type.merge_key, wire[8].type.name) == ("x", "example.v1.Part")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("a string @1\n  b string @1", "some.types:4: field b has number 1, as a has", id="twice"),
        pytest.param("a string @x", "some.types:3: expected one field number", id="no number"),
        pytest.param("a string @1 @2", "some.types:3: expected one field number", id="two numbers"),
        pytest.param("a?? string", "some.types:3: unknown marks '\\?\\?' after the name of field a", id="marks"),
    ],
)
def test_bad_numbers_and_marks(text, why):
    with pytest.raises(TypesError, match=why):
        fields_of(f"struct Thing\n  {text}\n")


def test_every_message_of_a_kind_can_be_reached():
    for (_, kind), struct in built_in().kinds.items():
        names = {field.name for field in struct.wire.values()}
        assert names == set(struct.fields) - {"apiVersion", "kind"}, kind
        assert struct.wire[1].name == "metadata" or kind in ("Status", "DeleteOptions")


def test_descriptions_say_what_a_field_is():
    """`kubectl explain` shows them; questions such as "Which pods." say little there."""
    folder = Path(stowplan_cluster.__file__).parent / "apiserver" / "schema"
    texts = (path.read_text(encoding="utf-8") for path in folder.glob("*.types"))
    described = [line.partition(" -- ")[2] for text in texts for line in text.splitlines() if " -- " in line]
    assert len(described) > 400
    assert [text for text in described if re.match(r"(Which|What|Who|Whose|How|Where|When)\b", text)] == []
