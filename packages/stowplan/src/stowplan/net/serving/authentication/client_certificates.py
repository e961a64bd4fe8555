"""Authenticate by client certificate: common name and organizations.

The handshake accepts every certificate, so that an invalid one is rejected in HTTP. Here OpenSSL builds the chain from
the presented certificates to one authority at a time: each is a trust anchor, as in Go's pool, even if it is not a root
or shares its name with another. What Go requires beyond OpenSSL is checked on the resulting chain: every issuer may
sign certificates, no link is signed with a broken hash, and no certificate in the chain forbids clientAuth.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/x509; crypto/x509 (Verify) of Go.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import crypto
from OpenSSL._util import lib

from stowplan.kube.api.users import UserInfo
from stowplan.kube.metrics.families import Histogram
from stowplan.net.serving.authentication.authorities import Authorities
from stowplan.net.serving.user import Rejected

if TYPE_CHECKING:
    from stowplan.net.serving.user import Headers, Peer

#: An authority may certify a user's UID with this attribute of the subject.
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"

UNKNOWN_AUTHORITY = "x509: certificate signed by unknown authority"
WRONG_USAGE = "x509: certificate specifies an incompatible key usage"
#: Real chains are shorter, and a hundred certificates take 20 ms, whoever sends them. Go's limit is a hundred
#: signatures.
MAX_PRESENTED = 10
#: Reading takes 0.1 ms per KiB, on the event loop.
MAX_PRESENTED_BYTES = 32 * 1024

E = TypeVar("E", bound=x509.ExtensionType)

_DER = serialization.Encoding.DER
_CLIENT_USAGES = frozenset((ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE))
_BROKEN_HASHES = ("md5", "sha1")
#: Exceptions when parsing a part of a foreign certificate.
UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


class ClientCertificates:
    def __init__(
        self,
        authorities: Authorities,
        *,
        wall_clock: Callable[[], float],
        uid_allowed: bool,
        expiration: Histogram | None = None,
    ) -> None:
        self._authorities = authorities
        self._wall_clock = wall_clock
        self._uid_allowed = uid_allowed
        self._expiration = expiration
        self._one_at_a_time = asyncio.Lock()

    async def identify(self, headers: Headers, peer: Peer) -> UserInfo | None:
        """The user of the peer's certificate, None without one; raises Rejected for an invalid one."""
        authorities = self._authorities.current()
        if not peer.certificates or not authorities:
            return None
        # One at a time: each is read on the event loop, which has to renew the lease in between.
        async with self._one_at_a_time:
            return await self._identified(peer.certificates, authorities)

    async def _identified(self, presented: Sequence[bytes], authorities: Sequence[x509.Certificate]) -> UserInfo | None:
        _check_amount(presented)
        leaf = parsed(presented[0])
        now = self._wall_clock()
        if self._expiration is not None:
            self._expiration.observe(leaf.not_valid_after_utc.timestamp() - now)
        try:
            await verify_in_thread(presented, authorities, now=now)
        except Rejected as error:
            raise Rejected(f"verifying certificate {_described(leaf)} failed: {error}") from None
        return user_of(leaf, uid_allowed=self._uid_allowed)


def parsed(der: bytes) -> x509.Certificate:
    try:
        # The library's warnings would let clients flood standard error.
        with warnings.catch_warnings(action="ignore"):
            certificate = x509.load_der_x509_certificate(der)
            serial = certificate.serial_number
            # Parsed lazily, so access them here.
            _ = certificate.extensions, certificate.subject
            _ = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except UNREADABLE as error:
        raise Rejected(f"x509: malformed certificate: {error}") from None
    if serial <= 0:
        # Go rejects negative ones; for zero, which no authority uses, the library issues a deprecation warning.
        raise Rejected("x509: malformed certificate: its serial number is not positive")
    return certificate


def common_name(certificate: x509.Certificate) -> str:
    """Go uses the last one."""
    names = _values(certificate, NameOID.COMMON_NAME)
    return names[-1] if names else ""


def user_of(certificate: x509.Certificate, *, uid_allowed: bool) -> UserInfo | None:
    name = common_name(certificate)
    if not name:
        return None
    digest = hashlib.sha256(certificate.public_bytes(_DER)).hexdigest()
    return UserInfo(
        name,
        uid=_uid(certificate) if uid_allowed else "",
        groups=tuple(_values(certificate, NameOID.ORGANIZATION_NAME)),
        extra={CREDENTIAL_ID: (f"X509SHA256={digest}",)},
    )


def _uid(certificate: x509.Certificate) -> str:
    uids = _values(certificate, UID)
    if len(uids) > 1:
        raise Rejected(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
    if uids == [""]:
        raise Rejected("UID cannot be an empty string")
    return uids[0] if uids else ""


def _values(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    found = certificate.subject.get_attributes_for_oid(oid)
    return [attribute.value for attribute in found if isinstance(attribute.value, str)]


# --- validation


def verify(presented: Sequence[bytes], authorities: Sequence[x509.Certificate], *, now: float) -> None:
    """Raise Rejected unless the first certificate is a client's of one of the authorities.

    Further certificates may be intermediates.
    """
    certificates, moment = _looked_at(presented, now)
    _find_chain(certificates, authorities, moment)


async def verify_in_thread(presented: Sequence[bytes], authorities: Sequence[x509.Certificate], *, now: float) -> None:
    """Like `verify`, with signatures checked in a thread, because the event loop has to renew the lease."""
    # Not in the thread: suppressing warnings affects the whole process.
    certificates, moment = _looked_at(presented, now)
    await asyncio.get_running_loop().run_in_executor(_checker(), _find_chain, certificates, authorities, moment)


@cache
def _checker() -> ThreadPoolExecutor:
    """One thread, in order of arrival, so that a flood of certificates only delays certificates."""
    return ThreadPoolExecutor(1, "client certificates")


def _check_amount(presented: Sequence[bytes]) -> None:
    """Raise Rejected for more certificates than are looked at."""
    if len(presented) > MAX_PRESENTED:
        raise Rejected(f"x509: {len(presented)} certificates were presented, {MAX_PRESENTED} at most are looked at")
    size = sum(map(len, presented))
    if size > MAX_PRESENTED_BYTES:
        raise Rejected(
            f"x509: {size} bytes of certificates were presented, {MAX_PRESENTED_BYTES} at most are looked at"
        )


def _looked_at(presented: Sequence[bytes], now: float) -> tuple[list[x509.Certificate], datetime.datetime]:
    _check_amount(presented)
    certificates = [parsed(der) for der in presented]
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    _check_time(certificates[0], moment)
    return certificates, moment


def _find_chain(
    certificates: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate], moment: datetime.datetime
) -> None:
    why = UNKNOWN_AUTHORITY
    for authority in authorities:
        chain = _chain(certificates, authority, moment)
        if not chain or not all(_is_sound(signed, issuer) for signed, issuer in pairwise(chain)):
            continue
        if all(_is_for_clients(certificate) for certificate in chain):
            return
        why = WRONG_USAGE
    raise Rejected(why)


def _check_time(certificate: x509.Certificate, moment: datetime.datetime) -> None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if begin <= moment <= end:
        return
    relation = f"before {_rfc3339(begin)}" if moment < begin else f"after {_rfc3339(end)}"
    raise Rejected(f"x509: certificate has expired or is not yet valid: current time {_rfc3339(moment)} is {relation}")


def _chain(
    certificates: Sequence[x509.Certificate], authority: x509.Certificate, moment: datetime.datetime
) -> list[x509.Certificate] | None:
    store = crypto.X509Store()
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    store.set_time(moment)
    try:
        store.add_cert(crypto.X509.from_cryptography(authority))
        leaf, *links = map(crypto.X509.from_cryptography, certificates)
        chain = crypto.X509StoreContext(store, leaf, links).get_verified_chain()
    except (crypto.X509StoreContextError, crypto.Error):
        return None
    finally:
        # The next TLS connection would mistake an entry left in OpenSSL's error queue for its own.
        lib.ERR_clear_error()
    return [certificate.to_cryptography() for certificate in chain]


def _is_sound(signed: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Go's requirements for a link besides the signature."""
    try:
        algorithm = signed.signature_hash_algorithm
        constraints = _extension(issuer, x509.BasicConstraints)
    except UNREADABLE:
        return False
    if algorithm is not None and algorithm.name in _BROKEN_HASHES:
        return False
    # Version 1 certificates have no extensions; OpenSSL accepts one of these as an authority only if it is a root. Its
    # older releases also treat a key usage as a claim to be an authority.
    return constraints.ca if constraints is not None else issuer.version is x509.Version.v1


def _is_for_clients(certificate: x509.Certificate) -> bool:
    try:
        usages = _extension(certificate, x509.ExtendedKeyUsage)
    except UNREADABLE:
        return False
    return usages is None or not _CLIENT_USAGES.isdisjoint(usages)


def _described(certificate: x509.Certificate) -> str:
    subject_key = _extension(certificate, x509.SubjectKeyIdentifier)
    authority_key = _extension(certificate, x509.AuthorityKeyIdentifier)
    own = subject_key.digest if subject_key is not None else b""
    issuers = authority_key.key_identifier if authority_key is not None else None
    return f"SN={certificate.serial_number}, SKID={_hex(own)}, AKID={_hex(issuers or b'')}"


def _extension(certificate: x509.Certificate, type_: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(type_).value
    except x509.ExtensionNotFound:
        return None


def _hex(data: bytes) -> str:
    return data.hex(":").upper()


def _rfc3339(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
