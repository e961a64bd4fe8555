"""What of the flags can be wrong although each could be read: ports, TLS names, headers, metrics.

Upstream: the Validate functions of k8s.io/apiserver/pkg/server/options and k8s.io/component-base/metrics.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stowplan.api.field_errors import go_json, go_quote
from stowplan.cli.flags.versions import version_errors, versions_of
from stowplan.config.errors import invalid, os_error_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.cli.flags.flag_set import CommandLine

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


def option_errors(line: CommandLine) -> Iterator[str]:
    yield from version_errors(versions_of(line["emulated-version"], line["min-compatibility-version"]))
    yield from _port(line["secure-port"])
    yield from _request_headers(line)
    yield from _always_allowed(line["authorization-always-allow-paths"])
    yield from _metrics(line)


def _port(port: int) -> Iterator[str]:
    if port < 0:
        yield f"--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
    elif port > 65535:
        # Parity: 0 is allowed all the same.
        yield f"--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"


def tls_errors(line: CommandLine) -> Iterator[str]:
    """Check what only matters where something is served; the reference does so last."""
    if not line["secure-port"]:
        return
    if bool(line["tls-cert-file"]) != bool(line["tls-private-key-file"]):
        yield "missing filename for serving cert"
    known = frozenset((_SUITES + _INSECURE_SUITES).split())
    for suite in line["tls-cipher-suites"]:
        if suite not in known:
            yield f"Cipher suite {suite} not supported or doesn't exist"
    for curve in line["tls-curve-preferences"]:
        if not 1 <= curve <= 65535:
            yield f"curve preference {curve} is out of range (must be 1-65535)"
    if line["tls-min-version"] not in _TLS_VERSIONS:
        yield f"unknown tls version {go_quote(line['tls-min-version'])}"


def _request_headers(line: CommandLine) -> Iterator[str]:
    for name in ("username-headers", "group-headers", "extra-headers-prefix", "uid-headers"):
        flag = f"requestheader-{name}"
        if any(not header.strip() for header in line[flag]):
            yield f"empty value in {go_quote(flag)}"
    uid_headers = line["requestheader-uid-headers"]
    if uid_headers and "x-remote-uid" not in {header.lower() for header in uid_headers}:
        yield (
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - "
            "API aggregation will not work"
        )


def _always_allowed(paths: tuple[str, ...]) -> Iterator[str]:
    for path in paths:
        if "*" in path.removesuffix("*"):
            yield f"only trailing * allowed in {go_quote(path)}"


def _metrics(line: CommandLine) -> Iterator[str]:
    version = line["show-hidden-metrics-for-version"]
    if version not in ("", _HIDDEN_SINCE):
        wanted = f"must be omitted or have the value '{_HIDDEN_SINCE}'; only the previous minor version is allowed"
        yield invalid("metrics.showHiddenMetricsForVersion", version, wanted)
    names = line["disabled-metrics"]
    for name in names:
        if not re.fullmatch(_METRIC, name):
            wanted = f'must be fully qualified metric names matching "^{_METRIC}$", got {go_quote(name)}'
            yield f"metrics.disabledMetrics: Invalid value: {go_json(list(names))}: {wanted}"
    yield from _allow_list(line["allow-metric-labels"], line["allow-metric-labels-manifest"])


def _allow_list(mapping: dict[str, str], manifest: str) -> Iterator[str]:
    if any(not re.fullmatch(f"{_METRIC},{_LABEL}", key) for key in mapping):
        wanted = (
            "must have keys with format `metricName,labelName` where metricName matches "
            f'"{_METRIC}" and labelName matches "{_LABEL}"'
        )
        yield f"metrics.allowListMapping: Invalid value: {go_json(mapping)}: {wanted}"
    if mapping and manifest:
        yield invalid(
            "metrics.allowListMappingManifest",
            manifest,
            "cannot specify both allowListMapping and allowListMappingManifest",
        )
    elif manifest:
        try:
            with open(manifest, "rb"):
                return
        except OSError as error:
            reason = f"failed to read allow list manifest: {os_error_text('open', manifest, error)}"
            yield invalid("metrics.allowListMappingManifest", manifest, reason)
