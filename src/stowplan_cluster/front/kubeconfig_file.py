"""The kubeconfig with which kubectl finds the embedded API.

It holds a token, so only its owner may read it, and it appears whole or not at all.

Upstream: staging/src/k8s.io/client-go/tools/clientcmd/api/v1.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import yaml

from stowplan.api.yaml_text import HostileYamlError, first_value
from stowplan.serving.tls.certificates import write_private

if TYPE_CHECKING:
    from pathlib import Path

    from stowplan_cluster.apiserver.objects import JsonObject

NAME = "stowplan"


def kubeconfig(url: str, *, token: str, ca_certificate: bytes | None) -> JsonObject:
    """A configuration whose only context is `stowplan`; without TLS there is no certificate."""
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
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def is_ours(path: Path) -> bool:
    """Whether a file is a kubeconfig as written here, and so may be replaced."""
    try:
        config = first_value(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, HostileYamlError, UnicodeDecodeError):
        return False
    if not isinstance(config, dict):
        return False
    clusters = config.get("clusters")
    names = [entry.get("name") for entry in clusters if isinstance(entry, dict)] if isinstance(clusters, list) else []
    return config.get("current-context") == NAME and names == [NAME]
