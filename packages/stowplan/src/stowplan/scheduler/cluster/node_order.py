"""The node order for sampling, which interleaves zones.

Upstream: pkg/scheduler/backend/cache/node_tree.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from stowplan.kube.api.types import Node
from stowplan.scheduler.cluster.arrays import Rows

#: (region, zone); two empty strings for a node without these labels.
Zone = tuple[str, str]


class NodeOrder:
    """The first node of each zone, then the second of each, and so on; zones and their nodes in order of appearance.

    A zone loses its position when its last node is removed. A node that changes its zone becomes the last one there.
    """

    def __init__(self) -> None:
        #: Zone -> the rows of its nodes, in order; the values are unused.
        self._zones: dict[Zone, dict[int, None]] = {}
        self._rows: Rows | None = None

    def add(self, row: int, zone: Zone) -> None:
        self._zones.setdefault(zone, {})[row] = None
        self._rows = None

    def remove(self, row: int, zone: Zone) -> None:
        rows = self._zones[zone]
        del rows[row]
        if not rows:
            del self._zones[zone]
        self._rows = None

    def move(self, row: int, old: Zone, new: Zone) -> None:
        if old != new:
            self.remove(row, old)
            self.add(row, new)

    def saved(self) -> Callable[[], None]:
        """A function that restores the current order."""
        zones, rows = {zone: dict(rows) for zone, rows in self._zones.items()}, self._rows

        def restore() -> None:
            self._zones, self._rows = zones, rows

        return restore

    def by_zone(self) -> list[tuple[Zone, list[int]]]:
        """The rows of each zone, in order."""
        return [(zone, list(rows)) for zone, rows in self._zones.items()]

    def load(self, by_zone: Iterable[tuple[Zone, Iterable[int]]]) -> None:
        self._zones = {zone: dict.fromkeys(rows) for zone, rows in by_zone}
        self._rows = None

    @property
    def rows(self) -> Rows:
        """The rows of all nodes in this order; read-only."""
        if self._rows is None:
            self._rows = self._by_turns()
        return self._rows

    def _by_turns(self) -> Rows:
        zones = [np.fromiter(rows, np.intp, len(rows)) for rows in self._zones.values()]
        if not zones:
            return np.zeros(0, np.intp)
        turns = np.concatenate([np.arange(len(rows)) for rows in zones])
        # Stable, so that zones keep their order within a round.
        return np.concatenate(zones)[np.argsort(turns, kind="stable")]


def zone_of(node: Node) -> Zone:
    labels = node.metadata.labels
    return _place(labels, "region"), _place(labels, "zone")


def _place(labels: dict[str, str], what: str) -> str:
    # Parity: the legacy label wins even if it is empty.
    return labels.get(f"failure-domain.beta.kubernetes.io/{what}", labels.get(f"topology.kubernetes.io/{what}", ""))
