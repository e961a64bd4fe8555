"""The front's own credentials: the CA and the server certificate, and the kubeconfig that clients find it with.

Certificates have elliptic-curve keys, which take a millisecond to create. In a directory they outlive the process, so
that a kubeconfig stays valid; they are renewed when about to expire or if they do not cover the host. `cryptography` is
imported only to create or check certificates. The kubeconfig contains a token, so only its owner may read it. It is
written atomically.

Upstream: staging/src/k8s.io/client-go/util/cert (GenerateSelfSignedCertKey), tools/clientcmd/api/v1.
"""

from __future__ import annotations

import base64
import datetime
import socket
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import yaml

from stowplan.kube.api.yaml_text import HostileYamlError, first_value, to_yaml
from stowplan.net.serving.tls.certificates import (
    LIFETIME,
    SLACK,
    authority_builder,
    common_name,
    general_name,
    new_key,
    pem_key,
    server_builder,
    signed,
    write_private,
)

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

#: Remaining validity at which a certificate is renewed.
_RENEWAL = datetime.timedelta(days=30)
_ALWAYS = ("localhost", "127.0.0.1")
_FILES = {"ca_certificate": "ca.crt", "ca_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}


@dataclass(frozen=True, slots=True)
class Certificates:
    """Certificates and keys in PEM."""

    ca_certificate: bytes
    ca_key: bytes = field(repr=False)
    certificate: bytes
    key: bytes = field(repr=False)

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # The standard library reads certificates from files only.
        with tempfile.TemporaryDirectory(prefix="stowplan-") as directory:
            path = Path(directory, "server.pem")
            write_private(path, self.certificate + self.key)
            context.load_cert_chain(path)
        return context


def certificates_for(host: str, *, directory: Path | None, clock: Callable[[], float]) -> Certificates:
    """Load the certificates in the directory if still valid, else create new ones there."""
    now = datetime.datetime.fromtimestamp(clock(), datetime.UTC)
    names = tuple(dict.fromkeys((host, *_ALWAYS)))
    if directory is None:
        return make_certificates(names, now=now)
    kept = _read(directory)
    if kept is not None and _serves(kept, names, now=now):
        return kept
    made = make_certificates(names, now=now)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    for attribute, name in _FILES.items():
        write_private(directory / name, getattr(made, attribute))
    return made


def _read(directory: Path) -> Certificates | None:
    try:
        return Certificates(**{attribute: (directory / name).read_bytes() for attribute, name in _FILES.items()})
    except FileNotFoundError:
        return None


def _serves(kept: Certificates, names: tuple[str, ...], *, now: datetime.datetime) -> bool:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        ca, certificate = (x509.load_pem_x509_certificate(pem) for pem in (kept.ca_certificate, kept.certificate))
        key = load_pem_private_key(kept.key, password=None)
        certificate.verify_directly_issued_by(ca)
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    covered = all(general_name(name) in alternatives for name in names)
    fresh = all(
        now + _RENEWAL < one.not_valid_after_utc and one.not_valid_before_utc <= now for one in (ca, certificate)
    )
    return covered and fresh and key.public_key() == certificate.public_key()


def make_certificates(names: tuple[str, ...], *, now: datetime.datetime) -> Certificates:
    since, until = now - SLACK, now + LIFETIME
    ca_key, key = new_key(), new_key()
    ca_name = common_name("stowplan-ca")
    ca = authority_builder(ca_name, key=ca_key, since=since, until=until)
    server = server_builder(
        common_name("stowplan-apiserver"),
        issuer=ca_name,
        issuer_key=ca_key,
        key=key,
        names=names,
        since=since,
        until=until,
    )
    return Certificates(signed(ca, ca_key), pem_key(ca_key), signed(server, ca_key), pem_key(key))


# The kubeconfig.

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
