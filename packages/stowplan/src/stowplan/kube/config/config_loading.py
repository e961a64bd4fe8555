"""Load a configuration from a file, a mapping, or the defaults.

A file of an older version is converted to v1 first (`older/`). The steps are then the reference's: strict decoding,
defaulting, validation, build. Each of them may raise a ConfigError with the reference's message. So every existing
Configuration is one that kube-scheduler would start with.

Upstream: cmd/kube-scheduler/app/options/configfile.go, cmd/kube-scheduler/app/server.go.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from stowplan.kube.api.field_errors import aggregate
from stowplan.kube.config.build import build
from stowplan.kube.config.config_documents import Document, GivenSource, parse_document, read_source
from stowplan.kube.config.config_errors import ConfigError
from stowplan.kube.config.configuration import Configuration
from stowplan.kube.config.declaration import Declarations
from stowplan.kube.config.defaults import decode_configuration, default_configuration
from stowplan.kube.config.features import DEFAULT_FEATURES, FeatureGates
from stowplan.kube.config.older.older_schemas import API_VERSIONS as POLICY_VERSIONS
from stowplan.kube.config.older.older_schemas import POLICY_KIND, VERSIONS, api_version
from stowplan.kube.config.older.upgrade import PolicyMaps, Upgrade, log_upgrade, upgrade
from stowplan.kube.config.schema import API_VERSION, CONFIGURATION_KIND
from stowplan.kube.config.suggestions import MAX_HINTS, header_hints, plugin_hints
from stowplan.kube.config.unused_settings import unknown_arguments, unused_plugins
from stowplan.kube.config.validation import configuration_errors

_LOG = logging.getLogger(__name__)

Source = GivenSource | None

#: Fields of every plugin's arguments.
_TYPE = ("apiVersion", "kind")


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A configuration, and how it was loaded."""

    configuration: Configuration
    #: The fields in the file, converted to v1: unset fields are absent.
    fields: Mapping[str, Any]
    #: How a file of an older version was converted; None without a file.
    upgrade: Upgrade | None


def load_config(
    source: Source = None,
    *,
    plugins: Declarations,
    features: FeatureGates = DEFAULT_FEATURES,
    adjust: Callable[[Configuration], Configuration] | None = None,
    asked_for: Collection[str] = (),
    policy_maps: PolicyMaps | None = None,
) -> Configuration:
    """Load a KubeSchedulerConfiguration.

    `source` is the configuration as a mapping, the path of a YAML or JSON file, or None for the defaults. `plugins` are
    all that exist; a warning is logged for each of those `asked_for` that nothing enables. `adjust` changes the
    defaulted configuration before it is validated, as the leader-election flags do. `policy_maps` reads the ConfigMap
    that a v1alpha1 configuration may name for its policy; None: that is an error.
    """
    document = None if source is None else parse_document(read_source(source))
    loaded = load_document(document, plugins=plugins, features=features, adjust=adjust, policy_maps=policy_maps)
    if loaded.upgrade is not None:
        log_upgrade(loaded.upgrade)
    _warn(loaded, plugins, asked_for)
    return loaded.configuration


def without_defaults(written: Mapping[str, Any], *, plugins: Declarations, features: FeatureGates) -> dict[str, Any]:
    """A configuration of a version's `to_dict` without arguments that this version has set, for another version."""
    usual = load_document(None, plugins=plugins, features=features).configuration.to_dict()
    defaults = {one["name"]: one["args"] for one in usual["profiles"][0]["pluginConfig"]}

    def chosen(one: dict[str, Any]) -> dict[str, Any]:
        own = defaults.get(one["name"], {})
        kept = {name: value for name, value in one["args"].items() if name in _TYPE or own.get(name) != value}
        return {**one, "args": kept}

    def carried(profile: dict[str, Any]) -> dict[str, Any]:
        # A point that the other version does not have must not be named.
        sets = {point: plugins for point, plugins in profile.get("plugins", {}).items() if plugins}
        named = {**profile, "plugins": sets} if "plugins" in profile else profile
        return {**named, "pluginConfig": [chosen(one) for one in profile.get("pluginConfig", ())]}

    profiles = [carried(profile) for profile in written.get("profiles", ())]
    return {**written, **({"profiles": profiles} if profiles else {})}


def _warn(loaded: Loaded, plugins: Declarations, asked_for: Collection[str]) -> None:
    if loaded.upgrade is None or not loaded.upgrade.origin:
        # For an older version the paths are those of the converted file, and the conversion has already warned.
        for warning in islice(unknown_arguments(loaded.fields, plugins), MAX_HINTS):
            _LOG.warning(warning)
    for warning in unused_plugins(loaded.configuration, asked_for):
        _LOG.warning(warning)


def load_document(
    document: Document | None,
    *,
    plugins: Declarations,
    features: FeatureGates = DEFAULT_FEATURES,
    adjust: Callable[[Configuration], Configuration] | None = None,
    policy_maps: PolicyMaps | None = None,
) -> Loaded:
    """Load a parsed document, None for the defaults; nothing is logged about its version."""
    try:
        upgraded = None if document is None else upgrade(document, plugins, policy_maps)
        return load_upgraded(upgraded, plugins=plugins, features=features, adjust=adjust)
    except ConfigError as error:
        hints = header_hints(document.value, _KINDS) if document is not None else ()
        raise error.with_hints(hints) from None


def load_upgraded(
    upgraded: Upgrade | None,
    *,
    plugins: Declarations,
    features: FeatureGates = DEFAULT_FEATURES,
    adjust: Callable[[Configuration], Configuration] | None = None,
) -> Loaded:
    """Load converted data, None for the defaults."""
    fields = {} if upgraded is None else decode_configuration(upgraded.document, plugins, features.emulated_version)
    configuration = default_configuration(fields, plugins, features)
    if adjust is not None:
        configuration = adjust(configuration)
    # Parity: without a file, flags change the defaults after these were validated.
    problems = [] if upgraded is None else list(configuration_errors(configuration, plugins, features))
    try:
        if problems:
            raise ConfigError(aggregate(problems))
        built = build(configuration, plugins, features)
    except ConfigError as error:
        raise error.with_hints(plugin_hints(configuration, plugins)) from None
    return Loaded(configuration=built, fields=fields, upgrade=upgraded)


#: Kind -> supported versions, the newest first.
_KINDS = {
    CONFIGURATION_KIND: (API_VERSION, *(api_version(version) for version in reversed(VERSIONS))),
    POLICY_KIND: POLICY_VERSIONS,
}
