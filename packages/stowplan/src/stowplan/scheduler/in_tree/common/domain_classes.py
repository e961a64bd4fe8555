"""Nodes that are in the same domain of each of some topology keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stowplan.scheduler.cluster.arrays import Codes
from stowplan.scheduler.cluster.labels import LabelColumn
from stowplan.scheduler.cluster.node_table import NodeTable


class DomainClasses(NamedTuple):
    """Read-only."""

    #: The class of each row.
    of_row: Codes
    #: For each key, the domain code of each class.
    codes: list[Codes]
    size: int


def domain_classes(table: NodeTable, columns: Sequence[LabelColumn]) -> DomainClasses:
    """The classes by these columns, cached while no node changes."""
    key = ("domain classes", tuple(column.key for column in columns))
    found: DomainClasses = table.memo(key, lambda: _find(table, columns))
    return found


def _find(table: NodeTable, columns: Sequence[LabelColumn]) -> DomainClasses:
    if not columns:
        return DomainClasses(np.zeros(table.n, np.intp), [], 1)
    if len(columns) == 1:
        return DomainClasses(columns[0].codes[: table.n], [np.arange(columns[0].size)], columns[0].size)
    combined = columns[0].codes[: table.n]
    for column in columns[1:]:
        # Numbered anew after each column: the product of many sizes would overflow.
        pairs = combined * column.size + column.codes[: table.n]
        _, first, combined = np.unique(pairs, return_index=True, return_inverse=True)
    return DomainClasses(combined, [column.codes[first] for column in columns], len(first))
