"""Map policy predicates to plugins.

They run in the order of this table, whatever the order in the policy. Plugin names are those of 1.21; `versions.py` and
`retired_plugins.py` convert them.

Upstream: pkg/scheduler/framework/plugins/legacy_registry.go (1.18 to 1.22), pkg/scheduler/algorithm/predicates (1.16).
"""

from collections.abc import Mapping

#: Plugin -> extension points.
Runs = Mapping[str, tuple[str, ...]]

_FIT: Runs = {"NodeResourcesFit": ("preFilter", "filter")}
_NAME: Runs = {"NodeName": ("filter",)}
_PORTS: Runs = {"NodePorts": ("preFilter", "filter")}
_SELECTOR: Runs = {"NodeAffinity": ("preFilter", "filter")}
_TAINTS: Runs = {"TaintToleration": ("filter",)}

PREDICATES: Mapping[str, Runs] = {
    "CheckNodeCondition": _TAINTS,
    "CheckNodeUnschedulable": {"NodeUnschedulable": ("filter",)},
    "GeneralPredicates": {**_FIT, **_NAME, **_PORTS, **_SELECTOR},
    "HostName": _NAME,
    "PodFitsHostPorts": _PORTS,
    "PodFitsPorts": _PORTS,
    "MatchNodeSelector": _SELECTOR,
    "PodFitsResources": _FIT,
    "NoDiskConflict": {"VolumeRestrictions": ("filter",)},
    "PodToleratesNodeTaints": _TAINTS,
    "PodToleratesNodeNoExecuteTaints": _TAINTS,
    "CheckNodeLabelPresence": {"NodeLabel": ("filter",)},
    "CheckServiceAffinity": {"ServiceAffinity": ("preFilter", "filter")},
    "MaxEBSVolumeCount": {"EBSLimits": ("filter",)},
    "MaxGCEPDVolumeCount": {"GCEPDLimits": ("filter",)},
    "MaxCSIVolumeCountPred": {"NodeVolumeLimits": ("filter",)},
    "MaxAzureDiskVolumeCount": {"AzureDiskLimits": ("filter",)},
    "MaxCinderVolumeCount": {"CinderLimits": ("filter",)},
    "CheckVolumeBinding": {"VolumeBinding": ("preFilter", "filter", "reserve", "preBind")},
    "NoVolumeZoneConflict": {"VolumeZone": ("filter",)},
    "CheckNodeMemoryPressure": _TAINTS,
    "CheckNodePIDPressure": _TAINTS,
    "CheckNodeDiskPressure": _TAINTS,
    "EvenPodsSpread": {"PodTopologySpread": ("preFilter", "filter")},
    "MatchInterPodAffinity": {"InterPodAffinity": ("preFilter", "filter")},
}
#: Run even if the policy does not name them.
MANDATORY = ("CheckNodeUnschedulable", "PodToleratesNodeTaints")
#: The default of a policy without `predicates`.
DEFAULT = (
    "NoVolumeZoneConflict",
    "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount",
    "MaxAzureDiskVolumeCount",
    "MaxCSIVolumeCountPred",
    "MatchInterPodAffinity",
    "NoDiskConflict",
    "GeneralPredicates",
    "PodToleratesNodeTaints",
    "CheckVolumeBinding",
    "CheckNodeUnschedulable",
    "EvenPodsSpread",
)
#: Since 1.17 conditions of nodes are taints, which TaintToleration handles.
OF_CONDITIONS = ("CheckNodeCondition", "CheckNodeMemoryPressure", "CheckNodePIDPressure", "CheckNodeDiskPressure")
