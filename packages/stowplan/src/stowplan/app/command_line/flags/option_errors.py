"""Validate flag values: ports, TLS names, headers, metrics.

Upstream: the Validate functions of k8s.io/apiserver/pkg/server/options and k8s.io/component-base/metrics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from stowplan.app.command_line.flags.flag_set import CommandLine, options_of
from stowplan.app.command_line.flags.gates import version_errors, versions_of
from stowplan.kube.api.field_errors import go_json, go_quote
from stowplan.kube.config.config_errors import invalid, os_error_text

_TLS_VERSIONS = ("", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
_SUITES = """
    TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256
    TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA
    TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA
    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
    TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305 TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
"""
_INSECURE_SUITES = """
    TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256 TLS_ECDHE_ECDSA_WITH_RC4_128_SHA TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA
    TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256 TLS_ECDHE_RSA_WITH_RC4_128_SHA TLS_RSA_WITH_3DES_EDE_CBC_SHA
    TLS_RSA_WITH_AES_128_CBC_SHA TLS_RSA_WITH_AES_128_CBC_SHA256 TLS_RSA_WITH_AES_128_GCM_SHA256
    TLS_RSA_WITH_AES_256_CBC_SHA TLS_RSA_WITH_AES_256_GCM_SHA384 TLS_RSA_WITH_RC4_128_SHA
"""
_HIDDEN_SINCE = "1.35"
_METRIC = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*"
_WANTED_KEYS = (
    "must have keys with format `metricName,labelName` where metricName matches "
    f'"{_METRIC}" and labelName matches "{_LABEL}"'
)


def option_errors(line: CommandLine, gate: Callable[[str], bool]) -> Iterator[str]:
    # They import cryptography, which an invalid command line does not need.
    from stowplan.net.serving.delegation import AuthenticationOptions, check_authentication

    yield from version_errors(versions_of(line["emulated-version"], line["min-compatibility-version"]))
    yield from _port(line["secure-port"])
    yield from _plugin_timeouts(line)
    yield from _extender_mode(line["extender-mode"])
    for name in ("record-keep", "record-max-size"):
        if line[name] < 0:
            yield f"--{name} {line[name]} must not be negative"
    if line["watch-config"] and not line["config"]:
        yield "--watch-config needs --config: without a file there is nothing to watch"
    yield from check_authentication(options_of(AuthenticationOptions, line), gate=gate)
    yield from _metrics(line)


def _port(port: int) -> Iterator[str]:
    if port < 0:
        yield f"--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
    elif port > 65535:
        # Parity: 0 is allowed nevertheless.
        yield f"--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"


def _extender_mode(mode: str) -> Iterator[str]:
    if mode not in ("serial", "overlap"):
        yield f"--extender-mode {mode} must be serial or overlap"


def _plugin_timeouts(line: CommandLine) -> Iterator[str]:
    for name in ("plugin-timeout", "plugin-binding-timeout"):
        if line[name] < 0:
            yield f"--{name} {line[name]} must not be negative; 0s is for no limit"


def serving_errors(line: CommandLine) -> Iterator[str]:
    """Problems that only matter for serving; the reference checks them last, and reports only the first."""
    if not line["secure-port"]:
        return
    if bool(line["tls-cert-file"]) != bool(line["tls-private-key-file"]):
        yield "missing filename for serving cert"
    known = frozenset((_SUITES + _INSECURE_SUITES).split())
    for suite in line["tls-cipher-suites"]:
        if suite not in known:
            yield f"Cipher suite {suite} not supported or doesn't exist"
    yield from _curves(line["tls-curve-preferences"])
    if line["tls-min-version"] not in _TLS_VERSIONS:
        yield f"unknown tls version {go_quote(line['tls-min-version'])}"
    for path in line["authorization-always-allow-paths"]:
        if "*" in path.removesuffix("*"):
            yield f"only trailing * allowed in {go_quote(path.removeprefix('/'))}"


def _curves(curves: tuple[int, ...]) -> Iterator[str]:
    for place, curve in enumerate(curves):
        if not 1 <= curve <= 65535:
            yield f"curve preference {curve} is out of range (must be 1-65535)"
        if curve in curves[:place]:
            yield f"duplicate curve preference {curve}"


def _metrics(line: CommandLine) -> Iterator[str]:
    version = line["show-hidden-metrics-for-version"]
    if version not in ("", _HIDDEN_SINCE):
        wanted = f"must be omitted or have the value '{_HIDDEN_SINCE}'; only the previous minor version is allowed"
        yield invalid("metrics.showHiddenMetricsForVersion", version, wanted)
    names = line["disabled-metrics"]
    wrong = next((name for name in names if not re.fullmatch(_METRIC, name)), None)
    if wrong is not None:
        wanted = f'must be fully qualified metric names matching "^{_METRIC}$", got {go_quote(wrong)}'
        yield f"metrics.disabledMetrics: Invalid value: {go_json(list(names))}: {wanted}"
    yield from _allow_list(line["allow-metric-labels"], line["allow-metric-labels-manifest"])
    if line["allow-metric-labels"] and line["allow-metric-labels-manifest"]:
        yield (
            f"metrics: Invalid value: {go_json(_given_metrics(line))}: "
            "cannot specify both allowListMapping and allowListMappingManifest"
        )


def _given_metrics(line: CommandLine) -> dict[str, object]:
    given = {
        "showHiddenMetricsForVersion": line["show-hidden-metrics-for-version"],
        "disabledMetrics": list(line["disabled-metrics"]),
        "allowListMapping": line["allow-metric-labels"],
        "allowListMappingManifest": line["allow-metric-labels-manifest"],
    }
    return {name: value for name, value in given.items() if value}


def _allow_list(mapping: Mapping[str, str], manifest: str) -> Iterator[str]:
    if not _are_keys(mapping):
        yield _refused_keys("metrics.allowListMapping", mapping)
    if manifest:
        try:
            read_allow_list(manifest)
        except ValueError as error:
            yield invalid("metrics.allowListMappingManifest", manifest, str(error))


def _are_keys(mapping: Mapping[str, str]) -> bool:
    return all(re.fullmatch(f"{_METRIC},{_LABEL}", key) for key in mapping)


def _refused_keys(field: str, mapping: Mapping[str, str]) -> str:
    return f"{field}: Invalid value: {go_json(dict(mapping))}: {_WANTED_KEYS}"


def read_allow_list(manifest: str) -> Mapping[str, str]:
    """Read "metric,label" -> "value,value" from a file; raises ValueError.

    The reference's help shows the map under allowListMapping, but the reference reads it without: both are accepted.
    """
    import yaml

    from stowplan.kube.api.yaml_text import HostileYamlError, first_value

    try:
        data = Path(manifest).read_bytes()
    except OSError as error:
        raise ValueError(f"failed to read allow list manifest: {os_error_text('open', manifest, error)}") from None
    try:
        document = {} if (loaded := first_value(data.decode("utf-8"))) is None else loaded
    except (yaml.YAMLError, HostileYamlError, UnicodeDecodeError) as error:
        # YAML's own messages have several lines.
        raise ValueError(f"failed to parse allow list manifest: {' '.join(str(error).split())}") from None
    mapping = document
    if isinstance(document, dict) and list(document) == ["allowListMapping"]:
        mapping = document["allowListMapping"] or {}
    if not isinstance(mapping, dict) or not all(isinstance(text, str) for text in (*mapping, *mapping.values())):
        raise ValueError('failed to parse allow list manifest: want a map "metric,label": "value,value"')
    if not _are_keys(mapping):
        problem = _refused_keys("metrics.allowListMappingManifest", mapping)
        raise ValueError(f"invalid allow list mapping in manifest: [{problem}]")
    return mapping
