"""Validation of CustomResourceDefinitions, with upstream's messages."""

import pytest

from stowplan_cluster.apiserver.custom.definitions import definition_warnings, validate_definition

AT = "spec.validation.openAPIV3Schema"
STRING = {"type": "string"}


def a_definition(schema, *more, subresources=None, group="example.com", annotations=None, **version):
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}]
    if subresources is not None:
        versions[0]["subresources"] = subresources
    versions += [{"name": f"v{index + 2}", "schema": {"openAPIV3Schema": one}} for index, one in enumerate(more)]
    return {
        "metadata": {"name": f"things.{group}", "annotations": annotations or {}},
        "spec": {"group": group, "names": {"plural": "things", "kind": "Thing"}, "versions": versions},
    }


def obj(**properties):
    return {"type": "object", "properties": properties}


def complaints(definition, old=None):
    return [str(error) for error in validate_definition(definition, old)]


SPEC = f"{AT}.properties[spec]"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(obj(spec=obj(size={"type": "integer"})), [], id="good"),
        pytest.param({}, [f"{AT}.type: Required value: must not be empty at the root"], id="no type at the root"),
        pytest.param(
            {"type": "array", "items": STRING},
            [f'{AT}.type: Invalid value: "array": must be object at the root'],
            id="no object at the root",
        ),
        pytest.param(
            obj(spec={}), [f"{SPEC}.type: Required value: must not be empty for specified object fields"], id="no type"
        ),
        pytest.param(
            obj(spec={"type": "array"}), [f"{SPEC}.items: Required value: must be specified"], id="array without items"
        ),
        pytest.param(
            obj(spec={"type": "array", "items": {}}),
            [f"{SPEC}.items.type: Required value: must not be empty for specified array items"],
            id="array of untyped",
        ),
        pytest.param(
            obj(spec={"type": "text"}),
            [
                f'{SPEC}.type: Unsupported value: "text": supported values: '
                '"array", "boolean", "integer", "number", "object", "string"'
            ],
            id="unknown type",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": STRING},
            [f"{AT}.additionalProperties: Forbidden: must not be used at the root"],
            id="map at the root",
        ),
        pytest.param(
            obj(spec={"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING}),
            [f"{SPEC}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
            id="map and struct",
        ),
        pytest.param(obj(spec={"x-kubernetes-int-or-string": True}), [], id="int or string"),
        pytest.param(
            obj(spec={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            [],
            id="int or string, repeated",
        ),
        pytest.param(
            obj(spec={"type": "string", "anyOf": [{"type": "string"}]}),
            [f"{SPEC}.anyOf[0].type: Forbidden: must be empty to be structural"],
            id="type in alternatives",
        ),
        pytest.param(
            obj(spec={"type": "object", "oneOf": [{"properties": {"a": {"minimum": 1}}}]}),
            [],
            id="alternatives of inner levels are not checked",
        ),
        pytest.param(
            {"type": "object", "oneOf": [{"properties": {"a": {"minLength": 1}}}]},
            [f"{AT}.properties[a]: Required value: because it is defined in {AT}.oneOf[0].properties[a]"],
            id="alternatives about undeclared fields",
        ),
        pytest.param(
            obj(metadata=obj(labels={"type": "object"})),
            [
                f"{AT}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, "
                "but metadata is implicitly specified"
            ],
            id="metadata",
        ),
        pytest.param(obj(metadata=obj(name={"type": "string", "pattern": "^a"})), [], id="name"),
        pytest.param(
            obj(spec={"type": "string", "pattern": "["}),
            [
                f'{SPEC}.pattern: Invalid value: "[": must be a valid regular expression, '
                "but isn't: error parsing regexp: missing closing ]: `[`"
            ],
            id="pattern",
        ),
        pytest.param(
            obj(spec={"type": "integer", "default": "a"}),
            [f'{SPEC}.default: Invalid value: "string":  in body must be of type integer: "string"'],
            id="default of another type",
        ),
        pytest.param(
            obj(spec=obj(a=STRING) | {"default": {"b": 1}}),
            [f'{SPEC}.default: Invalid value: {{"b":1}}: must not have unknown fields'],
            id="default with unknown fields",
        ),
        pytest.param(
            obj(spec=obj(a={"type": "string", "minLength": 2}) | {"default": {"a": "b"}}),
            [f'{SPEC}.default.a: Invalid value: "b": a in body should be at least 2 chars long'],
            id="default with a wrong field",
        ),
        pytest.param(
            obj(kind={"type": "string", "default": "K"}),
            [f"{AT}.properties[kind].default: Forbidden: must not be set in top-level kind"],
            id="default of kind",
        ),
        pytest.param(
            obj(spec={"type": "array", "uniqueItems": True, "items": STRING}),
            [
                f"{SPEC}.uniqueItems: Forbidden: "
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            ],
            id="uniqueItems",
        ),
        pytest.param(
            obj(spec={"type": "string", "x-kubernetes-list-type": "set"}),
            [f'{SPEC}.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified'],
            id="list type on a string",
        ),
        pytest.param(
            obj(spec={"type": "array", "items": obj(a=STRING), "x-kubernetes-list-type": "set"}),
            [
                f"{SPEC}.items.x-kubernetes-map-type: Invalid value: null: "
                "must be atomic as item of a list with x-kubernetes-list-type=set"
            ],
            id="set of objects",
        ),
        pytest.param(
            obj(spec={"type": "array", "items": obj(a=STRING), "x-kubernetes-list-type": "map"}),
            [f"{SPEC}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"],
            id="list map without keys",
        ),
        pytest.param(
            obj(
                spec={
                    "type": "array",
                    "items": obj(a=STRING),
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["a", "b"],
                }
            ),
            [
                f'{SPEC}.x-kubernetes-list-map-keys: Invalid value: ["a","b"]: '
                "entries must all be names of item properties",
                f"{SPEC}.items.properties[a].default: Required value: "
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ],
            id="list map with odd keys",
        ),
        pytest.param(
            obj(spec={"type": "object", "x-kubernetes-map-type": "loose"}),
            [f'{SPEC}.x-kubernetes-map-type: Unsupported value: "loose": supported values: "atomic", "granular"'],
            id="map type",
        ),
        pytest.param(
            obj(spec={"type": "object", "x-kubernetes-embedded-resource": True}),
            [
                f"{SPEC}.properties: Required value: must not be empty if "
                "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
            ],
            id="embedded resource",
        ),
        pytest.param(
            obj(spec={"type": "object", "x-kubernetes-preserve-unknown-fields": False}),
            [f"{SPEC}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
            id="preserve nothing",
        ),
        pytest.param(
            obj() | {"x-kubernetes-validations": [{"rule": " "}, {"rule": "true", "reason": "Why", "fieldPath": ".x"}]},
            [
                f"{AT}.x-kubernetes-validations[0].rule: Required value: rule is not specified",
                f'{AT}.x-kubernetes-validations[1].reason: Unsupported value: "Why": supported values: '
                '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"',
                f'{AT}.x-kubernetes-validations[1].fieldPath: Invalid value: ".x": must be a valid path',
            ],
            id="form of rules",
        ),
        pytest.param(
            obj(spec=obj(a=STRING) | {"x-kubernetes-validations": [{"rule": "true", "messageExpression": "1"}]})
            | {"x-kubernetes-validations": [{"rule": "self.spec.a"}]},
            [
                f'{AT}.x-kubernetes-validations[0].rule: Invalid value: "self.spec.a": '
                "cel expression must evaluate to a bool",
                f'{SPEC}.x-kubernetes-validations[0].messageExpression: Invalid value: "1": '
                "messageExpression must evaluate to a string",
            ],
            id="rules that do not compile",
        ),
        pytest.param(
            obj() | {"nullable": True},
            [f"{AT}.nullable: Forbidden: nullable cannot be true at the root"],
            id="nullable",
        ),
    ],
)
def test_schemas(schema, expected):
    assert complaints(a_definition(schema)) == expected


def test_the_path_if_versions_differ():
    good, bad = obj(spec=obj()), obj(spec={})
    assert complaints(a_definition(bad, bad))[0].startswith(f"{AT}.properties[spec].type: ")
    (complaint,) = complaints(a_definition(good, bad))
    assert complaint.startswith("spec.versions[1].schema.openAPIV3Schema.properties[spec].type: ")


def test_restrictions_of_the_root_with_a_status_subresource():
    schema = obj(status=obj()) | {"anyOf": [{"required": ["spec"]}]}
    assert complaints(a_definition(schema)) == []
    (complaint,) = complaints(a_definition(schema, subresources={"status": {}}))
    assert "only [Description Type Format" in complaint
    assert complaint.endswith("fields are allowed at the root of the schema if the status subresource is enabled")


def test_unchanged_schemas_are_not_validated_again():
    bad = a_definition(obj(spec={}))
    assert complaints(bad, bad) == []
    assert complaints(a_definition(obj(spec={}, status={})), bad) != []


FIRST = "spec.selectableFields[0].jsonPath"
SELECTABLE = obj(spec=obj(color=STRING, tags={"type": "array", "items": STRING}))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([".spec.color"], []),
        ([""], [f"{FIRST}: Required value"]),
        (
            [".spec.size"],
            [f'{FIRST}: Invalid value: ".spec.size": is an invalid path: does not refer to a valid field'],
        ),
        (
            [".spec.tags[0]"],
            [f'{FIRST}: Invalid value: ".spec.tags[0]": is an invalid path: array notation is not allowed'],
        ),
        (
            [".spec.tags"],
            [
                f'{FIRST}: Invalid value: ".spec.tags": must point to a field of type string, '
                "boolean or integer. Enum string fields and strings with formats are allowed."
            ],
        ),
        ([".spec.color"] * 2, ['spec.selectableFields[1].jsonPath: Duplicate value: ".spec.color"']),
    ],
)
def test_selectable_fields(fields, expected):
    definition = a_definition(SELECTABLE, selectableFields=[{"jsonPath": field} for field in fields])
    assert complaints(definition) == expected


APPROVAL = "metadata.annotations[api-approved.kubernetes.io]"


@pytest.mark.parametrize(
    ("group", "approval", "start"),
    [
        ("example.com", "", None),
        ("k8s.io", "https://github.com/kubernetes/kubernetes/pull/78458", None),
        ("x.k8s.io", "unapproved, experimental", None),
        (
            "x.k8s.io",
            "",
            f"{APPROVAL}: Required value: protected groups must have approval annotation",
        ),
        (
            "x.kubernetes.io",
            "sure",
            f'{APPROVAL}: Invalid value: "sure": protected',
        ),
    ],
)
def test_protected_groups_need_approval(group, approval, start):
    found = complaints(a_definition(obj(), group=group, annotations={"api-approved.kubernetes.io": approval}))
    assert [complaint.startswith(start or "?") for complaint in found] == ([True] if start else [])


def test_unsupported_features():
    schema = obj(spec={"type": "string", "format": "colour"})
    definition = a_definition(schema)
    assert definition_warnings(definition) == ['unrecognized format "colour"']
    assert definition_warnings(definition, definition) == []
    assert definition_warnings(a_definition(obj(spec={"type": "string", "format": "date"}))) == []


def test_preserve_unknown_fields_is_no_longer_allowed():
    definition = a_definition(obj())
    definition["spec"]["preserveUnknownFields"] = True
    assert complaints(definition)[0].startswith("spec.preserveUnknownFields: Invalid value: true: cannot set to true")
    assert complaints(definition, definition) == []
