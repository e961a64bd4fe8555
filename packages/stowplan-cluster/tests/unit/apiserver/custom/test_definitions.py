"""Validation of CustomResourceDefinitions, with upstream's messages."""

import pytest

from stowplan_cluster.apiserver.custom.definitions import definition_warnings, validate_definition

AT = "spec.versions[0].schema.openAPIV3Schema"
STRING = {"type": "string"}


def a_definition(schema, *more, **version):
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}]
    versions += [{"name": f"v{index + 2}", "schema": {"openAPIV3Schema": one}} for index, one in enumerate(more)]
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "names": {"plural": "things", "kind": "Thing"}, "versions": versions},
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
            obj(spec={"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING}),
            [f"{SPEC}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
            id="map and struct",
        ),
        pytest.param(obj(spec=obj(a=STRING) | {"additionalProperties": True}), [], id="struct with other fields"),
        pytest.param(obj(spec={"x-kubernetes-int-or-string": True}), [], id="int or string"),
        pytest.param(
            obj(spec={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            [],
            id="int or string, repeated",
        ),
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
            obj(spec={"type": "string", "x-kubernetes-list-type": "set"}),
            [f'{SPEC}.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified'],
            id="list type on a string",
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
            ],
            id="list map with odd keys",
        ),
        pytest.param(
            obj(spec={"type": "object", "x-kubernetes-map-type": "loose"}),
            [f'{SPEC}.x-kubernetes-map-type: Unsupported value: "loose": supported values: "atomic", "granular"'],
            id="map type",
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
    ],
)
def test_schemas(schema, expected):
    assert complaints(a_definition(schema)) == expected


def test_the_path_if_versions_differ():
    good, bad = obj(spec=obj()), obj(spec={})
    assert complaints(a_definition(bad, bad))[0].startswith(f"{AT}.properties[spec].type: ")
    (complaint,) = complaints(a_definition(good, bad))
    assert complaint.startswith("spec.versions[1].schema.openAPIV3Schema.properties[spec].type: ")


def test_unchanged_schemas_are_not_validated_again():
    bad = a_definition(obj(spec={}))
    assert complaints(bad, bad) == []
    assert complaints(a_definition(obj(spec={}, status={})), bad) != []


FIRST = "spec.versions[0].selectableFields[0].jsonPath"
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
        ([".spec.color"] * 2, ['spec.versions[0].selectableFields[1].jsonPath: Duplicate value: ".spec.color"']),
    ],
)
def test_selectable_fields(fields, expected):
    definition = a_definition(SELECTABLE, selectableFields=[{"jsonPath": field} for field in fields])
    assert complaints(definition) == expected


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
