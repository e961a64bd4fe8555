"""Feature gates and their defaults in Kubernetes 1.36.

Gates decide which plugins are enabled by default and which arguments a plugin accepts. A set of gates is a value:
it is made once at start and handed to whoever asks, so nothing reads a global switch in the middle of a decision.
Only the gates the scheduler itself consults are here; what `--feature-gates` accepts is the command line's
business.

Upstream: pkg/features/kube_features.go, pkg/scheduler/framework/plugins/feature/feature.go.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

_ON = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
    "DRASchedulerFilterTimeout",
    "DynamicResourceAllocation",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScaling",
    "MatchLabelKeysInPodAffinity",
    "MatchLabelKeysInPodTopologySpread",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    "NodeDeclaredFeatures",
    "NodeInclusionPolicyInPodTopologySpread",
    "NominatedNodeNameForExpectation",
    "OpportunisticBatching",
    "PodLevelResources",
    "SchedulerAsyncPreemption",
    "SchedulerPopFromBackoffQ",
    "SchedulerQueueingHints",
    "SidecarContainers",
    "VolumeAttributesClass",
)
_OFF = (
    "CoordinatedLeaderElection",
    "DRADeviceTaintRules",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAWorkloadResourceClaims",
    "GangScheduling",
    "GenericWorkload",
    "SchedulerAsyncAPICalls",
    "StorageCapacityScoring",
    "TaintTolerationComparisonOperators",
    "TopologyAwareWorkloadScheduling",
    "VolumeLimitScaling",
    "WorkloadAwarePreemption",
)


class FeatureGates(msgspec.Struct, frozen=True):
    """Which gates are on. A name that is not a gate is a bug in the caller."""

    gates: Mapping[str, bool]

    def enabled(self, name: str) -> bool:
        return self.gates[name]

    def with_gates(self, changes: Mapping[str, bool]) -> "FeatureGates":
        """Return these gates with some of them set otherwise; names outside the scheduler's own are kept as well."""
        return FeatureGates(MappingProxyType({**self.gates, **changes}))


DEFAULT_FEATURES = FeatureGates(MappingProxyType({**dict.fromkeys(_ON, True), **dict.fromkeys(_OFF, False)}))

_GROUPS = "pods are scheduled one by one; groups of pods are not built"
_DEVICES = "the allocation of devices (DRA) is not built"

#: Gates that are off, and that would switch on what is not built -> what that is.
UNBUILT = {
    "DRADeviceTaintRules": _DEVICES,
    "DRAListTypeAttributes": _DEVICES,
    "DRANodeAllocatableResources": _DEVICES,
    "DRAWorkloadResourceClaims": _DEVICES,
    "GangScheduling": _GROUPS,
    "GenericWorkload": _GROUPS,
    "NativeHistograms": "histograms have fixed buckets",
    "TopologyAwareWorkloadScheduling": _GROUPS,
    "WorkloadAwarePreemption": _GROUPS,
}
