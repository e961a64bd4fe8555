"""KubeSchedulerConfiguration: decoding, defaulting, validation, and effective plugins."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# Imported on first access: the client reads kubeconfigs with some of these modules, and completion has no time for the
# others. Names that are not here are those of `types`.
_HOMES = {
    "DEFAULT_FEATURES": "stowplan.config.features",
    "Args": "stowplan.config.declaration",
    "ConfigError": "stowplan.config.errors",
    "ConfigFileError": "stowplan.config.errors",
    "Declarations": "stowplan.config.declaration",
    "Duration": "stowplan.api.durations",
    "EnabledByDefault": "stowplan.config.declaration",
    "FeatureGates": "stowplan.config.features",
    "PluginDeclaration": "stowplan.config.declaration",
    "load_config": "stowplan.config.load",
    "parse_duration": "stowplan.api.durations",
}


def _imported(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES.get(name, "stowplan.config.types")), name)
    return value


if not TYPE_CHECKING:
    # Hidden from type checkers, which would otherwise accept any attribute.
    __getattr__ = _imported
