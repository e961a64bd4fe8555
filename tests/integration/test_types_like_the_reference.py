"""The hand-written `*.types` files compared with the OpenAPI documents of a real kube-apiserver.

For every struct that a kind of ours reaches: names and types of fields, which are required, and how lists and maps
merge. OpenAPI does not describe zero values and field numbers.
"""

import json

import pytest

from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.apiserver.schema.openapi import openapi_v3
from stowplan_cluster.apiserver.schema.parse import built_in
from stowplan_cluster.apiserver.schema.type_model import ListType
from support.processes.servers import NO_ASSETS, assets, real_server

pytestmark = pytest.mark.skipif(assets() is None, reason=NO_ASSETS)

CATALOGUE = Catalogue(BUILT_IN)
#: Served by a later version than the one that is compared, and by metrics-server.
NOT_SERVED = {("scheduling.k8s.io", "v1alpha3"), ("scheduling.k8s.io", "v1beta1"), ("metrics.k8s.io", "v1beta1")}
VERSIONS = sorted({(known.group, known.version) for known in BUILT_IN} - NOT_SERVED)
PREFIX = "#/components/schemas/"
#: How fields and whole structs merge.
MERGING = (
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
)
#: Types without fields in JSON, all of which are `any` in our files.
ANY = {
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
}
#: Marks what is stored as it is, and not described.
OPEN = "x-kubernetes-preserve-unknown-fields"
#: Without this gate scheduling.k8s.io/v1alpha2 is not served.
GATES = "--feature-gates=GenericWorkload=true"


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """By group and version: our schemas, and the real ones."""
    found = {}
    with real_server(tmp_path_factory.mktemp("types"), assets(), GATES) as real:
        for group, version in VERSIONS:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            theirs = json.loads(real.kubectl("get", f"--raw=/openapi/v3/{path}").stdout)
            ours = openapi_v3(CATALOGUE, group, version)
            found[group, version] = (ours["components"]["schemas"], theirs["components"]["schemas"])
    return found


def shape(field):
    """The type in one form: references are bare in one document and in allOf in the other."""
    for reference in (field, *field.get("allOf", ())):
        if "$ref" in reference:
            name = reference["$ref"].removeprefix(PREFIX)
            return "any" if name in ANY else name
    if field.get("type") == "array":
        return [shape(field["items"])]
    if "additionalProperties" in field:
        return {"": shape(field["additionalProperties"])}
    return " ".join(field[name] for name in ("type", "format") if name in field)


def merging(field):
    found = {name: field[name] for name in MERGING if name in field}
    if field.get("format") == "byte":
        # A list in Go, and a string when merging.
        found.pop("x-kubernetes-list-type", None)
    if "additionalProperties" in field and found.get("x-kubernetes-map-type") == "granular":
        # The default for maps.
        del found["x-kubernetes-map-type"]
    if field.get("type") == "array":
        found.setdefault("x-kubernetes-list-type", "atomic")
    return found


def facts(struct):
    """What is compared of a struct, by field name; its own properties at ""."""
    required = struct.get("required", ())
    properties = struct.get("properties", {}).items()
    return {"": merging(struct)} | {
        name: (shape(field), merging(field), "required" if name in required else "") for name, field in properties
    }


#: Structs that only fields of later versions have.
NEWER = ("NodePodPreemptionPolicy", "NodeAllocatable", "DeviceDerivedAttribute")


def differences(name, ours, theirs):
    mine, real = facts(ours), facts(theirs)
    for field in built_in().structs[name].since if name in built_in().structs else ():
        del mine[field]
    for field in sorted(mine.keys() | real.keys()):
        if mine.get(field) != real.get(field):
            yield f"{name}.{field}: {mine.get(field)}, and really {real.get(field)}"


def _is_newer(name):
    return name.rpartition(".")[2].startswith((*NEWER, "DeviceTaintRule", "DeviceTaintSelector"))


@pytest.mark.parametrize(("group", "version"), VERSIONS)
def test_fields_and_merging_are_those_of_the_reference(documents, group, version):
    ours, theirs = documents[group, version]
    structs = {name: schema for name, schema in ours.items() if "properties" in schema and OPEN not in schema}
    served = {name: schema for name, schema in structs.items() if name in theirs or not _is_newer(name)}
    found = [each for name, schema in served.items() for each in differences(name, schema, theirs.get(name, {}))]
    assert structs
    assert found == []


def test_optional_keys_have_the_defaults_of_the_reference(documents):
    compared = 0
    for _, theirs in documents.values():
        for name, struct in built_in().structs.items():
            lists = {field: type for field, type in struct.fields.items() if isinstance(type, ListType) and type.keys}
            for field, type in lists.items() if name in theirs and not struct.preserve_unknown else ():
                if _is_newer(type.element.name):
                    continue
                element = theirs[type.element.name]["properties"]
                # Required keys have their zero value as a default, and are never omitted.
                defaults = {key: element[key]["default"] for key in type.keys if element[key].get("default")}
                assert type.key_defaults == defaults, f"{name}.{field}"
                compared += bool(defaults)
    assert compared
