"""Feature gates and their defaults in Kubernetes 1.36.

Gates determine which plugins are enabled by default and which arguments a plugin accepts. A set of gates is a value
that is created at startup and passed on, so there is no global state. Only the gates that the scheduler itself reads
are here; what `--feature-gates` accepts is defined by the command line.

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
    """The enabled gates. An unknown name is a bug in the caller."""

    gates: Mapping[str, bool]

    def enabled(self, name: str) -> bool:
        return self.gates[name]

    def with_gates(self, changes: Mapping[str, bool]) -> "FeatureGates":
        """These gates with some of them changed; unknown names are kept as well."""
        return FeatureGates(MappingProxyType({**self.gates, **changes}))


#: The gates for scheduling pods as groups.
GROUP_GATES = {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
DEFAULT_FEATURES = FeatureGates(MappingProxyType({**dict.fromkeys(_ON, True), **dict.fromkeys(_OFF, False)}))


def known_gates(gates: Mapping[str, bool]) -> dict[str, bool]:
    """The subset of gates that a `Cluster` supports."""
    return {name: on for name, on in gates.items() if name in DEFAULT_FEATURES.gates}


#: Gate -> the gates that it requires, of those that are off by default.
NEEDED_WITH = {
    "DRAWorkloadResourceClaims": ("DynamicResourceAllocation", "GenericWorkload"),
    "GangScheduling": ("GenericWorkload",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
}

#: Gates that are off and cannot be enabled, because their feature is not implemented -> the feature.
UNBUILT = {
    "NativeHistograms": "histograms have fixed buckets",
}


class GateError(ValueError):
    """An invalid feature gate setting."""


def with_chosen(changes: Mapping[str, bool]) -> FeatureGates:
    """The defaults with some gates changed by the user; raises GateError."""
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
