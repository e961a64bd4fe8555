"""A certificate authority and a server certificate of our own, for the address we serve at.

Both are elliptic-curve keys, made in a millisecond. With a directory they outlive the process, so
that a kubeconfig written once keeps working; they are made anew when they are about to expire or
do not cover the host. `cryptography` is imported only when something has to be made or checked.

Upstream: staging/src/k8s.io/client-go/util/cert (GenerateSelfSignedCertKey).
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_LIFETIME = datetime.timedelta(days=365)
#: What is left of its life when a certificate is replaced.
_RENEWAL = datetime.timedelta(days=30)
#: Clocks of clients may be behind.
_SLACK = datetime.timedelta(hours=1)
_ALWAYS = ("localhost", "127.0.0.1")
_FILES = {"ca_certificate": "ca.crt", "ca_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM, all of it."""

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
    """Those kept in the directory if they still serve, else new ones, kept there."""
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


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, all of it or nothing."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


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
    covered = all(_general_name(name) in alternatives for name in names)
    fresh = all(
        now + _RENEWAL < one.not_valid_after_utc and one.not_valid_before_utc <= now for one in (ca, certificate)
    )
    return covered and fresh and key.public_key() == certificate.public_key()


def make_certificates(names: tuple[str, ...], *, now: datetime.datetime) -> Certificates:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name, name = _common_name("stowplan-ca"), _common_name("stowplan-apiserver")
    ca = (
        _builder(ca_name, issuer=ca_name, key=ca_key, now=now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    server = (
        _builder(name, issuer=ca_name, key=key, now=now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in names]), critical=False)
    )
    return Certificates(_signed(ca, ca_key), _pem_key(ca_key), _signed(server, ca_key), _pem_key(key))


def _builder(
    subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(name: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
