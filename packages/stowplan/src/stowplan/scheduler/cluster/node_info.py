"""One node, as passed to node-level plugins.

A thin wrapper of the columns; nothing is copied before it is accessed.

Upstream: pkg/scheduler/framework/types.go (NodeInfo).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan.kube.api.types import Node
    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.cluster.ports import Port
    from stowplan.scheduler.cluster.view import Nodes


class NodeInfo:
    """A node with the aggregates of its pods; valid only within the call that it was passed to."""

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
