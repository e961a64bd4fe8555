"""Write the kubeconfig for the embedded API server.

It contains a token, so only its owner may read it. It is written atomically.

Upstream: staging/src/k8s.io/client-go/tools/clientcmd/api/v1.
"""

from __future__ import annotations

import base64
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import yaml

from stowplan.kube.api.yaml_text import HostileYamlError, first_value, to_yaml
from stowplan.net.serving.tls.certificates import write_private

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

NAME = "stowplan"
#: Timeout in seconds; short, because the server is on this machine.
_ANSWER_WITHIN = 2.0


def kubeconfig(url: str, *, token: str, ca_certificate: bytes | None) -> JsonObject:
    """A kubeconfig with the single context `stowplan`; without TLS it has no certificate."""
    cluster: JsonObject = {"server": url}
    if ca_certificate is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca_certificate).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }


def write_kubeconfig(path: Path, config: JsonObject) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, to_yaml(config).encode())


def is_ours(path: Path) -> bool:
    """Whether the file is a kubeconfig that we wrote, and so may replace."""
    return _cluster_of(path) is not None


def running_server_url(path: Path, *, own: str = "") -> str:
    """The URL of the kubeconfig's server if it is still running, else "".

    A killed server leaves its file behind, and another program may use its port by now: so the server has to present a
    certificate that the file trusts. `own` is the caller's own address.
    """
    cluster = _cluster_of(path) or {}
    url, authority = cluster.get("server"), cluster.get("certificate-authority-data")
    if not isinstance(url, str) or url == own:
        return ""
    address = urlsplit(url)
    try:
        with socket.create_connection((address.hostname, address.port), timeout=_ANSWER_WITHIN) as plain:
            if address.scheme != "https":
                return url
            context = ssl.create_default_context(cadata=base64.b64decode(authority or "").decode())
            with context.wrap_socket(plain, server_hostname=address.hostname):
                return url
    except (OSError, ValueError):
        return ""


def _cluster_of(path: Path) -> JsonObject | None:
    """The cluster entry of a kubeconfig that we wrote; None for any other file."""
    try:
        config = first_value(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, HostileYamlError, UnicodeDecodeError):
        return None
    if not isinstance(config, dict) or config.get("current-context") != NAME:
        return None
    match config.get("clusters"):
        case [{"name": "stowplan", "cluster": dict(cluster)}]:
            return cluster
    return None
