"""Feature gates that the scheduler reads, and the version of Kubernetes that it behaves as.

Gates determine which plugins are enabled by default and which arguments a plugin accepts. A set of gates is a value
that is created at startup and passed on, so there is no global state. Their defaults are in `gate_table.py`; what
`--feature-gates` accepts is defined by the command line.

Upstream: pkg/features/kube_features.go, pkg/scheduler/framework/plugins/feature/feature.go.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType

import msgspec

from stowplan.kube.config.gate_table import gates_at
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, V1_37, KubernetesVersion

#: The gates that the scheduler reads. Those of a later version are off, those that were removed are not settable.
_READ = (
    "CompositePodGroup",
    "CoordinatedLeaderElection",
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADerivedAttributes",
    "DRADeviceBindingConditions",
    "DRADeviceCompatibilityGroups",
    "DRADeviceTaintRules",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAFractionalCapacityRange",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
    "DRASchedulerFilterTimeout",
    "DRAWorkloadResourceClaims",
    "DynamicResourceAllocation",
    "GangScheduling",
    "GenericWorkload",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScaling",
    "InPlacePodVerticalScalingSchedulerPreemption",
    "InterPodAffinityHostnameFastPath",
    "MatchLabelKeysInPodAffinity",
    "MatchLabelKeysInPodTopologySpread",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    "NodeDeclaredFeatures",
    "NodeInclusionPolicyInPodTopologySpread",
    "NominatedNodeNameForExpectation",
    "OpportunisticBatching",
    "PodGroupPreemptionPolicy",
    "PodLevelResources",
    "SchedulerAsyncAPICalls",
    "SchedulerAsyncPreemption",
    "SchedulerPopFromBackoffQ",
    "SchedulerPreQueueingHints",
    "SchedulerQueueingHints",
    "SidecarContainers",
    "StorageCapacityScoring",
    "TaintTolerationComparisonOperators",
    "TopologyAwareWorkloadScheduling",
    "VolumeAttributesClass",
    "VolumeLimitScaling",
    "WorkloadAwarePreemption",
)

#: Removed gates -> the gate that decides what they did, from V1_37 on.
ABSORBED = {"GangScheduling": "GenericWorkload", "WorkloadAwarePreemption": "GenericWorkload"}


class FeatureGates(msgspec.Struct, frozen=True):
    """The enabled gates of a version. An unknown name is a bug in the caller."""

    gates: Mapping[str, bool]
    emulated_version: KubernetesVersion

    def enabled(self, name: str) -> bool:
        if name in ABSORBED and self.emulated_version >= V1_37:
            name = ABSORBED[name]
        return self.gates[name]

    def with_gates(self, changes: Mapping[str, bool]) -> "FeatureGates":
        """These gates with some of them changed; unknown names are kept as well."""
        return FeatureGates(MappingProxyType({**self.gates, **changes}), self.emulated_version)


@cache
def default_features(version: KubernetesVersion = DEFAULT_VERSION) -> FeatureGates:
    """The scheduler's gates, as they are by default in a version."""
    gates = gates_at(version)
    return FeatureGates(MappingProxyType({name: gates[name].default for name in _READ if name in gates}), version)


DEFAULT_FEATURES = default_features()


def group_gates(version: KubernetesVersion = DEFAULT_VERSION, *, trees: bool = False) -> dict[str, bool]:
    """The gates for scheduling pods as groups; `trees`: and groups as trees, if the version has them."""
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
    if version < V1_37:
        return gates | {"GangScheduling": True}
    return gates | ({"CompositePodGroup": True} if trees else {})


def known_gates(gates: Mapping[str, bool], version: KubernetesVersion) -> dict[str, bool]:
    """The subset of gates that a `Cluster` of this version supports."""
    return {name: on for name, on in gates.items() if name in default_features(version).gates}


#: Gate -> the gates that it requires, of those that are off by default.
NEEDED_WITH = {
    "CompositePodGroup": ("GenericWorkload", "TopologyAwareWorkloadScheduling"),
    "DRADeviceCompatibilityGroups": ("DRAPartitionableDevices",),
    "DRAWorkloadResourceClaims": ("DynamicResourceAllocation", "GenericWorkload"),
    "GangScheduling": ("GenericWorkload",),
    "PodGroupPreemptionPolicy": ("GenericWorkload",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
}

#: Gates that are off and cannot be enabled, because their feature is not implemented -> the feature.
UNBUILT = {"NativeHistograms": "histograms have fixed buckets"}


class GateError(ValueError):
    """An invalid feature gate setting."""


def with_chosen(changes: Mapping[str, bool], version: KubernetesVersion = DEFAULT_VERSION) -> FeatureGates:
    """A version's defaults with some gates changed by the user; raises GateError."""
    defaults = default_features(version)
    for name in changes:
        if name not in defaults.gates:
            raise GateError(f"the scheduler has no gate {name!r}{_hint(name, defaults)}")
    chosen = defaults.with_gates(changes)
    for name, needed in NEEDED_WITH.items():
        off = [other for other in needed if not chosen.enabled(other)]
        if chosen.gates.get(name) and off:
            raise GateError(f"{name} needs {' and '.join(off)}, too")
    return chosen


def _hint(name: str, defaults: FeatureGates) -> str:
    if name in ABSORBED:
        return f" in {defaults.emulated_version}: {ABSORBED[name]} decides about it"
    near = get_close_matches(name, defaults.gates, n=1)
    return f"; did you mean {near[0]}?" if near else ""
