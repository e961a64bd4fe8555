"""Objects that describe nodes and have their names, such as custom resources that an agent on each node writes.

A plugin that reads one per node fills columns of its own from them, and asks which rows it has to fill again.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from stowplan.kube.api.types import Node
from stowplan.scheduler.cluster.state import ClusterState

T = TypeVar("T")


class NodeObjects(Generic[T]):
    """The objects of one kind, by rows of the node table."""

    def __init__(self, cluster: ClusterState, kind: type[T]) -> None:
        self._table = cluster.table
        self._objects = cluster.objects
        self._kind = kind
        self._log = cluster.objects.changes(kind)
        self._generation = self._position = -1
        #: What each row was filled from.
        self._seen: list[tuple[Node | None, Any]] = []

    def changed_rows(self) -> list[int]:
        """Rows whose node or object is another than at the last call; at the first call, all rows with a node."""
        table = self._table
        keys = self._log.since(self._position) if self._generation == table.generation else None
        rows = range(table.n) if keys is None else [table.row_of[key] for key in keys if key in table.row_of]
        self._generation, self._position = table.generation, self._log.position
        del self._seen[table.n :]
        self._seen += [(None, None)] * (table.n - len(self._seen))
        return [row for row in rows if self._moved(row)]

    def _moved(self, row: int) -> bool:
        node = self._table.nodes[row]
        found = None if node is None else self._objects.get(self._kind, node.metadata.name)
        before = self._seen[row]
        self._seen[row] = node, found
        return node is not before[0] or found is not before[1]
