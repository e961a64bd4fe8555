"""OpenAPI documents: self-contained, and complete enough for kubectl."""

import re

import pytest

from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue, Resource
from stowplan_cluster.apiserver.schema import schema_of, struct_named
from stowplan_cluster.apiserver.schema.openapi import openapi_v2, openapi_v3, openapi_v3_index
from stowplan_cluster.apiserver.schema.type_model import MAP, ListType, MapType, Scalar, Struct

WIDGETS = Resource(
    group="stable.example.com",
    version="v1",
    plural="widgets",
    kind="Widget",
    subresources=("scale", "status"),
    custom=True,
)
PART = Struct("", {"name": Scalar.STRING}, required=frozenset({"name"}))
WIDGET = Struct(
    "",
    {
        "apiVersion": Scalar.STRING,
        "kind": Scalar.STRING,
        "metadata": struct_named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        "spec": Struct("", {"parts": ListType(PART, MAP, ("name",)), "rest": Struct("", preserve_unknown=True)}),
    },
    descriptions={"": "A widget.", "spec": "What is wanted."},
)
WIDGET_NAME = "com.example.stable.v1.Widget"
PATCHES = ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"]
STRATEGIC = "application/strategic-merge-patch+json"


def type_of(resource):
    return WIDGET if resource.custom else schema_of(resource)


@pytest.fixture
def catalogue():
    return Catalogue((*BUILT_IN, WIDGETS))


def document(catalogue, group, version):
    return openapi_v3(catalogue, group, version, schema_of=type_of)


def every_document(catalogue):
    for group, version in {(known.group, known.version) for known in catalogue}:
        yield document(catalogue, group, version)


def references_in(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references_in(item)


def operations_of(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield path, method, operation


def test_references_resolve(catalogue):
    for made in every_document(catalogue):
        known = {f"#/components/schemas/{name}" for name in made["components"]["schemas"]}
        assert set(references_in(made)) <= known
    made = openapi_v2(catalogue, schema_of=type_of)
    assert set(references_in(made)) <= {f"#/definitions/{name}" for name in made["definitions"]}


def test_no_schema_is_empty(catalogue):
    # kubectl explain fails on an empty property.
    for made in every_document(catalogue):
        for name, schema in made["components"]["schemas"].items():
            assert schema, name
            assert all(schema.get("properties", {"": 1}).values()), name


def test_every_resource_has_its_paths(catalogue):
    for resource in catalogue:
        paths = document(catalogue, resource.group, resource.version)["paths"]
        scope = "/namespaces/{namespace}" if resource.namespaced else ""
        collection = paths[f"{resource.path}{scope}/{resource.plural}"]
        expected = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        method = "post" if "create" in resource.verbs else "get"
        assert collection[method]["x-kubernetes-group-version-kind"] == expected
        assert ("get" in collection) is ("list" in resource.verbs)
        for name in set(resource.subresources) & {"status", "scale", "binding", "eviction", "log", "finalize"}:
            assert f"{resource.path}{scope}/{resource.plural}/{{name}}/{name}" in paths


NOT_DESCRIBED = (
    *(f"/{one.plural}/" for one in BUILT_IN if schema_of(one).preserve_unknown),
    "/widgets/",
)


def test_patch_operations_list_their_content_types(catalogue):
    patched = 0
    for made in every_document(catalogue):
        for path, method, operation in operations_of(made):
            if method != "patch":
                continue
            patched += 1
            queries = {each["name"] for each in operation["parameters"] if each["in"] == "query"}
            assert {"dryRun", "fieldManager", "fieldValidation", "force"} <= queries
            types = list(operation["requestBody"]["content"])
            assert (STRATEGIC in types) is not any(word in path for word in NOT_DESCRIBED)
            assert set(types) - {STRATEGIC} == set(PATCHES)
    assert patched > 40


def test_operation_ids_are_unique(catalogue):
    ids = [operation["operationId"] for _, _, operation in operations_of(openapi_v2(catalogue, schema_of=type_of))]

    assert len(ids) == len(set(ids))
    assert {"readCoreV1NamespacedPod", "listCoreV1PodForAllNamespaces"} <= set(ids)


@pytest.mark.parametrize("version", [2, 3])
def test_each_kind_belongs_to_one_schema(catalogue, version):
    if version == 2:
        schemas = openapi_v2(catalogue, schema_of=type_of)["definitions"]
    else:
        schemas = document(catalogue, "apps", "v1")["components"]["schemas"]
    kinds = [
        tuple(sorted(kind.items()))
        for schema in schemas.values()
        for kind in schema.get("x-kubernetes-group-version-kind", [])
    ]

    assert len(kinds) == len(set(kinds))
    assert (("group", "apps"), ("kind", "DeploymentList"), ("version", "v1")) in kinds


@pytest.mark.parametrize(
    ("struct", "field", "expected"),
    [
        pytest.param(
            "PodSpec",
            "volumes",
            {
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-merge-key": "name",
                "x-kubernetes-patch-strategy": "merge,retainKeys",
            },
            id="volumes",
        ),
        pytest.param(
            "Container",
            "ports",
            {
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                "x-kubernetes-patch-merge-key": "containerPort",
                "x-kubernetes-patch-strategy": "merge",
            },
            id="ports",
        ),
        pytest.param("PodSpec", "tolerations", {"x-kubernetes-list-type": "atomic"}, id="atomic list"),
        pytest.param("PodSpec", "nodeSelector", {"x-kubernetes-map-type": "atomic"}, id="atomic map"),
        pytest.param("PersistentVolumeSpec", "claimRef", {"x-kubernetes-map-type": "granular"}, id="granular field"),
        pytest.param(
            "NodeSpec",
            "podCIDRs",
            {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"},
            id="set of values",
        ),
    ],
)
def test_merge_extensions_of_fields(catalogue, struct, field, expected):
    schemas = document(catalogue, "", "v1")["components"]["schemas"]
    found = schemas[f"io.k8s.api.core.v1.{struct}"]["properties"][field]

    assert {name: value for name, value in found.items() if name.startswith("x-")} == expected


def test_merge_extensions_of_structs(catalogue):
    apps = document(catalogue, "apps", "v1")["components"]["schemas"]
    policy = document(catalogue, "policy", "v1")["components"]["schemas"]

    selector = apps["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"]
    assert selector["x-kubernetes-map-type"] == "atomic"
    strategy = apps["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"]
    assert strategy["x-kubernetes-patch-strategy"] == "retainKeys"
    budget = policy["io.k8s.api.policy.v1.PodDisruptionBudgetSpec"]["properties"]["selector"]
    assert budget["x-kubernetes-patch-strategy"] == "replace"


def test_descriptions_and_required_fields(catalogue):
    spec = document(catalogue, "", "v1")["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]

    assert spec["required"] == ["containers"]
    assert spec["description"]
    assert spec["properties"]["affinity"] == {
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Affinity"}],
        "description": struct_named("io.k8s.api.core.v1.PodSpec").descriptions["affinity"],
    }


def test_scalars_differ_between_versions(catalogue):
    name = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
    version_3 = document(catalogue, "", "v1")["components"]["schemas"][name]
    version_2 = openapi_v2(catalogue, schema_of=type_of)["definitions"][name]

    assert version_3["oneOf"] == [{"type": "integer"}, {"type": "string"}]
    assert "type" not in version_3
    assert version_2["type"] == "string"
    assert "oneOf" not in version_2


def test_custom_kinds_are_included(catalogue):
    schemas = document(catalogue, "stable.example.com", "v1")["components"]["schemas"]
    widget = schemas[WIDGET_NAME]

    assert widget["description"] == "A widget."
    assert widget["x-kubernetes-group-version-kind"] == [
        {"group": "stable.example.com", "kind": "Widget", "version": "v1"}
    ]
    parts = widget["properties"]["spec"]["properties"]["parts"]
    assert parts["items"] == {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    assert parts["x-kubernetes-list-map-keys"] == ["name"]
    assert widget["properties"]["spec"]["properties"]["rest"]["x-kubernetes-preserve-unknown-fields"]
    listed = schemas[f"{WIDGET_NAME}List"]
    assert listed["properties"]["items"]["items"] == {"$ref": f"#/components/schemas/{WIDGET_NAME}"}
    assert listed["required"] == ["items"]
    assert listed["x-kubernetes-group-version-kind"][0]["kind"] == "WidgetList"


def test_the_index_names_every_group_and_version(catalogue):
    paths = openapi_v3_index(catalogue, schema_of=type_of)["paths"]

    expected = {f"{known.path[1:]}" for known in catalogue}
    assert paths.keys() == expected
    for path, entry in paths.items():
        assert re.fullmatch(rf"/openapi/v3/{re.escape(path)}\?hash=[0-9A-F]{{128}}", entry["serverRelativeURL"])


def test_a_documents_address_changes_with_its_content(catalogue):
    def addresses(schema_of):
        return {
            path: each["serverRelativeURL"]
            for path, each in openapi_v3_index(catalogue, schema_of=schema_of)["paths"].items()
        }

    changed = Struct("", {**WIDGET.fields, "color": Scalar.STRING})
    before, after = addresses(type_of), addresses(lambda each: changed if each.custom else schema_of(each))

    assert addresses(type_of) == before
    assert {path for path in before if before[path] != after[path]} == {"apis/stable.example.com/v1"}


def test_unserved_versions_have_no_document(catalogue):
    assert openapi_v3(catalogue, "apps", "v2", schema_of=type_of) is None
    assert openapi_v3(catalogue, "", "apps", schema_of=type_of) is None


def test_maps_have_the_types_of_their_values(catalogue):
    limits = document(catalogue, "", "v1")["components"]["schemas"]["io.k8s.api.core.v1.ResourceRequirements"]
    quantity = {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}

    assert isinstance(struct_named("io.k8s.api.core.v1.ResourceRequirements").fields["limits"], MapType)
    assert limits["properties"]["limits"]["additionalProperties"] == quantity
