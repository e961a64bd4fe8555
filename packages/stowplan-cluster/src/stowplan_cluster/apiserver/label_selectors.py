"""LabelSelectors in JSON: matching, and conversion to the `kubectl -l` syntax.

Upstream: k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go (LabelSelectorAsSelector), pkg/labels/selector.go (String).
"""

from __future__ import annotations

from stowplan.kube.api.label_selectors import (
    IN,
    LABEL_SELECTOR_OPERATORS,
    NOT_IN,
    Selector,
    SelectorError,
    compile_label_selector,
    requirement_errors,
)
from stowplan.kube.api.meta import LabelSelector, LabelSelectorRequirement
from stowplan_cluster.apiserver.objects import JsonObject


def compiled(selector: JsonObject | None) -> Selector | None:
    """Compile a selector; None if it is invalid. An absent selector matches nothing."""
    if selector is None:
        return compile_label_selector(None)
    expressions = tuple(
        LabelSelectorRequirement(
            key=entry.get("key", ""), operator=entry.get("operator", ""), values=tuple(entry.get("values") or ())
        )
        for entry in selector.get("matchExpressions") or ()
    )
    labels = selector.get("matchLabels") or {}
    try:
        return compile_label_selector(LabelSelector(match_labels=labels, match_expressions=expressions))
    except SelectorError:
        return None


def format_selector(selector: JsonObject | None) -> str:
    """Format as `kubectl -l` syntax; raise SelectorError if the selector is invalid."""
    labels = (selector or {}).get("matchLabels") or {}
    expressions = (selector or {}).get("matchExpressions") or []
    requirements = [(key, f"{key}={value}") for key, value in labels.items()]
    requirements += [(expression.get("key", ""), _format_expression(expression)) for expression in expressions]
    return ",".join(shown for _, shown in sorted(requirements, key=lambda requirement: requirement[0]))


def _format_expression(expression: JsonObject) -> str:
    key, operator = expression.get("key", ""), expression.get("operator", "")
    values = tuple(expression.get("values") or ())
    if operator not in LABEL_SELECTOR_OPERATORS or requirement_errors(key, operator, values):
        raise SelectorError(f"not a label selector requirement: {key} {operator}")
    if operator in (IN, NOT_IN):
        return f"{key} {'in' if operator == IN else 'notin'} ({','.join(sorted(values))})"
    return key if operator == "Exists" else f"!{key}"
