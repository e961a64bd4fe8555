"""Pods that certainly find another node, whichever it is.

If a filter judges each node by itself, a node that fits a pod keeps fitting it until some pod is added to it. So of
ten pods, each finds a node if more than nine others fit it now. Filters that count pods on other nodes can often name
sets of nodes, one of which they always accept: of the zones over which a pod must spread, the one with the fewest pods.

To predict the loss of a node this is often all that has to be known, and it is the same for all pods of a shape,
whichever node is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stowplan.ask.what_if.claims import uses_claims
from stowplan.ask.what_if.ordered_sets import FirstWaiting
from stowplan.ask.what_if.pods import compiled_copies

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stowplan.ask.offline import Cluster
    from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape

    #: The masks of `Cluster.lasting_sets`, each with its number of rows.
    Fitting = list[tuple[npt.NDArray[np.bool_], int]]


class CertainPods:
    """Valid while the cluster does not change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting = FirstWaiting(cluster)
        #: By shape of the placed pod and number of lost nodes; None: unknown.
        self._fitting: dict[tuple[PodShape, int], Fitting | None] = {}

    def find_nodes(self, pods: Sequence[PodInfo], lost: Sequence[str]) -> bool:
        """Whether all of these pods certainly find a node, without preemption, once those on the lost nodes are gone.

        `pods` are on lost nodes, and will be recreated. False: it is unknown.
        """
        rows = [self._cluster.state.table.row_of[name] for name in lost]
        for info in pods:
            if info.pod.spec.scheduling_group is not None or uses_claims(info.pod) or self._waiting.before(info):
                return False
        for shape, info in {info.shape: info for info in pods}.items():
            key = shape, len(rows)
            if key not in self._fitting:
                self._fitting[key] = self._fitting_of(info, len(rows))
            sets = self._fitting[key]
            if sets is None or any(size - int(np.count_nonzero(one[rows])) < len(pods) for one, size in sets):
                return False
        return True

    def _fitting_of(self, info: PodInfo, lost: int) -> Fitting | None:
        (fresh,) = compiled_copies(self._cluster.state, [info])
        sets = self._cluster.lasting_sets(fresh, lost)
        return None if sets is None else [(one, int(np.count_nonzero(one))) for one in sets]
