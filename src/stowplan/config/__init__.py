"""KubeSchedulerConfiguration: what it may say, what it means, what plugins come of it."""

from stowplan.api.durations import Duration, parse_duration
from stowplan.config.args import (
    ARGS_KINDS,
    Args,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from stowplan.config.errors import ConfigError, ConfigFileError
from stowplan.config.features import DEFAULT_FEATURES, FeatureGates
from stowplan.config.load import load_config
from stowplan.config.plugins import IN_TREE_PLUGINS
from stowplan.config.types import (
    ClientConnection,
    Configuration,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    LeaderElection,
    Plugin,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
    Profile,
)

__all__ = [
    "ARGS_KINDS",
    "DEFAULT_FEATURES",
    "IN_TREE_PLUGINS",
    "Args",
    "ClientConnection",
    "ConfigError",
    "ConfigFileError",
    "Configuration",
    "DefaultPreemptionArgs",
    "Duration",
    "DynamicResourcesArgs",
    "Extender",
    "ExtenderManagedResource",
    "ExtenderTLSConfig",
    "FeatureGates",
    "InterPodAffinityArgs",
    "LeaderElection",
    "NodeAffinityArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "Plugin",
    "PluginConfig",
    "PluginRef",
    "PluginSet",
    "Plugins",
    "PodTopologySpreadArgs",
    "Profile",
    "RequestedToCapacityRatioParam",
    "ResourceSpec",
    "ScoringStrategy",
    "UtilizationShapePoint",
    "VolumeBindingArgs",
    "load_config",
    "parse_duration",
]
