"""Which rules a definition may have: they compile, can be correlated, and cannot cost too much.

What a rule may cost counts as often as there can be such a part: as often as limits of lists and maps around it say, or
as often as it fits into a request.

Upstream: apiextensions-apiserver/pkg/apis/apiextensions/validation (validation.go, cel_validation.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stowplan.cel.estimated_calls import MOST
from stowplan.structs import PlainStruct
from stowplan_cluster.apiserver.custom.field_paths import FieldPathError, field_at
from stowplan_cluster.apiserver.custom.rules.compilation import RULES, compiled_rules, max_cardinality
from stowplan_cluster.apiserver.custom.rules.declared_types import declared_type
from stowplan_cluster.apiserver.validation.fields import (
    Errors,
    forbidden,
    internal_error,
    invalid,
    not_supported,
    required,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan_cluster.apiserver.custom.rules.compilation import CompiledRule
    from stowplan_cluster.apiserver.objects import JsonObject

#: What a rule, and all rules of a schema, may cost.
_RULE_LIMIT, _SCHEMA_LIMIT = 10_000_000, 100_000_000
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NO_TYPE = (
    f"internal error: failed to construct type information for {RULES} rules: "
    "unable to convert structural schema to CEL declarations"
)
_CONTRIBUTED = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are"
    " declared)"
)


# -- their form -------------------------------------------------------------------------------------------------------


def form_errors(schema: JsonObject, path: str) -> Errors:
    """What is wrong with the rules of one schema before they are compiled."""
    errors: Errors = []
    for at, rule in _rules(schema, path):
        text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            errors.append(required(f"{at}.rule", "rule is not specified"))
        elif message and not message.strip():
            errors.append(invalid(f"{at}.message", message, "must be non-empty if specified"))
        elif _has_line_breaks(message.strip()):
            errors.append(invalid(f"{at}.message", message, "must not contain line breaks"))
        elif _has_line_breaks(text) and not message.strip():
            errors.append(required(f"{at}.message", "message must be specified if rule contains line breaks"))
        expression = rule.get("messageExpression") or ""
        if expression and not expression.strip():
            errors.append(required(f"{at}.messageExpression", "messageExpression must be non-empty if specified"))
        if rule.get("reason") is not None and rule["reason"] not in _REASONS:
            errors.append(not_supported(f"{at}.reason", rule["reason"], _REASONS))
        errors += _field_path_errors(schema, rule.get("fieldPath") or "", f"{at}.fieldPath")
    return errors


def _rules(schema: JsonObject, path: str) -> Iterator[tuple[str, JsonObject]]:
    for index, rule in enumerate(schema.get(RULES) or ()):
        yield f"{path}.{RULES}[{index}]", rule


def _field_path_errors(schema: JsonObject, path: str, at: str) -> Errors:
    errors: Errors = []
    if path and not path.strip():
        errors.append(invalid(at, path, "must be non-empty if specified"))
    if _has_line_breaks(path):
        errors.append(invalid(at, path, "must not contain line breaks"))
    if path:
        try:
            field_at(schema, path)
        except FieldPathError:
            errors.append(invalid(at, path, "must be a valid path"))
    return errors


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


# -- what they mean ---------------------------------------------------------------------------------------------------


class _Place(PlainStruct, frozen=True):
    path: str
    is_resource: bool
    #: How many such parts there can be, by the limits around them; None: there is a list or map without one.
    cardinality: int | None = 1
    #: The innermost enclosing list whose elements cannot be correlated.
    uncorrelatable: str = ""

    def inside(self, schema: JsonObject, step: str, of: JsonObject) -> _Place:
        most = _max_elements(schema)
        known = None if self.cardinality is None or most is None else min(MOST, self.cardinality * most)
        is_resource = bool(of.get("x-kubernetes-embedded-resource"))
        return replace(self, path=f"{self.path}.{step}", is_resource=is_resource, cardinality=known)


def _max_elements(schema: JsonObject) -> int | None:
    """By how much a schema multiplies what is inside of it."""
    most: int | None = 1
    if schema.get("type") == "array":
        most = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        most = schema.get("maxProperties")
    return None if most is None else max(0, most)


def rule_errors(schema: JsonObject, path: str, known: Errors) -> Errors:
    """What is wrong with all rules of a schema that has these errors; where those are, rules are not looked at."""
    checked = _Checked([error.field for error in known])
    checked.walk(schema, _Place(path, is_resource=True))
    return checked.errors + checked.total_errors(path)


class _Checked:
    """The rules of a whole schema, compiled."""

    def __init__(self, wrong: list[str]) -> None:
        self.errors: Errors = []
        #: Paths with errors.
        self._wrong = wrong
        self._total = 0
        self._most_expensive: list[tuple[int, str]] = []

    def walk(self, schema: JsonObject, place: _Place) -> None:
        if schema.get(RULES) and not self._is_wrong(place.path):
            self._check(schema, place)
        others, items = schema.get("additionalProperties"), schema.get("items")
        if isinstance(others, dict):
            self.walk(others, place.inside(schema, "additionalProperties", others))
        for name, of in (schema.get("properties") or {}).items():
            self.walk(of, place.inside(schema, f"properties[{name}]", of))
        if isinstance(items, dict):
            inner = place.inside(schema, "items", items)
            if schema.get("x-kubernetes-list-type") != "map":
                inner = replace(inner, uncorrelatable=place.path)
            self.walk(items, inner)

    def _is_wrong(self, path: str) -> bool:
        return any(at == path or at.startswith((f"{path}.", f"{path}[")) for at in self._wrong)

    def _check(self, schema: JsonObject, place: _Place) -> None:
        declared = declared_type(schema, is_resource=place.is_resource)
        if declared is None:
            self.errors.append(internal_error(f"{place.path}.{RULES}", _NO_TYPE))
            return
        cardinality = max_cardinality(declared) if place.cardinality is None else place.cardinality
        for (at, source), rule in zip(_rules(schema, place.path), compiled_rules(schema, declared), strict=True):
            self._charge(f"{at}.rule", "estimated rule cost", rule.max_cost * cardinality)
            if rule.error:
                self.errors.append(invalid(f"{at}.rule", _as_go(source), rule.error))
            if rule.message_error:
                self.errors.append(invalid(f"{at}.messageExpression", _as_go(source), rule.message_error))
            elif rule.message_expression is not None:
                self._charge(f"{at}.messageExpression", "estimated messageExpression cost", rule.max_message_cost)
            self._check_old_self(rule, at, place)

    def _check_old_self(self, rule: CompiledRule, at: str, place: _Place) -> None:
        source = rule.source
        if rule.uses_old_self and place.uncorrelatable:
            what = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelatable}"
            self.errors.append(invalid(f"{at}.rule", source.get("rule"), what))
        elif not rule.uses_old_self and source.get("optionalOldSelf") is not None:
            what = "may not be set if oldSelf is not used in rule"
            self.errors.append(invalid(f"{at}.optionalOldSelf", source["optionalOldSelf"], what))

    # -- cost -----------------------------------------------------------------------------------------------------

    def _charge(self, at: str, what: str, cost: int) -> None:
        cost = min(MOST, cost)
        if cost > _RULE_LIMIT:
            self.errors.append(forbidden(at, _too_costly(what, cost, _RULE_LIMIT)))
        self._total = min(MOST, self._total + cost)
        if cost >= _SCHEMA_LIMIT // 100:
            expensive = sorted([*self._most_expensive, (cost, at)], key=lambda one: -one[0])
            self._most_expensive = expensive[:4]

    def total_errors(self, path: str) -> Errors:
        if self._total <= _SCHEMA_LIMIT:
            return []
        what = f"{RULES} estimated rule cost total for entire OpenAPIv3 schema"
        whole = forbidden(path, _too_costly(what, self._total, _SCHEMA_LIMIT))
        return [*(forbidden(at, _CONTRIBUTED) for _, at in self._most_expensive), whole]


def _too_costly(what: str, cost: int, limit: int) -> str:
    times = cost / limit
    factor = f"{times:.6f}x" if times < 1.5 else f"{times:.1f}x"
    factor = "more than 100x" if times > 100 else factor
    return f"{what} exceeds budget by factor of {factor} {_ADVICE}"


def _as_go(rule: JsonObject) -> dict[str, Any]:
    """A rule as errors show it."""
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
