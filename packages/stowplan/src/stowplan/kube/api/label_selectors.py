"""Label selectors, compiled to values that can be matched, hashed and compared.

A `Selector` is an AND of requirements in canonical order, so equivalent selectors compare equal and can be interned. An
absent LabelSelector compiles to `NOTHING`, an empty one to `EVERYTHING`; only the latter is `empty`. A `matchLabels`
entry is an In with one value.

Upstream: k8s.io/apimachinery/pkg/labels/selector.go and apis/meta/v1/helpers.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from stowplan.kube.api.field_errors import aggregate, child, go_quote, invalid, invalid_list
from stowplan.kube.api.labels import label_key_errors, label_value_errors
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.kube.api.meta import LabelSelector, LabelSelectorRequirement

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
GT = "Gt"
LT = "Lt"

LABEL_SELECTOR_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
NODE_SELECTOR_OPERATORS = (*LABEL_SELECTOR_OPERATORS, GT, LT)

_INTEGER_RE = re.compile(r"[+-]?0*(?P<digits>[0-9]+)")
_INT64_DIGITS = 19
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class SelectorError(ValueError):
    """A selector that does not parse; has the reference's message."""


class Requirement(PlainStruct, frozen=True, order=True):
    key: str
    operator: str
    #: Sorted, without duplicates, if built by this package.
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        operator = self.operator
        if operator == IN:
            return value is not None and value in self.values
        if operator == NOT_IN:
            return value is None or value not in self.values
        if operator == EXISTS:
            return value is not None
        if operator == DOES_NOT_EXIST:
            return value is None
        return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        left = parse_int64(value)
        right = parse_int64(self.values[0]) if len(self.values) == 1 else None
        if left is None or right is None:
            return False
        return left > right if self.operator == GT else self.operator == LT and left < right


class Selector(PlainStruct, frozen=True):
    #: ANDed. Sorted and without duplicates; build with `selector_of` to ensure that.
    requirements: tuple[Requirement, ...] = ()
    #: Matches no object at all, and adding requirements does not change that.
    nothing: bool = False

    @property
    def empty(self) -> bool:
        """Whether it matches everything."""
        return not self.nothing and not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        for requirement in self.requirements:  # noqa: SIM110 - a generator costs twice as much here
            if not requirement.matches(labels):
                return False
        return True

    def with_equalities(self, equalities: Mapping[str, str]) -> Selector:
        return self.merge(selector_from_map(equalities))

    def merge(self, other: Selector) -> Selector:
        if self.nothing or other.nothing:
            return NOTHING
        return selector_of((*self.requirements, *other.requirements))


NOTHING = Selector(nothing=True)
EVERYTHING = Selector()


def selector_of(requirements: Iterable[Requirement]) -> Selector:
    return Selector(requirements=tuple(sorted(set(requirements))))


def selector_from_map(labels: Mapping[str, str]) -> Selector:
    """AND of equalities, not validated: node selectors of pods, selectors of services."""
    return Selector(requirements=tuple(Requirement(key, IN, (labels[key],)) for key in sorted(labels)))


def compile_label_selector(selector: LabelSelector | None) -> Selector:
    if selector is None:
        return NOTHING
    return _compile(tuple(sorted(selector.match_labels.items())), selector.match_expressions)


@lru_cache(maxsize=16384)
def _compile(labels: tuple[tuple[str, str], ...], expressions: tuple[LabelSelectorRequirement, ...]) -> Selector:
    requirements = [_compiled(key, IN, (value,)) for key, value in labels]
    for expression in expressions:
        if expression.operator not in LABEL_SELECTOR_OPERATORS:
            raise SelectorError(f"{go_quote(expression.operator)} is not a valid label selector operator")
        requirements.append(_compiled(expression.key, expression.operator, expression.values))
    return selector_of(requirements)


def _compiled(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    errors = requirement_errors(key, operator, values)
    if errors:
        raise SelectorError(aggregate(errors))
    return new_requirement(key, operator, values)


def new_requirement(key: str, operator: str, values: Iterable[str]) -> Requirement:
    return Requirement(key, operator, tuple(sorted(set(values))))


def requirement_errors(key: str, operator: str, values: tuple[str, ...], path: str = "") -> list[str]:
    """All errors of a requirement whose operator is one of the six known ones."""
    values_path = child(path, "values")
    errors = []
    if complaints := label_key_errors(key):
        errors.append(invalid(child(path, "key"), key, "; ".join(complaints)))
    errors += _value_count_errors(operator, values, values_path)
    for index, value in enumerate(values):
        if complaints := label_value_errors(value):
            errors.append(invalid(f"{values_path}[{index}][{key}]", value, "; ".join(complaints)))
    return errors


def _value_count_errors(operator: str, values: tuple[str, ...], path: str) -> list[str]:
    if operator in (IN, NOT_IN):
        return [] if values else [invalid_list(path, values, "for 'in', 'notin' operators, values set can't be empty")]
    if operator in (EXISTS, DOES_NOT_EXIST):
        return [invalid_list(path, values, "values set must be empty for exists and does not exist")] if values else []
    return _comparison_errors(values, path)


def _comparison_errors(values: tuple[str, ...], path: str) -> list[str]:
    errors = []
    if len(values) != 1:
        errors.append(invalid_list(path, values, "for 'Gt', 'Lt' operators, exactly one value is required"))
    errors += [
        invalid(f"{path}[{index}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
        for index, value in enumerate(values)
        if parse_int64(value) is None
    ]
    return errors


@lru_cache(maxsize=16384)
def parse_int64(text: str) -> int | None:
    """Parse a decimal like Go's ParseInt(text, 10, 64); None if it is invalid or does not fit."""
    match = _INTEGER_RE.fullmatch(text)
    if match is None or len(match["digits"]) > _INT64_DIGITS:
        return None
    number = int(text[0] + match["digits"]) if text[0] == "-" else int(match["digits"])
    return number if _INT64_MIN <= number <= _INT64_MAX else None
