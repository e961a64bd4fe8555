"""ExecCredential: encode the request to a credential plugin, decode its response.

The plugin reads KUBERNETES_EXEC_INFO from its environment and prints an ExecCredential of the same version. The
response is validated before it is used. It contains secrets, so no message quotes it.

Upstream: staging/src/k8s.io/client-go/pkg/apis/clientauthentication, plugin/pkg/client/auth/exec/exec.go.
"""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from stowplan.kube.config.config_documents import parse_document
from stowplan.kube.config.config_errors import ConfigError
from stowplan.net.client.client_errors import ClientConfigError
from stowplan.net.client.credentials.request_credentials import is_sendable
from stowplan.net.client.endpoint.file_content import Content
from stowplan.net.client.endpoint.tls import ClientCertificate, load_client_certificate

GROUP = "client.authentication.k8s.io"
API_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")

_KIND = "ExecCredential"


class ExecAnswerError(ValueError):
    """An invalid plugin response; `str()` says why."""


@dataclass(frozen=True, kw_only=True)
class ExecCluster:
    """The cluster information for a plugin with `provideClusterInfo`."""

    server: str
    tls_server_name: str = ""
    insecure: bool = False
    ca: Content | None = None
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    #: The cluster's extension named client.authentication.k8s.io/exec.
    config: Any = None


@dataclass(frozen=True, kw_only=True)
class ExecAnswer:
    token: str = field(repr=False)
    certificate: ClientCertificate | None
    #: Seconds since the epoch; None: never.
    expires: float | None


def exec_info(*, api_version: str, interactive: bool, cluster: ExecCluster | None) -> str:
    """The value of KUBERNETES_EXEC_INFO."""
    spec: dict[str, Any] = {"interactive": interactive}
    if cluster is not None:
        spec["cluster"] = _cluster_info(cluster)
    return json.dumps({"kind": _KIND, "apiVersion": api_version, "spec": spec}, separators=(",", ":"))


def _cluster_info(cluster: ExecCluster) -> dict[str, Any]:
    optional = {
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure,
        "certificate-authority-data": base64.b64encode(cluster.ca.read()).decode() if cluster.ca else "",
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
    }
    given = {name: value for name, value in optional.items() if value}
    return {"server": cluster.server, **given, "config": cluster.config}


def parse_answer(output: bytes, *, api_version: str, where: str) -> ExecAnswer:
    """Parse a plugin's output; raises ExecAnswerError."""
    status = _status(_document(output), api_version)
    token, certificate, key = (_text(status, name) for name in ("token", "clientCertificateData", "clientKeyData"))
    if not token and not certificate and not key:
        raise ExecAnswerError("the plugin returned neither status.token nor a client certificate and key")
    if bool(certificate) != bool(key):
        given, missing = ("certificate", "clientKeyData") if certificate else ("key", "clientCertificateData")
        raise ExecAnswerError(f"the plugin returned a client {given} only, status.{missing} is missing")
    if not is_sendable(token):
        raise ExecAnswerError("status.token holds spaces or control characters, no HTTP header can carry it")
    return ExecAnswer(
        token=token,
        certificate=_certificate(certificate, key, where) if certificate else None,
        expires=_expires(status),
    )


def _document(output: bytes) -> dict[str, Any]:
    if not output.strip():
        raise ExecAnswerError("the plugin printed nothing to standard output, expected an ExecCredential")
    try:
        value = parse_document(output.decode()).value
    except UnicodeDecodeError:
        raise ExecAnswerError("the plugin's standard output is not UTF-8 text") from None
    except ConfigError:
        # The parser's message may quote the text, which may be a token.
        raise ExecAnswerError("the plugin's standard output is not JSON, expected an ExecCredential") from None
    if not isinstance(value, dict):
        raise ExecAnswerError("the plugin's standard output is not a JSON object, expected an ExecCredential")
    return value


def _status(document: dict[str, Any], api_version: str) -> dict[str, Any]:
    kind, version, status = document.get("kind"), document.get("apiVersion"), document.get("status")
    if kind != _KIND:
        raise ExecAnswerError(f"the plugin returned another kind than {_KIND}")
    if version != api_version:
        returned = f"plugin returned version {_shown_version(version)}"
        raise ExecAnswerError(f"the exec plugin is configured to use API version {api_version}, {returned}")
    if not isinstance(status, dict):
        raise ExecAnswerError("the plugin did not return a status field")
    return status


def _shown_version(version: object) -> str:
    """Anything but a version is output, which may contain tokens."""
    is_version = isinstance(version, str) and version.startswith(f"{GROUP}/")
    return json.dumps(version)[:100] if is_version else "of another API"


def _text(status: dict[str, Any], name: str) -> str:
    value = status.get(name)
    if value is not None and not isinstance(value, str):
        raise ExecAnswerError(f"status.{name}: expected a string")
    return value or ""


def _certificate(certificate: str, key: str, where: str) -> ClientCertificate:
    pair = ClientCertificate(certificate=certificate.encode(), key=key.encode(), where=f"{where}: status")
    try:
        load_client_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), pair)
    except ClientConfigError as error:
        raise ExecAnswerError(str(error).removeprefix(f"{where}: ")) from None
    return pair


def _expires(status: dict[str, Any]) -> float | None:
    text = _text(status, "expirationTimestamp")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ExecAnswerError("status.expirationTimestamp: expected a time like 2030-01-02T15:04:05Z")
    return moment.timestamp()
