"""Remedies: changes to try for each class of rejected nodes.

A remedy assigns every row a class: 0 if the plugin does not reject it; `HOPELESS` if no change helps; otherwise rows of
one class need the same change (tolerate these taints, drop those requirements). Combining the classes of all plugins
shows what each node would need, without trying changes at random. Every change is verified on the cluster before it is
suggested, so a remedy may propose changes that turn out not to help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from stowplan.kube.api.types import Node
from stowplan.scheduler.cluster.arrays import Mask, Rows, Values
from stowplan.scheduler.framework.explanations.changes import Change, Way
from stowplan.scheduler.framework.explanations.grouping import classes, split
from stowplan.scheduler.framework.explanations.inspection import Inspection

HOPELESS = -1


class Remedy:
    """Classes of rejected rows; by default all of them are hopeless."""

    def __init__(self, inspection: Inspection, mask: Mask) -> None:
        self.inspection = inspection
        #: The class of each row.
        self.classes = np.where(mask, HOPELESS, 0).astype(np.intp)
        self._last = 0

    def add_class(self, rows: Rows) -> int:
        """Put rows into a class of their own and return its number."""
        self._last += 1
        self.classes[rows] = self._last
        return self._last

    def alike(self, rows: Rows, columns: Iterable[Values]) -> list[Rows]:
        """Groups of rows with equal values in all columns (one value per row of the table), the largest group first."""
        return split(rows, classes([column[rows] for column in columns], len(rows)))

    def ways(self, kind: int, rows: Rows) -> Sequence[Way]:
        """Ways to resolve the rejections of one class; `rows` are the nodes to gain."""
        return ()


def one_or_all(inspection: Inspection, rows: Rows, change: Callable[[Sequence[Node]], Change]) -> list[Way]:
    """A change of nodes, once for the first node and once for all of them."""
    nodes = [inspection.node(row) for row in rows.tolist()]
    ways: list[Way] = [(change(nodes[:1]),)]
    return [*ways, (change(nodes),)] if len(nodes) > 1 else ways
