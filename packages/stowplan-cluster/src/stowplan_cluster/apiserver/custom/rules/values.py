"""Parts of custom resources as values of expressions.

Fields that no schema describes are no fields for expressions; only whether two objects are equal depends on them.
Unlike upstream, lists that are sets or maps by their schema are equal in the same order only.

Upstream: k8s.io/apiserver/pkg/cel/common/valuesunstructured.go.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from stowplan.kube.cel import values as v
from stowplan.kube.cel.errors import ValueProblem
from stowplan.kube.cel.times import read_timestamp
from stowplan_cluster.apiserver.custom.formats import duration_of
from stowplan_cluster.apiserver.custom.rules.declared_types import as_resource, escaped

if TYPE_CHECKING:
    from stowplan.kube.cel.values import Value
    from stowplan_cluster.apiserver.objects import JsonObject


def value_of(schema: JsonObject, value: Any) -> Value:
    """The value of a part; raises a `ValueProblem` where it is not as its schema says."""
    if value is None:
        if schema.get("nullable"):
            return None
        raise ValueProblem("invalid data, got null for schema with nullable=false")
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueProblem("invalid data, expected XIntOrString value to be either a string or integer")
        return value
    match schema.get("type"):
        case "object" if isinstance(value, dict):
            return _object(schema, value)
        case "array" if isinstance(value, list):
            return [value_of(schema.get("items") or {}, item) for item in value]
        case "string" if isinstance(value, str):
            return _string(schema.get("format"), value)
        case "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case "integer" if isinstance(value, int) and not isinstance(value, bool):
            return value
        case "boolean" if isinstance(value, bool):
            return value
    raise ValueProblem(f"invalid data, expected {schema.get('type')}")


def _object(schema: JsonObject, value: JsonObject) -> Value:
    others = schema.get("additionalProperties")
    if schema.get("x-kubernetes-embedded-resource"):
        schema = as_resource(schema)
    properties = schema.get("properties") or {}
    if not properties and isinstance(others, dict):
        return {name: value_of(others, item) for name, item in value.items()}
    fields: dict[Value, Value] = {}
    for name, item in value.items():
        of, known = properties.get(name) or {}, escaped(name)
        if known is not None and (of.get("type") or of.get("x-kubernetes-int-or-string")):
            if item is not None:
                fields[known] = value_of(of, item)
        else:
            # No expression can name it, but it counts when objects are compared.
            fields[name] = item
    return fields


def _string(form: str | None, text: str) -> Value:
    match form:
        case "duration":
            nanoseconds = duration_of(text)
            if nanoseconds is None:
                raise ValueProblem(f"Invalid duration {text}")
            return v.Duration(nanoseconds)
        case "date" | "date-time":
            found = read_timestamp(f"{text}T00:00:00Z" if form == "date" else text.upper())
            if found is None:
                raise ValueProblem(f"Invalid {form} formatted string {text}")
            return found
        case "byte":
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise ValueProblem(f"Invalid byte formatted string {text}: {error}") from None
    return text
