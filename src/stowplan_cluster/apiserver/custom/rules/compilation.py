"""The rules of one schema, compiled.

Upstream: apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.cel import types as t
from stowplan.cel.environment import CompiledExpression, Environment, environment
from stowplan.cel.errors import CompileError
from stowplan.cel.estimates import most_cost
from stowplan.structs import PlainStruct
from stowplan_cluster.apiserver.custom.field_paths import FieldPathError, field_at
from stowplan_cluster.apiserver.custom.rules.declared_types import MAX_REQUEST, Declared

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

RULES = "x-kubernetes-validations"
SELF, OLD_SELF = "self", "oldSelf"
#: Only devices and admission policies have it.
_WITHOUT_MACROS = frozenset({"bind"})


class CompiledRule(PlainStruct, frozen=True):
    source: JsonObject
    #: None: the rule is blank, or there is an error.
    expression: CompiledExpression | None = None
    error: str = ""
    uses_old_self: bool = False
    max_cost: int = 0
    message_expression: CompiledExpression | None = None
    message_error: str = ""
    max_message_cost: int = 0
    #: Where in the part a violation is reported.
    field_path: str = ""

    @property
    def takes_optional_old_self(self) -> bool:
        return bool(self.source.get("optionalOldSelf"))

    @property
    def text(self) -> str:
        """What errors call it."""
        return ((self.source.get("message") or "") or (self.source.get("rule") or "")).strip()


def max_cardinality(declared: Declared) -> int:
    """How often there can be such a part in one object."""
    return MAX_REQUEST // (declared.min_size + 1)


def compiled_rules(schema: JsonObject, declared: Declared) -> list[CompiledRule]:
    fields = dict(declared.structs())
    environments = {
        optional: environment(
            {SELF: declared.type, OLD_SELF: t.optional_of(declared.type) if optional else declared.type},
            fields,
            without_macros=_WITHOUT_MACROS,
        )
        for optional in (False, True)
    }
    return [
        _compiled(rule, schema, environments[bool(rule.get("optionalOldSelf"))], declared)
        for rule in schema.get(RULES) or ()
    ]


def _compiled(rule: JsonObject, schema: JsonObject, among: Environment, declared: Declared) -> CompiledRule:
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
        max_cost=_cost(expression, declared),
        message_expression=message,
        message_error=message_error,
        max_message_cost=0 if message is None else _cost(message, declared),
        field_path=_normalized(rule.get("fieldPath") or "", schema),
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


def _cost(expression: CompiledExpression, declared: Declared) -> int:
    return most_cost(expression.root, expression.checked, lambda path: declared.at(path[1:]))


def _normalized(path: str, schema: JsonObject) -> str:
    try:
        return field_at(schema, path)[0] if path else ""
    except FieldPathError:
        return ""
