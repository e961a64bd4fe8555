"""The client's SSL context; reloads when its files change.

Call `TlsSettings.context()` before each connection. It returns the same context until the CA or the client certificate
has changed; owners of open connections compare by identity and replace them after a change. An invalid change (such as
a new certificate without its key) keeps the previous context.

OpenSSL loads client keys from files only. They are passed in an in-memory file, or, if the system has none, in one that
only its owner can read and that is removed before the function returns.

Parity: Go trusts any given certificate, not only self-signed roots, and ignores the common name.

Upstream: staging/src/k8s.io/client-go/transport/transport.go, crypto/tls and crypto/x509 of Go.
"""

from __future__ import annotations

import binascii
import os
import re
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

from stowplan.kube.klog import get_logger
from stowplan.net.client.client_errors import ClientConfigError
from stowplan.net.client.endpoint.file_content import Content

_log = get_logger(__name__)

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----\s(.*?)-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY-----")


@dataclass(frozen=True, kw_only=True)
class ClientCertificate:
    """A certificate chain and its key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    #: The source, for messages.
    where: str = field(compare=False)


class CertificateSource(Protocol):
    def client_certificate(self) -> ClientCertificate | None:
        """The current client certificate; None for none."""


class NoCertificate:
    def client_certificate(self) -> None:
        return None


class CertificatePair:
    """A client certificate and key of a kubeconfig, each inline or in a file."""

    def __init__(self, *, certificate: Content, key: Content) -> None:
        self._certificate = certificate
        self._key = key
        self._current: ClientCertificate | None = None

    def client_certificate(self) -> ClientCertificate:
        certificate, key, current = self._certificate.read(), self._key.read(), self._current
        if current is None or current.certificate is not certificate or current.key is not key:
            where = f"{self._certificate.where} and {self._key.where.rpartition(': ')[2]}"
            current = ClientCertificate(certificate=certificate, key=key, where=where)
            self._current = current
        return current


@dataclass(kw_only=True, eq=False)
class TlsSettings:
    #: None: the system's CAs.
    ca: Content | None = None
    #: The name for SNI and certificate verification, aiohttp's `server_hostname`. None: the URL's host.
    server_name: str | None = None
    insecure: bool = False
    certificate: CertificateSource = field(default_factory=NoCertificate, repr=False)

    _context: ssl.SSLContext | None = field(default=None, init=False, repr=False)
    #: The inputs of the last attempt to build a context, successful or not.
    _tried: tuple[bytes | None, ClientCertificate | None] | None = field(default=None, init=False, repr=False)

    def context(self) -> ssl.SSLContext:
        """The context for new connections; raises ClientConfigError if there has never been a valid one."""
        parts = (None if self.ca is None else self.ca.read(), self.certificate.client_certificate())
        if self._context is not None and parts == self._tried:
            return self._context
        try:
            self._context = self._build(*parts)
        except ClientConfigError as error:
            if self._context is None:
                raise
            _log.warning(f"{error}; the previous certificates stay in use")
        else:
            _log_change(self._tried, parts)
        self._tried = parts
        return self._context

    def _build(self, ca: bytes | None, certificate: ClientCertificate | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            if ssl.HAS_NEVER_CHECK_COMMON_NAME:
                context.hostname_checks_common_name = False
            self._trust(context, ca)
        if certificate is not None:
            load_client_certificate(context, certificate)
        return context

    def _trust(self, context: ssl.SSLContext, ca: bytes | None) -> None:
        if self.ca is None or ca is None:
            context.load_default_certs()
            return
        # Parity: unreadable certificates are skipped if there are others.
        loaded = [_loaded(context, block) for block in _CERTIFICATE.findall(ca)]
        if not any(loaded):
            what = "none of its certificates can be read" if loaded else "no PEM certificate in it"
            raise ClientConfigError(f"{self.ca.where}: {what}: expected -----BEGIN CERTIFICATE----- blocks of the CA")


def _loaded(context: ssl.SSLContext, block: bytes) -> bool:
    try:
        context.load_verify_locations(cadata=binascii.a2b_base64(block))
    except (ssl.SSLError, ValueError):
        return False
    return True


def load_client_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Load the certificate into a context; raises ClientConfigError if the pair is invalid."""
    where = certificate.where
    if not _CERTIFICATE.search(certificate.certificate):
        raise ClientConfigError(f"{where}: no PEM certificate in the client certificate")
    if not _PRIVATE_KEY.search(certificate.key):
        raise ClientConfigError(f"{where}: no PEM private key in the client key")

    def refuse_password() -> NoReturn:
        raise ClientConfigError(f"{where}: the client key is encrypted; give it without a passphrase")

    with _readable_path(certificate.certificate) as certfile, _readable_path(certificate.key) as keyfile:
        try:
            context.load_cert_chain(certfile, keyfile, password=refuse_password)
        except ssl.SSLError as error:
            raise ClientConfigError(f"{where}: {_pair_problem(error)}") from None


def _pair_problem(error: ssl.SSLError) -> str:
    if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
        return "the client key does not belong to the client certificate"
    return f"the client certificate or its key cannot be read ({error.reason or 'not valid PEM'})"


@contextmanager
def _readable_path(data: bytes) -> Iterator[str]:
    descriptor = _memory_file()
    if descriptor is None:
        with _short_lived_file(data) as path:
            yield path
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"


def _memory_file() -> int | None:
    if sys.platform != "linux" or not Path("/proc/self/fd").is_dir():
        return None
    return os.memfd_create("stowplan-pem")


def _log_change(
    before: tuple[bytes | None, ClientCertificate | None] | None, now: tuple[bytes | None, ClientCertificate | None]
) -> None:
    """Log that new connections use other certificates; idle ones are closed."""
    if before is None:
        return
    if before[0] != now[0]:
        _log.v(4).info("Transport updated for CA rotation")
    if before[1] is not None and before[1] != now[1]:
        text = "Certificate rotation detected, shutting down client connections to start using new credentials"
        _log.v(1).info(text)


@contextmanager
def _short_lived_file(data: bytes) -> Iterator[str]:
    descriptor, path = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        yield path
    finally:
        Path(path).unlink()
