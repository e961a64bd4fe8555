"""Client certificates of every kind, valid and invalid, as DER: what a peer presents."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from itertools import count
from math import gcd

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stowplan.kube.timing.times import START

DAY = datetime.timedelta(days=1)
NOW = datetime.datetime.fromtimestamp(START, datetime.UTC)
CLIENT_AUTH = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER_AUTH = ExtendedKeyUsageOID.SERVER_AUTH
ANY = ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE
_SERIALS = count(1000)


@dataclass(frozen=True)
class Issued:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

    @property
    def der(self):
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self):
        form = serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def name_of(*pairs):
    return x509.Name([x509.NameAttribute(oid, value, _validate=False) for oid, value in pairs])


def issue(
    subject,
    issuer=None,
    *,
    usages=(),
    ca=None,
    path_length=None,
    begin=NOW - DAY,
    end=NOW + DAY,
    hash_=None,
    key=None,
    extensions=(),
):
    """A certificate. `ca=None` leaves BasicConstraints out; `issuer=None` is self-signed. `subject` is a CN or a
    Name."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = subject if isinstance(subject, x509.Name) else name_of((NameOID.COMMON_NAME, subject))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(next(_SERIALS))
        .not_valid_before(begin)
        .not_valid_after(end)
    )
    if ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return Issued(builder.sign(key if issuer is None else issuer.key, hash_ or hashes.SHA256()), key)


def authority(name="an authority", issuer=None, **options):
    return issue(name, issuer, **{"ca": True, **options})


def client(issuer, name="alice", groups=(), **options):
    subject = name_of(*((NameOID.ORGANIZATION_NAME, group) for group in groups), (NameOID.COMMON_NAME, name))
    return issue(subject, issuer, **{"ca": False, "usages": [CLIENT_AUTH], **options})


def key_with_a_long_exponent():
    """A key for RSA whose public exponent is as long as its modulus, so that checking a signature takes long."""
    numbers = rsa.generate_private_key(65537, 2048).private_numbers()
    order = (numbers.p - 1) * (numbers.q - 1)
    exponent = next(e for e in range(order // 2 | 1, order, 2) if gcd(e, order) == 1)
    d = pow(exponent, -1, order)
    factors = numbers.p, numbers.q, d, rsa.rsa_crt_dmp1(d, numbers.p), rsa.rsa_crt_dmq1(d, numbers.q), numbers.iqmp
    return rsa.RSAPrivateNumbers(*factors, rsa.RSAPublicNumbers(exponent, numbers.public_numbers.n)).private_key()


class TrustedAuthorities:
    """Fixed certificate authorities."""

    def __init__(self, *authorities):
        self.certificates = tuple(one.certificate for one in authorities)

    def current(self):
        return self.certificates
