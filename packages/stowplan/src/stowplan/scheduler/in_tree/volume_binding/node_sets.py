"""Nodes that match a selector, cached until the labels it reads change.

Thousands of local volumes each have a selector for a single node. Their rows are found by label value instead of
checking every node, and stay cached while only other labels change.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stowplan.kube.api.label_selectors import IN
from stowplan.kube.api.node_selectors import NodeSelectorMatcher
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.in_tree.common.node_selection import matcher_mask

#: Maximum number of cached row numbers in total; beyond that, the cache is cleared.
_MAX_KEPT = 8_000_000


class _ByValue:
    """The rows of a label column, in the order of their codes."""

    def __init__(self, codes: Rows) -> None:
        self._order = np.argsort(codes, kind="stable")
        self._ends = np.cumsum(np.bincount(codes))

    def rows(self, code: int) -> Rows:
        return self._order[self._ends[code - 1] : self._ends[code]]


class NodeSets:
    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._generation = -1
        self._n = -1
        #: Changes when cached rows are dropped.
        self.version = 0
        #: Label -> its column's version when it was used for a lookup.
        self._labels: dict[str, int] = {}
        self._rows: dict[NodeSelectorMatcher, Rows] = {}
        self._kept = 0
        self._by_value: dict[str, _ByValue] = {}
        self._all: Rows = np.zeros(0, np.intp)

    def refresh(self) -> None:
        """Drop results that node changes may have invalidated."""
        table = self._table
        if self._generation == table.generation and self._n == table.n:
            return
        self._generation = table.generation
        moved = any(table.label(key).version != version for key, version in self._labels.items())
        if moved or self._n != table.n:
            self._forget()
            self._n = table.n
            self._all = np.arange(table.n)

    def _forget(self) -> None:
        self.version += 1
        self._labels.clear()
        self._rows.clear()
        self._by_value.clear()
        self._kept = 0

    def rows(self, matcher: NodeSelectorMatcher | None) -> Rows:
        """The rows that a selector matches, ascending; rows without a node are arbitrary. None matches all."""
        if matcher is None:
            return self._all
        found = self._rows.get(matcher)
        if found is None:
            if self._kept > _MAX_KEPT:
                self._forget()
            found = self._rows[matcher] = self._look(matcher)
            self._kept += len(found)
        return found

    def mask(self, matcher: NodeSelectorMatcher | None) -> Mask:
        found = np.zeros(self._table.n, np.bool_)
        found[self.rows(matcher)] = True
        return found

    def _look(self, matcher: NodeSelectorMatcher) -> Rows:
        for term in matcher.terms:
            for requirement in term.expressions:
                self._labels.setdefault(requirement.key, self._table.label(requirement.key).version)
        expressions = matcher.terms[0].expressions if len(matcher.terms) == 1 else ()
        if len(expressions) == 1 and expressions[0].operator == IN and not matcher.terms[0].errors:
            return self._listed(expressions[0].key, expressions[0].values)
        return np.flatnonzero(matcher_mask(self._table, matcher))

    def _listed(self, key: str, values: Iterable[str]) -> Rows:
        """Rows whose label has one of the values."""
        column = self._table.label(key)
        by_value = self._by_value.get(key)
        if by_value is None:
            by_value = self._by_value[key] = _ByValue(column.codes[: self._table.n])
        parts = [by_value.rows(code) for value in values if (code := column.code(value))]
        if len(parts) == 1:
            return parts[0]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.intp)
