"""A plugin's view of the node table: all rows, or a subset.

Plugins read columns through a `Nodes` view and return arrays of the view's length. The same plugin code thereby serves
all nodes in a cycle, the changed rows when results are reused, and hypothetical nodes in preemption's dry run
(`HypotheticalNodes` in `hypothetical.py`, which only differs in what it returns for pods).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from stowplan.kube.api.types import Node
from stowplan.kube.compiled import mypyc_attr
from stowplan.scheduler.cluster.arrays import Codes, Ints, Mask, Rows, Values
from stowplan.scheduler.cluster.labels import LabelColumn
from stowplan.scheduler.cluster.pod_info import Disk, PodInfo
from stowplan.scheduler.cluster.ports import Port
from stowplan.scheduler.cluster.state import ClusterState


def unwritable(array: Values) -> Values:
    """A view of the array that cannot be written through."""
    found = array.view()
    found.flags.writeable = False
    return found


class Nodes:
    """Columns of the cluster, restricted to `rows` (None: all rows)."""

    _protected = False

    def __init__(self, state: ClusterState, rows: Rows | None = None) -> None:
        self.state = state
        self.table = state.table
        self.rows = rows
        #: Positions that remain (None: all); only read by plugins that loop over nodes.
        self.candidates: Mask | None = None

    def __len__(self) -> int:
        return self.table.n if self.rows is None else len(self.rows)

    def __bool__(self) -> bool:
        return len(self) > 0

    def take(self, column: Values) -> Values:
        """The view's part of a column, or of a matrix of columns; read-only."""
        if self.rows is not None:
            # A fifth of the time of indexing with an ellipsis.
            return column.take(self.rows, axis=-1)
        part = column[..., : self.table.n]
        if self._protected:
            part.flags.writeable = False
        return part

    def row(self, i: int) -> int:
        """Table row of the view's i-th node."""
        return i if self.rows is None else int(self.rows[i])

    def positions(self) -> list[int]:
        """The positions of remaining nodes, for loops."""
        present = self.take(self.table.valid)
        wanted = present if self.candidates is None else present & self.candidates
        found: list[int] = np.flatnonzero(wanted).tolist()
        return found

    def restricted(self, rows: Rows) -> Nodes:
        """A view of the same cluster with fewer rows (table row numbers)."""
        return Nodes(self.state, rows)

    def protected(self) -> Nodes:
        """The same view for code that may write to arrays by mistake (`nodes.requested(cpu) += …`): that raises."""
        return Nodes(self.state, self.rows)._protecting(self)

    def _protecting(self, view: Nodes) -> Nodes:
        self._protected = True
        if view.candidates is not None:
            self.candidates = unwritable(view.candidates)
        return self

    # -- node objects -------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        names = self.table.names
        return names if self.rows is None else [names[row] for row in self.rows.tolist()]

    def label(self, key: str) -> LabelColumn:
        return self.table.label(key)

    def codes(self, key: str) -> Codes:
        """The codes of a label's values, 0 for nodes without the label."""
        return self.take(self.table.label(key).codes)

    def allocatable(self, resource: int) -> Ints:
        return self.take(self.table.allocatable[resource])

    # -- resource usage of pods ----------------------------------------------------------------------------------------

    def requested(self, resource: int | slice) -> Ints:
        """The requested amount of a resource per node; for several resources, one row each."""
        return self.take(self.table.requested[resource])

    def non_zero_requested(self, resource: int | slice) -> Ints:
        """Requested cpu (0) or memory (1), with the scheduler's defaults for containers that request none."""
        return self.take(self.table.non_zero_requested[resource])

    def pod_count(self) -> Ints:
        return self.take(self.table.pod_count)

    def port_conflicts(self, wanted: Sequence[Port]) -> Mask:
        """Nodes on which some wanted host port is in use."""
        taken = np.zeros(self.table.n, np.bool_)
        taken[self.state.ports.conflicting_rows(wanted)] = True
        return self.take(taken)

    def disk_conflicts(self, disks: Sequence[Disk]) -> Mask:
        """Nodes on which a mount of one of these disks excludes another mount."""
        found = np.zeros(self.table.n, np.bool_)
        found[self.state.disks.conflicting_rows(disks)] = True
        return self.take(found)

    def pods(self, i: int) -> Sequence[PodInfo]:
        """Pods on the view's i-th node, in the node's order."""
        return self.state.row_pods[self.row(i)]

    def info(self, i: int) -> NodeInfo:
        """The view's i-th node as an object, for node-level plugins."""
        row = self.row(i)
        node = self.table.nodes[row]
        assert node is not None
        return NodeInfo(node, self, i)


class SumsColumn:
    """Numbers for each row that follow from the sums of its pods, kept between pods.

    The values are those of the nodes at `_generation` and the pods at `_position` in the change log, as in the columns
    of the engine (`engine/evaluation/columns.py`).
    """

    def __init__(self) -> None:
        self._values: Values = np.zeros(0, np.int64)
        self._state: ClusterState | None = None
        self._names: tuple[str, ...] = ()
        self._generation = -1
        self._position = -1

    def of(self, nodes: Nodes, names: tuple[str, ...], compute: Callable[[Nodes], Values]) -> Values:
        """What `compute` says of nodes by the sums of these resources, as a new array; read-only."""
        if nodes.rows is not None:
            return compute(nodes)
        state, generation = nodes.state, nodes.table.generation
        known = state is self._state and generation == self._generation and names == self._names
        # None, too, if the position is of a transaction that was undone.
        changed = state.changes.since(self._position) if known else None
        if changed is None or len(changed) > len(nodes) / 2:
            self._values = compute(nodes)
        elif changed:
            rows = np.array(changed, np.intp)
            self._values[..., rows] = compute(Nodes(state, rows))
        self._state, self._names = state, names
        self._generation, self._position = generation, state.changes.position
        return self._values


@mypyc_attr(native_class=False)
class NodeInfo:
    """One node with the aggregates of its pods, for node-level plugins; valid only within the call it was passed to.

    A thin wrapper of the columns; nothing is copied before it is accessed.

    Upstream: pkg/scheduler/framework/types.go (NodeInfo).
    """

    def __init__(self, node: Node, nodes: Nodes, index: int) -> None:
        self.node = node
        self._nodes = nodes
        self._index = index

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        return self.node.metadata.labels

    @property
    def annotations(self) -> dict[str, str]:
        return self.node.metadata.annotations

    @property
    def pods(self) -> Sequence[PodInfo]:
        return self._nodes.pods(self._index)

    @cached_property
    def allocatable(self) -> dict[str, int]:
        """Resource name -> amount (cpu in millicores). For the number of pods see `allowed_pods`."""
        return {name: int(self._nodes.allocatable(i)[self._index]) for name, i in self._nodes.table.resources.items()}

    @cached_property
    def requested(self) -> dict[str, int]:
        return {name: int(self._nodes.requested(i)[self._index]) for name, i in self._nodes.table.resources.items()}

    @property
    def non_zero_requested(self) -> tuple[int, int]:
        cpu, memory = (int(self._nodes.non_zero_requested(i)[self._index]) for i in (0, 1))
        return cpu, memory

    @property
    def allowed_pods(self) -> int:
        return int(self._nodes.take(self._nodes.table.allowed_pods)[self._index])

    @property
    def used_ports(self) -> frozenset[Port]:
        return frozenset(port for pod in self.pods for port in pod.shape.host_ports)

    @property
    def image_sizes(self) -> dict[str, int]:
        return {name: image.size_bytes for image in self.node.status.images for name in image.names}
