"""Trusted certificate authorities from a file or ConfigMap, reloaded on change.

Only a valid bundle replaces the previous one. An empty or broken bundle is reported, and the previous one stays in use,
so that a partially written file neither locks out nor admits anyone.

Upstream: staging/src/k8s.io/apiserver/pkg/server/dynamiccertificates (dynamic_cafile_content.go,
configmap_cafile_content.go), staging/src/k8s.io/client-go/util/cert/pem.go.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cryptography import x509

from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.config.config_errors import os_error_text
from stowplan.kube.klog import get_logger
from stowplan.net.client.endpoint.file_content import FileContent
from stowplan.net.serving.tls.certificate_detail import certificate_detail

_log = get_logger(__name__)

_NO_CERTIFICATES = "data does not contain any valid RSA or ECDSA certificates"


class BundleError(ValueError):
    """An invalid bundle of authorities; `str()` is upstream's text."""


class Authorities(Protocol):
    def current(self) -> tuple[x509.Certificate, ...]:
        """The current authorities, the same tuple until they change; empty if none were ever read."""


def parse_bundle(pem: bytes, *, name: str) -> tuple[x509.Certificate, ...]:
    """Parse PEM; the name is that of the source, for messages."""
    if not pem:
        raise BundleError(f"missing content for CA bundle {go_quote(name)}")
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        raise BundleError(f"error loading CA bundle for {go_quote(name)}: {_NO_CERTIFICATES}")
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except (ValueError, x509.InvalidVersion) as error:
        raise BundleError(f"error loading CA bundle for {go_quote(name)}: x509: {error}") from None


class Bundle:
    """The last valid bundle."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._pem: bytes | None = None
        self._certificates: tuple[x509.Certificate, ...] = ()

    def current(self) -> tuple[x509.Certificate, ...]:
        return self._certificates

    def load(self, pem: bytes) -> None:
        """Use these from now on; raises BundleError and keeps the previous ones if they are invalid."""
        if pem == self._pem:
            return
        self._certificates = parse_bundle(pem, name=self.name)
        self._pem = pem
        verbose = _log.v(2)
        verbose.info("Loaded a new CA Bundle and Verifier", name=self.name)
        if verbose.enabled:
            for index, each in enumerate(self._certificates):
                detail = certificate_detail(each)
                verbose.info("Loaded client CA", index=index, certName=self.name, certDetail=detail)


class AuthoritiesFile:
    """A file that is checked for changes on use; raises BundleError if the initial content is invalid."""

    def __init__(self, path: str, *, purpose: str, clock: Callable[[], float]) -> None:
        self._bundle = Bundle(f"{purpose}::{path}")
        self._file = FileContent(path, where=purpose, clock=clock)
        #: The last content, valid or not: each is reported once.
        self._seen: bytes | None = None
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise BundleError(os_error_text("open", path, error)) from None
        self._look()

    def current(self) -> tuple[x509.Certificate, ...]:
        try:
            self._look()
        except BundleError as error:
            _log.error(error, "Failed to load CA bundle, the one before stays in use", name=self._bundle.name)
        return self._bundle.current()

    def _look(self) -> None:
        pem = self._file.read()
        if pem is not self._seen:
            self._seen = pem
            self._bundle.load(pem)
