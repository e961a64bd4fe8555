"""The rules of one schema, compiled, and what is wrong with them.

Upstream: apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go,
apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stowplan.kube.api.api_errors import FieldError
from stowplan.kube.cel import static_types as t
from stowplan.kube.cel.cel_errors import CompileError
from stowplan.kube.cel.environment import CompiledExpression, Environment, environment
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.custom.field_paths import FieldPathError, field_at
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation.field_errors import invalid, not_supported, required

# Static types of schemas in expressions.
#
# What no schema describes is not there for expressions: fields of an unknown type are left out, and so is a list or
# map of such.
#
# Upstream: k8s.io/apiserver/pkg/cel/common/schemas.go, cel/escaping.go.


#: By name of a struct, the types of its fields, by the names that expressions use.
Structs = dict[str, dict[str, t.Type]]

_RESERVED = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void"
    "|while"
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_IDENTIFIER = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_STRING: JsonObject = {"type": "string"}
_SCALARS = {"boolean": t.BOOL, "number": t.DOUBLE, "integer": t.INT}
_FORMATS = {"duration": t.DURATION, "date": t.TIMESTAMP, "date-time": t.TIMESTAMP, "byte": t.BYTES}


def escaped(name: str) -> str | None:
    """The name of a field in expressions; None: it has none."""
    if _RESERVED.fullmatch(name):
        return f"__{name}__"
    if not _IDENTIFIER.fullmatch(name):
        return None
    return re.sub(r"__|[./-]", lambda match: _ESCAPES[match[0]], name)


def as_resource(schema: JsonObject) -> JsonObject:
    """A schema with the fields that every object has."""
    metadata = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}
    common = {"kind": _STRING, "apiVersion": _STRING, "metadata": metadata}
    return {**schema, "properties": {**(schema.get("properties") or {}), **common}}


def declared_type(schema: JsonObject, structs: Structs, *, is_resource: bool, name: str = "selfType") -> t.Type | None:
    """The type of a schema, None if expressions cannot tell; adds the structs in it. `name`: of an object's struct."""
    if schema.get("x-kubernetes-int-or-string"):
        return t.DYN
    if is_resource:
        schema = as_resource(schema)
    match schema.get("type"):
        case "array":
            element = _inner(schema.get("items"), structs, f"{name}.@idx")
            return None if element is None else t.list_of(element)
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            element = _inner(schema["additionalProperties"], structs, f"{name}.@elem")
            return None if element is None else t.map_of(t.STRING, element)
        case "object":
            return _object(schema, structs, name)
        case "string":
            return _FORMATS.get(schema.get("format") or "", t.STRING)
    return _SCALARS.get(schema.get("type") or "")


def _object(schema: JsonObject, structs: Structs, name: str) -> t.Type:
    fields = structs[name] = {}
    for key, of in (schema.get("properties") or {}).items():
        known = escaped(key)
        if known is not None and (declared := _inner(of, structs, f"{name}.{known}")) is not None:
            fields[known] = declared
    return t.Type(t.TypeKind.STRUCT, name)


def _inner(schema: JsonObject | None, structs: Structs, name: str) -> t.Type | None:
    if not schema:
        return None
    return declared_type(schema, structs, is_resource=bool(schema.get("x-kubernetes-embedded-resource")), name=name)


RULES = "x-kubernetes-validations"
SELF, OLD_SELF = "self", "oldSelf"
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NO_TYPE = "expressions cannot tell the type of what the schema describes"


class CompiledRule(PlainStruct, frozen=True):
    source: JsonObject
    #: None: the rule is blank, or there is an error.
    expression: CompiledExpression | None = None
    error: str = ""
    uses_old_self: bool = False
    message_expression: CompiledExpression | None = None
    message_error: str = ""
    #: Where in the part a violation is reported.
    field_path: str = ""

    @property
    def takes_optional_old_self(self) -> bool:
        return bool(self.source.get("optionalOldSelf"))

    @property
    def text(self) -> str:
        """What errors call it."""
        return ((self.source.get("message") or "") or (self.source.get("rule") or "")).strip()


def compiled_rules(schema: JsonObject, *, is_resource: bool) -> list[CompiledRule]:
    if not schema.get(RULES):
        return []
    structs: Structs = {}
    type = declared_type(schema, structs, is_resource=is_resource)
    if type is None:
        return [CompiledRule(rule, error=_NO_TYPE) for rule in schema[RULES]]
    environments = {
        optional: environment({SELF: type, OLD_SELF: t.optional_of(type) if optional else type}, structs)
        for optional in (False, True)
    }
    return [_compiled(rule, schema, environments[bool(rule.get("optionalOldSelf"))]) for rule in schema[RULES]]


def _compiled(rule: JsonObject, schema: JsonObject, among: Environment) -> CompiledRule:
    text = rule.get("rule") or ""
    if not text.strip():
        return CompiledRule(rule)
    try:
        expression = among.compiled(text)
    except CompileError as error:
        return CompiledRule(rule, error=str(error))
    if expression.type != t.BOOL:
        return CompiledRule(rule, error="cel expression must evaluate to a bool")
    message, message_error = _message(rule.get("messageExpression") or "", among)
    return CompiledRule(
        rule,
        expression,
        uses_old_self=OLD_SELF in expression.checked.names.values(),
        message_expression=message,
        message_error=message_error,
        field_path=_normalized(rule.get("fieldPath") or "", schema) or "",
    )


def _message(text: str, among: Environment) -> tuple[CompiledExpression | None, str]:
    if not text:
        return None, ""
    try:
        expression = among.compiled(text)
    except CompileError as error:
        return None, f"messageExpression {error}"
    if expression.type != t.STRING:
        return None, "messageExpression must evaluate to a string"
    return expression, ""


def _normalized(path: str, schema: JsonObject) -> str | None:
    """None: the path leads nowhere."""
    try:
        return field_at(schema, path)[0]
    except FieldPathError:
        return None


def rule_errors(schema: JsonObject, path: str, *, is_resource: bool = True) -> Iterator[FieldError]:
    """What is wrong with the rules of a sound schema and of what is inside of it."""
    for index, rule in enumerate(compiled_rules(schema, is_resource=is_resource)):
        yield from _errors_of(rule, schema, f"{path}.{RULES}[{index}]")
    inner = {f"properties[{name}]": of for name, of in (schema.get("properties") or {}).items()}
    inner |= {word: schema[word] for word in ("items", "additionalProperties") if isinstance(schema.get(word), dict)}
    for step, of in inner.items():
        yield from rule_errors(of, f"{path}.{step}", is_resource=bool(of.get("x-kubernetes-embedded-resource")))


def _errors_of(rule: CompiledRule, schema: JsonObject, path: str) -> list[FieldError]:
    source, errors = rule.source, []
    if rule.error:
        errors.append(invalid(f"{path}.rule", source["rule"], rule.error))
    elif rule.expression is None:
        errors.append(required(f"{path}.rule", "rule is not specified"))
    if rule.message_error:
        errors.append(invalid(f"{path}.messageExpression", source["messageExpression"], rule.message_error))
    if source.get("reason") is not None and source["reason"] not in _REASONS:
        errors.append(not_supported(f"{path}.reason", source["reason"], _REASONS))
    if source.get("fieldPath") and _normalized(source["fieldPath"], schema) is None:
        errors.append(invalid(f"{path}.fieldPath", source["fieldPath"], "must be a valid path"))
    return errors
