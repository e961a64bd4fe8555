"""Map policy priorities to plugins.

Plugins score in alphabetical order of the priorities' names. Plugin names are those of 1.21.

Upstream: pkg/scheduler/framework/plugins/legacy_registry.go (1.18 to 1.22), pkg/scheduler/algorithm/priorities (1.16).
"""

from collections.abc import Mapping

#: Priority -> plugin; None needs no plugin.
PRIORITIES: Mapping[str, str | None] = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "EqualPriority": None,
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "ImageLocalityPriority": "ImageLocality",
    "InterPodAffinityPriority": "InterPodAffinity",
    "LeastRequestedPriority": "NodeResourcesLeastAllocated",
    "MostRequestedPriority": "NodeResourcesMostAllocated",
    "NodeAffinityPriority": "NodeAffinity",
    "NodePreferAvoidPodsPriority": "NodePreferAvoidPods",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
    "RequestedToCapacityRatioPriority": "RequestedToCapacityRatio",
    "ResourceLimitsPriority": "NodeResourceLimits",
    "SelectorSpreadPriority": "PodTopologySpread",
    "ServiceSpreadingPriority": "PodTopologySpread",
    "TaintTolerationPriority": "TaintToleration",
}
#: The default of a policy without `priorities`, with weights.
DEFAULT: Mapping[str, int] = {
    "SelectorSpreadPriority": 1,
    "InterPodAffinityPriority": 1,
    "LeastRequestedPriority": 1,
    "BalancedResourceAllocation": 1,
    "NodePreferAvoidPodsPriority": 10000,
    "NodeAffinityPriority": 1,
    "TaintTolerationPriority": 1,
    "ImageLocalityPriority": 1,
    "EvenPodsSpreadPriority": 2,
}
#: Priorities that spread the pods of a service or controller.
SPREADING = ("SelectorSpreadPriority", "ServiceSpreadingPriority")
#: The shape of RequestedToCapacityRatioPriority in 1.16: lower utilization scores higher.
DEFAULT_SHAPE = ({"utilization": 0, "score": 10}, {"utilization": 100, "score": 0})
#: Plugins that also run at PreScore.
PRE_SCORING = frozenset({"InterPodAffinity", "NodeAffinity", "PodTopologySpread", "TaintToleration"})
