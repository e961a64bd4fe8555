"""The context of an explanation: pod, nodes, rejections, and filters for another pod.

A placed pod was judged as if it were pending, and an inspection sees the same cluster: without the pod. The cluster
consists of public columns (`table`, one value per row) and can be judged again, so explanations do not depend on the
internal state of other plugins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from stowplan.kube.api.types import Node
from stowplan.scheduler.cluster.arrays import Mask, Rows
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.status import Reason

_SHORT_KEYS = {
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "kubernetes.io/hostname": "hostname",
}


class Inspection(ABC):
    """One pod, the filters' results for it, and the cluster."""

    #: The node that the pod was taken off; "" if it is pending.
    current_node = ""

    def __init__(self, cluster: ClusterState, pod: PodInfo, diagnosis: Diagnosis | None) -> None:
        self.cluster = cluster
        self.table = cluster.table
        self.pod = pod
        #: None if no filter ran, as for a gated pod.
        self.diagnosis = diagnosis

    @abstractmethod
    def filtered(self, pod: PodInfo) -> Diagnosis | None:
        """The filters' results for another pod on every node; None if they fail."""

    @property
    def names(self) -> list[str]:
        """Node names by row; "" for rows without a node."""
        return self.table.names

    @cached_property
    def valid(self) -> Mask:
        """Rows that hold a node."""
        return self.table.valid[: self.table.n].copy()

    @cached_property
    def masks(self) -> dict[str, Mask]:
        """Plugin -> rows that it rejects, including those that another plugin rejected first."""
        diagnosis = self.diagnosis
        return {} if diagnosis is None else {name: found.mask & self.valid for name, found in diagnosis.filtered}

    def refused_for(self, plugin: str, reason: Reason) -> Mask:
        """Rows that a plugin rejects for one reason, by its code."""
        return mask_of(self.diagnosis, plugin, reason, self.table.n)

    def node(self, row: int) -> Node:
        node = self.table.nodes[row]
        assert node is not None, f"row {row} holds no node"
        return node

    def named(self, rows: Rows | Sequence[int]) -> list[str]:
        return [self.names[row] for row in (rows.tolist() if isinstance(rows, np.ndarray) else rows)]

    def pods_like(self, matches: Callable[[PodShape], bool]) -> list[PodInfo]:
        """Placed pods, on existing nodes, whose shape matches; evaluated once per shape."""
        answers: dict[int, bool] = {}
        found = []
        for info in self.cluster.placed_pods():
            key = id(info.shape)
            if key not in answers:
                answers[key] = matches(info.shape)
            if answers[key] and info.row >= 0:
                found.append(info)
        return found

    def domain(self, key: str, row: int) -> str:
        """`zone=a`, or "" on a node without the label; well-known keys are shortened to their last part."""
        column = self.table.label(key)
        code = int(column.codes[row])
        return f"{_SHORT_KEYS.get(key, key)}={column.values[code]}" if code else ""


def mask_of(diagnosis: Diagnosis | None, plugin: str, reason: Reason, length: int) -> Mask:
    """Rows that a plugin rejects for one reason, by its code; none without a diagnosis."""
    found = np.zeros(length, np.bool_)
    for name, rejections in diagnosis.filtered if diagnosis is not None else ():
        for entry in rejections.entries if name == plugin else ():
            if entry.reason.code == reason.code:
                found |= entry.mask
    return found
