"""Load a configuration from a file, a mapping, or the defaults.

A file of an older version is converted to v1 first (`older/`). The steps are then the reference's: strict decoding,
defaulting, validation, build. Each of them may raise a ConfigError with the reference's message. So every existing
Configuration is one that kube-scheduler would start with.

The build has checks of its own: a plugin does not exist, there are two QueueSort plugins, a certificate is missing.
Extenders come first, because they change plugins' arguments; then each profile; the first failure wins. The result is
complete: arguments of enabled plugins only, sorted by name, and the expanded plugin lists.

Upstream: cmd/kube-scheduler/app/options/configfile.go, cmd/kube-scheduler/app/server.go; pkg/scheduler/{scheduler,
extender}.go, pkg/scheduler/profile/profile.go, pkg/scheduler/framework/runtime/framework.go.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stowplan.kube.api.durations import Duration
from stowplan.kube.api.field_errors import aggregate
from stowplan.kube.config.config_documents import Document, GivenSource, parse_document, read_source
from stowplan.kube.config.config_errors import ConfigError, os_error_text
from stowplan.kube.config.configuration import (
    Configuration,
    Extender,
    ExtenderTLSConfig,
    PluginConfig,
    PluginRef,
    Profile,
)
from stowplan.kube.config.declaration import Args, Declarations
from stowplan.kube.config.defaults import decode_configuration, default_configuration
from stowplan.kube.config.features import DEFAULT_FEATURES, FeatureGates
from stowplan.kube.config.older.older_schemas import API_VERSIONS as POLICY_VERSIONS
from stowplan.kube.config.older.older_schemas import POLICY_KIND, VERSIONS, api_version
from stowplan.kube.config.older.upgrade import PolicyMaps, Upgrade, log_upgrade, upgrade
from stowplan.kube.config.plugins import expand, with_weights
from stowplan.kube.config.schema import API_VERSION, CONFIGURATION_KIND
from stowplan.kube.config.serialize import same_args
from stowplan.kube.config.suggestions import MAX_HINTS, header_hints, plugin_hints
from stowplan.kube.config.unused_settings import unknown_arguments, unused_plugins
from stowplan.kube.config.validation import configuration_errors
from stowplan.kube.kubernetes_versions import KubernetesVersion

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


_DEFAULT_EXTENDER_TIMEOUT = Duration.of_seconds(5)


def build(configuration: Configuration, plugins: Declarations, features: FeatureGates) -> Configuration:
    """Complete a valid configuration; raise ConfigError if no scheduler can be built from it."""
    try:
        configuration = _build_extenders(configuration)
    except ConfigError as error:
        raise ConfigError(f"couldn't build extenders: {error}") from None
    try:
        profiles = _build_profiles(configuration.profiles, plugins, configuration.emulated_version)
    except ConfigError as error:
        raise ConfigError(f"initializing profiles: {error}") from None
    if configuration.extenders and features.enabled("OpportunisticBatching"):
        for profile in profiles:
            message = "Disabling signatures for profile because it has extenders configured."
            _LOG.info(message, extra={"profile": profile.scheduler_name})
    return replace(configuration, profiles=profiles)


# --- profiles


def _build_profiles(
    configured: tuple[Profile, ...], known: Declarations, version: KubernetesVersion
) -> tuple[Profile, ...]:
    """Build the profiles one by one; unlike in validation, the effective QueueSort plugins are compared here."""
    built: list[Profile] = []
    for profile in configured:
        built.append(_build_named(profile, known, version))
        _check_common_queue_sort(configured[0], profile, built[0], built[-1])
    return tuple(built)


def _build_named(profile: Profile, known: Declarations, version: KubernetesVersion) -> Profile:
    try:
        return _build_profile(profile, known, version)
    except ConfigError as error:
        raise ConfigError(f"creating profile for scheduler name {profile.scheduler_name}: {error}") from None


def _build_profile(profile: Profile, known: Declarations, version: KubernetesVersion) -> Profile:
    needed = profile.plugins.names() & known.keys()
    enabled = [config for config in profile.plugin_config if config.name in needed and config.args is not None]
    _initialize_plugins(enabled)
    points = expand(profile.plugins, known, version)
    _check_counts(profile.scheduler_name, points)
    return replace(
        profile,
        plugin_config=tuple(sorted(enabled, key=attrgetter("name"))),
        points=with_weights(points, profile.plugins, known),
    )


def _initialize_plugins(configs: list[PluginConfig]) -> None:
    """Check arguments that the reference validates only when it creates a plugin."""
    for config in configs:
        problems = list(config.args.validate_at_build()) if isinstance(config.args, Args) else ()
        if problems:
            raise ConfigError(f'initializing plugin "{config.name}": {aggregate(problems)}')


def _check_counts(scheduler_name: str, points: Mapping[str, tuple[PluginRef, ...]]) -> None:
    of_profile = f'for profile with scheduler name "{scheduler_name}"'
    queue_sorts = len(points["queueSort"])
    if queue_sorts != 1:
        raise ConfigError(f"only one queue sort plugin required {of_profile}, but got {queue_sorts}")
    if not points["bind"]:
        raise ConfigError(f"at least one bind plugin is needed {of_profile}")
    if len(points["placementGenerate"]) > 1:
        raise ConfigError(f"at most one placement generate plugin is allowed {of_profile}")


def _check_common_queue_sort(first: Profile, own: Profile, first_built: Profile, own_built: Profile) -> None:
    of_profile = f'for profile "{own.scheduler_name}"'
    first_name = first_built.points["queueSort"][0].name
    own_name = own_built.points["queueSort"][0].name
    if own_name != first_name:
        raise ConfigError(f'different queue sort plugins {of_profile}: "{own_name}", first: "{first_name}"')
    if not same_args(own.plugin_args(own_name), first.plugin_args(first_name)):
        raise ConfigError(f"different queue sort plugin args {of_profile}")


# --- extenders


def _build_extenders(configuration: Configuration) -> Configuration:
    extenders = tuple(_build_extender(extender) for extender in configuration.extenders)
    ignored = tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    profiles = configuration.profiles
    if ignored:
        profiles = tuple(_ignore_resources(profile, ignored) for profile in profiles)
    return replace(configuration, extenders=extenders, profiles=profiles)


def _build_extender(extender: Extender) -> Extender:
    if extender.http_timeout == 0:
        extender = replace(extender, http_timeout=_DEFAULT_EXTENDER_TIMEOUT)
    if extender.tls_config is not None:
        _check_tls(extender.tls_config, insecure=extender.tls_config.insecure)
    return extender


def _ignore_resources(profile: Profile, names: tuple[str, ...]) -> Profile:
    """Make the resource plugin ignore resources that extenders manage."""
    configs = list(profile.plugin_config)
    for i, config in enumerate(configs):
        args = config.args.without_resources(names) if isinstance(config.args, Args) else None
        if args is not None:
            configs[i] = PluginConfig(config.name, args)
            return replace(profile, plugin_config=tuple(configs))
    raise ConfigError("can't find NodeResourcesFitArgs in plugin config")


def _check_tls(tls: ExtenderTLSConfig, *, insecure: bool) -> None:
    has_authority = bool(tls.ca_data or tls.ca_file)
    has_certificate = bool((tls.cert_data or tls.cert_file) and (tls.key_data or tls.key_file))
    if has_authority and insecure:
        raise ConfigError("specifying a root certificates file with the insecure flag is not allowed")
    if not (has_authority or has_certificate or insecure or tls.server_name):
        return
    authority = _data_or_file(tls.ca_data, tls.ca_file)
    certificate = _data_or_file(tls.cert_data, tls.cert_file)
    key = _data_or_file(tls.key_data, tls.key_file)
    if has_authority and b"-----BEGIN CERTIFICATE-----" not in authority:
        raise ConfigError("unable to load root certificates: unable to parse bytes as PEM block")
    if has_certificate:
        _check_pem("certificate", certificate)
        _check_pem("key", key)


def _data_or_file(data: bytes, file: str) -> bytes:
    if data or not file:
        return data
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(os_error_text("open", file, error)) from None


def _check_pem(what: str, data: bytes) -> None:
    if b"-----BEGIN " not in data:
        raise ConfigError(f"tls: failed to find any PEM data in {what} input")
