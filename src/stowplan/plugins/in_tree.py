"""The registry of the plugins that come with the scheduler."""

from __future__ import annotations

from stowplan.framework.registry import Registry
from stowplan.plugins.default_binder import DefaultBinder
from stowplan.plugins.default_preemption import DefaultPreemption
from stowplan.plugins.image_locality import ImageLocality
from stowplan.plugins.inter_pod_affinity import InterPodAffinity
from stowplan.plugins.node_affinity import NodeAffinity
from stowplan.plugins.node_declared_features import NodeDeclaredFeatures
from stowplan.plugins.node_name import NodeName
from stowplan.plugins.node_ports import NodePorts
from stowplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from stowplan.plugins.node_unschedulable import NodeUnschedulable
from stowplan.plugins.pod_topology_spread import PodTopologySpread
from stowplan.plugins.priority_sort import PrioritySort
from stowplan.plugins.scheduling_gates import SchedulingGates
from stowplan.plugins.taint_toleration import TaintToleration
from stowplan.plugins.unbuilt import (
    DynamicResources,
    GangScheduling,
    NodeVolumeLimits,
    PodGroupPodsCount,
    TopologyPlacementGenerator,
    VolumeBinding,
    VolumeZone,
)
from stowplan.plugins.volume_restrictions import VolumeRestrictions


def in_tree_registry() -> Registry:
    """All in-tree plugins, whatever their feature gates say; configurations may name any."""
    return Registry(
        (
            SchedulingGates,
            PrioritySort,
            NodeUnschedulable,
            NodeName,
            TaintToleration,
            NodeAffinity,
            NodePorts,
            NodeResourcesFit,
            NodeResourcesBalancedAllocation,
            VolumeRestrictions,
            NodeVolumeLimits,
            VolumeBinding,
            VolumeZone,
            PodTopologySpread,
            InterPodAffinity,
            DefaultPreemption,
            ImageLocality,
            DefaultBinder,
            DynamicResources,
            NodeDeclaredFeatures,
            GangScheduling,
            TopologyPlacementGenerator,
            PodGroupPodsCount,
        )
    )
