"""Judge objects by the rules of their schema.

A part that is null is judged by the rules of what it is part of. Rules about `oldSelf` are left out where there is no
old part, unless they take it as an optional. On an update the other rules are left out for parts that have not changed,
so that an object stays updatable after its schema has become stricter.

Upstream: apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

import base64
import binascii
from contextlib import suppress
from functools import cached_property
from typing import Any

from stowplan.kube.api.api_errors import NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID, FieldError
from stowplan.kube.api.field_errors import child
from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import CostLimitExceeded, EvaluationStopped, ValueProblem
from stowplan.kube.cel.environment import CompiledExpression
from stowplan.kube.cel.time_text import read_timestamp
from stowplan.kube.cel.values import NONE, Optional, Value
from stowplan_cluster.apiserver.custom.correlation import list_map_key
from stowplan_cluster.apiserver.custom.formats import duration_of
from stowplan_cluster.apiserver.custom.rules.compilation import (
    OLD_SELF,
    SELF,
    CompiledRule,
    as_resource,
    compiled_rules,
    escaped,
)
from stowplan_cluster.apiserver.objects import JsonObject, equal
from stowplan_cluster.apiserver.validation.field_errors import (
    NO_PATH,
    OMITTED,
    duplicate,
    duplicate_value,
    forbidden,
    invalid,
    invalid_value,
    required,
)

# Parts of custom resources as values of expressions.
#
# Fields that no schema describes are no fields for expressions; only whether two objects are equal depends on them.
# Unlike upstream, lists that are sets or maps by their schema are equal in the same order only.
#
# Upstream: k8s.io/apiserver/pkg/cel/common/valuesunstructured.go.


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


#: What the evaluation of one expression, and of all rules of an object, may cost.
_CALL_LIMIT, _OBJECT_LIMIT = 1_000_000, 10_000_000
_MAX_MESSAGE = 5 * 1024
_BLOCKING = frozenset({NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID})
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation"
)


class RuleTree:
    """The rules of a schema and of what is inside of it; None stands for no rules."""

    def __init__(self, schema: JsonObject, *, is_resource: bool) -> None:
        self.schema = schema
        self.rules = compiled_rules(schema, is_resource=is_resource)
        #: The schema by which values are made.
        self.of_values = as_resource(schema) if is_resource else schema
        inner = {name: _inner_tree(of) for name, of in (schema.get("properties") or {}).items()}
        self.properties = {name: tree for name, tree in inner.items() if tree is not None}
        self.items = _inner_tree(schema.get("items"))
        self.others = _inner_tree(schema.get("additionalProperties"))


def rule_tree(schema: JsonObject, *, is_resource: bool = True) -> RuleTree | None:
    tree = RuleTree(schema, is_resource=is_resource)
    return tree if tree.rules or tree.properties or tree.items or tree.others else None


def _inner_tree(schema: Any) -> RuleTree | None:
    if not isinstance(schema, dict):
        return None
    return rule_tree(schema, is_resource=bool(schema.get("x-kubernetes-embedded-resource")))


def violations(
    tree: RuleTree | None, obj: JsonObject, old: JsonObject | None, errors: list[FieldError]
) -> list[FieldError]:
    """What the rules say of an object that has these errors already."""
    if tree is None:
        return []
    if any(error.reason in _BLOCKING for error in errors):
        return [invalid_value(NO_PATH, None, _NOT_CHECKED)]
    judging = _Judging()
    with suppress(_OverBudgetError):
        judging.judge(tree, "", obj, old)
    return judging.found


class _OverBudgetError(Exception):
    """No further rules are evaluated."""


class _Judging:
    """The evaluation of all rules of one object."""

    def __init__(self) -> None:
        self.found: list[FieldError] = []
        self._budget = _OBJECT_LIMIT

    def judge(self, tree: RuleTree, path: str, value: Any, old: Any, *, same: bool = False) -> None:
        """`same`: it is inside of a list that has not changed, whose elements cannot be told apart."""
        if value is None:
            return
        same = same or (old is not None and equal(value, old))
        if tree.rules:
            self._judge_part(_Part(tree, path, value, old), unchanged=same)
        if isinstance(value, list) and tree.items is not None:
            before = _by_key(tree.schema, old)
            for index, item in enumerate(value):
                old_one = before.get(list_map_key(tree.schema, item)) if before else None
                self.judge(tree.items, f"{path}[{index}]", item, old_one, same=same)
        if isinstance(value, dict):
            olds = old if isinstance(old, dict) else {}
            for name, item in value.items():
                if (inner := tree.properties.get(name)) is not None:
                    self.judge(inner, child(path, name), item, olds.get(name), same=same)
                elif tree.others is not None:
                    self.judge(tree.others, f"{path}[{name}]", item, olds.get(name), same=same)

    def _judge_part(self, part: _Part, *, unchanged: bool) -> None:
        for rule in part.tree.rules:
            if rule.error:
                self.found.append(part.says(f"rule compile error: {rule.error}"))
            elif rule.expression is not None and _applies(rule, part, unchanged=unchanged):
                self._judge_by(rule, rule.expression, part)

    def _judge_by(self, rule: CompiledRule, expression: CompiledExpression, part: _Part) -> None:
        try:
            passed = self._evaluated(expression, part.variables(rule))
        except CostLimitExceeded as problem:
            what = f"'{problem}': no further validation rules will be run due to call cost exceeds limit for rule"
            self.found.append(part.says(f"{what}: {rule.text}"))
            raise _OverBudgetError from None
        except (ValueProblem, EvaluationStopped) as problem:
            self.found.append(part.says(f"{problem} evaluating rule: {rule.text}"))
        else:
            if passed is not True:
                at = child(part.path, rule.field_path) if rule.field_path else part.shown_path
                self.found.append(_error_of(rule, at, part.shown_value, self._message(rule, part)))

    def _message(self, rule: CompiledRule, part: _Part) -> str:
        """What a violation is told in; the rule's own text where its expression has no answer."""
        if rule.message_expression is not None:
            found: Value = ""
            with suppress(CostLimitExceeded, ValueProblem, EvaluationStopped):
                found = self._evaluated(rule.message_expression, part.variables(rule))
            message = found.strip() if isinstance(found, str) else ""
            if message and "\n" not in message and len(message.encode()) <= _MAX_MESSAGE:
                return message
        return (rule.source.get("message") or "").strip() or f"failed rule: {rule.text}"

    def _evaluated(self, expression: CompiledExpression, variables: dict[str, Value]) -> Value:
        limit = min(_CALL_LIMIT, self._budget)
        try:
            value, cost = expression.program.run(variables, limit=limit)
        except CostLimitExceeded:
            self._budget -= limit
            raise
        self._budget -= cost
        return value


def _applies(rule: CompiledRule, part: _Part, *, unchanged: bool) -> bool:
    if rule.uses_old_self:
        return part.old is not None or rule.takes_optional_old_self
    return not unchanged


class _Part:
    """A part of an object, as its rules see it."""

    def __init__(self, tree: RuleTree, path: str, value: Any, old: Any) -> None:
        self.tree = tree
        self.path = path
        self.shown_path = path or NO_PATH
        self.old = old
        self._value = value
        self._type: str = tree.schema.get("type") or ""

    @property
    def shown_value(self) -> object:
        return OMITTED if self._type in ("object", "array") else self._value

    def says(self, text: str) -> FieldError:
        return invalid(self.shown_path, self._type, text)

    def variables(self, rule: CompiledRule) -> dict[str, Value]:
        """Raises a `ValueProblem` where the part is not as its schema says."""
        old: Value = None
        if rule.takes_optional_old_self:
            old = NONE if self.old is None else Optional(self._old_self)
        elif rule.uses_old_self:
            old = self._old_self
        return {SELF: self._self, OLD_SELF: old}

    @cached_property
    def _self(self) -> Value:
        return value_of(self.tree.of_values, self._value)

    @cached_property
    def _old_self(self) -> Value:
        return value_of(self.tree.of_values, self.old)


def _by_key(schema: JsonObject, old: Any) -> dict[str, Any]:
    """The elements of an old list, if its elements can be told apart."""
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return {}
    return {list_map_key(schema, item): item for item in old}


def _error_of(rule: CompiledRule, path: str, value: object, message: str) -> FieldError:
    match rule.source.get("reason"):
        case "FieldValueForbidden":
            return forbidden(path, message)
        case "FieldValueRequired":
            return required(path, message)
        case "FieldValueDuplicate":
            return duplicate(path, value) if value is OMITTED else duplicate_value(path, value)
    return invalid(path, value, message) if value is OMITTED else invalid_value(path, value, message)
