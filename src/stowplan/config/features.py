"""Feature gates and their defaults in Kubernetes 1.36.

Gates decide which plugins are enabled by default and which arguments a plugin accepts. A set of gates is a value:
it is made once at start and handed to whoever asks, so nothing reads a global switch in the middle of a decision.
Only the gates the scheduler itself consults are here; what `--feature-gates` accepts is the command line's
business.

Upstream: pkg/features/kube_features.go, pkg/scheduler/framework/plugins/feature/feature.go.
"""

from collections.abc import Mapping
from difflib import get_close_matches
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


#: What it takes to schedule groups of pods as groups.
GROUP_GATES = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
DEFAULT_FEATURES = FeatureGates(MappingProxyType({**dict.fromkeys(_ON, True), **dict.fromkeys(_OFF, False)}))


#: Gate -> the gates that must be on with it, of those that are off by default.
NEEDED_WITH = {
    "DRAWorkloadResourceClaims": ("DynamicResourceAllocation", "GenericWorkload"),
    "GangScheduling": ("GenericWorkload",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
}

#: Gates that are off, and that would switch on what is not built -> what that is.
UNBUILT = {
    "NativeHistograms": "histograms have fixed buckets",
}


class GateError(ValueError):
    """A feature gate is set that cannot be."""


def with_chosen(changes: Mapping[str, bool]) -> FeatureGates:
    """The defaults with some gates set otherwise, as somebody wishes; GateError if that cannot be."""
    for name in changes:
        if name not in DEFAULT_FEATURES.gates:
            near = get_close_matches(name, DEFAULT_FEATURES.gates, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise GateError(f"the scheduler has no gate {name!r}{hint}")
    chosen = DEFAULT_FEATURES.with_gates(changes)
    for name, needed in NEEDED_WITH.items():
        off = [other for other in needed if not chosen.enabled(other)]
        if chosen.enabled(name) and off:
            raise GateError(f"{name} needs {' and '.join(off)}, too")
    return chosen
