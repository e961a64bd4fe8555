"""Build the eviction plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.framework.eviction_plan import EvictionPlan

if TYPE_CHECKING:
    from stowplan.cluster.pod_info import PodInfo
    from stowplan.framework.eviction_plan import Candidate


def eviction_plan(pod: PodInfo, selected: Candidate, *, plugin: str) -> EvictionPlan:
    """The plan that clears the selected node for the pod."""
    return EvictionPlan(
        preemptor=pod,
        node_name=selected.node_name,
        victims=selected.victims,
        plugin=plugin,
        pdb_violations=selected.pdb_violations,
    )
