"""Check CustomResourceDefinitions: consistency, features that are not supported here, and their schemas.

`validation.definitions` validates names, versions and columns; this module validates whatever depends on the schema.
Schemas are checked as far as pruning, defaulting, merging and validation here rely on it. A real API server has more
rules: above all, that fields are declared outside of `allOf`, `anyOf`, `oneOf` and `not`.

Upstream: apiextensions-apiserver/pkg/apis/apiextensions (v1/conversion.go, validation/validation.go),
registry/customresourcedefinition/strategy.go, pkg/apiserver/schema (validation.go, defaulting/validation.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from stowplan.kube.api import regexes
from stowplan.kube.api.api_errors import FieldError
from stowplan.kube.api.field_errors import aggregate, go_quote
from stowplan.kube.api.merge_patches import copy_of
from stowplan.kube.api.meta import timestamp
from stowplan.kube.api.regexes import PatternError
from stowplan_cluster.apiserver.custom import formats
from stowplan_cluster.apiserver.custom.field_paths import FieldPathError, field_at
from stowplan_cluster.apiserver.custom.openapi import compile_pattern, validate_value
from stowplan_cluster.apiserver.custom.rules.compilation import rule_errors
from stowplan_cluster.apiserver.objects import JsonObject, equal, is_true, set_condition
from stowplan_cluster.apiserver.validation.definitions import by_version
from stowplan_cluster.apiserver.validation.field_errors import (
    NO_PATH,
    Errors,
    forbidden,
    invalid,
    invalid_value,
    not_supported,
    required,
)

_MAX_SELECTABLE = 8
_SELECTABLE_TYPES = ("string", "boolean", "integer")
_SELECTABLE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)
NO_PATTERNS = (
    "patterns are not evaluated by this server, as google-re2 is not installed (pip install google-re2): "
    "objects that a cluster would refuse by them are accepted"
)


def versions_of(definition: JsonObject) -> list[JsonObject]:
    versions: list[JsonObject] = (definition.get("spec") or {}).get("versions") or []
    return versions


def schema_of_version(version: JsonObject) -> JsonObject | None:
    schema: JsonObject | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def validate_definition(definition: JsonObject, old: JsonObject | None) -> Errors:
    """Validate the schemas and whatever refers to them; unchanged schemas are skipped."""
    before = {version.get("name"): schema_of_version(version) for version in versions_of(old or {})}
    versions = versions_of(definition)
    errors = Errors()
    for version, (path, held) in zip(versions, by_version(versions, "schema", "validation"), strict=False):
        schema = (held or {}).get("openAPIV3Schema")
        if schema is not None and not equal(schema, before.get(version.get("name"))):
            errors += schema_errors(schema, f"{path}.openAPIV3Schema")
    for version, (path, selectable) in zip(
        versions, by_version(versions, "selectableFields", "selectableFields"), strict=False
    ):
        fields = [field.get("jsonPath") or "" for field in selectable or ()]
        errors += _field_errors(fields, schema_of_version(version) or {}, path)
    if (definition.get("spec") or {}).get("preserveUnknownFields") and not _preserved(old):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        errors.invalid("spec.preserveUnknownFields", True, detail)
    return errors


def _preserved(old: JsonObject | None) -> bool:
    return bool(((old or {}).get("spec") or {}).get("preserveUnknownFields"))


def _field_errors(fields: list[str], schema: JsonObject, path: str) -> Errors:
    errors = Errors()
    for index, field in enumerate(fields):
        at = f"{path}[{index}].jsonPath"
        if not field:
            errors.required(at)
            continue
        try:
            _, found = field_at(schema, field, array_notation=False)
        except FieldPathError as error:
            errors.invalid(at, field, f"is an invalid path: {error}")
            continue
        if field.startswith(".metadata"):
            errors.invalid(at, field, "must not point to fields in metadata")
        if found.get("type") not in _SELECTABLE_TYPES:
            errors.invalid(at, field, _SELECTABLE)
        if field in fields[:index]:
            errors.duplicate(at, field)
    if len(set(fields)) > _MAX_SELECTABLE:
        errors.too_many(path, len(set(fields)), _MAX_SELECTABLE)
    return errors


# Accepted without effect


def definition_warnings(definition: JsonObject, old: JsonObject | None = None) -> list[str]:
    """Warnings for the client; on update, only new ones."""
    known = set(_warnings(old)) if old is not None else set()
    return [warning for warning in dict.fromkeys(_warnings(definition)) if warning not in known]


def _warnings(definition: JsonObject) -> Iterator[str]:
    for version in versions_of(definition):
        for schema in _all_schemas(schema_of_version(version)):
            name = schema.get("format")
            if name and not formats.is_known(name, schema.get("type") or ""):
                yield f"unrecognized format {go_quote(name)}"
            if schema.get("pattern") and not regexes.available():
                yield NO_PATTERNS
    if ((definition.get("spec") or {}).get("conversion") or {}).get("strategy") == "Webhook":
        yield "conversion webhooks are not called by this server: versions differ by apiVersion alone"


def _all_schemas(schema: Any) -> Iterator[JsonObject]:
    if not isinstance(schema, dict):
        return
    yield schema
    for word in ("items", "additionalProperties", "not"):
        yield from _all_schemas(schema.get(word))
    for of in (schema.get("properties") or {}).values():
        yield from _all_schemas(of)
    for word in ("allOf", "anyOf", "oneOf"):
        for choice in schema.get(word) or ():
            yield from _all_schemas(choice)


# Resolve name conflicts between custom resource definitions of one group.
#
# A definition keeps the names that it has been given, and gets those of the requested names that are free. It becomes
# established, and is served, once it has all of them.
#
# Upstream: apiextensions-apiserver/pkg/controller/status/naming_controller.go, establish/establishing_controller.go.

NAMES_ACCEPTED, ESTABLISHED = "NamesAccepted", "Established"

_INSTALLED = "the initial names have been accepted"


def names_of(definition: JsonObject) -> JsonObject:
    """The requested names."""
    names: JsonObject = (definition.get("spec") or {}).get("names") or {}
    return names


def accepted_names(definition: JsonObject) -> JsonObject:
    accepted: JsonObject = (definition.get("status") or {}).get("acceptedNames") or {}
    return accepted


def is_established(definition: JsonObject) -> bool:
    return is_true(definition.get("status") or {}, ESTABLISHED)


def judged_status(definition: JsonObject, others: Iterable[JsonObject], now: float) -> JsonObject:
    """Compute the status of a definition, given the other definitions of its group."""
    status: JsonObject = copy_of(definition.get("status") or {})
    requested, accepted = names_of(definition), accepted_names(definition)
    if _without_empty(requested) != _without_empty(accepted) or not is_true(status, NAMES_ACCEPTED):
        names, complaint = _deconflicted(requested, accepted, list(others))
        status["acceptedNames"] = names
        _set(status, NAMES_ACCEPTED, not complaint, *(complaint or ("NoConflicts", "no conflicts found")), now)
        if complaint and not is_established(definition):
            _set(status, ESTABLISHED, False, "NotAccepted", "not all names are accepted", now)
    if is_true(status, NAMES_ACCEPTED) and not is_true(status, ESTABLISHED):
        _set(status, ESTABLISHED, True, "InitialNamesAccepted", _INSTALLED, now)
    return status


def _without_empty(names: JsonObject) -> JsonObject:
    return {key: value for key, value in names.items() if value}


def _deconflicted(
    requested: JsonObject, accepted: JsonObject, others: list[JsonObject]
) -> tuple[JsonObject, tuple[str, str] | None]:
    """The names that are free, and reason and message of the last conflict."""
    resources = {name for other in others for name in _resource_names(accepted_names(other))}
    kinds = {accepted_names(other).get(key) for other in others for key in ("kind", "listKind")}
    names, complaint = dict(accepted), None
    checks: tuple[tuple[str, str, Callable[[], list[str]]], ...] = (
        ("plural", "PluralConflict", lambda: _taken(requested, accepted, "plural", resources)),
        ("singular", "SingularConflict", lambda: _taken(requested, accepted, "singular", resources)),
        ("shortNames", "ShortNamesConflict", lambda: _short_names_taken(requested, accepted, resources)),
        ("kind", "KindConflict", lambda: _taken(requested, accepted, "kind", kinds)),
        ("listKind", "ListKindConflict", lambda: _taken(requested, accepted, "listKind", kinds)),
    )
    for key, reason, taken in checks:
        if conflicts := taken():
            complaint = (reason, aggregate(f"{go_quote(name)} is already in use" for name in conflicts))
        elif requested.get(key):
            names[key] = requested[key]
        else:
            names.pop(key, None)
    return _with_categories(names, requested), complaint


def _with_categories(names: JsonObject, requested: JsonObject) -> JsonObject:
    others = {key: value for key, value in names.items() if key != "categories"}
    return others | ({"categories": requested["categories"]} if requested.get("categories") else {})


def _resource_names(names: JsonObject) -> list[str]:
    return [names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())]


def _taken(requested: JsonObject, accepted: JsonObject, key: str, used: set[str | None] | set[str]) -> list[str]:
    name = requested.get(key) or ""
    return [name] if name != accepted.get(key) and name in used else []


def _short_names_taken(requested: JsonObject, accepted: JsonObject, used: set[str]) -> list[str]:
    own = accepted.get("shortNames") or ()
    return [name for name in requested.get("shortNames") or () if name not in own and name in used]


def _set(status: JsonObject, type: str, holds: bool, reason: str, message: str, now: float) -> None:
    condition = {"type": type, "status": "True" if holds else "False", "reason": reason, "message": message}
    set_condition(status, condition, now=timestamp(now))


# Schemas.

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
