"""Rules for schemas beyond being structural: types, extensions, valid defaults.

Upstream: apiextensions-apiserver/pkg/apis/apiextensions/validation (ValidateCustomResourceDefinitionOpenAPISchema),
apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.structs import PlainStruct
from stowplan_cluster.apiserver.custom.errors import NO_PATH, invalid_value
from stowplan_cluster.apiserver.custom.openapi import validate_value
from stowplan_cluster.apiserver.custom.rules.compilation import rule_errors
from stowplan_cluster.apiserver.custom.structural_rules import structural_errors
from stowplan_cluster.apiserver.json_values import copy_of, equal
from stowplan_cluster.apiserver.validation.fields import Errors, forbidden, invalid, not_supported, required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan_cluster.apiserver.objects import JsonObject

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_META_FIELDS = ("metadata", "kind", "apiVersion")
_LIST_TYPE, _MAP_TYPE, _KEYS = "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-list-map-keys"
_EMBEDDED, _PRESERVE = "x-kubernetes-embedded-resource", "x-kubernetes-preserve-unknown-fields"
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
#: The only fields allowed at the root next to a status subresource, in the reference's wording and order.
_AT_ROOT = (
    "description type format title maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern "
    "maxItems minItems uniqueItems multipleOf required items properties externalDocs example"
)
_EXTENSIONS_AT_ROOT = {_PRESERVE: "XPreserveUnknownFields", "x-kubernetes-validations": "XValidations"}


def schema_errors(schema: JsonObject, path: str, *, has_status: bool) -> Errors:
    """Validate the schema of one version."""
    errors = _root_errors(schema, path) if has_status else []
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    unsound = structural_errors(schema, path) or list(_default_errors(schema, path, is_resource=True))
    wrong = _openapi_errors(schema, path, _Place(is_root=True))
    if not (unsound or wrong):
        wrong += rule_errors(schema, path)
    return errors + unsound + wrong


def _root_errors(schema: JsonObject, path: str) -> Errors:
    if schema.get("type") != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid(f"{path}.type", schema.get("type") or "", detail)]
    names = _AT_ROOT.split()
    if any(value not in (None, False) and key not in (*names, *_EXTENSIONS_AT_ROOT) for key, value in schema.items()):
        listed = " ".join([*(name[0].upper() + name[1:] for name in names), *_EXTENSIONS_AT_ROOT.values()])
        detail = f"only [{listed}] fields are allowed at the root of the schema if the status subresource is enabled"
        return [invalid_value(path, schema, detail)]
    return []


# Defaults


def _default_errors(schema: JsonObject, path: str, *, is_resource: bool = False) -> Iterator[Any]:
    default, at = schema.get("default"), f"{path}.default"
    if default is not None:
        pruned = copy_of(default)
        _prune(schema, pruned)
        if not equal(pruned, default):
            yield invalid_value(at, default, "must not have unknown fields")
        for error in validate_value(schema, default).errors:
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


# Rules at every level


class _Place(PlainStruct, frozen=True):
    is_root: bool = False
    in_metadata: bool = False
    #: The reason why defaults are not allowed here; "" if they are.
    no_defaults: str = ""


def _openapi_errors(schema: JsonObject, path: str, place: _Place) -> Errors:
    errors = _unsupported_errors(schema, path, place)
    below = replace(place, is_root=False)
    others = schema.get("additionalProperties")
    if schema.get("properties") and others is not None and others is not True:
        errors.append(
            forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
        )
    if isinstance(others, dict):
        why = "inside additionalProperties applying to object metadata" if place.in_metadata else place.no_defaults
        errors += _openapi_errors(others, f"{path}.additionalProperties", replace(below, no_defaults=why))
    for name, of in (schema.get("properties") or {}).items():
        errors += _openapi_errors(of, f"{path}.properties[{name}]", _place_of(schema, name, place))
    if isinstance(schema.get("not"), dict):
        errors += _openapi_errors(schema["not"], f"{path}.not", below)
    for word in ("allOf", "oneOf", "anyOf"):
        for index, choice in enumerate(schema.get(word) or ()):
            errors += _openapi_errors(choice, f"{path}.{word}[{index}]", below)
    if isinstance(schema.get("items"), dict):
        errors += _openapi_errors(schema["items"], f"{path}.items", below)
    errors += _map_type_errors(schema, path) + _list_type_errors(schema, path)
    return errors + _list_map_errors(schema, path)


def _place_of(schema: JsonObject, name: str, place: _Place) -> _Place:
    if name not in _META_FIELDS or not (place.is_root or schema.get(_EMBEDDED)):
        return replace(place, is_root=False)
    why = f"in top-level {name}" if place.is_root else place.no_defaults
    return _Place(in_metadata=True, no_defaults=why)


def _unsupported_errors(schema: JsonObject, path: str, place: _Place) -> Errors:
    errors: Errors = []
    type = schema.get("type")
    if type and type not in _TYPES:
        errors.append(not_supported(f"{path}.type", type, _TYPES))
    if schema.get("default") is not None and place.no_defaults:
        errors.append(forbidden(f"{path}.default", f"must not be set {place.no_defaults}"))
    errors += [forbidden(f"{path}.{name}", f"{name} is not supported") for name in _UNSUPPORTED if schema.get(name)]
    if type == "null":
        errors.append(forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative"))
    if isinstance(schema.get("items"), list):
        errors.append(forbidden(f"{path}.items", "items must be a schema object and not an array"))
    if place.in_metadata and schema.get(_EMBEDDED):
        errors.append(forbidden(f"{path}.{_EMBEDDED}", "must not be used inside of resource meta"))
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", detail))
    if schema.get(_PRESERVE) is False:
        errors.append(invalid(f"{path}.{_PRESERVE}", False, "must be true or undefined"))
    return errors


def _wrong_type(schema: JsonObject, path: str, wanted: str, extension: str) -> Errors:
    type, detail = schema.get("type"), f"must be {wanted} if {extension} is specified"
    if type == wanted:
        return []
    return [invalid(f"{path}.type", type, detail) if type else required(f"{path}.type", detail)]


def _map_type_errors(schema: JsonObject, path: str) -> Errors:
    kind = schema.get(_MAP_TYPE)
    if kind is None:
        return []
    errors = _wrong_type(schema, path, "object", _MAP_TYPE)
    if kind not in ("atomic", "granular"):
        errors.append(not_supported(f"{path}.{_MAP_TYPE}", kind, ("atomic", "granular")))
    return errors


def _list_type_errors(schema: JsonObject, path: str) -> Errors:
    kind, items = schema.get(_LIST_TYPE), schema.get("items")
    if kind is None:
        return []
    errors = _wrong_type(schema, path, "array", _LIST_TYPE)
    if not errors and kind == "set" and isinstance(items, dict):
        detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
        if items.get("type") == "array" and items.get(_LIST_TYPE) not in (None, "atomic"):
            errors.append(invalid(f"{path}.items.{_LIST_TYPE}", items[_LIST_TYPE], detail))
        if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
            errors.append(invalid(f"{path}.items.{_MAP_TYPE}", items.get(_LIST_TYPE), detail))
    if kind not in ("atomic", "set", "map"):
        errors.append(not_supported(f"{path}.{_LIST_TYPE}", kind, ("atomic", "set", "map")))
    return errors


def _list_map_errors(schema: JsonObject, path: str) -> Errors:
    kind, keys = schema.get(_LIST_TYPE), schema.get(_KEYS) or []
    errors: Errors = []
    if keys and kind != "map":
        at, detail = f"{path}.{_LIST_TYPE}", f"must be map if {_KEYS} is non-empty"
        errors.append(required(at, detail) if kind is None else invalid(at, kind, detail))
    if kind == "map":
        errors += _map_shape_errors(schema, keys, path)
    items = schema.get("items")
    if kind in ("set", "map") and isinstance(items, dict) and items.get("nullable"):
        errors.append(forbidden(f"{path}.items.nullable", f"cannot be nullable when {_LIST_TYPE} is {kind}"))
    if kind == "map" and isinstance(items, dict):
        errors += _key_errors(items, keys, path)
    return errors


def _map_shape_errors(schema: JsonObject, keys: list[str], path: str) -> Errors:
    errors: Errors = []
    items = schema.get("items")
    if not keys:
        errors.append(required(f"{path}.{_KEYS}", f"must not be empty if {_LIST_TYPE} is map"))
    if items is None:
        errors.append(required(f"{path}.items", f"must have a schema if {_LIST_TYPE} is map"))
    if not isinstance(items, dict):
        return errors
    if items.get("type") != "object":
        detail = f"must be object if parent array's {_LIST_TYPE} is map"
        return [*errors, invalid(f"{path}.items.type", items.get("type") or "", detail)]
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            errors.append(invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties"))
        elif properties[key].get("type") in ("array", "object"):
            detail = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            errors.append(invalid(f"{path}.items.properties[{key}].type", "object", detail))
        if key in keys[:index]:
            errors.append(invalid(f"{path}.{_KEYS}", keys, "must not contain duplicate entries"))
    return errors


def _key_errors(items: JsonObject, keys: list[str], path: str) -> Errors:
    errors: Errors = []
    properties, needed = items.get("properties") or {}, items.get("required") or ()
    for key in keys:
        of, at = properties.get(key), f"{path}.items.properties[{key}]"
        if of is None:
            continue
        if key not in needed and of.get("default") is None:
            detail = f"this property is in {_KEYS}, so it must have a default or be a required property"
            errors.append(required(f"{at}.default", detail))
        if of.get("nullable"):
            errors.append(forbidden(f"{at}.nullable", f"this property is in {_KEYS}, so it cannot be nullable"))
    return errors
