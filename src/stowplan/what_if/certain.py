"""Pods that certainly find another node, whichever it is.

If a filter judges each node by itself, a node that fits a pod keeps fitting it until some pod is added to it. So of
ten pods, each finds a node if more than nine others fit it now. To predict the loss of a node this is often all that
has to be known, and it is the same for all pods of a shape, whichever node is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stowplan.what_if.claims import uses_claims
from stowplan.what_if.pods import compiled_copies

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo, PodShape
    from stowplan.offline import Cluster

    #: Rows that fit a pod, and their number.
    Fitting = tuple[npt.NDArray[np.bool_], int]


class CertainPods:
    """Valid while the cluster does not change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: By shape of the placed pod; None: unknown.
        self._fitting: dict[PodShape, Fitting | None] = {}

    def find_nodes(self, pods: Sequence[PodInfo], lost: Sequence[str]) -> bool:
        """Whether all of these pods certainly find a node, without preemption, once those on the lost nodes are gone.

        `pods` are on lost nodes, and will be recreated. False: it is unknown.
        """
        rows = [self._cluster.state.table.row_of[name] for name in lost]
        for info in pods:
            if info.pod.spec.scheduling_group is not None or uses_claims(info.pod):
                return False
        for shape, info in {info.shape: info for info in pods}.items():
            if shape not in self._fitting:
                self._fitting[shape] = self._fitting_of(info)
            fitting = self._fitting[shape]
            if fitting is None or fitting[1] - int(np.count_nonzero(fitting[0][rows])) < len(pods):
                return False
        return True

    def _fitting_of(self, info: PodInfo) -> Fitting | None:
        (fresh,) = compiled_copies(self._cluster.state, [info])
        mask = self._cluster.lasting_nodes(fresh)
        return None if mask is None else (mask, int(np.count_nonzero(mask)))
