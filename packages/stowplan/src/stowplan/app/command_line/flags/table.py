"""The flags of kube-scheduler 1.36, section by section in the order of its help.

A flag without effect here says so in its help and has `built=False`: it is parsed and validated, and a non-default
value causes a warning.

Upstream: cmd/kube-scheduler/app/options/options.go and the option sets of the libraries it uses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from stowplan.app.command_line.flags import flag_kinds as k
from stowplan.app.command_line.flags.flag_set import Flag
from stowplan.kube.api.durations import Duration
from stowplan.kube.api.quantity import read_quantity
from stowplan.kube.config.configuration import ClientConnection, LeaderElection
from stowplan.kube.config.gate_table import gates_at
from stowplan.kube.kubernetes_versions import BINARY_VERSION, OLDEST_VERSION

_CONNECTION = ClientConnection()
_ELECTION = LeaderElection()
_IGNORED = " Ignored if --config is given."


def _section(section: str) -> Callable[..., Flag]:
    def flag(name: str, kind: k.Kind, default: Any, usage: str, **more: Any) -> Flag:
        return Flag(name=name, kind=kind, default=default, usage=usage, section=section, **more)

    return flag


_misc = _section("Misc")
MISC = (
    _misc("config", k.STRING, "", "Configuration file (KubeSchedulerConfiguration), YAML or JSON."),
    _misc(
        "extender-mode",
        k.STRING,
        "serial",
        "What happens while a pod waits for an extender. serial: no other pod is scheduled; overlap: others are, and "
        "a slow extender only delays the pods that it is interested in. Only Stowplan has this flag.",
    ),
    _misc("master", k.URL, "", "URL of the API server; wins over the one in the kubeconfig."),
    _misc(
        "plugin",
        k.STRINGS,
        (),
        "Plugins of your own, each as module:Class; the configuration enables them by name. Can be repeated. "
        "Only Stowplan has this flag.",
    ),
    _misc(
        "plugin-binding-timeout",
        k.DURATION,
        Duration.of_seconds(15 * 60),
        "How long each PreBind, Bind and PostBind of a plugin of your own may take before its pod is tried again; "
        "0s: as long as it takes. Only Stowplan has this flag.",
    ),
    _misc(
        "plugin-timeout",
        k.DURATION,
        Duration.of_seconds(5),
        "How long a user plugin may block the scheduler before its call is interrupted and its pod is retried; should "
        "be less than --leader-elect-renew-deadline. 0s: unlimited. "
        "Only Stowplan has this flag.",
    ),
    _misc(
        "record",
        k.STRING,
        "",
        "Record the scheduler's inputs and decisions to this file, for stowplan replay; an existing file is renamed. "
        "Only Stowplan has this flag.",
    ),
    _misc(
        "record-annotation",
        k.STRINGS,
        (),
        "Annotations that --record keeps in addition to those that plugins read, or all. Only Stowplan has this flag.",
    ),
    _misc(
        "record-keep",
        k.INT,
        8,
        "Older files of --record that are kept; 0: all. Only Stowplan has this flag.",
    ),
    _misc(
        "record-max-size",
        k.INT,
        256,
        "MiB at which the file of --record is rotated; 0: never. Only Stowplan has this flag.",
    ),
    _misc(
        "tracing-config-file",
        k.STRING,
        "",
        "File with a TracingConfiguration, as kube-apiserver takes it: attempts become traces of OpenTelemetry, sent "
        "over HTTP. Needs stowplan[traces]. Only Stowplan has this flag.",
    ),
    _misc(
        "watch-config",
        k.BOOL,
        False,
        "Read --config again when it changes, and on SIGHUP: its profiles, extenders and backoffs take over between "
        "two pods; a file that is wrong is refused and changes nothing. Only Stowplan has this flag.",
    ),
    _misc("write-config-to", k.STRING, "", "Write the complete configuration to this file and exit."),
)

_serving = _section("Secure serving")
SERVING = (
    _serving(
        "bind-address",
        k.IP,
        ipaddress.IPv4Address("0.0.0.0"),
        "IP address on which --secure-port listens; an unspecified one (0.0.0.0 or ::) means all.",
    ),
    _serving(
        "cert-dir",
        k.STRING,
        "",
        "Folder for a certificate and key that are made at the start; of no use with --tls-cert-file and "
        "--tls-private-key-file. Without it they stay in memory.",
    ),
    _serving("disable-http2-serving", k.BOOL, False, "Serve HTTP/1.1 only; which is so anyway, HTTP/2 is not served."),
    _serving(
        "http2-max-streams-per-connection",
        k.INT,
        0,
        "Streams at a time of one HTTP/2 connection; without effect, as HTTP/2 is not served.",
        built=False,
    ),
    _serving("permit-address-sharing", k.BOOL, False, "Listen with SO_REUSEADDR."),
    _serving("permit-port-sharing", k.BOOL, False, "Listen with SO_REUSEPORT."),
    _serving("secure-port", k.INT, 10259, "Port for HTTPS; 0 serves nothing."),
    _serving("tls-cert-file", k.STRING, "", "Certificate for HTTPS, with the chain that follows it."),
    _serving("tls-cipher-suites", k.STRINGS, (), "Cipher suites that may be used; without it, the library's choice."),
    _serving("tls-curve-preferences", k.INT32_SLICE, (), "Numbers of the TLS curves that may be used."),
    _serving(
        "tls-min-version", k.STRING, "", "Oldest TLS version: VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13."
    ),
    _serving("tls-private-key-file", k.STRING, "", "Key of --tls-cert-file."),
    _serving(
        "tls-sni-cert-key",
        k.NAMED_CERT_KEYS,
        (),
        "Certificate and key for some host names: file,file[:pattern,...]. Can be repeated. "
        'Examples: "example.crt,example.key" or "foo.crt,foo.key:*.foo.com,foo.com".',
    ),
)

_authentication = _section("Authentication")
AUTHENTICATION = (
    _authentication("authentication-kubeconfig", k.STRING, "", "Kubeconfig for asking who a token belongs to."),
    _authentication(
        "authentication-skip-lookup", k.BOOL, False, "Do not look for certificate authorities in the cluster."
    ),
    _authentication(
        "authentication-token-webhook-cache-ttl",
        k.DURATION,
        Duration.of_seconds(10),
        "How long an answer about a token is good.",
    ),
    _authentication(
        "authentication-tolerate-lookup-failure", k.BOOL, True, "Start even if that look into the cluster fails."
    ),
    _authentication("client-ca-file", k.STRING, "", "CA bundle for client certificates."),
    _authentication(
        "requestheader-allowed-names",
        k.STRINGS,
        (),
        "Common names of front proxies that are believed; empty means any.",
    ),
    _authentication("requestheader-client-ca-file", k.STRING, "", "Authorities of front proxies."),
    _authentication(
        "requestheader-extra-headers-prefix",
        k.STRINGS,
        ("x-remote-extra-",),
        "Prefixes of headers with more of the user.",
    ),
    _authentication("requestheader-group-headers", k.STRINGS, ("x-remote-group",), "Headers with the user's groups."),
    _authentication("requestheader-uid-headers", k.STRINGS, (), "Headers with the user's UID."),
    _authentication("requestheader-username-headers", k.STRINGS, ("x-remote-user",), "Headers with the user's name."),
)

_authorization = _section("Authorization")
AUTHORIZATION = (
    _authorization(
        "authorization-always-allow-paths",
        k.STRINGS,
        ("/healthz", "/readyz", "/livez"),
        "Paths that anybody may read; a trailing * matches any suffix.",
    ),
    _authorization("authorization-kubeconfig", k.STRING, "", "Kubeconfig for asking what a user may do."),
    _authorization(
        "authorization-webhook-cache-authorized-ttl", k.DURATION, Duration.of_seconds(10), "How long a yes is good."
    ),
    _authorization(
        "authorization-webhook-cache-unauthorized-ttl", k.DURATION, Duration.of_seconds(10), "How long a no is good."
    ),
)

_deprecated = _section("Deprecated")
DEPRECATED = (
    _deprecated(
        "contention-profiling",
        k.BOOL,
        True,
        "DEPRECATED: profile blocking, too; without effect, as nothing waits for a lock." + _IGNORED,
        built=False,
    ),
    _deprecated("kube-api-burst", k.INT32, _CONNECTION.burst, "DEPRECATED: requests that may go at once." + _IGNORED),
    _deprecated(
        "kube-api-content-type",
        k.STRING,
        _CONNECTION.content_type,
        "DEPRECATED: content type of requests; they are always JSON." + _IGNORED,
    ),
    _deprecated("kube-api-qps", k.FLOAT32, float(_CONNECTION.qps), "DEPRECATED: requests a second." + _IGNORED),
    _deprecated("kubeconfig", k.STRING, "", "DEPRECATED: kubeconfig of the cluster." + _IGNORED),
    _deprecated(
        "pod-max-in-unschedulable-pods-duration",
        k.DURATION,
        Duration.of_seconds(300),
        "DEPRECATED: how long a pod that fits nowhere waits for an event before it is tried again.",
    ),
    _deprecated("profiling", k.BOOL, True, "DEPRECATED: serve profiles under /debug/pprof/." + _IGNORED),
)

_election = _section("Leader election")
LEADER_ELECTION = (
    _election("leader-elect", k.BOOL, _ELECTION.leader_elect, "Of several schedulers, let one work."),
    _election(
        "leader-elect-lease-duration", k.DURATION, _ELECTION.lease_duration, "How long others wait for a silent leader."
    ),
    _election(
        "leader-elect-renew-deadline", k.DURATION, _ELECTION.renew_deadline, "How long a leader tries to stay one."
    ),
    _election(
        "leader-elect-resource-lock", k.STRING, _ELECTION.resource_lock, "Kind of the lock; only leases is known."
    ),
    _election("leader-elect-resource-name", k.STRING, _ELECTION.resource_name, "Name of the lock."),
    _election("leader-elect-resource-namespace", k.STRING, _ELECTION.resource_namespace, "Namespace of the lock."),
    _election("leader-elect-retry-period", k.DURATION, _ELECTION.retry_period, "Time between two tries."),
)


def _gates_usage() -> str:
    shown = (
        f"kube:{name}=true|false ({gate.stage} - default={'true' if gate.default else 'false'})"
        for name, gate in sorted(gates_at(BINARY_VERSION).items())
        if gate.stage in ("ALPHA", "BETA")
    )
    head = "Feature gates as [component:]Gate=true|false, separated by commas; the component is kube. Can be repeated."
    return "\n".join((head, "Options are:", *shown))


_gate = _section("Feature gate")
FEATURE_GATES = (
    _gate(
        "emulated-version",
        k.STRINGS,
        (),
        f"Version to behave as, [kube=]major.minor, from {OLDEST_VERSION} to {BINARY_VERSION}.",
    ),
    _gate("feature-gates", k.COMPONENT_VALUES, (), _gates_usage()),
    _gate(
        "min-compatibility-version",
        k.STRINGS,
        (),
        "Oldest version of other components to get along with, [kube=]major.minor, not above the emulated one.",
    ),
)

_metrics = _section("Metrics")
METRICS = (
    _metrics(
        "allow-metric-labels", k.STRING_TO_STRING, {}, "Values that a metric's label may have: metric,label='v1,v2'."
    ),
    _metrics("allow-metric-labels-manifest", k.STRING, "", "File with such values, as a map of metric,label to v1,v2."),
    _metrics("disabled-metrics", k.STRINGS, (), "Metrics not to show, by their full names."),
    _metrics(
        "show-hidden-metrics-for-version",
        k.STRING,
        "",
        "Show metrics that were hidden since; only 1.35 is known, and none was hidden since.",
    ),
)

_buffer = (
    "[Alpha] Size of the info buffer in bytes with --log-text-split-stream or --log-json-split-stream; 0: unbuffered. "
    "Needs the feature gate LoggingAlphaOptions."
)
_split = "[Alpha] Information to stdout, errors to stderr. Needs the feature gate LoggingAlphaOptions."
_logs = _section("Logs")
LOGS = (
    _logs("log-flush-frequency", k.DURATION, Duration.of_seconds(5), "Longest time that a line waits to be written."),
    _logs("log-json-info-buffer-size", k.QUANTITY, read_quantity("0"), _buffer),
    _logs("log-json-split-stream", k.BOOL, False, _split),
    _logs("log-text-info-buffer-size", k.QUANTITY, read_quantity("0"), _buffer),
    _logs("log-text-split-stream", k.BOOL, False, _split),
    _logs("logging-format", k.STRING, "text", 'Format of the log: "text" or "json".'),
    _logs("v", k.LEVEL, 0, "Verbosity of the log.", shorthand="v"),
    _logs("vmodule", k.VMODULE, (), "Verbosity by source file, for text only."),
)

_global = _section("Global")
GLOBAL = (
    _global("help", k.BOOL, False, "help for kube-scheduler", shorthand="h"),
    _global(
        "version",
        k.VERSION,
        k.NO_VERSION,
        "Print the version and exit; --version=raw prints all there is to say; --version=vX.Y.Z... sets it.",
    ),
)

KUBE_SCHEDULER_FLAGS: tuple[Flag, ...] = (
    *MISC,
    *SERVING,
    *AUTHENTICATION,
    *AUTHORIZATION,
    *DEPRECATED,
    *LEADER_ELECTION,
    *FEATURE_GATES,
    *METRICS,
    *LOGS,
    *GLOBAL,
)
