"""Certificates of the secure port, reloaded while it is open.

A pair is read from two files whenever their metadata has changed, which is checked on each connection, so there is no
polling. The check costs two calls of stat, which follow links: mounted secrets are replaced by switching a link. An
inconsistent or partially written pair is reported once, and the previous pair stays in use.

Upstream: staging/src/k8s.io/apiserver/pkg/server/dynamiccertificates, pkg/server/options/serving.go.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from stowplan.kube.api.labels import dns1123_subdomain_errors
from stowplan.kube.klog.logger import get_logger
from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.serving_error import ServingError, go_error
from stowplan.net.serving.tls.certificate_detail import certificate_detail
from stowplan.net.serving.tls.certificates import KeyPair, self_signed, write_whole

log = get_logger(__name__)

_PAIR_NAME = "kube-scheduler"
_Signature = tuple[int, int, int, int] | int


class CertificateFiles(PlainStruct, frozen=True, kw_only=True):
    #: Paths; the certificate's file includes its intermediates.
    certificate: str
    key: str
    #: Host names, optionally starting with `*.`, and addresses; empty: those in the certificate.
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Identity:
    """A valid pair."""

    certificates: tuple[x509.Certificate, ...]
    key: RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey = field(repr=False)

    @property
    def own_names(self) -> list[str]:
        """Host names in the certificate, without addresses."""
        leaf = self.certificates[0]
        common = [str(one.value) for one in leaf.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
        try:
            alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (x509.ExtensionNotFound, ValueError):
            return [name for name in common if _is_host_name(name)]
        return [name for name in common if _is_host_name(name)] + alternatives.get_values_for_type(x509.DNSName)


def _is_host_name(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "*" or not dns1123_subdomain_errors(name.removeprefix("*."))
    return False


def read_identity(pair: KeyPair) -> Identity:
    """ValueError, without any part of the key, unless certificate and key match."""
    if b"-----BEGIN CERTIFICATE-----" not in pair.certificate:
        raise ValueError("tls: failed to find any PEM data in certificate input")
    if b"-----BEGIN" not in pair.key:
        raise ValueError("tls: failed to find any PEM data in key input")
    try:
        certificates = tuple(x509.load_pem_x509_certificates(pair.certificate))
        public_key = certificates[0].public_key()
    except ValueError as error:
        raise ValueError(f"tls: failed to parse certificate: {error}") from None
    try:
        key = load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError):
        raise ValueError("tls: failed to parse private key") from None
    if not isinstance(key, RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey):
        raise ValueError("tls: unknown private key algorithm")
    if key.public_key() != public_key:
        raise ValueError("tls: private key does not match public key")
    return Identity(certificates, key)


class FixedIdentity:
    """A constant identity."""

    #: Changes with the identity.
    generation = 0
    names: tuple[str, ...] = ()

    def __init__(self, pair: KeyPair) -> None:
        self.identity = read_identity(pair)

    def refresh(self) -> None:
        """No-op."""


class IdentityFiles:
    """An identity that is reloaded from its files."""

    def __init__(self, files: CertificateFiles, *, purpose: str, wall_clock: Callable[[], float]) -> None:
        """Raises ServingError if the initial files are invalid."""
        if not files.certificate or not files.key:
            raise ServingError("missing filename for serving cert")
        self.names = tuple(name.lower() for name in files.names)
        self.generation = 0
        #: The name in upstream's log.
        self._name = f"{purpose}::{files.certificate}::{files.key}"
        self._files = files
        self._wall_clock = wall_clock
        self._seen = self._signatures()
        self._pair, self.identity = self._read()
        self._log_loaded()

    def refresh(self) -> None:
        """Reload changed files, if they are valid."""
        signatures = self._signatures()
        if signatures == self._seen:
            return
        self._seen = signatures
        try:
            pair, identity = self._read()
        except ServingError as error:
            log.error(error, "Failed to reload a serving certificate, the one before stays in use", name=self._name)
            return
        if pair != self._pair:
            self._pair, self.identity = pair, identity
            self.generation += 1
            self._log_loaded()

    def _signatures(self) -> tuple[_Signature, _Signature]:
        return _signature(self._files.certificate), _signature(self._files.key)

    def _read(self) -> tuple[KeyPair, Identity]:
        try:
            pair = KeyPair(Path(self._files.certificate).read_bytes(), Path(self._files.key).read_bytes())
        except OSError as error:
            raise ServingError(go_error("open", error)) from None
        if not pair.certificate or not pair.key:
            raise ServingError(f'missing content for serving cert "{self._name}"')
        try:
            return pair, read_identity(pair)
        except ValueError as error:
            raise ServingError(str(error)) from None

    def _log_loaded(self) -> None:
        log.v(2).info("Loaded a new cert/key pair", name=self._name)
        leaf = self.identity.certificates[0]
        _log_certificate(leaf, self._name)
        now = datetime.datetime.fromtimestamp(self._wall_clock(), datetime.UTC)
        if leaf.not_valid_after_utc < now:
            log.warning(
                f"The serving certificate {self._files.certificate} expired at {leaf.not_valid_after_utc:%FT%TZ}: "
                "clients that check it will not connect. Replace the file, it is read again when it changes."
            )
        elif leaf.not_valid_before_utc > now:
            log.warning(
                f"The serving certificate {self._files.certificate} is valid from {leaf.not_valid_before_utc:%FT%TZ} "
                "on only: clients that check it will not connect before."
            )


def _log_certificate(leaf: x509.Certificate, name: str) -> None:
    verbose = log.v(2)
    if verbose.enabled:
        verbose.info("Loaded serving cert", certName=name, certDetail=certificate_detail(leaf))


def _signature(path: str) -> _Signature:
    """Changes when a file is written or replaced."""
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno or 0
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size


def generated_identity(
    directory: str, *, bind_address: str, wall_clock: Callable[[], float]
) -> FixedIdentity | IdentityFiles:
    """Generate an identity; with a directory it is stored there, and reused the next time."""
    if not directory:
        made = FixedIdentity(_generate(bind_address, wall_clock()))
        log.v(0).plain("Generated self-signed cert in-memory")
        _log_certificate(made.identity.certificates[0], "Generated self signed cert")
        return made
    certificate, key = (Path(directory, f"{_PAIR_NAME}.{suffix}") for suffix in ("crt", "key"))
    if not _are_there(certificate, key):
        pair = _generate(bind_address, wall_clock())
        try:
            certificate.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        except OSError as error:
            raise ServingError(f"error creating self-signed certificates: {go_error('mkdir', error)}") from None
        try:
            write_whole(certificate, pair.certificate, mode=0o644)
            write_whole(key, pair.key, mode=0o600)
        except OSError as error:
            raise ServingError(f"error creating self-signed certificates: {go_error('open', error)}") from None
        log.v(0).plain(f"Generated self-signed cert ({certificate}, {key})")
    files = CertificateFiles(certificate=str(certificate), key=str(key))
    return IdentityFiles(files, purpose="serving-cert", wall_clock=wall_clock)


def _generate(bind_address: str, now: float) -> KeyPair:
    address = ipaddress.ip_address(bind_address)
    specific = () if address.is_unspecified else (str(address),)
    return self_signed(tuple(dict.fromkeys(("localhost", "127.0.0.1", *specific))), wall_clock=now)


def _are_there(certificate: Path, key: Path) -> bool:
    there = [_is_readable(path) for path in (certificate, key)]
    if any(there) and not all(there):
        missing = certificate if there[1] else key
        raise ServingError(
            f"error creating self-signed certificates: error reading {missing}, "
            "certificate and key must be supplied as a pair"
        )
    return all(there)


def _is_readable(path: Path) -> bool:
    try:
        with path.open("rb"):
            return True
    except OSError:
        return False
