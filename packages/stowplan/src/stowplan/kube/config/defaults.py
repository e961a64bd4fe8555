"""Apply defaults.

Most defaults are defined next to their fields (`types.py`, and each plugin's declaration). Here are those that depend
on something else: on the existing plugins, or on the number of profiles. In some sections zero and the empty string
count as unset.

Upstream: pkg/scheduler/apis/config/v1/defaults.go, k8s.io/component-base/config/v1alpha1/defaults.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.pod import DEFAULT_SCHEDULER_NAME
from stowplan.kube.config.declaration import Declarations, PluginDeclaration
from stowplan.kube.config.decode import DecodedArgs
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.plugins import default_plugins, merge_plugins
from stowplan.kube.config.types import (
    Configuration,
    PluginConfig,
    Plugins,
    Profile,
)

_S = TypeVar("_S", bound=msgspec.Struct)


def default_configuration(fields: Mapping[str, Any], plugins: Declarations, features: FeatureGates) -> Configuration:
    """Build a configuration from decoded fields."""
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
    defaulted = (_default_profile(i, profile, plugins, features) for i, profile in enumerate(profiles))
    return replace(configuration, profiles=tuple(defaulted))


def _convert(fields: Mapping[str, Any], type_: type[_S]) -> _S:
    # All values have the right type after decoding, so this cannot fail on user input.
    return msgspec.convert(fields, type_)


def _unless_zero(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Drop zero values, which count as unset in these sections; `false` is a value."""
    return {name: value for name, value in fields.items() if value or value is False}


# --- profiles


def _default_profile(
    position: int, fields: Mapping[str, Any], plugins: Declarations, features: FeatureGates
) -> Profile:
    merged = merge_plugins(default_plugins(plugins, features), _convert(fields.get("plugins", {}), Plugins))
    configs = fields.get("pluginConfig", ())
    path = f"profiles[{position}].pluginConfig"
    return Profile(
        scheduler_name=fields.get("schedulerName", ""),
        percentage_of_nodes_to_score=fields.get("percentageOfNodesToScore"),
        plugins=merged,
        plugin_config=tuple(
            PluginConfig(name, _complete_args(plugins.get(name), args, where, features))
            for name, args, where in _args_to_complete(path, configs, merged, plugins)
        ),
    )


def _args_to_complete(
    path: str, configs: Sequence[Mapping[str, Any]], enabled: Plugins, plugins: Declarations
) -> Iterator[tuple[str, Any, str]]:
    """Yield (plugin, arguments, path): those in the file, then every other enabled plugin with typed arguments."""
    explicit = set()
    for i, config in enumerate(configs):
        name = config.get("name", "")
        explicit.add(name)
        yield name, config.get("args"), f"{path}[{i}].args"
    for name in sorted((enabled.names() & plugins.keys()) - explicit):
        if plugins[name].args_type is not None:
            yield name, None, path


def _complete_args(plugin: PluginDeclaration | None, args: Any, path: str, features: FeatureGates) -> Any:
    if plugin is None or plugin.args_type is None:
        return args
    if plugin.own_args is None:
        # Only needed for out-of-tree plugins.
        from stowplan.kube.config.typed_args import decode_typed_args

        return decode_typed_args(plugin.args_type, args, plugin=plugin.name, path=path)
    fields = args.fields if isinstance(args, DecodedArgs) else {}
    return _convert(fields, plugin.own_args).completed(features)
