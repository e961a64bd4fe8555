"""Decode a document and apply defaults.

Most defaults are defined next to their fields (`types.py`, and each plugin's declaration). Here are those that depend
on something else: on the existing plugins, or on the number of profiles. In some sections zero and the empty string
count as unset.

Upstream: pkg/scheduler/apis/config/v1/defaults.go, k8s.io/component-base/config/v1alpha1/defaults.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from stowplan.kube.api.pod import DEFAULT_SCHEDULER_NAME
from stowplan.kube.config.config_documents import Document
from stowplan.kube.config.config_errors import ConfigError, strict_error
from stowplan.kube.config.configuration import Configuration, PluginConfig, Plugins, Profile
from stowplan.kube.config.declaration import Args, Declarations, PluginDeclaration, loaded
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.header import Header, no_kind, read_header
from stowplan.kube.config.plugins import default_plugins, merge_plugins
from stowplan.kube.config.schema import (
    API_VERSION,
    CONFIGURATION,
    CONFIGURATION_KIND,
    GROUP,
    Struct,
    configuration_at,
)
from stowplan.kube.config.suggestions import MAX_HINTS, field_hints, misplaced_field_hints
from stowplan.kube.config.walk import decode_struct
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, KubernetesVersion

# Decode a document into configuration fields and plugin arguments.
#
# Decoding is strict, with Go's messages. The result is plain data with the file's field names: unset fields are
# absent, durations and bytes are converted, arguments of known plugins are decoded as well (`DecodedArgs`), others
# are unchanged.
#
# Upstream: k8s.io/apimachinery/pkg/runtime/serializer, k8s.io/kube-scheduler/config/v1/types.go.


@dataclass(frozen=True)
class DecodedArgs:
    """Arguments of an in-tree plugin: their type and the fields in the file."""

    type: type[Args]
    fields: dict[str, Any]


def decode_configuration(
    document: Document, plugins: Declarations, version: KubernetesVersion = DEFAULT_VERSION
) -> dict[str, Any]:
    """Decode a document into the fields of a KubeSchedulerConfiguration; raise ConfigError with upstream's message."""
    header = read_header(document.value, document.text)
    wanted = configuration_at(version)
    schema = _schema_of(header, {CONFIGURATION_KIND: wanted, **_args_schemas(loaded(plugins))})
    fields, strict = decode_struct(schema, document.value)
    found = chain(misplaced_field_hints(schema, document.value), field_hints(schema, document.value))
    hints = list(islice(found, MAX_HINTS)) if strict else []
    strict = [*document.strict_errors, *strict]
    if schema is wanted:
        strict += _decode_plugin_configs(fields, plugins, hints)
    if strict:
        raise ConfigError(strict_error(strict), *hints[:MAX_HINTS])
    if schema is not wanted:
        raise ConfigError(f"couldn't decode as KubeSchedulerConfiguration, got {API_VERSION}, Kind={schema.name}: ")
    return fields


def _args_schemas(declarations: Iterable[PluginDeclaration]) -> dict[str, Struct]:
    """Kind of arguments -> its schema."""
    types = (declaration.own_args for declaration in declarations)
    return {type_.schema.name: type_.schema for type_ in types if type_ is not None}


def _schema_of(header: Header, kinds: Mapping[str, Struct]) -> Struct:
    if header.api_version == API_VERSION and header.kind in kinds:
        return kinds[header.kind]
    raise no_kind(header)


# --- plugin arguments


def _decode_plugin_configs(fields: dict[str, Any], plugins: Declarations, hints: list[str]) -> list[str]:
    """Decode the arguments of known plugins in place; return strict errors, and add hints."""
    strict = []
    for i, profile in enumerate(fields.get("profiles", ())):
        for j, config in enumerate(profile.get("pluginConfig", ())):
            where = f"decoding .profiles[{i}].pluginConfig[{j}]: "
            raw = config.get("args")
            try:
                errors = _decode_plugin_config(config, plugins)
            except ConfigError as error:
                raise ConfigError(f"{where}{error}") from None
            if errors:
                strict.append(where + strict_error(errors))
                args_type = plugins[config["name"]].own_args
                if args_type is not None:
                    path = f"profiles[{i}].pluginConfig[{j}].args"
                    hints += islice(field_hints(args_type.schema, raw, path), MAX_HINTS)
    return strict


def _decode_plugin_config(config: dict[str, Any], plugins: Declarations) -> list[str]:
    name = config.get("name", "")
    args_type = plugins[name].own_args if name in plugins else None
    if args_type is None:
        return []
    raw, wanted = config.get("args"), args_type.schema.name
    try:
        header = read_header(raw, "", Header(GROUP, "v1", wanted))
        # Another kind is an error, whose message depends on whether any plugin has it.
        declared = loaded(plugins) if header.kind == wanted else plugins.values()
        schema = _schema_of(header, {CONFIGURATION_KIND: CONFIGURATION, **_args_schemas(declared)})
        arguments, strict = decode_struct(schema, raw)
    except ConfigError as error:
        raise ConfigError(f"decoding args for plugin {name}: {error}") from None
    if schema.name != wanted:
        raise ConfigError(f"args for plugin {name} were not of type {wanted}.{GROUP}, got {schema.name}.{GROUP}")
    config["args"] = DecodedArgs(args_type, arguments)
    return [f"decoding args for plugin {name}: {strict_error(strict)}"] if strict else []


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
    return replace(configuration, profiles=tuple(defaulted), emulated_version=features.emulated_version)


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
