"""KubeSchedulerConfiguration: decoding, defaulting, validation, and effective plugins."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stowplan.kube.api.durations import Duration, parse_duration
    from stowplan.kube.config.declaration import Args, Declarations, EnabledByDefault, PluginDeclaration
    from stowplan.kube.config.errors import ConfigError, ConfigFileError
    from stowplan.kube.config.features import DEFAULT_FEATURES, FeatureGates
    from stowplan.kube.config.load import load_config
    from stowplan.kube.config.types import (
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
    "DEFAULT_FEATURES": "stowplan.kube.config.features",
    "Args": "stowplan.kube.config.declaration",
    "ConfigError": "stowplan.kube.config.errors",
    "ConfigFileError": "stowplan.kube.config.errors",
    "Declarations": "stowplan.kube.config.declaration",
    "Duration": "stowplan.kube.api.durations",
    "EnabledByDefault": "stowplan.kube.config.declaration",
    "FeatureGates": "stowplan.kube.config.features",
    "PluginDeclaration": "stowplan.kube.config.declaration",
    "load_config": "stowplan.kube.config.load",
    "parse_duration": "stowplan.kube.api.durations",
}


def _imported(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES.get(name, "stowplan.kube.config.types")), name)
    return value


if not TYPE_CHECKING:
    # Hidden from type checkers, which would otherwise accept any attribute.
    __getattr__ = _imported
