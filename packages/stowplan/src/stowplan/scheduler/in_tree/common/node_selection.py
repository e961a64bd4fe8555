"""Nodes that match a pod's selectors and tolerations, as masks.

A requirement refers to one label, and a label column stores each value once: the requirement is evaluated per distinct
value (as a lookup array over codes) and spread over the rows by indexing. Taints work alike: one result per distinct
set of taints. Masks over all rows depend on node objects alone, so they are cached until one of these changes, and
shared by equal selectors of different pods.

Rows without a node get arbitrary results.

Upstream: k8s.io/component-helpers/scheduling/corev1/nodeaffinity and corev1/helpers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

import numpy as np

from stowplan.kube.api.label_selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, Requirement
from stowplan.kube.api.node_selectors import NODE_NAME_FIELD, NodeSelectorMatcher, NodeTerm, RequiredNodeAffinity
from stowplan.kube.api.taints import untolerated
from stowplan.scheduler.cluster.arrays import Ints, Mask, Rows, Values
from stowplan.scheduler.cluster.labels import LabelColumn
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes

T = TypeVar("T", bound="Hashable")

#: A view with this factor fewer rows than the table is evaluated directly: a mask of all rows would not pay off.
_SMALL_PART = 8


def required_node_affinity_mask(table: NodeTable, pod: PodInfo) -> Mask | None:
    """Rows that satisfy the pod's nodeSelector and required node affinity; None: all of them.

    Has length `table.n`; shared and read-only.
    """
    affinity = pod.shape.required_node_affinity
    if affinity.node_selector is None and affinity.required is None:
        return None
    mask: Mask = table.memo(("required node affinity", affinity), lambda: _affinity_mask(table, affinity, None))
    return mask


def matches_required_affinity(nodes: Nodes, affinity: RequiredNodeAffinity) -> Mask:
    """`required_node_affinity_mask` for the nodes of a view."""
    return _of_view(nodes, "required node affinity", affinity, _affinity_mask)


def matches_selector(nodes: Nodes, matcher: NodeSelectorMatcher) -> Mask:
    """Nodes of a view that satisfy a node selector."""
    return _of_view(nodes, "node selector", matcher, matcher_mask)


def preference(nodes: Nodes, terms: tuple[tuple[int, NodeTerm], ...]) -> Ints:
    """Sum of the weights of matching terms, per node of a view."""
    return _of_view(nodes, "preferred node affinity", terms, _weights)


def _of_view(nodes: Nodes, name: str, what: T, compute: Callable[[NodeTable, T, Rows | None], Values]) -> Values:
    table = nodes.table
    if nodes.rows is not None and len(nodes.rows) * _SMALL_PART < table.n:
        # DaemonSet pods each name one node: thousands of selectors, each evaluated for a single row.
        return compute(table, what, nodes.rows)
    return nodes.take(table.memo((name, what), lambda: compute(table, what, None)))


def _weights(table: NodeTable, terms: tuple[tuple[int, NodeTerm], ...], rows: Rows | None) -> Ints:
    total = np.zeros(table.n if rows is None else len(rows), np.int64)
    for weight, term in terms:
        total += weight * term_mask(table, term, rows)
    return total


def _affinity_mask(table: NodeTable, affinity: RequiredNodeAffinity, rows: Rows | None) -> Mask:
    mask = _everything(table, rows)
    if affinity.node_selector is not None:
        for requirement in affinity.node_selector.requirements:
            mask &= requirement_mask(table, requirement, rows)
    if affinity.required is not None:
        mask &= matcher_mask(table, affinity.required, rows)
    return mask


def matcher_mask(table: NodeTable, matcher: NodeSelectorMatcher, rows: Rows | None = None) -> Mask:
    """Rows that match some term; none if there are no terms."""
    mask = ~_everything(table, rows)
    for term in matcher.terms:
        mask |= term_mask(table, term, rows)
    return mask


def term_mask(table: NodeTable, term: NodeTerm, rows: Rows | None = None) -> Mask:
    """Rows that meet all requirements of a term; none if it does not parse."""
    mask = _everything(table, rows)
    if term.errors:
        return ~mask
    for requirement in term.expressions:
        mask &= requirement_mask(table, requirement, rows)
    for field in term.fields:
        mask &= _field_mask(table, field, rows)
    return mask


def requirement_mask(table: NodeTable, requirement: Requirement, rows: Rows | None = None) -> Mask:
    """Rows that meet a requirement."""
    column = table.label(requirement.key)
    codes = column.codes[: table.n] if rows is None else column.codes[rows]
    operator = requirement.operator
    mask: Mask
    if operator == EXISTS:
        mask = codes != 0
    elif operator == DOES_NOT_EXIST:
        mask = codes == 0
    elif operator in (IN, NOT_IN):
        mask = _listed(column, requirement)[codes] == (operator == IN)
    else:
        lookup: Mask = table.memo(("comparison", requirement), lambda: _compared(column, requirement))
        mask = lookup[codes]
    return mask


def _listed(column: LabelColumn, requirement: Requirement) -> Mask:
    lookup = np.zeros(column.size, np.bool_)
    lookup[[column.code(value) for value in requirement.values]] = True
    lookup[0] = False
    return lookup


def _compared(column: LabelColumn, requirement: Requirement) -> Mask:
    lookup = np.zeros(column.size, np.bool_)
    for value, code in column.items():
        lookup[code] = requirement.matches({requirement.key: value})
    return lookup


def _field_mask(table: NodeTable, field: Requirement, rows: Rows | None) -> Mask:
    mask = ~_everything(table, rows)
    if field.key == NODE_NAME_FIELD:
        for name in field.values:
            row = table.row_of.get(name)
            if row is not None:
                mask |= _is_row(mask, row, rows)
    elif "" in field.values:
        # Parity: a field that nodes do not have is treated as the empty string.
        mask[:] = True
    return mask if field.operator == IN else ~mask


def _is_row(like: Mask, row: int, rows: Rows | None) -> Mask:
    mask: Mask = np.zeros_like(like) if rows is None else rows == row
    if rows is None:
        mask[row] = True
    return mask


def _everything(table: NodeTable, rows: Rows | None) -> Mask:
    return np.ones(table.n if rows is None else len(rows), np.bool_)


def untolerated_mask(table: NodeTable, pod: PodInfo, comparison_operators: bool) -> Mask | None:
    """Rows with a NoSchedule or NoExecute taint that the pod does not tolerate; None: no row has one.

    Has length `table.n`; shared and read-only.
    """
    if len(table.taint_sets) == 1:
        return None
    tolerations = pod.pod.spec.tolerations
    key = ("untolerated taints", tolerations, comparison_operators)

    def compute() -> Mask | None:
        verdicts = [
            untolerated(taints, tolerations, comparison_operators=comparison_operators) is not None
            for taints in table.taint_sets.values
        ]
        mask: Mask = np.array(verdicts, np.bool_)[table.taint_set[: table.n]]
        return mask if mask.any() else None

    found: Mask | None = table.memo(key, compute)
    return found
