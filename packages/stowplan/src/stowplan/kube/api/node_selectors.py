"""Node selectors and node affinity: ORed terms over a node's labels and its name.

A term that does not parse matches no node, and its error only counts if no other term matched. `NodeSelectorMatcher`
therefore never fails to compile; `match_or_error` is for the one caller that needs the error, and the `*_errors`
functions are for configuration validation.

The only node field is `metadata.name`. An unknown field is treated as the empty string, and for a node without a name
field requirements count as satisfied.

Upstream: k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from stowplan.kube.api.field_errors import aggregate, child, invalid_list, not_supported
from stowplan.kube.api.label_selectors import (
    IN,
    NODE_SELECTOR_OPERATORS,
    NOT_IN,
    Requirement,
    Selector,
    SelectorError,
    new_requirement,
    requirement_errors,
    selector_from_map,
)
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.kube.api.affinity import (
        NodeSelector,
        NodeSelectorRequirement,
        NodeSelectorTerm,
        PreferredSchedulingTerm,
    )
    from stowplan.kube.api.pod import Pod

NODE_NAME_FIELD = "metadata.name"


class NodeTerm(PlainStruct, frozen=True):
    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    #: Why the term does not parse; such a term matches nothing.
    errors: tuple[str, ...] = ()

    @property
    def error(self) -> str | None:
        return aggregate(self.errors) if self.errors else None

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if self.errors:
            return False
        for requirement in self.expressions:
            if not requirement.matches(labels):
                return False
        return not name or not self.fields or all(_field_matches(field, name) for field in self.fields)


def _field_matches(requirement: Requirement, name: str) -> bool:
    value = name if requirement.key == NODE_NAME_FIELD else ""
    return (value in requirement.values) == (requirement.operator == IN)


@dataclass(frozen=True, slots=True)
class NodeSelectorMatcher:
    #: Valid and invalid terms in order; terms without any requirement are omitted.
    terms: tuple[NodeTerm, ...] = ()
    #: Cached, as it is a key, or part of one, several times in a cycle.
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.terms))

    def __hash__(self) -> int:
        return self._hash

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        for term in self.terms:  # noqa: SIM110 - a generator costs twice as much here
            if term.matches(labels, name):
                return True
        return False

    def match_or_error(self, labels: Mapping[str, str], name: str) -> bool:
        """Like `matches`, but raises if no term matched and some term does not parse."""
        if self.matches(labels, name):
            return True
        errors = [error for term in self.terms for error in term.errors]
        if errors:
            raise SelectorError(aggregate(errors))
        return False


@lru_cache(maxsize=16384)
def compile_node_selector(selector: NodeSelector, path: str = "") -> NodeSelectorMatcher:
    terms_path = child(path, "nodeSelectorTerms")
    terms = (
        compile_node_term(term, f"{terms_path}[{index}]")
        for index, term in enumerate(selector.node_selector_terms)
        if not _is_empty(term)
    )
    return NodeSelectorMatcher(tuple(terms))


@lru_cache(maxsize=16384)
def compile_preferred_terms(terms: tuple[PreferredSchedulingTerm, ...]) -> tuple[tuple[int, NodeTerm], ...]:
    """Weighted terms; those without weight or requirements are dropped unparsed."""
    compiled = _preferred(terms, "")
    errors = [error for _, term in compiled for error in term.errors]
    if errors:
        raise SelectorError(aggregate(errors))
    return compiled


def node_selector_errors(selector: NodeSelector, path: str = "") -> list[str]:
    return _unique(error for term in compile_node_selector(selector, path).terms for error in term.errors)


def preferred_terms_errors(terms: tuple[PreferredSchedulingTerm, ...], path: str = "") -> list[str]:
    return _unique(error for _, term in _preferred(terms, path) for error in term.errors)


def _preferred(terms: tuple[PreferredSchedulingTerm, ...], path: str) -> tuple[tuple[int, NodeTerm], ...]:
    return tuple(
        (term.weight, compile_node_term(term.preference, f"{path}[{index}]"))
        for index, term in enumerate(terms)
        if term.weight and not _is_empty(term.preference)
    )


def _unique(errors: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(errors))


def compile_node_term(term: NodeSelectorTerm, path: str = "") -> NodeTerm:
    errors: list[str] = []
    for index, expression in enumerate(term.match_expressions):
        errors += _expression_errors(expression, f"{child(path, 'matchExpressions')}[{index}]")
    for index, expression in enumerate(term.match_fields):
        errors += _field_errors(expression, f"{child(path, 'matchFields')}[{index}]")
    if errors:
        return NodeTerm(errors=tuple(errors))
    return NodeTerm(expressions=_requirements(term.match_expressions), fields=_requirements(term.match_fields))


def _requirements(entries: tuple[NodeSelectorRequirement, ...]) -> tuple[Requirement, ...]:
    return tuple(sorted({new_requirement(entry.key, entry.operator, entry.values) for entry in entries}))


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _expression_errors(expression: NodeSelectorRequirement, path: str) -> list[str]:
    if expression.operator not in NODE_SELECTOR_OPERATORS:
        return [not_supported(child(path, "operator"), expression.operator, NODE_SELECTOR_OPERATORS)]
    return requirement_errors(expression.key, expression.operator, expression.values, path)


def _field_errors(field: NodeSelectorRequirement, path: str) -> list[str]:
    if field.operator not in (IN, NOT_IN):
        return [not_supported(child(path, "operator"), field.operator, (IN, NOT_IN))]
    if len(field.values) != 1:
        return [invalid_list(child(path, "values"), field.values, "must have one element")]
    return []


class RequiredNodeAffinity(PlainStruct, frozen=True):
    """A pod's required node constraints: its nodeSelector map and its required node affinity."""

    node_selector: Selector | None = None
    required: NodeSelectorMatcher | None = None

    @classmethod
    def from_pod(cls, pod: Pod) -> RequiredNodeAffinity:
        spec = pod.spec
        node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
        return cls(
            node_selector=selector_from_map(spec.node_selector) if spec.node_selector else None,
            required=compile_node_selector(required) if required is not None else None,
        )

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if self.node_selector is not None and not self.node_selector.matches(labels):
            return False
        return self.required is None or self.required.matches(labels, name)

    def match_or_error(self, labels: Mapping[str, str], name: str) -> bool:
        if self.node_selector is not None and not self.node_selector.matches(labels):
            return False
        return self.required is None or self.required.match_or_error(labels, name)
