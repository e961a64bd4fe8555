"""The default profile with users' plugins in it."""

from stowplan.drivers.hang_guard.guarded_plugins import guarded_registry
from stowplan.drivers.hang_guard.hang_guard import CallGuard
from stowplan.kube.config import load_config
from stowplan.kube.config.features import default_features
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.runtime.framework import Framework


def configuration(*plugins, first=False):
    """The default profile with users' plugins after (or before) the others at every point, called as by a command."""
    registry = guarded_registry(plugins, CallGuard(seconds=0))
    enabled = [{"name": plugin.name} for plugin in plugins]
    multi = {"enabled": enabled}
    if first:
        multi = {"disabled": [{"name": "*"}], "enabled": [*enabled, *({"name": n} for n in DEFAULT_ORDER)]}
    profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": multi}}
    raw = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    return load_config(raw, plugins=registry.declarations), registry


DEFAULT_ORDER = (
    "SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
    "NodeResourcesFit", "VolumeRestrictions", "PodTopologySpread", "InterPodAffinity", "DefaultPreemption",
    "NodeResourcesBalancedAllocation", "ImageLocality", "DefaultBinder",
)  # fmt: skip


def framework(state, *plugins, first=False):
    config, registry = configuration(*plugins, first=first)
    handle = Handle(cluster=state, profile_name="default-scheduler", features=default_features(state.emulated_version))
    return Framework(config.profiles[0], registry, handle)
