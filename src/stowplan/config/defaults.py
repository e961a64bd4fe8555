"""Fill in what the file leaves out.

Most defaults stand beside the fields they belong to (`types.py`, `args.py`). Here are those that depend on
something else: on a feature gate, on another field, on how many profiles there are. Some sections treat zero and
the empty string as unset.

Upstream: pkg/scheduler/apis/config/v1/defaults.go, k8s.io/component-base/config/v1alpha1/defaults.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from stowplan.api.durations import Duration
from stowplan.api.pod import DEFAULT_SCHEDULER_NAME
from stowplan.config.args import (
    ARGS_KINDS,
    DEFAULT_RESOURCES,
    MAX_CUSTOM_PRIORITY_SCORE,
    SYSTEM_DEFAULTING,
    Args,
    DynamicResourcesArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from stowplan.config.decode import DecodedArgs
from stowplan.config.features import FeatureGates
from stowplan.config.plugins import default_plugins, merge_plugins
from stowplan.config.types import (
    Configuration,
    PluginConfig,
    Plugins,
    Profile,
)

_S = TypeVar("_S", bound=msgspec.Struct)

_FILTER_TIMEOUT = Duration.of_seconds(10)
_BINDING_TIMEOUT = Duration.of_seconds(600)


def default_configuration(fields: Mapping[str, Any], features: FeatureGates) -> Configuration:
    """Make a configuration of decoded fields."""
    profiles = fields.get("profiles") or [{}]
    if len(profiles) == 1:
        profiles = [{"schedulerName": DEFAULT_SCHEDULER_NAME, **profiles[0]}]
    enable_profiling = fields.get("enableProfiling", True)
    top_level = {
        "enableContentionProfiling": enable_profiling,
        **fields,
        "leaderElection": _unless_zero(fields.get("leaderElection", {})),
        "clientConnection": _unless_zero(fields.get("clientConnection", {})),
        "profiles": (),
    }
    configuration = _convert(top_level, Configuration)
    return replace(configuration, profiles=tuple(_default_profile(profile, features) for profile in profiles))


def _convert(fields: Mapping[str, Any], type_: type[_S]) -> _S:
    # Decoding left only values of the right type, so this cannot fail on anything a user wrote.
    return msgspec.convert(fields, type_)


def _unless_zero(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Drop zero values, which these sections take for unset; `false` is a value."""
    return {name: value for name, value in fields.items() if value or value is False}


# --- profiles


def _default_profile(fields: Mapping[str, Any], features: FeatureGates) -> Profile:
    plugins = merge_plugins(default_plugins(features), _convert(fields.get("plugins", {}), Plugins))
    return Profile(
        scheduler_name=fields.get("schedulerName", ""),
        percentage_of_nodes_to_score=fields.get("percentageOfNodesToScore"),
        plugins=plugins,
        plugin_config=tuple(_default_plugin_config(fields.get("pluginConfig", ()), plugins, features)),
    )


def _default_plugin_config(
    configs: list[dict[str, Any]], plugins: Plugins, features: FeatureGates
) -> Iterator[PluginConfig]:
    """Yield what the file configures, then the defaults of every other enabled plugin that takes arguments."""
    explicit = set()
    for config in configs:
        name = config.get("name", "")
        explicit.add(name)
        args = config.get("args")
        yield PluginConfig(name, default_args(args, features) if isinstance(args, DecodedArgs) else args)
    for name in sorted(plugins.names() - explicit):
        if name in ARGS_KINDS:
            yield PluginConfig(name, default_args(DecodedArgs(ARGS_KINDS[name].__name__, {}), features))


# --- plugin arguments


def default_args(decoded: DecodedArgs, features: FeatureGates) -> Args:
    args = _convert(decoded.fields, ARGS_KINDS[decoded.kind.removesuffix("Args")])
    match args:
        case DynamicResourcesArgs():
            return _default_dynamic_resources(args, features)
        case NodeResourcesBalancedAllocationArgs(resources=resources):
            return replace(args, resources=_default_resources(resources))
        case NodeResourcesFitArgs(scoring_strategy=strategy):
            resources = _default_resources(strategy.resources)
            return replace(args, scoring_strategy=replace(strategy, resources=resources))
        case PodTopologySpreadArgs(defaulting_type=""):
            return replace(args, defaulting_type=SYSTEM_DEFAULTING)
        case VolumeBindingArgs(shape=shape) if not shape and features.enabled("StorageCapacityScoring"):
            return replace(args, shape=_DEFAULT_SHAPE)
        case _:
            return args


_DEFAULT_SHAPE = (UtilizationShapePoint(0, MAX_CUSTOM_PRIORITY_SCORE), UtilizationShapePoint(100, 0))


def _default_resources(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return tuple(replace(resource, weight=resource.weight or 1) for resource in resources or DEFAULT_RESOURCES)


def _default_dynamic_resources(args: DynamicResourcesArgs, features: FeatureGates) -> DynamicResourcesArgs:
    if args.filter_timeout is None and features.enabled("DRASchedulerFilterTimeout"):
        args = replace(args, filter_timeout=_FILTER_TIMEOUT)
    if args.binding_timeout is None and binding_timeout_enabled(features):
        args = replace(args, binding_timeout=_BINDING_TIMEOUT)
    return args


def binding_timeout_enabled(features: FeatureGates) -> bool:
    return features.enabled("DRADeviceBindingConditions") and features.enabled("DRAResourceClaimDeviceStatus")
