"""The pods to evict so that a pod fits on a node, or a pod group in the cluster.

A PostFilter decides on a plan and returns it in its `PostFilterResult`, or `PodGroupPostFilterResult` for a group;
deciding changes nothing. The live scheduler carries the plan out after the decision. Whoever only asks, or schedules in
memory, leaves it at that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.api.types import PodGroup
    from stowplan.cluster.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that would take the pod once its victims have left."""

    node_name: str
    #: Most important first.
    victims: tuple[PodInfo, ...]
    pdb_violations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionPlan:
    """A decision to evict pods from a node for the sake of another."""

    preemptor: PodInfo
    node_name: str
    #: Most important first. The last one is evicted once all others are through.
    victims: tuple[PodInfo, ...]
    #: Name of the plugin that decided; metrics and messages to pods that wait on Permit name it.
    plugin: str
    #: How many of the evictions exceed what a PodDisruptionBudget allows.
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvictionPlan:
    """A decision to evict pods, on whichever nodes they are, for the sake of a pod group."""

    group: PodGroup
    #: The members that were tried, at least one.
    pods: tuple[PodInfo, ...]
    #: Most important first; pods that are evicted as a unit come one after the other.
    victims: tuple[PodInfo, ...]
    #: Name of the plugin that decided.
    plugin: str
