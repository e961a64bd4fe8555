"""Rules for schemas on which pruning, defaulting, merging and validation here rely.

A real API server has more of them: above all, that fields are declared outside of `allOf`, `anyOf`, `oneOf` and `not`.

Upstream: apiextensions-apiserver/pkg/apiserver/schema (validation.go, defaulting/validation.go),
apiextensions-apiserver/pkg/apis/apiextensions/validation (ValidateCustomResourceDefinitionOpenAPISchema).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from stowplan.kube.api.api_errors import FieldError
from stowplan.kube.api.merge_patches import copy_of
from stowplan.kube.api.regexes import PatternError
from stowplan_cluster.apiserver.custom.openapi import compile_pattern, validate_value
from stowplan_cluster.apiserver.custom.rules.compilation import rule_errors
from stowplan_cluster.apiserver.objects import JsonObject, equal
from stowplan_cluster.apiserver.validation.field_errors import (
    NO_PATH,
    forbidden,
    invalid,
    invalid_value,
    not_supported,
    required,
)

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_META_FIELDS = ("metadata", "kind", "apiVersion")
_LIST_TYPE, _MAP_TYPE, _KEYS = "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-list-map-keys"
_EMBEDDED, _PRESERVE = "x-kubernetes-embedded-resource", "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
#: What must have a type, and how an error calls it.
_ROOT, _ITEM, _FIELD = "at the root", "for specified array items", "for specified object fields"


def schema_errors(schema: JsonObject, path: str) -> list[FieldError]:
    """Validate the schema of one version."""
    return (
        _form_errors(schema, path, _ROOT)
        or list(_default_errors(schema, path, is_resource=True))
        or list(rule_errors(schema, path))
    )


def _form_errors(schema: JsonObject, path: str, what: str) -> list[FieldError]:
    errors = _type_errors(schema, path, what) + _list_errors(schema, path) + _pattern_errors(schema, path)
    others, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(others, dict) and schema.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden(f"{path}.additionalProperties", detail))
    if schema.get(_MAP_TYPE) not in (None, "atomic", "granular"):
        errors.append(not_supported(f"{path}.{_MAP_TYPE}", schema[_MAP_TYPE], ("atomic", "granular")))
    for name, of in (schema.get("properties") or {}).items():
        errors += _form_errors(of, f"{path}.properties[{name}]", _FIELD)
    if isinstance(others, dict):
        errors += _form_errors(others, f"{path}.additionalProperties", _FIELD)
    if isinstance(items, dict):
        errors += _form_errors(items, f"{path}.items", _ITEM)
    return errors


def _type_errors(schema: JsonObject, path: str, what: str) -> list[FieldError]:
    type, at = schema.get("type") or "", f"{path}.type"
    if not type and (what is _ROOT or not (schema.get(_INT_OR_STRING) or schema.get(_PRESERVE))):
        return [required(at, f"must not be empty {what}")]
    if type and type not in _TYPES:
        return [not_supported(at, type, _TYPES)]
    if what is _ROOT and type != "object":
        return [invalid(at, type, "must be object at the root")]
    if schema.get(_EMBEDDED) and type != "object":
        return [invalid(at, type, f"must be object if {_EMBEDDED} is true")]
    return []


def _list_errors(schema: JsonObject, path: str) -> list[FieldError]:
    kind, keys, items = schema.get(_LIST_TYPE), schema.get(_KEYS) or (), schema.get("items")
    if isinstance(items, list):
        return [forbidden(f"{path}.items", "items must be a schema object and not an array")]
    if schema.get("type") != "array":
        wrong = invalid(f"{path}.type", schema.get("type"), f"must be array if {_LIST_TYPE} is specified")
        return [wrong] if kind else []
    if items is None:
        return [required(f"{path}.items", "must be specified")]
    if kind not in (None, "atomic", "set", "map"):
        return [not_supported(f"{path}.{_LIST_TYPE}", kind, ("atomic", "set", "map"))]
    if kind == "map" and not keys:
        return [required(f"{path}.{_KEYS}", f"must not be empty if {_LIST_TYPE} is map")]
    if any(key not in (items.get("properties") or ()) for key in keys):
        return [invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties")]
    return []


def _pattern_errors(schema: JsonObject, path: str) -> list[FieldError]:
    try:
        compile_pattern(schema.get("pattern") or "")
    except PatternError as error:
        detail = f"must be a valid regular expression, but isn't: {error}"
        return [invalid(f"{path}.pattern", schema["pattern"], detail)]
    return []


# Defaults


def _default_errors(schema: JsonObject, path: str, *, is_resource: bool = False) -> Iterator[Any]:
    default, at = schema.get("default"), f"{path}.default"
    if default is not None:
        pruned = copy_of(default)
        _prune(schema, pruned)
        if not equal(pruned, default):
            yield invalid_value(at, default, "must not have unknown fields")
        for error in validate_value(schema, default):
            yield replace(error, field=at if error.field == NO_PATH else f"{at}.{error.field}")
    if isinstance(schema.get("items"), dict):
        yield from _default_errors(schema["items"], f"{path}.items")
    for name, of in (schema.get("properties") or {}).items():
        if not (is_resource and name in _META_FIELDS):
            inner = f"{path}.properties[{name}]"
            yield from _default_errors(of, inner, is_resource=bool(of.get(_EMBEDDED)))


def _prune(schema: JsonObject, value: Any) -> None:
    """Prune fields that the schema does not specify, in place."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            _prune(schema["items"], item)
    if not isinstance(value, dict):
        return
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name in list(value):
        if name in properties:
            _prune(properties[name], value[name])
        elif isinstance(others, dict):
            _prune(others, value[name])
        elif not others and not schema.get(_PRESERVE) and not (schema.get(_EMBEDDED) and name in _META_FIELDS):
            del value[name]
