"""A plugin's view of the node table: all rows, or a subset.

Plugins read columns through a `Nodes` view and return arrays of the view's length, so one piece of plugin code serves
all nodes in a cycle, the changed rows in a reuse, and hypothetical nodes in preemption's dry run (`HypotheticalNodes`
in `hypothetical.py` answers the questions about pods differently; everything else is the same).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stowplan.cluster.node_info import NodeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stowplan.cluster.labels import LabelColumn
    from stowplan.cluster.pod_info import Disk, PodInfo
    from stowplan.cluster.ports import Port
    from stowplan.cluster.state import ClusterState


class Nodes:
    """Columns of the cluster, restricted to `rows` (None: all rows)."""

    def __init__(self, state: ClusterState, rows: npt.NDArray[np.intp] | None = None) -> None:
        self.state = state
        self.table = state.table
        self.rows = rows
        #: Positions that are still in question (None: all); only plugins that loop over nodes look at it.
        self.candidates: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return self.table.n if self.rows is None else len(self.rows)

    def take(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The view's part of a column, or of a matrix of columns; not to be written to."""
        # take() costs a fifth of indexing with an ellipsis.
        return column[..., : self.table.n] if self.rows is None else column.take(self.rows, axis=-1)

    def row(self, i: int) -> int:
        """Table row of the view's i-th node."""
        return i if self.rows is None else int(self.rows[i])

    def positions(self) -> list[int]:
        """The view's nodes that are still in question, for loops."""
        present = self.take(self.table.valid)
        wanted = present if self.candidates is None else present & self.candidates
        found: list[int] = np.flatnonzero(wanted).tolist()
        return found

    def restricted(self, rows: npt.NDArray[np.intp]) -> Nodes:
        """The same cluster, fewer rows (table row numbers)."""
        return Nodes(self.state, rows)

    # -- node objects -------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        names = self.table.names
        return names if self.rows is None else [names[row] for row in self.rows.tolist()]

    def label(self, key: str) -> LabelColumn:
        return self.table.label(key)

    def codes(self, key: str) -> npt.NDArray[np.intp]:
        """Codes of a label's values, 0 where the node lacks it."""
        return self.take(self.table.label(key).codes)

    def allocatable(self, resource: int) -> npt.NDArray[np.int64]:
        return self.take(self.table.allocatable[resource])

    # -- what pods take -----------------------------------------------------------------------------------------------

    def requested(self, resource: int | slice) -> npt.NDArray[np.int64]:
        """What pods request of a resource; of several, a row each."""
        return self.take(self.table.requested[resource])

    def non_zero_requested(self, resource: int | slice) -> npt.NDArray[np.int64]:
        """cpu (0) or memory (1), containers that name none counted with the scheduler's defaults."""
        return self.take(self.table.non_zero_requested[resource])

    def pod_count(self) -> npt.NDArray[np.int64]:
        return self.take(self.table.pod_count)

    def port_conflicts(self, wanted: Sequence[Port]) -> npt.NDArray[np.bool_]:
        """Where some wanted host port is taken."""
        taken = np.zeros(self.table.n, np.bool_)
        taken[self.state.ports.conflicting_rows(wanted)] = True
        return self.take(taken)

    def disk_conflicts(self, disks: Sequence[Disk]) -> npt.NDArray[np.bool_]:
        """Where a pod mounts one of these disks in a way that excludes another mount."""
        found = np.zeros(self.table.n, np.bool_)
        found[self.state.disks.conflicting_rows(disks)] = True
        return self.take(found)

    def pods(self, i: int) -> Sequence[PodInfo]:
        """Pods on the view's i-th node, in the node's order."""
        return self.state.row_pods[self.row(i)]

    def info(self, i: int) -> NodeInfo:
        """The view's i-th node by itself, for plugins that look at one node at a time."""
        row = self.row(i)
        node = self.table.nodes[row]
        assert node is not None
        return NodeInfo(node, self, i)
