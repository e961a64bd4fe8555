"""Changes of CustomResourceDefinitions and their warnings; refusals are in validation/test_recorded_manifests.py."""

from stowplan_cluster.apiserver.custom.definitions import definition_warnings, validate_definition

AT = "spec.validation.openAPIV3Schema"


def a_definition(schema):
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "names": {"plural": "things", "kind": "Thing"}, "versions": [version]},
    }


def obj(**properties):
    return {"type": "object", "properties": properties}


def complaints(definition, old=None):
    return [str(error) for error in validate_definition(definition, old)]


def test_rules_that_do_not_compile():
    """A kube-apiserver prints the rule as Go's struct."""
    spec = obj(a={"type": "string"}) | {"x-kubernetes-validations": [{"rule": "true", "messageExpression": "1"}]}
    schema = obj(spec=spec) | {"x-kubernetes-validations": [{"rule": "self.spec.a"}]}
    assert complaints(a_definition(schema)) == [
        f'{AT}.x-kubernetes-validations[0].rule: Invalid value: "self.spec.a": cel expression must evaluate to a bool',
        f'{AT}.properties[spec].x-kubernetes-validations[0].messageExpression: Invalid value: "1": '
        "messageExpression must evaluate to a string",
    ]


def test_unchanged_schemas_are_not_validated_again():
    bad = a_definition(obj(spec={}))
    assert complaints(bad, bad) == []
    assert complaints(a_definition(obj(spec={}, status={})), bad) != []


def test_unsupported_features():
    schema = obj(spec={"type": "string", "format": "colour"})
    definition = a_definition(schema)
    assert definition_warnings(definition) == ['unrecognized format "colour"']
    assert definition_warnings(definition, definition) == []
    assert definition_warnings(a_definition(obj(spec={"type": "string", "format": "date"}))) == []


def test_preserve_unknown_fields_may_stay():
    definition = a_definition(obj())
    definition["spec"]["preserveUnknownFields"] = True
    assert complaints(definition, definition) == []
