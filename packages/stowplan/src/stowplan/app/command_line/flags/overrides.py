"""Apply flags to the configuration.

With --config only explicitly set leader-election flags apply, even at their defaults; without it the deprecated flags
apply as well.

Upstream: cmd/kube-scheduler/app/options/options.go (ApplyDeprecated, ApplyLeaderElectionTo).
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stowplan.app.command_line.flags.flag_set import CommandLine
from stowplan.kube.config import Configuration
from stowplan.kube.config.config_errors import ConfigError

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
