"""The registry of the plugins that come with the scheduler."""

from __future__ import annotations

from stowplan.framework.registry import Registry
from stowplan.in_tree.default_binder.plugin import DefaultBinder
from stowplan.in_tree.default_preemption.plugin import DefaultPreemption
from stowplan.in_tree.dynamic_resources.plugin import DynamicResources
from stowplan.in_tree.gang_scheduling.plugin import GangScheduling
from stowplan.in_tree.image_locality.plugin import ImageLocality
from stowplan.in_tree.inter_pod_affinity.plugin import InterPodAffinity
from stowplan.in_tree.node_affinity.plugin import NodeAffinity
from stowplan.in_tree.node_declared_features.plugin import NodeDeclaredFeatures
from stowplan.in_tree.node_name.plugin import NodeName
from stowplan.in_tree.node_ports.plugin import NodePorts
from stowplan.in_tree.node_resources_balanced_allocation.plugin import NodeResourcesBalancedAllocation
from stowplan.in_tree.node_resources_fit.plugin import NodeResourcesFit
from stowplan.in_tree.node_unschedulable.plugin import NodeUnschedulable
from stowplan.in_tree.node_volume_limits.plugin import NodeVolumeLimits
from stowplan.in_tree.pod_group_pods_count.plugin import PodGroupPodsCount
from stowplan.in_tree.pod_topology_spread.plugin import PodTopologySpread
from stowplan.in_tree.priority_sort.plugin import PrioritySort
from stowplan.in_tree.scheduling_gates.plugin import SchedulingGates
from stowplan.in_tree.taint_toleration.plugin import TaintToleration
from stowplan.in_tree.topology_placement_generator.plugin import TopologyPlacementGenerator
from stowplan.in_tree.volume_binding.plugin import VolumeBinding
from stowplan.in_tree.volume_restrictions.plugin import VolumeRestrictions
from stowplan.in_tree.volume_zone.plugin import VolumeZone


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
