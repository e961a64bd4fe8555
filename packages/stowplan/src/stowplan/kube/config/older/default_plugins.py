"""Default plugins of older releases, with order and weight.

Up to v1beta2 every extension point had a list of its own. A converted profile gets these lists in full, so that it
places pods as before: the current default profile has other weights. Names are those of the release.

Upstream: pkg/scheduler/algorithmprovider/registry.go (1.18 to 1.21),
pkg/scheduler/apis/config/v1beta{1,2}/default_plugins.go.
"""

from collections.abc import Mapping

#: Extension point -> (plugin, weight) in order; 0 at points without weights.
Lists = Mapping[str, tuple[tuple[str, int], ...]]


def _names(text: str) -> tuple[tuple[str, int], ...]:
    pairs = (word.partition("=") for word in text.split())
    return tuple((name, int(weight or 0)) for name, _, weight in pairs)


_FIXED = {
    # Parity: not in the lists of these releases, which had no gated pods; but a gated pod must not be placed.
    "preEnqueue": _names("SchedulingGates"),
    "queueSort": _names("PrioritySort"),
    "postFilter": _names("DefaultPreemption"),
    "bind": _names("DefaultBinder"),
}
_VOLUMES = "VolumeRestrictions EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone"

#: 1.18 with its default gates: EvenPodsSpread is on.
V1ALPHA2: Lists = {
    **_FIXED,
    "preFilter": _names("NodeResourcesFit NodePorts InterPodAffinity PodTopologySpread"),
    "filter": _names(
        "NodeUnschedulable NodeResourcesFit NodeName NodePorts NodeAffinity VolumeRestrictions TaintToleration "
        "EBSLimits GCEPDLimits NodeVolumeLimits AzureDiskLimits VolumeBinding VolumeZone InterPodAffinity "
        "PodTopologySpread"
    ),
    "preScore": _names("InterPodAffinity DefaultPodTopologySpread TaintToleration PodTopologySpread"),
    "score": _names(
        "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesLeastAllocated=1 "
        "NodeAffinity=1 NodePreferAvoidPods=10000 DefaultPodTopologySpread=1 TaintToleration=1 PodTopologySpread=1"
    ),
    # Volumes were reserved and bound outside of plugins.
    "reserve": _names("VolumeBinding"),
    "preBind": _names("VolumeBinding"),
}

#: 1.20 to 1.22.
V1BETA1: Lists = {
    **_FIXED,
    "preFilter": _names("NodeResourcesFit NodePorts PodTopologySpread InterPodAffinity VolumeBinding NodeAffinity"),
    "filter": _names(
        "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit "
        f"{_VOLUMES} PodTopologySpread InterPodAffinity"
    ),
    "preScore": _names("InterPodAffinity PodTopologySpread TaintToleration NodeAffinity"),
    "score": _names(
        "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesLeastAllocated=1 "
        "NodeAffinity=1 NodePreferAvoidPods=10000 PodTopologySpread=2 TaintToleration=1"
    ),
    "reserve": _names("VolumeBinding"),
    "preBind": _names("VolumeBinding"),
}

V1BETA2: Lists = {
    **V1BETA1,
    "preFilter": _names(
        "NodeResourcesFit NodePorts VolumeRestrictions PodTopologySpread InterPodAffinity VolumeBinding NodeAffinity"
    ),
    "score": _names(
        "NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=1 NodeResourcesFit=1 NodeAffinity=1 "
        "PodTopologySpread=2 TaintToleration=1"
    ),
}

#: What ClusterAutoscalerProvider had instead of a default plugin.
_PROVIDERS = {
    "DefaultProvider": {},
    "ClusterAutoscalerProvider": {"NodeResourcesLeastAllocated": "NodeResourcesMostAllocated"},
}
PROVIDERS = tuple(_PROVIDERS)


def of_provider(lists: Lists, provider: str) -> Lists:
    other = _PROVIDERS[provider]
    return {
        point: tuple((other.get(name, name), weight) for name, weight in plugins) for point, plugins in lists.items()
    }


#: In-tree plugins that are split over several points today: if one runs at the first, it has to run at the second.
HALVES = (
    ("filter", "preFilter"),
    ("score", "preScore"),
    ("postFilter", "preEnqueue"),
)
SPLIT_PLUGINS = frozenset(
    name for lists in (V1ALPHA2, V1BETA1, V1BETA2) for plugins in lists.values() for name, _ in plugins
)
