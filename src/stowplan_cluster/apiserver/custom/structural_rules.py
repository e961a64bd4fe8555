"""Structural schema rules: fields are declared outside of allOf, anyOf, oneOf and not.

In a structural schema pruning and defaulting do not depend on which alternative of `anyOf` and the like a value
matches: schemas inside them may restrict values but not declare fields.

Upstream: apiextensions-apiserver/pkg/apiserver/schema (validation.go, complete.go).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.custom.re2 import PatternError, compile_pattern
from stowplan_cluster.apiserver.validation.fields import Errors, forbidden, invalid, required

if TYPE_CHECKING:
    from stowplan.api.api_errors import FieldError
    from stowplan_cluster.apiserver.objects import JsonObject

_PRESERVE, _EMBEDDED = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_ANY_OF_BOTH = [{"type": "integer"}, {"type": "string"}]
#: Fields that are forbidden inside alternatives, with the reference's message.
_NOT_NESTED = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    _PRESERVE: "must be false to be structural",
    _EMBEDDED: "must be false to be structural",
    _INT_OR_STRING: "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_DEFINED = ("additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type")
_IN_METADATA = {"type", "properties", "default"}


class _Level(Enum):
    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


def structural_errors(schema: JsonObject, path: str) -> Errors:
    errors = _invariants(schema, _Level.ROOT, path) + _nested_completeness(schema, schema, path, path)
    return sorted(errors, key=str)


def _invariants(schema: JsonObject, level: _Level, path: str) -> Errors:
    errors: Errors = []
    if schema.get("type") == "array" and schema.get("items") is None:
        errors.append(required(f"{path}.items", "must be specified"))
    if isinstance(schema.get("items"), dict):
        errors += _invariants(schema["items"], _Level.ITEM, f"{path}.items")
    for name, of in (schema.get("properties") or {}).items():
        errors += _invariants(of, _Level.FIELD, f"{path}.properties[{name}]")
    others = schema.get("additionalProperties")
    if others is not None and level is _Level.ROOT:
        errors.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    if isinstance(others, dict):
        errors += _invariants(others, _Level.FIELD, f"{path}.additionalProperties")
    return errors + _own_invariants(schema, level, path) + _value_rules(schema, path)


def _own_invariants(schema: JsonObject, level: _Level, path: str) -> Errors:
    errors = _extension_errors(schema, path) + _type_errors(schema, level, path)
    properties = schema.get("properties") or {}
    if level is _Level.ROOT or schema.get(_EMBEDDED):
        for name in ("kind", "apiVersion"):
            if name in properties and properties[name].get("type") != "string":
                at = f"{path}.properties[{name}].type"
                errors.append(invalid(at, properties[name].get("type") or "", "must be string"))
        if "metadata" in properties:
            errors += _metadata_errors(properties["metadata"], level, f"{path}.properties[metadata]")
    if schema.get(_EMBEDDED) and not schema.get(_PRESERVE) and not properties:
        detail = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        errors.append(required(f"{path}.properties", detail))
    return errors


def _extension_errors(schema: JsonObject, path: str) -> Errors:
    if not schema.get(_INT_OR_STRING):
        return []
    detail = f"must be false if {_INT_OR_STRING} is true"
    return [invalid(f"{path}.{name}", True, detail) for name in (_PRESERVE, _EMBEDDED) if schema.get(name)]


def _type_errors(schema: JsonObject, level: _Level, path: str) -> Errors:
    errors: Errors = []
    type, at = schema.get("type") or "", f"{path}.type"
    if schema.get(_EMBEDDED) and type != "object":
        detail = f"must be object if {_EMBEDDED} is true"
        errors.append(invalid(at, type, detail) if type else required(at, detail))
    elif not type and not schema.get(_INT_OR_STRING) and not schema.get(_PRESERVE):
        errors.append(required(at, level.value))
    if schema.get(_EMBEDDED) and schema.get("additionalProperties") is not None:
        errors.append(forbidden(f"{path}.additionalProperties", f"must not be used if {_EMBEDDED} is set"))
    if level is _Level.ROOT and type and type != "object":
        errors.append(invalid(at, type, "must be object at the root"))
    return errors


def _metadata_errors(schema: JsonObject, level: _Level, path: str) -> Errors:
    errors: Errors = []
    if schema.get("type") != "object":
        errors.append(invalid(f"{path}.type", schema.get("type") or "", "must be object"))
    names = set(schema.get("properties") or ())
    if level is _Level.ROOT and not (schema.keys() <= _IN_METADATA and names <= {"name", "generateName"}):
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        errors.append(forbidden(path, detail))
    return errors


# Alternatives


def _value_rules(schema: JsonObject, path: str, *, skip_any_of: bool | None = None) -> Errors:
    """Check the alternatives, here and below; `x-kubernetes-int-or-string` may repeat its two types in anyOf."""
    any_of, all_of = schema.get("anyOf") or [], schema.get("allOf") or []
    skip_any_of = any_of == _ANY_OF_BOTH if skip_any_of is None else skip_any_of
    errors: Errors = []
    if not skip_any_of:
        for index, choice in enumerate(any_of):
            errors += _nested_rules(choice, f"{path}.anyOf[{index}]")
    for index, choice in enumerate(all_of):
        repeated = index == 0 and choice.get("anyOf") == _ANY_OF_BOTH
        errors += _nested_rules(choice, f"{path}.allOf[{index}]", skip_any_of=repeated)
    for index, choice in enumerate(schema.get("oneOf") or []):
        errors += _nested_rules(choice, f"{path}.oneOf[{index}]")
    if schema.get("not") is not None:
        errors += _nested_rules(schema["not"], f"{path}.not")
    return errors + _pattern_errors(schema.get("pattern"), path)


def _pattern_errors(pattern: str | None, path: str) -> Errors:
    if not pattern:
        return []
    try:
        compile_pattern(pattern)
    except PatternError as error:
        return [invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")]
    return []


def _nested_rules(schema: JsonObject, path: str, *, skip_any_of: bool = False) -> Errors:
    errors = _value_rules(schema, path, skip_any_of=skip_any_of)
    if isinstance(schema.get("items"), dict):
        errors += _nested_rules(schema["items"], f"{path}.items")
    properties = schema.get("properties") or {}
    for name, of in properties.items():
        errors += _nested_rules(of, f"{path}.properties[{name}]")
    for name, detail in _NOT_NESTED.items():
        said = schema.get(name)
        if said or (said is not None and name in _DEFINED):
            errors.append(forbidden(f"{path}.{name}", detail))
    if "metadata" in properties:
        errors.append(forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context"))
    return errors


# Completeness: fields named in alternatives are declared outside of them


def _nested_completeness(said: JsonObject, schema: JsonObject, path: str, said_path: str) -> Errors:
    errors: Errors = []
    if said.get("not") is not None:
        errors += _completeness(said["not"], schema, path, f"{said_path}.not")
    for word in ("allOf", "anyOf", "oneOf"):
        for index, choice in enumerate(said.get(word) or []):
            errors += _completeness(choice, schema, path, f"{said_path}.{word}[{index}]")
    return errors


def _completeness(said: JsonObject, schema: JsonObject, path: str, said_path: str) -> Errors:
    errors = _nested_completeness(said, schema, path, said_path)
    if isinstance(said.get("items"), dict):
        at, said_at = f"{path}.items", f"{said_path}.items"
        of = schema.get("items")
        errors += _completeness(said["items"], of, at, said_at) if of else [_missing(at, said_at)]
    for name, inner in (said.get("properties") or {}).items():
        at, said_at = f"{path}.properties[{name}]", f"{said_path}.properties[{name}]"
        of = (schema.get("properties") or {}).get(name)
        errors += _completeness(inner, of, at, said_at) if of is not None else [_missing(at, said_at)]
    return errors


def _missing(path: str, said_path: str) -> FieldError:
    return required(path, f"because it is defined in {said_path}")
