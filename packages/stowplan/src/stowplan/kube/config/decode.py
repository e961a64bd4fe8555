"""Decode a document into configuration fields and plugin arguments.

Decoding is strict, with Go's messages. The result is plain data with the file's field names: unset fields are absent,
durations and bytes are converted, arguments of known plugins are decoded as well (`DecodedArgs`), others are unchanged.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer, k8s.io/kube-scheduler/config/v1/types.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from stowplan.kube.config.declaration import Args, Declarations
from stowplan.kube.config.documents import Document
from stowplan.kube.config.errors import ConfigError, strict_error
from stowplan.kube.config.header import Header, no_kind, read_header
from stowplan.kube.config.schema import API_VERSION, CONFIGURATION, CONFIGURATION_KIND, GROUP, Struct
from stowplan.kube.config.suggestions import MAX_HINTS, field_hints, misplaced_field_hints
from stowplan.kube.config.walk import decode_struct


@dataclass(frozen=True)
class DecodedArgs:
    """Arguments of an in-tree plugin: their type and the fields in the file."""

    type: type[Args]
    fields: dict[str, Any]


def decode_configuration(document: Document, plugins: Declarations) -> dict[str, Any]:
    """Decode a document into the fields of a KubeSchedulerConfiguration; raise ConfigError with upstream's message."""
    header = read_header(document.value, document.text)
    args_types = _args_types(plugins)
    schema = _schema_of(header, args_types)
    fields, strict = decode_struct(schema, document.value)
    found = chain(misplaced_field_hints(schema, document.value), field_hints(schema, document.value))
    hints = list(islice(found, MAX_HINTS)) if strict else []
    strict = [*document.strict_errors, *strict]
    if schema is CONFIGURATION:
        strict += _decode_plugin_configs(fields, plugins, hints)
    if strict:
        raise ConfigError(strict_error(strict), *hints[:MAX_HINTS])
    if schema is not CONFIGURATION:
        raise ConfigError(f"couldn't decode as KubeSchedulerConfiguration, got {API_VERSION}, Kind={schema.name}: ")
    return fields


def _args_types(plugins: Declarations) -> dict[str, type[Args]]:
    """Kind -> type of arguments."""
    types = (declaration.own_args for declaration in plugins.values())
    return {type_.schema.name: type_ for type_ in types if type_ is not None}


def _schema_of(header: Header, args_types: Mapping[str, type[Args]]) -> Struct:
    if header.api_version == API_VERSION:
        if header.kind == CONFIGURATION_KIND:
            return CONFIGURATION
        if header.kind in args_types:
            return args_types[header.kind].schema
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
        schema = _schema_of(read_header(raw, "", Header(GROUP, "v1", wanted)), _args_types(plugins))
        arguments, strict = decode_struct(schema, raw)
    except ConfigError as error:
        raise ConfigError(f"decoding args for plugin {name}: {error}") from None
    if schema.name != wanted:
        raise ConfigError(f"args for plugin {name} were not of type {wanted}.{GROUP}, got {schema.name}.{GROUP}")
    config["args"] = DecodedArgs(args_type, arguments)
    return [f"decoding args for plugin {name}: {strict_error(strict)}"] if strict else []
