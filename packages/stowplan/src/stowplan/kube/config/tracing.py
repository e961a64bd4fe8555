"""TracingConfiguration: where the traces of a component go, and how many of them.

The file is that of kube-apiserver's `--tracing-config-file`; kube-scheduler has no such flag, and no field for it in
its configuration. Fields, bounds and messages are upstream's. Endpoints differ, as traces are sent over HTTP:

    localhost:4318, dns:///localhost:4318    as upstream's, without TLS
    http://…, https://…                      a URL; without a path, that of OTLP is added

Upstream: k8s.io/component-base/tracing/api/v1, k8s.io/apiserver/pkg/server/options/tracing.go.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec

from stowplan.kube.config.config_errors import ConfigFileError
from stowplan.kube.config.typed_documents import Problem, read_document

KIND = "TracingConfiguration"
API_VERSIONS = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
MILLION = 1_000_000

#: Of OTLP over HTTP.
_PATH = "/v1/traces"


class TracingConfiguration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    api_version: str
    kind: str
    #: Unset: as OTEL_EXPORTER_OTLP_ENDPOINT says, else localhost:4318.
    endpoint: str | None = None
    #: None: as 0, only what a sampled trace leads to, and failures.
    sampling_rate_per_million: int | None = None

    @property
    def url(self) -> str:
        """Where traces are posted to; "" if that is unset."""
        endpoint = (self.endpoint or "").removeprefix("dns://").lstrip("/")
        if not endpoint:
            return ""
        if "://" not in endpoint:
            endpoint = f"http://{endpoint}"
        return endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + _PATH


def load_tracing(path: str | os.PathLike[str]) -> TracingConfiguration:
    """Read and validate the file; raises ConfigFileError."""
    document = read_document(path, KIND, _refused)
    found = document.read(TracingConfiguration, f"a {KIND}")
    problems = list(_problems(found))
    if problems:
        raise document.error(problems)
    return found


def _refused(*problems: str) -> ConfigFileError:
    return ConfigFileError("\n".join(problems))


def _problems(found: TracingConfiguration) -> Iterator[Problem]:
    if found.kind != KIND:
        yield ("kind",), f"want {KIND}"
    if found.api_version not in API_VERSIONS:
        yield ("apiVersion",), f"want one of {', '.join(API_VERSIONS)}"
    rate = found.sampling_rate_per_million or 0
    field = "samplingRatePerMillion"
    if rate < 0:
        yield (field,), f"Invalid value: {rate}: sampling rate must be positive"
    if rate > MILLION:
        most = "sampling rate per million must be less than or equal to one million"
        yield (field,), f"Invalid value: {rate}: {most}"
    if found.endpoint and (why := _problem_of(found)):
        # Without its value, which may contain a password.
        yield ("endpoint",), why


def _problem_of(found: TracingConfiguration) -> str:
    try:
        url = urlsplit(found.url)
        _ = url.port
    except ValueError as error:
        return str(error)
    if url.scheme not in ("http", "https"):
        return f"unsupported scheme: {url.scheme}. Options are none, dns, http or https: traces are sent over HTTP"
    if "@" in url.netloc:
        return "must not contain credentials; headers are set with OTEL_EXPORTER_OTLP_HEADERS"
    return "" if url.hostname else "want host:port or a URL"
