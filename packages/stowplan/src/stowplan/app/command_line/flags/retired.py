"""Flags of kube-scheduler 1.16 to 1.28 that were removed: mapped, or rejected with the replacement.

They are parsed along with current flags, but are not in the help. Others are rejected as unknown, with their
replacement.

Upstream: cmd/kube-scheduler/app/options/deprecated.go, insecure_serving.go of 1.16 to 1.22.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from stowplan.app.command_line.flags import flag_kinds as k
from stowplan.app.command_line.flags.flag_set import CommandLine, Flag
from stowplan.kube.config.config_errors import required


def _flag(name: str, kind: k.Kind, default: Any, usage: str) -> Flag:
    return Flag(name=name, kind=kind, default=default, usage=usage, section="Retired")


RETIRED_FLAGS: tuple[Flag, ...] = (
    _flag("address", k.IP, ipaddress.IPv4Address("0.0.0.0"), "Where plain HTTP was served."),
    _flag("algorithm-provider", k.STRING, "", "Default plugins of 1.21: DefaultProvider or ClusterAutoscalerProvider."),
    _flag("alsologtostderr", k.BOOL, False, "Log to stderr, too."),
    _flag("hard-pod-affinity-symmetric-weight", k.INT32, 1, "Weight of required affinities of pods that run."),
    _flag("lock-object-name", k.STRING, "kube-scheduler", "Name of the lock."),
    _flag("lock-object-namespace", k.STRING, "kube-system", "Namespace of the lock."),
    _flag("logtostderr", k.BOOL, True, "Log to stderr."),
    _flag("policy-config-file", k.STRING, "", "File with a policy."),
    _flag("policy-configmap", k.STRING, "", "ConfigMap with a policy."),
    _flag("policy-configmap-namespace", k.STRING, "kube-system", "Its namespace."),
    _flag("port", k.INT, 0, "Port of plain HTTP."),
    _flag("scheduler-name", k.STRING, "default-scheduler", "Which pods to schedule."),
    _flag("use-legacy-policy-config", k.BOOL, False, "The policy file, whatever ConfigMap is named."),
)

_STDERR = "the log goes to stderr alone; redirect it, as in 2>>FILE"
_HEADERS = "lines of the log always have their header; --logging-format=json has fields instead"
GONE_FLAGS = {
    "add-dir-header": _HEADERS,
    "experimental-logging-sanitization": "the log has no secrets of this scheduler's; leave it out",
    "log-backtrace-at": "leave it out",
    "log-dir": _STDERR,
    "log-file": _STDERR,
    "log-file-max-size": _STDERR,
    "one-output": _STDERR,
    "skip-headers": _HEADERS,
    "skip-log-headers": _HEADERS,
    "stderrthreshold": _STDERR,
    "failure-domains": "it had no effect since 1.5; leave it out",
    "google-json-key": "it was never used by the scheduler; leave it out",
}

#: Flags that select plugins or profiles.
_PLUGINS = ("policy-config-file", "policy-configmap", "use-legacy-policy-config", "algorithm-provider")
_PROFILE = ("scheduler-name", "hard-pod-affinity-symmetric-weight")
_MAX_PORT = 65535


def selects_plugins(line: CommandLine) -> bool:
    return any(line.is_given(name) for name in (*_PLUGINS, *_PROFILE))


def uses_policy_file(line: CommandLine) -> bool:
    """Otherwise the ConfigMap, then the provider."""
    wanted = line["use-legacy-policy-config"] or (line["policy-config-file"] and not line["policy-configmap"])
    return bool(wanted)


def retired_errors(line: CommandLine) -> Iterator[str]:
    if line["use-legacy-policy-config"] and not line["policy-config-file"]:
        yield required("policyConfigFile", "required when --use-legacy-policy-config is true")
    if not 0 <= line["port"] <= _MAX_PORT:
        # Parity: the number is upstream's.
        yield f"--port {line['port']} must be between 0 and 65335, inclusive. 0 for turning off insecure (HTTP) port"
    elif line["port"]:
        yield f"--port {line['port']}: plain HTTP is no longer served; use --secure-port, or --port=0 for nothing"
    if line.is_given("address"):
        yield f"--address {line['address']}: plain HTTP is no longer served; write --bind-address={line['address']}"
    if not line["logtostderr"]:
        yield f"--logtostderr=false: {_STDERR}"
    yield from _with_config(line)
    yield from _locks(line)


def _with_config(line: CommandLine) -> Iterator[str]:
    """Releases differ in which wins."""
    if not line["config"]:
        return
    for name in (*_PLUGINS, *_PROFILE):
        if line.is_given(name):
            yield (
                f"--{name} cannot be given together with --config: the configuration says which plugins run, and for "
                f"whom; stowplan config convert makes one of a policy"
            )


def _locks(line: CommandLine) -> Iterator[str]:
    for what, old, new in (
        ("Namespace", "lock-object-namespace", "leader-elect-resource-namespace"),
        ("Name", "lock-object-name", "leader-elect-resource-name"),
    ):
        if line.is_given(old) and line.is_given(new) and line[old] != line[new]:
            yield (
                f"Resource{what} and LockObject{what} are both set and do not match, Resource{what}: {line[new]}, "
                f"LockObject{what}: {line[old]}"
            )


def retired_warnings(line: CommandLine) -> Iterator[str]:
    """Replacements of flags that still work."""
    for flag in RETIRED_FLAGS:
        if line.is_given(flag.name):
            instead = _INSTEAD.get(flag.name, "leave it out: it has no effect")
            yield f"--{flag.name} is a flag of an older release; {instead}"


_CONVERT = "use --config; stowplan config convert makes a configuration of a policy"
_INSTEAD = {
    "algorithm-provider": "use --config",
    "hard-pod-affinity-symmetric-weight": "use --config with hardPodAffinityWeight of InterPodAffinityArgs",
    "lock-object-name": "use --leader-elect-resource-name",
    "lock-object-namespace": "use --leader-elect-resource-namespace",
    "policy-config-file": _CONVERT,
    "policy-configmap": _CONVERT,
    "policy-configmap-namespace": _CONVERT,
    "scheduler-name": "use --config with profiles[].schedulerName",
    "use-legacy-policy-config": _CONVERT,
}
