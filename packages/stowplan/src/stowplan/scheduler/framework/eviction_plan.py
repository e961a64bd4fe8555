"""Eviction plans: the pods to evict so that a pod fits on a node, or a pod group in the cluster.

A PostFilter plugin decides on a plan and returns it in its `PostFilterResult` (`PodGroupPostFilterResult` for a group).
Deciding has no side effects. The live scheduler carries the plan out after the decision; questions and in-memory
scheduling do not.
"""

from __future__ import annotations

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_groups import AnyGroup
from stowplan.scheduler.cluster.pod_info import PodInfo


class Candidate(PlainStruct, frozen=True):
    """A node that would fit the pod once the victims have left."""

    node_name: str
    #: Most important first.
    victims: tuple[PodInfo, ...]
    pdb_violations: int


class EvictionPlan(PlainStruct, frozen=True, kw_only=True):
    """A decision to evict pods from a node in favor of a pod."""

    preemptor: PodInfo
    node_name: str
    #: Most important first. The last one is evicted after all others are done.
    victims: tuple[PodInfo, ...]
    #: The plugin that decided; used in metrics and in messages to pods that wait on Permit.
    plugin: str
    #: Number of evictions that violate a PodDisruptionBudget.
    pdb_violations: int = 0


class GroupEvictionPlan(PlainStruct, frozen=True, kw_only=True):
    """A decision to evict pods, on any nodes, in favor of a pod group."""

    group: AnyGroup
    #: The group members that were tried; at least one.
    pods: tuple[PodInfo, ...]
    #: Most important first; pods that are evicted as a unit are adjacent.
    victims: tuple[PodInfo, ...]
    #: The plugin that decided.
    plugin: str
    #: Number of evictions that violate a PodDisruptionBudget; since 1.37.
    pdb_violations: int = 0
