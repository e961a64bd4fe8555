"""KubeSchedulerConfiguration: decoding, defaulting, validation, and effective plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from stowplan.kube.api.durations import Duration as Duration
    from stowplan.kube.api.durations import parse_duration as parse_duration
    from stowplan.kube.config.config_errors import ConfigError as ConfigError
    from stowplan.kube.config.config_errors import ConfigFileError as ConfigFileError
    from stowplan.kube.config.config_loading import load_config as load_config
    from stowplan.kube.config.configuration import ClientConnection as ClientConnection
    from stowplan.kube.config.configuration import Configuration as Configuration
    from stowplan.kube.config.configuration import Extender as Extender
    from stowplan.kube.config.configuration import ExtenderManagedResource as ExtenderManagedResource
    from stowplan.kube.config.configuration import ExtenderTLSConfig as ExtenderTLSConfig
    from stowplan.kube.config.configuration import LeaderElection as LeaderElection
    from stowplan.kube.config.configuration import Plugin as Plugin
    from stowplan.kube.config.configuration import PluginConfig as PluginConfig
    from stowplan.kube.config.configuration import PluginRef as PluginRef
    from stowplan.kube.config.configuration import Plugins as Plugins
    from stowplan.kube.config.configuration import PluginSet as PluginSet
    from stowplan.kube.config.configuration import Profile as Profile
    from stowplan.kube.config.declaration import Args as Args
    from stowplan.kube.config.declaration import Declarations as Declarations
    from stowplan.kube.config.declaration import EnabledByDefault as EnabledByDefault
    from stowplan.kube.config.declaration import PluginDeclaration as PluginDeclaration
    from stowplan.kube.config.features import DEFAULT_FEATURES as DEFAULT_FEATURES
    from stowplan.kube.config.features import FeatureGates as FeatureGates
else:
    __getattr__, __dir__ = lazy_imports(__name__, __file__)
