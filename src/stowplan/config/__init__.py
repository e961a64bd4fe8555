"""KubeSchedulerConfiguration: decoding, defaulting, validation, and effective plugins."""

from stowplan.api.durations import Duration, parse_duration
from stowplan.config.declaration import Args, Declarations, EnabledByDefault, PluginDeclaration
from stowplan.config.errors import ConfigError, ConfigFileError
from stowplan.config.features import DEFAULT_FEATURES, FeatureGates
from stowplan.config.load import load_config
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
    "DEFAULT_FEATURES",
    "Args",
    "ClientConnection",
    "ConfigError",
    "ConfigFileError",
    "Configuration",
    "Declarations",
    "Duration",
    "EnabledByDefault",
    "Extender",
    "ExtenderManagedResource",
    "ExtenderTLSConfig",
    "FeatureGates",
    "LeaderElection",
    "Plugin",
    "PluginConfig",
    "PluginDeclaration",
    "PluginRef",
    "PluginSet",
    "Plugins",
    "Profile",
    "load_config",
    "parse_duration",
]
