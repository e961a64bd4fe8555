"""Create or load the CA and the server certificate of the embedded API server.

Both have elliptic-curve keys, which take a millisecond to create. In a directory they outlive the process, so that a
kubeconfig stays valid; they are renewed when about to expire or if they do not cover the host. `cryptography` is
imported only to create or check certificates.

Upstream: staging/src/k8s.io/client-go/util/cert (GenerateSelfSignedCertKey).
"""

from __future__ import annotations

import datetime
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

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
