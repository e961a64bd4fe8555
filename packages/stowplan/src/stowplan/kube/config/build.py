"""Checks that the reference makes while building a scheduler from a valid configuration.

A valid file may still fail to start: a plugin does not exist, there are two QueueSort plugins, a certificate is
missing. Extenders come first, because they change plugins' arguments; then each profile; the first failure wins. The
result is complete: arguments of enabled plugins only, sorted by name, and the expanded plugin lists.

Upstream: pkg/scheduler/scheduler.go, pkg/scheduler/extender.go, pkg/scheduler/profile/profile.go,
pkg/scheduler/framework/runtime/framework.go.
"""

import logging
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path

from msgspec.structs import replace

from stowplan.kube.api.durations import Duration
from stowplan.kube.api.field_errors import aggregate
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
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.plugins import expand, with_weights
from stowplan.kube.config.serialize import same_args
from stowplan.kube.kubernetes_versions import KubernetesVersion

_LOG = logging.getLogger(__name__)

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
