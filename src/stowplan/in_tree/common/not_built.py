"""Plugins whose names a configuration may hold, and whose work is still to be built.

A pod that needs what one of them decides is refused with a reason that says so; it is never placed blindly. A pod
that does not need it passes as if the plugin were complete.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from stowplan.framework.interface import (
    FilterPlugin,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreFilterPlugin,
    PreFilterResult,
    Reads,
    ReservePlugin,
    ScorePlugin,
)
from stowplan.framework.status import SKIP, Reason, Status, unresolvable

if TYPE_CHECKING:
    import numpy.typing as npt

    from stowplan.cluster.pod_info import PodInfo
    from stowplan.cluster.view import Nodes
    from stowplan.framework.cycle_state import CycleState
    from stowplan.framework.rejections import Rejections

NOT_BUILT = Reason("NotBuiltYet", "Stowplan does not place {what} yet ({plugin})")

PODS_OF_GROUPS = "pods of pod groups"


class NotBuiltFilter(PreFilterPlugin, FilterPlugin):
    """Rejects in PreFilter the pods that the plugin's Filter would have to decide on."""

    reads = Reads.NODES

    @abstractmethod
    def _unsupported(self, pod: PodInfo) -> str | None:
        """Which kind of pod this is that the plugin cannot place yet; None if the pod does not need the plugin."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        what = self._unsupported(pod)
        return SKIP if what is None else unresolvable(NOT_BUILT.of(what=what, plugin=self.name))

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        return None


class NotBuiltBinding(NotBuiltFilter, ScorePlugin, ReservePlugin, PreBindPlugin):
    """With the later points: pods that need the plugin never get there, for others there is nothing to do."""

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> npt.NDArray[np.int64] | Status:
        return np.zeros(len(nodes), np.int64)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        return None

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreBindPreFlightResult | Status:
        return SKIP

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None
