"""How full nodes are: shares of what they have that is requested."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.scheduler.cluster.arrays import Floats
from stowplan.scheduler.cluster.node_table import NodeTable

#: Of which a node's use is measured.
COUNTED = ("cpu", "memory")


def requested_shares(table: NodeTable, rows: Sequence[int] | None = None) -> Floats:
    """By counted resource, and row; None: all rows."""
    columns = np.arange(table.n) if rows is None else np.asarray(rows, np.intp)
    cells = np.ix_(np.array([table.resource(name) for name in COUNTED]), columns)
    return np.asarray(table.requested[cells] / np.maximum(table.allocatable[cells], 1))
