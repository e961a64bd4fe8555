"""Field validation.

Reports all problems, in a fixed order: connection, leader election, parallelism, each profile, queue sort across
profiles, node percentage, backoffs, extenders.

Upstream: pkg/scheduler/apis/config/validation/validation.go, k8s.io/component-base/config/validation.
"""

from collections.abc import Iterator, Sequence
from inspect import isfunction
from typing import Any

from stowplan.kube.api.field_errors import child
from stowplan.kube.api.labels import is_qualified_name_errors
from stowplan.kube.config.config_errors import duplicate, invalid, required
from stowplan.kube.config.configuration import (
    ClientConnection,
    Configuration,
    Extender,
    LeaderElection,
    Plugin,
    PluginConfig,
    PluginSet,
    Profile,
)
from stowplan.kube.config.declaration import Args, Declarations
from stowplan.kube.config.features import FeatureGates
from stowplan.kube.config.schema import API_VERSION, POINTS
from stowplan.kube.config.serialize import same_args, typed_args_as_json

_REMOVED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
# Parity: removed plugins are not detected at the other points.
_POINTS_WITH_REMOVED_PLUGINS = tuple(
    point
    for point in POINTS
    if point not in {"multiPoint", "placementGenerate", "placementScore", "podGroupPostFilter"}
)
_REQUESTS_PREFIX = "requests."
_NATIVE_DOMAIN = "kubernetes.io/"


def configuration_errors(configuration: Configuration, plugins: Declarations, features: FeatureGates) -> Iterator[str]:
    yield from _client_connection("clientConnection", configuration.client_connection)
    yield from leader_election_errors("leaderElection", configuration.leader_election)
    if configuration.parallelism <= 0:
        yield invalid("parallelism", configuration.parallelism, "should be an integer value greater than zero")
    yield from _profiles("profiles", configuration.profiles, plugins, features)
    yield from _percentage("percentageOfNodesToScore", configuration.percentage_of_nodes_to_score)
    yield from _backoff(configuration)
    yield from _extenders("extenders", configuration.extenders)


def _client_connection(path: str, connection: ClientConnection) -> Iterator[str]:
    if connection.burst < 0:
        yield invalid(child(path, "burst"), connection.burst, "must be non-negative")


def leader_election_errors(path: str, election: LeaderElection) -> Iterator[str]:
    if not election.leader_elect:
        return
    for name, duration in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if duration <= 0:
            yield invalid(child(path, name), duration, "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        # Parity: the value shown is the lower bound of leaseDuration.
        yield invalid(child(path, "leaseDuration"), election.renew_deadline, "must be greater than `RenewDeadline`")
    for name, value in (
        ("resourceLock", election.resource_lock),
        ("resourceNamespace", election.resource_namespace),
        ("resourceName", election.resource_name),
    ):
        if not value:
            yield required(child(path, name))
    if election.resource_lock != "leases":
        yield invalid(child(path, "resourceLock"), election.resource_lock, 'resourceLock value must be "leases"')


def _percentage(path: str, percentage: int | None) -> Iterator[str]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _backoff(configuration: Configuration) -> Iterator[str]:
    initial, longest = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        reason = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", longest, reason)


# --- profiles


def _profiles(path: str, profiles: Sequence[Profile], plugins: Declarations, features: FeatureGates) -> Iterator[str]:
    if not profiles:
        yield required(path)
        return
    seen = set()
    for i, profile in enumerate(profiles):
        profile_path = f"{path}[{i}]"
        yield from _profile(profile_path, profile, plugins, features)
        if profile.scheduler_name in seen:
            # Parity: the reference prints a path object without public fields here.
            yield duplicate(child(profile_path, "schedulerName"), {})
        seen.add(profile.scheduler_name)
    yield from _common_queue_sort(path, profiles)


def _profile(path: str, profile: Profile, plugins: Declarations, features: FeatureGates) -> Iterator[str]:
    if not profile.scheduler_name:
        yield required(child(path, "schedulerName"))
    yield from _percentage(child(path, "percentageOfNodesToScore"), profile.percentage_of_nodes_to_score)
    for point in _POINTS_WITH_REMOVED_PLUGINS:
        for i, plugin in enumerate(profile.plugins.at(point).enabled):
            if plugin.name in _REMOVED_PLUGINS:
                yield _removed(f"{path}.plugins.{point}.enabled[{i}]", plugin.name)
    seen = set()
    for i, config in enumerate(profile.plugin_config):
        config_path = f"{child(path, 'pluginConfig')}[{i}]"
        if config.name in seen:
            yield duplicate(config_path, config.name)
        seen.add(config.name)
        yield from _plugin_config(config_path, config, plugins, features)


def _removed(path: str, name: str) -> str:
    # Parity: the reference abbreviates the version in which a plugin was removed to "v1".
    reason = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return invalid(path, name, reason)


def _plugin_config(path: str, config: PluginConfig, plugins: Declarations, features: FeatureGates) -> Iterator[str]:
    if config.name in _REMOVED_PLUGINS:
        yield _removed(path, config.name)
    elif config.name == "NodeResourcesFitArgs":
        # Parity: the reference registers this check under the kind's name instead of the plugin's. So it never applies
        # to the plugin's arguments, and no arguments of a plugin with that name are valid.
        yield invalid(child(path, "args"), config.args, "has to match plugin args")
    elif config.name in plugins and plugins[config.name].args_type is not None:
        yield from _args_errors(child(path, "args"), config.args, features)


def _args_errors(path: str, args: Any, features: FeatureGates) -> Iterator[str]:
    """The problems found by the plugin's own validation; that of out-of-tree plugins may return None or raise."""
    validate = getattr(type(args), "validate", None)
    if not isfunction(validate):
        # A field may have this name.
        return
    try:
        found = validate(args, path, features) or ()
        yield from (found,) if isinstance(found, str) else map(str, found)
    except Exception as error:
        text = str(error) if isinstance(error, ValueError) else f"validate raised {type(error).__name__}: {error}"
        yield f"{path}: {text}"


def _common_queue_sort(path: str, profiles: Sequence[Profile]) -> Iterator[str]:
    """All profiles share one queue, so their QueueSort plugins must be equal."""
    first = profiles[0]
    common = first.plugins.queue_sort
    if len(common.enabled) > 1:
        yield invalid(
            f"{path}[0].plugins.queueSort.Enabled", len(common.enabled), "only one queue sort plugin can be enabled"
        )
    name = common.enabled[0].name if common.enabled else ""
    args = _last_args(first, name) if name else None
    for i, profile in enumerate(profiles[1:], start=1):
        own = profile.plugins.queue_sort
        if own != common:
            yield invalid(f"{path}[{i}].plugins.queueSort", _shown_set(own), "must be the same for all profiles")
        for config in profile.plugin_config:
            if config.name == name and not same_args(config.args, args):
                shown = None if isinstance(config.args, Args) else typed_args_as_json(config.args)
                yield invalid(f"{path}[{i}].pluginConfig.args", shown, "queueSort must be the same for all profiles")


def _last_args(profile: Profile, name: str) -> Any:
    return next((config.args for config in reversed(profile.plugin_config) if config.name == name), None)


def _shown_set(plugin_set: PluginSet) -> dict[str, Any]:
    return {"Enabled": _shown_plugins(plugin_set.enabled), "Disabled": _shown_plugins(plugin_set.disabled)}


def _shown_plugins(plugins: Sequence[Plugin]) -> list[dict[str, Any]] | None:
    return [{"Name": plugin.name, "Weight": plugin.weight} for plugin in plugins] or None


# --- extenders


def _extenders(path: str, extenders: Sequence[Extender]) -> Iterator[str]:
    seen: set[str] = set()
    for i, extender in enumerate(extenders):
        yield from _extender(f"{path}[{i}]", extender, seen)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        yield invalid(path, f"found {binders} extenders implementing bind", "only one extender can implement bind")


def _extender(path: str, extender: Extender, seen: set[str]) -> Iterator[str]:
    if extender.prioritize_verb and extender.weight <= 0:
        yield invalid(child(path, "weight"), extender.weight, "must have a positive weight applied to it")
    for i, resource in enumerate(extender.managed_resources):
        name_path = f"{path}.managedResources[{i}].name"
        yield from _extended_resource_name(name_path, resource.name)
        if resource.name in seen:
            yield invalid(name_path, resource.name, "duplicate extender managed resource name")
        seen.add(resource.name)


def _extended_resource_name(path: str, name: str) -> Iterator[str]:
    problems = is_qualified_name_errors(name)
    if not problems and not _is_extended_resource(name):
        problems = ["is an invalid extended resource name"]
    for problem in problems:
        yield invalid(path, name, problem)


def _is_extended_resource(name: str) -> bool:
    if "/" not in name or _NATIVE_DOMAIN in name or name.startswith(_REQUESTS_PREFIX):
        return False
    # The name must be valid as a quota key, which has this prefix.
    return not is_qualified_name_errors(_REQUESTS_PREFIX + name)
