"""Apply flags to the configuration, and convert those of logging to log settings.

With --config only explicitly set leader-election flags apply, even at their defaults; without it the deprecated flags
apply as well.

Upstream: cmd/kube-scheduler/app/options/options.go (ApplyDeprecated, ApplyLeaderElectionTo).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from stowplan.app.command_line.flags.flag_set import CommandLine
from stowplan.kube.api.quantity import value
from stowplan.kube.config import Configuration, FeatureGates
from stowplan.kube.config.config_errors import ConfigError, forbidden, invalid
from stowplan.kube.klog.setup import LogSettings

_LEADER_ELECTION = {
    "leader-elect": "leader_elect",
    "leader-elect-lease-duration": "lease_duration",
    "leader-elect-renew-deadline": "renew_deadline",
    "leader-elect-retry-period": "retry_period",
    "leader-elect-resource-lock": "resource_lock",
    "leader-elect-resource-name": "resource_name",
    "leader-elect-resource-namespace": "resource_namespace",
}
_OLD_LOCK = {"lock-object-name": "resource_name", "lock-object-namespace": "resource_namespace"}
_CONNECTION = {
    "kubeconfig": "kubeconfig",
    "kube-api-content-type": "content_type",
    "kube-api-qps": "qps",
    "kube-api-burst": "burst",
}
_DEBUGGING = {"profiling": "enable_profiling", "contention-profiling": "enable_contention_profiling"}

_MIGRATED = {
    "endpoints": "migrate to leases",
    "configmaps": "migrate to leases",
    "endpointsleases": "migrate to leases",
    "configmapsleases": "migrated to leases",
}


def with_flags(configuration: Configuration, line: CommandLine) -> Configuration:
    election = {**_given(line, _OLD_LOCK), **_given(line, _LEADER_ELECTION)}
    configuration = replace(configuration, leader_election=replace(configuration.leader_election, **election))
    if line["config"]:
        return configuration
    connection = replace(configuration.client_connection, **_given(line, _CONNECTION))
    return replace(configuration, client_connection=connection, **_given(line, _DEBUGGING))


def _given(line: CommandLine, fields: dict[str, str]) -> dict[str, Any]:
    return {field: line[flag] for flag, field in fields.items() if line.is_given(flag)}


def check_unvalidated(configuration: Configuration) -> None:
    """Reject flag values that bypass the validation of files, on which the reference fails later."""
    connection = configuration.client_connection
    if connection.burst <= 0 < connection.qps:
        raise ConfigError(
            "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to greater than 0"
        )
    lock = configuration.leader_election.resource_lock
    if configuration.leader_election.leader_elect and lock != "leases":
        reason = f"{lock} lock is removed, {_MIGRATED[lock]}" if lock in _MIGRATED else f"Invalid lock-type {lock}"
        raise ConfigError(f"couldn't create resource lock: {reason}")
    if configuration.leader_election.leader_elect:
        # It imports the client, which an invalid command line does not need.
        from stowplan.net.client.election.leader_election import check_lease_settings

        try:
            check_lease_settings(configuration.leader_election)
        except ValueError as error:
            raise ConfigError(str(error)) from None


# Logging. Upstream: k8s.io/component-base/logs/api/v1/options.go.

_ALPHA_GATE = "LoggingAlphaOptions"
_BETA_GATE = "LoggingBetaOptions"


def log_option_errors(line: CommandLine, features: FeatureGates) -> Iterator[str]:
    if line["log-flush-frequency"] <= 0:
        yield invalid("flushFrequency", line["log-flush-frequency"], "Must be greater than zero")
    format_ = line["logging-format"]
    if format_ not in ("text", "json"):
        yield invalid("format", format_, "Unsupported log format")
    elif format_ == "json" and not features.enabled(_BETA_GATE):
        yield forbidden("format", f"Log format json is disabled, see {_BETA_GATE} feature")
    if line["vmodule"] and format_ != "text":
        yield forbidden("vmodule", "Only supported for text log format")
    if not features.enabled(_ALPHA_GATE):
        yield from _alpha_options(line)


def _alpha_options(line: CommandLine) -> Iterator[str]:
    for format_ in ("text", "json"):
        given = {
            "splitStream": line[f"log-{format_}-split-stream"],
            "infoBufferSize": line[f"log-{format_}-info-buffer-size"].nano,
        }
        for option in (name for name, wanted in given.items() if wanted):
            yield forbidden(f"options.{format_}.{option}", f"Feature {_ALPHA_GATE} is disabled")


def log_settings(line: CommandLine) -> LogSettings:
    """Convert valid flags to settings."""
    format_ = line["logging-format"]
    return LogSettings(
        format=format_,
        verbosity=line["v"],
        vmodule=line["vmodule"],
        split_stream=line[f"log-{format_}-split-stream"],
        info_buffer_size=value(line[f"log-{format_}-info-buffer-size"].nano),
        flush_frequency=line["log-flush-frequency"].seconds,
    )
