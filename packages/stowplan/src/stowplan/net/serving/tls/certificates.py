"""Create certificates for authorities and servers.

Keys are elliptic-curve keys, generated in a millisecond, unless clients may only support RSA. `cryptography` is only
imported when something is generated.

Upstream: staging/src/k8s.io/client-go/util/cert (GenerateSelfSignedCertKey), util/keyutil.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

LIFETIME = datetime.timedelta(days=365)
#: Clocks of clients may be behind.
SLACK = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with its intermediates, and its key: PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def self_signed(names: Sequence[str], *, wall_clock: float) -> KeyPair:
    """A certificate for these names by a temporary authority, whose key is discarded.

    Like upstream's, its key is RSA (about 50 ms): the configured cipher suites may require it.
    """
    from cryptography.hazmat.primitives.asymmetric import rsa

    now = datetime.datetime.fromtimestamp(wall_clock, datetime.UTC)
    host, since, until = names[0], now - SLACK, now - SLACK + LIFETIME
    ca_key, key = new_key(), rsa.generate_private_key(public_exponent=65537, key_size=2048)
    ca_name = common_name(f"{host}-ca@{int(wall_clock)}")
    authority = authority_builder(ca_name, key=ca_key, since=since, until=until)
    server = server_builder(
        common_name(f"{host}@{int(wall_clock)}"),
        issuer=ca_name,
        issuer_key=ca_key,
        key=key,
        names=names,
        since=since,
        until=until,
    )
    return KeyPair(signed(server, ca_key) + signed(authority, ca_key), pem_key(key))


def new_key() -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def authority_builder(
    name: x509.Name, *, key: ec.EllipticCurvePrivateKey, since: datetime.datetime, until: datetime.datetime
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        _builder(name, issuer=name, key=key, since=since, until=until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )


def server_builder(
    name: x509.Name,
    *,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    key: PrivateKey,
    names: Sequence[str],
    since: datetime.datetime,
    until: datetime.datetime,
) -> x509.CertificateBuilder:
    """For host names and addresses."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    alternatives = x509.SubjectAlternativeName([general_name(host) for host in names])
    return (
        _builder(name, issuer=issuer, key=key, since=since, until=until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False, enciphers=not isinstance(key, ec.EllipticCurvePrivateKey)), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(alternatives, critical=False)
    )


def _builder(
    subject: x509.Name,
    *,
    issuer: x509.Name,
    key: PrivateKey,
    since: datetime.datetime,
    until: datetime.datetime,
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool, enciphers: bool = False) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=enciphers,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def common_name(name: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def pem_key(key: PrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_private(path: Path, data: bytes) -> None:
    """Write a file atomically, readable by its owner only."""
    write_whole(path, data, mode=0o600)


def write_whole(path: Path, data: bytes, *, mode: int) -> None:
    """Write a file atomically."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
