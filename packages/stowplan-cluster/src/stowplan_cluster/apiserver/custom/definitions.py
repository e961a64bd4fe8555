"""Check CustomResourceDefinitions: consistency, and features that are not supported here.

`validation.definitions` validates names, versions and columns; this module validates whatever depends on the schema.

Upstream: apiextensions-apiserver/pkg/apis/apiextensions (v1/conversion.go, validation/validation.go),
registry/customresourcedefinition/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan.kube.api import regexes
from stowplan.kube.api.field_errors import go_quote
from stowplan_cluster.apiserver.custom import formats
from stowplan_cluster.apiserver.custom.field_paths import FieldPathError, field_at
from stowplan_cluster.apiserver.custom.schema_rules import schema_errors
from stowplan_cluster.apiserver.json_values import equal
from stowplan_cluster.apiserver.validation.fields import Errors, duplicate, invalid, required, too_many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan_cluster.apiserver.objects import JsonObject

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
    errors: Errors = []
    for index, version in enumerate(versions_of(definition)):
        path, schema = f"spec.versions[{index}]", schema_of_version(version)
        if schema is not None and not equal(schema, before.get(version.get("name"))):
            errors += schema_errors(schema, f"{path}.schema.openAPIV3Schema")
        fields = [field.get("jsonPath") or "" for field in version.get("selectableFields") or ()]
        errors += _field_errors(fields, schema or {}, f"{path}.selectableFields")
    if (definition.get("spec") or {}).get("preserveUnknownFields") and not _preserved(old):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        errors.append(invalid("spec.preserveUnknownFields", True, detail))
    return errors


def _preserved(old: JsonObject | None) -> bool:
    return bool(((old or {}).get("spec") or {}).get("preserveUnknownFields"))


def _field_errors(fields: list[str], schema: JsonObject, path: str) -> Errors:
    errors: Errors = []
    for index, field in enumerate(fields):
        at = f"{path}[{index}].jsonPath"
        if not field:
            errors.append(required(at))
            continue
        try:
            _, found = field_at(schema, field, array_notation=False)
        except FieldPathError as error:
            errors.append(invalid(at, field, f"is an invalid path: {error}"))
            continue
        if field.startswith(".metadata"):
            errors.append(invalid(at, field, "must not point to fields in metadata"))
        if found.get("type") not in _SELECTABLE_TYPES:
            errors.append(invalid(at, field, _SELECTABLE))
        if field in fields[:index]:
            errors.append(duplicate(at, field))
    if len(set(fields)) > _MAX_SELECTABLE:
        errors.append(too_many(path, len(set(fields)), _MAX_SELECTABLE))
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
