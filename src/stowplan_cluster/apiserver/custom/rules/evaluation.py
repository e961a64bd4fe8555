"""Judge objects by the rules of their schema.

A part that is null is judged by the rules of what it is part of. Rules about `oldSelf` are left out where there is no
old part, unless they take it as an optional. On an update, a violation in a part that has not changed is a warning, but
for rules about `oldSelf`. All rules of an object together may cost so much and no more.

Upstream: apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import field

from stowplan.api.api_errors import NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID
from stowplan.api.field_errors import child
from stowplan.cel.errors import CostLimitExceeded, EvaluationStopped, ValueProblem
from stowplan.cel.values import NONE, Optional
from stowplan.structs import PlainStruct
from stowplan_cluster.apiserver.custom.correlation import ABSENT, list_map_key, old_field, old_item
from stowplan_cluster.apiserver.custom.errors import NO_PATH, duplicate_value, invalid_value
from stowplan_cluster.apiserver.custom.rules.compilation import OLD_SELF, RULES, SELF, compiled_rules
from stowplan_cluster.apiserver.custom.rules.declared_types import as_resource, declared_type
from stowplan_cluster.apiserver.custom.rules.values import value_of
from stowplan_cluster.apiserver.json_values import equal
from stowplan_cluster.apiserver.validation.fields import OMITTED, Errors, duplicate, forbidden, invalid, required

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stowplan.api.api_errors import FieldError
    from stowplan.cel.environment import CompiledExpression
    from stowplan.cel.values import Value
    from stowplan_cluster.apiserver.custom.correlation import Old
    from stowplan_cluster.apiserver.custom.rules.compilation import CompiledRule
    from stowplan_cluster.apiserver.objects import JsonObject

#: What the evaluation of one expression, and of all rules of an object, may cost.
_CALL_LIMIT, _OBJECT_LIMIT = 1_000_000, 10_000_000
_MAX_MESSAGE = 5 * 1024
_BLOCKING = frozenset({NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID})
_SPENT = "due to running out of cost budget, no further validation rules will be run"
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation"
)


class Violations(PlainStruct):
    errors: Errors = field(default_factory=list)
    #: Violations that are tolerated because the old object has them, too (ratcheting).
    warnings: list[str] = field(default_factory=list)


class RuleTree:
    """The rules of a schema and of what is inside of it; None stands for no rules."""

    def __init__(self, schema: JsonObject, rules: list[CompiledRule], *, is_resource: bool) -> None:
        self.schema = schema
        self.rules = rules
        self.uses_old_self = any(rule.uses_old_self for rule in rules)
        self.properties: dict[str, RuleTree] = {}
        self.items: RuleTree | None = None
        self.others: RuleTree | None = None
        self._is_resource = is_resource

    @property
    def of_values(self) -> JsonObject:
        """The schema by which values are made."""
        return as_resource(self.schema) if self._is_resource else self.schema


def rule_tree(schema: JsonObject, *, is_resource: bool = True) -> RuleTree | None:
    if not _has_rules(schema):
        return None
    declared = declared_type(schema, is_resource=is_resource)
    if declared is None:
        return None
    tree = RuleTree(schema, compiled_rules(schema, declared) if schema.get(RULES) else [], is_resource=is_resource)
    for name, of in (schema.get("properties") or {}).items():
        if (inner := _inner_tree(of)) is not None:
            tree.properties[name] = inner
    tree.items, tree.others = _inner_tree(schema.get("items")), _inner_tree(schema.get("additionalProperties"))
    return tree


def _inner_tree(schema: Any) -> RuleTree | None:
    if not isinstance(schema, dict):
        return None
    return rule_tree(schema, is_resource=bool(schema.get("x-kubernetes-embedded-resource")))


def _has_rules(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    parts = (schema.get("items"), schema.get("additionalProperties"), *(schema.get("properties") or {}).values())
    return bool(schema.get(RULES)) or any(map(_has_rules, parts))


def object_violations(tree: RuleTree | None, obj: JsonObject, old: JsonObject | None, errors: Errors) -> Violations:
    """What the rules say of an object that has these errors already."""
    if tree is None:
        return Violations()
    if any(error.reason in _BLOCKING for error in errors):
        return Violations([invalid_value(NO_PATH, None, _NOT_CHECKED)])
    return violations(tree, obj, old, ratchets=old is not None)


def violations(tree: RuleTree, value: Any, old: Any, *, path: str = "", ratchets: bool = False) -> Violations:
    """`old` of None: there is none. Without `ratchets`, a violation is one also where nothing has changed."""
    judging = _Judging()
    with suppress(_NoMoreRulesError):
        judging.judge(tree, path, value, old, _Unchanged(value, old if ratchets else ABSENT, None))
    return judging.found


class _NoMoreRulesError(Exception):
    """The budget is spent."""


class _Unchanged(NamedTuple):
    """Finds out whether a part, or else the nearest part around it that can be correlated, has not changed."""

    value: Any
    old: Old
    around: _Unchanged | None

    def __bool__(self) -> bool:
        if self.old is not ABSENT:
            return equal(self.value, self.old)
        return self.around is not None and equal(self.around.value, self.around.old)

    def field(self, schema: JsonObject, name: str) -> _Unchanged:
        if self.old is ABSENT:
            return self
        if self.around is None and name in ("apiVersion", "kind"):
            return _Unchanged(None, ABSENT, None)
        return _Unchanged(self.value[name], old_field(schema, name, self.old), self)

    def item(self, schema: JsonObject, index: int) -> _Unchanged:
        if self.old is ABSENT:
            return self
        return _Unchanged(self.value[index], old_item(schema, self.value, index, self.old), self)


class _Judging:
    """The evaluation of all rules of one object."""

    def __init__(self) -> None:
        self.found = Violations()
        self._budget = _OBJECT_LIMIT

    def judge(self, tree: RuleTree, path: str, value: Any, old: Any, unchanged: _Unchanged) -> None:
        if value is None:
            return
        if tree.rules:
            self._judge_part(tree, path, value, old, unchanged)
        schema = tree.schema
        if isinstance(value, list) and tree.items is not None:
            before = _by_key(schema, old)
            for index, item in enumerate(value):
                old_one = before.get(list_map_key(schema, item)) if before else None
                self.judge(tree.items, f"{path}[{index}]", item, old_one, unchanged.item(schema, index))
        if not isinstance(value, dict):
            return
        olds = old if isinstance(old, dict) else {}
        for name, item in value.items():
            inner = tree.properties.get(name)
            if inner is not None:
                self.judge(inner, child(path, name), item, olds.get(name), unchanged.field(schema, name))
            elif tree.others is not None:
                self.judge(tree.others, f"{path}[{name}]", item, olds.get(name), unchanged.field(schema, name))

    def _judge_part(self, tree: RuleTree, path: str, value: Any, old: Any, unchanged: _Unchanged) -> None:
        part = _Part(tree, path or NO_PATH, path, value, old)
        if self._budget <= 0:
            self._refuse(part.says(f"validation failed {_SPENT}"))
        for rule in tree.rules:
            if rule.error:
                self.found.errors.append(part.says(f"rule compile error: {rule.error}"))
            elif rule.expression is not None and (
                not rule.uses_old_self or old is not None or rule.takes_optional_old_self
            ):
                self._judge_by(rule, rule.expression, part, unchanged)

    def _judge_by(self, rule: CompiledRule, expression: CompiledExpression, part: _Part, unchanged: _Unchanged) -> None:
        try:
            passed = self._evaluated(expression, part.variables(rule))
        except _OverBudgetError:
            self._refuse(part.says(f"validation failed {_SPENT}"))
        except CostLimitExceeded as problem:
            what = f"'{problem}': no further validation rules will be run due to call cost exceeds limit for rule"
            self._refuse(part.says(f"{what}: {rule.text}"))
        except (ValueProblem, EvaluationStopped) as problem:
            text = f"{problem} evaluating rule: {rule.text}"
            if str(problem).startswith("no such overload"):
                what = "call arguments did not match a supported operator, function or macro signature"
                text = f"'{problem}': {what} for rule: {rule.text}"
            self.found.errors.append(part.says(text))
        else:
            if passed is not True:
                self._violated(rule, part, unchanged)

    def _violated(self, rule: CompiledRule, part: _Part, unchanged: _Unchanged) -> None:
        at = child(part.path, rule.field_path) if rule.field_path else part.shown_path
        try:
            message = self._message(rule, part)
        except _MessageError as problem:
            self._refuse(invalid(at, part.type, str(problem)))
        error = _error_of(rule, at, part.shown_value, message)
        if not rule.uses_old_self and unchanged:
            self.found.warnings.append(str(error))
        else:
            self.found.errors.append(error)

    def _message(self, rule: CompiledRule, part: _Part) -> str:
        """What a violation is told in; the rule's own text where its expression has no answer."""
        text = rule.source.get("messageExpression") or ""
        if rule.message_expression is not None:
            try:
                found = self._evaluated(rule.message_expression, part.variables(rule))
            except _OverBudgetError:
                raise _MessageError(f"messageExpression evaluation failed {_SPENT}") from None
            except CostLimitExceeded:
                what = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
                raise _MessageError(f'{what}: "{text}"') from None
            except (ValueProblem, EvaluationStopped):
                found = ""
            message = found.strip() if isinstance(found, str) else ""
            if message and "\n" not in message and len(message.encode()) <= _MAX_MESSAGE:
                return message
        return (rule.source.get("message") or "").strip() or f"failed rule: {rule.text}"

    def _evaluated(self, expression: CompiledExpression, variables: Mapping[str, Value]) -> Value:
        value, cost = expression.program.run(variables, limit=_CALL_LIMIT)
        if cost > self._budget:
            raise _OverBudgetError
        self._budget -= cost
        return value

    def _refuse(self, error: FieldError) -> None:
        """The last error: no more rules are looked at."""
        self.found.errors.append(error)
        raise _NoMoreRulesError


class _OverBudgetError(Exception):
    """An expression has cost more than was left."""


class _MessageError(Exception):
    """An expression for a message has cost too much."""


class _Part:
    """A part of an object, as its rules see it."""

    def __init__(self, tree: RuleTree, shown_path: str, path: str, value: Any, old: Any) -> None:
        self._tree = tree
        self.shown_path = shown_path
        self.path = path
        self._value = value
        self._old = old
        self.type: str = tree.schema.get("type") or ""
        self._self: Value = None
        self._old_self: Value = None
        self._is_read = False

    @property
    def shown_value(self) -> object:
        return OMITTED if self.type in ("object", "array") else self._value

    def says(self, text: str) -> FieldError:
        return invalid(self.shown_path, self.type, text)

    def variables(self, rule: CompiledRule) -> dict[str, Value]:
        """Raises a `ValueProblem` where the part is not as its schema says."""
        if not self._is_read:
            self._self = value_of(self._tree.of_values, self._value)
            if self._tree.uses_old_self and self._old is not None:
                self._old_self = value_of(self._tree.of_values, self._old)
            self._is_read = True
        old = self._old_self
        if rule.takes_optional_old_self:
            old = NONE if self._old is None else Optional(old)
        return {SELF: self._self, OLD_SELF: old}


def _by_key(schema: JsonObject, old: Any) -> dict[str, Any]:
    """The elements of an old list, if its elements can be told apart."""
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return {}
    return dict(_keyed(schema, old))


def _keyed(schema: JsonObject, old: list[Any]) -> Iterator[tuple[str, Any]]:
    # The first of equal ones counts.
    for item in reversed(old):
        yield list_map_key(schema, item), item


def _error_of(rule: CompiledRule, path: str, value: object, message: str) -> FieldError:
    match rule.source.get("reason"):
        case "FieldValueForbidden":
            return forbidden(path, message)
        case "FieldValueRequired":
            return required(path, message)
        case "FieldValueDuplicate":
            return duplicate(path, value) if value is OMITTED else duplicate_value(path, value)
    return invalid(path, value, message) if value is OMITTED else invalid_value(path, value, message)
