"""Custom resources are served while their definitions exist."""

import copy

import pytest

from stowplan_cluster.apiserver.custom_resources import CustomResources
from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from stowplan_cluster.apiserver.schema import conform
from stowplan_cluster.apiserver.schema.type_model import MAP, ListType, MapType, Scalar, Struct

NOW = 1_000_000.0
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "default": 1, "maximum": 10},
                "replicas": {"type": "integer"},
                "color": {"type": "string", "description": "How it looks."},
                "share": {"x-kubernetes-int-or-string": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "pod": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {
                        "type": "object",
                        "required": ["port"],
                        "properties": {
                            "port": {"type": "integer", "format": "int32"},
                            "protocol": {"type": "string", "default": "TCP"},
                        },
                    },
                },
            },
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    },
}
V1 = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": SCHEMA},
    "subresources": {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    },
    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    "selectableFields": [{"jsonPath": ".spec.color"}],
}


def a_definition(plural="crontabs", kind="CronTab", *, versions=(V1,), group="stable.example.com", **names):
    asked = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List", **names}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": asked, "versions": copy.deepcopy(list(versions))},
    }


@pytest.fixture
def catalogue():
    return Catalogue(BUILT_IN)


@pytest.fixture
def custom(catalogue):
    return CustomResources(catalogue, clock=lambda: NOW)


def conditions(status):
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in status["conditions"]}


def served(catalogue):
    return [resource for resource in catalogue if resource.custom]


def test_a_definition_is_established_and_served(custom, catalogue):
    definition = a_definition(shortNames=["ct"], categories=["all"])
    status = custom.register(definition)
    assert conditions(status) == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    }
    assert status["conditions"][0]["lastTransitionTime"] == "1970-01-12T13:46:40Z"
    assert status["acceptedNames"] == definition["spec"]["names"]
    (resource,) = served(catalogue)
    assert resource is catalogue.find("stable.example.com", "v1", "crontabs")
    assert (resource.kind, resource.list_kind, resource.singular) == ("CronTab", "CronTabList", "crontab")
    assert (resource.short_names, resource.categories) == (("ct",), ("all",))
    assert resource.subresources == ("scale", "status")
    assert resource.scale_paths == (".spec.replicas", ".status.replicas", "")
    assert resource.selectable_fields == ("spec.color",)
    assert resource.printer_columns == tuple(V1["additionalPrinterColumns"])
    assert resource.namespaced
    assert hash(resource) == hash(copy.deepcopy(resource))


def test_registering_again_changes_nothing(custom, catalogue):
    definition = a_definition()
    definition["status"] = custom.register(definition)
    version = catalogue.version
    assert custom.register(definition) is None
    assert catalogue.version == version


def test_a_changed_schema_updates_the_catalogue(custom, catalogue):
    definition = a_definition()
    definition["status"] = custom.register(definition)
    version = catalogue.version
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] = {"type": "string"}
    assert custom.register(definition) is None
    assert catalogue.version > version
    assert "more" in custom.schema_of(served(catalogue)[0]).fields


def test_versions_share_a_storage_and_the_storage_version_comes_first(custom, catalogue):
    old = {**V1, "name": "v1beta1", "storage": False}
    hidden = {**V1, "name": "v1alpha1", "storage": False, "served": False}
    custom.register(a_definition(versions=(old, V1, hidden)))
    assert [resource.version for resource in served(catalogue)] == ["v1", "v1beta1"]
    assert catalogue.of_storage("crontabs.stable.example.com").version == "v1"


@pytest.mark.parametrize(
    ("names", "reason", "message"),
    [
        ({"kind": "CronTab", "listKind": "OtherList"}, "KindConflict", '"CronTab" is already in use'),
        ({"listKind": "CronTabList"}, "ListKindConflict", '"CronTabList" is already in use'),
        ({"singular": "crontab"}, "SingularConflict", '"crontab" is already in use'),
        ({"shortNames": ["ct"]}, "ShortNamesConflict", '"ct" is already in use'),
        (
            {"shortNames": ["o", "ct", "crontabs"]},
            "ShortNamesConflict",
            '["ct" is already in use, "crontabs" is already in use]',
        ),
    ],
)
def test_conflicting_names(custom, catalogue, names, reason, message):
    first = a_definition(shortNames=["ct"])
    custom.register(first)
    second = a_definition("others", "Other")
    second["spec"]["names"] |= names
    status = custom.register(second)
    assert conditions(status) == {
        "NamesAccepted": ("False", reason, message),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    assert catalogue.find("stable.example.com", "v1", "others") is None
    assert status["acceptedNames"]["plural"] == "others"
    # The names become free, and the second definition gets them.
    assert custom.unregister(first) == ["others.stable.example.com"]
    assert conditions(custom.register({**second, "status": status}))["Established"][0] == "True"
    assert catalogue.find("stable.example.com", "v1", "others") is not None


def test_names_conflict_only_within_a_group(custom):
    custom.register(a_definition())
    assert conditions(custom.register(a_definition(group="other.example.com")))["NamesAccepted"][0] == "True"


def test_an_established_definition_stays_so_with_a_conflicting_name(custom, catalogue):
    custom.register(a_definition(shortNames=["ct"]))
    other = a_definition("others", "Other", shortNames=["ot"])
    other["status"] = custom.register(other)
    other["spec"]["names"]["shortNames"] = ["ct"]
    status = custom.register(other)
    assert conditions(status)["NamesAccepted"][0] == "False"
    assert conditions(status)["Established"][0] == "True"
    assert catalogue.find("stable.example.com", "v1", "others").short_names == ("ot",)


def test_stored_definitions_are_restored_in_any_order(custom, catalogue):
    owner, rival = a_definition("zebras", "Zebra"), a_definition("apes", "Ape")
    rival["spec"]["names"]["singular"] = "zebra"
    before = CustomResources(Catalogue(BUILT_IN), clock=lambda: NOW)
    owner["status"] = before.register(owner)
    rival["status"] = before.register(rival)
    custom.restore([rival, owner])
    assert [resource.plural for resource in served(catalogue)] == ["zebras"]


def test_unregister(custom, catalogue):
    definition = a_definition()
    custom.register(definition)
    assert custom.unregister(definition) == []
    assert served(catalogue) == []
    custom.unregister(definition)


def test_built_in_resources_cannot_be_replaced(custom, catalogue):
    built_in = catalogue.find("coordination.k8s.io", "v1", "leases")
    definition = a_definition("leases", "Lease", group="coordination.k8s.io")
    status = custom.register(definition)
    assert conditions(status)["Established"][0] == "True"
    assert catalogue.find("coordination.k8s.io", "v1", "leases") is built_in
    custom.unregister(definition)
    assert catalogue.find("coordination.k8s.io", "v1", "leases") is built_in


# Objects


@pytest.fixture
def resource(custom, catalogue):
    custom.register(a_definition())
    return served(catalogue)[0]


def an_object(**spec):
    return {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "x"}, "spec": spec}


def test_schema_of(custom, resource):
    struct = custom.schema_of(resource)
    assert struct.name == ""
    assert struct.fields["metadata"].name.endswith("ObjectMeta")
    spec = struct.fields["spec"]
    assert isinstance(spec, Struct)
    assert spec.required == {"size"}
    assert spec.descriptions["color"] == "How it looks."
    assert spec.fields["size"] is Scalar.INT64
    assert spec.fields["share"] is Scalar.INT_OR_STRING
    assert spec.fields["any"] is Scalar.ANY
    assert isinstance(spec.fields["labels"], MapType)
    assert spec.fields["open"].preserve_unknown
    assert spec.fields["pod"].fields["metadata"] is struct.fields["metadata"]
    ports = spec.fields["ports"]
    assert isinstance(ports, ListType)
    assert (ports.kind, ports.keys, ports.key_defaults) == (MAP, ("port", "protocol"), {"protocol": "TCP"})
    assert ports.element.fields["port"] is Scalar.INT32


def test_unknown_fields_are_pruned(custom, resource):
    obj = an_object(size=1, colour="red", open={"a": {"b": 1}}, any=[{"c": 2}], labels={"d": "e"})
    obj["extra"] = 1
    assert sorted(conform(custom.schema_of(resource), obj)) == ['unknown field "extra"', 'unknown field "spec.colour"']
    assert obj == an_object(size=1, open={"a": {"b": 1}}, any=[{"c": 2}], labels={"d": "e"})


def test_wrong_types_are_left_to_validation(custom, resource):
    obj = an_object(size="big", ports={"a": 1})
    assert conform(custom.schema_of(resource), obj) == []
    assert [str(error) for error in custom.validate(resource, obj, None)] == [
        'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"',
        'spec.ports: Invalid value: "object": spec.ports in body must be of type array: "object"',
    ]


def test_defaults(custom, resource):
    obj = an_object(ports=[{"port": 80}], size=None)
    custom.apply_defaults(resource, obj)
    assert obj["spec"] == {"ports": [{"port": 80, "protocol": "TCP"}], "size": 1}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"size": 3}, [], id="good"),
        pytest.param({}, ["spec.size: Required value"], id="required"),
        pytest.param(
            {"size": 11},
            ["spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"],
            id="maximum",
        ),
        pytest.param(
            {"size": 1, "ports": [{"port": 1}, {"port": 1}]},
            ['spec.ports[1]: Duplicate value: {"port":1}'],
            id="list map",
        ),
        pytest.param(
            {"size": 1, "replicas": -1},
            [".spec.replicas: Invalid value: -1: should be a non-negative integer"],
            id="negative replicas",
        ),
        pytest.param(
            {"size": 1, "replicas": 1 << 40},
            [".spec.replicas: Invalid value: 1099511627776: should be less than or equal to 2147483647"],
            id="too many replicas",
        ),
        pytest.param(
            {"size": 1, "pod": {"kind": "my pod"}},
            [
                "spec.pod.apiVersion: Required value",
                'spec.pod.kind: Invalid value: "my pod": may have mixed case, but should otherwise match: '
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
                "character, and end with an alphanumeric character "
                "(e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            ],
            id="embedded resource",
        ),
    ],
)
def test_validate(custom, resource, spec, expected):
    assert [str(error) for error in custom.validate(resource, an_object(**spec), None)] == expected


def test_validate_an_update(custom, resource):
    old = an_object(size=11, color="red", ports=[{"port": 1}, {"port": 1}])
    new = an_object(size=11, color="blue", ports=[{"port": 1}, {"port": 1}])
    assert custom.validate(resource, new, old) == []
    new["spec"]["size"] = 12
    assert [error.field for error in custom.validate(resource, new, old)] == ["spec.size"]


def test_replicas_of_the_wrong_type(custom, resource):
    errors = custom.validate(resource, an_object(size=1, replicas="a"), None)
    assert str(errors[-1]) == (
        ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: a is of the type string, expected int64"
    )
