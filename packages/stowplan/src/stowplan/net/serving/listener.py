"""The secure port's settings; open its socket and load its certificates.

Upstream: staging/src/k8s.io/apiserver/pkg/server/options/serving.go (ApplyTo, CreateListener); Go's net.Listen.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence

from msgspec import field

from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.serving_error import ServingError, reason_of
from stowplan.net.serving.tls.contexts import IdentitySource, TlsContexts
from stowplan.net.serving.tls.key_pairs import CertificateFiles, IdentityFiles, generated_identity
from stowplan.net.serving.tls.tls_parameters import TlsOptions, tls_parameters
from stowplan.net.serving.tls.transport import address_text


class ServingSettings(PlainStruct, frozen=True, kw_only=True):
    #: An unspecified address (0.0.0.0, ::) listens on both families.
    bind_address: str = "0.0.0.0"
    #: 0: any free port.
    port: int = 10259
    reuse_port: bool = False

    #: None: a generated one.
    certificate: CertificateFiles | None = None
    #: Where the generated certificate is stored; empty: nowhere.
    certificate_directory: str = ""
    named_certificates: Sequence[CertificateFiles] = ()
    tls: TlsOptions = field(default_factory=TlsOptions)

    #: Seconds: for a handshake and the head of a request; between requests; for a response to be read.
    head_timeout: float = 32
    idle_timeout: float = 90
    write_timeout: float = 60
    max_head_bytes: int = 1024 * 1024
    #: Over all connections; clients that have sent little are exempt.
    max_heads_bytes: int = 16 * 1024 * 1024
    #: For each further one, a connection that waits for its client is closed: a scheduler without file descriptors for
    #: its API server would be worse.
    max_connections: int = 1000


_ADDRESS_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class Listener:
    """Upstream opens its port long before it serves: early connections wait."""

    def __init__(self, settings: ServingSettings, *, wall_clock: Callable[[], float]) -> None:
        """Generates a certificate if needed. Raises ServingError, like `open`."""
        self._settings = settings
        self._wall_clock = wall_clock
        self._made: IdentitySource | None = None
        if settings.certificate is None:
            self._made = generated_identity(
                settings.certificate_directory, bind_address=settings.bind_address, wall_clock=wall_clock
            )
        self._socket: socket.socket | None = None
        #: Its address in Go's format, once it listens.
        self.address = ""
        self.port = 0

    def open(self) -> None:
        """Read the certificates and start listening."""
        opened = _listen(self._settings)
        try:
            self.contexts = self._contexts()
        except BaseException:
            opened.close()
            raise
        self._socket = opened
        self.address = address_text(opened.getsockname())
        self.port = opened.getsockname()[1]

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def take_socket(self) -> socket.socket:
        """Transfer ownership of the socket to the caller, who closes it."""
        assert self._socket is not None
        taken, self._socket = self._socket, None
        return taken

    def close(self) -> None:
        """Close the socket, unless it was taken."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _contexts(self) -> TlsContexts:
        settings = self._settings
        default = self._made
        if default is None:
            assert settings.certificate is not None
            default = IdentityFiles(settings.certificate, purpose="serving-cert", wall_clock=self._wall_clock)
        parameters = tls_parameters(settings.tls)
        return TlsContexts(
            default,
            self._named(),
            parameters=parameters,
        )

    def _named(self) -> list[IdentitySource]:
        try:
            return [
                IdentityFiles(files, purpose="sni-serving-cert", wall_clock=self._wall_clock)
                for files in self._settings.named_certificates
            ]
        except ServingError as error:
            raise ServingError(f"failed to load SNI cert and key: {error}") from None


def _listen(settings: ServingSettings) -> socket.socket:
    address = ipaddress.ip_address(settings.bind_address)
    asked = f"[{address}]:{settings.port}" if address.version == 6 else f"{address}:{settings.port}"
    # Parity: Go's wildcard listeners accept both families.
    both = address.is_unspecified and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else _ADDRESS_FAMILIES[address.version]
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Go sets it on every listener, regardless of --permit-address-sharing.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if settings.reuse_port:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        opened.bind(("::" if both else str(address), settings.port))
        opened.listen(socket.SOMAXCONN)
    except OSError as error:
        opened.close()
        raise ServingError(
            f"failed to create listener: failed to listen on {asked}: listen tcp {asked}: bind: {reason_of(error)}"
        ) from None
    opened.setblocking(False)
    return opened
