"""The secure port: its settings, its socket and certificates, and its server: accept, serve, shut down.

One object owns the connections from `start()` to `stop()`; the pages belong to others.

Upstream: staging/src/k8s.io/apiserver/pkg/server/options/serving.go (ApplyTo, CreateListener), Go's net.Listen;
pkg/server/secure_serving.go, cmd/kube-scheduler/app/server.go.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence

from msgspec import field

from stowplan.kube.klog.logger import get_logger
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.times import REAL_TIMES, Times, within
from stowplan.net.serving.handler import Handler, refuse
from stowplan.net.serving.requests.messages import Page
from stowplan.net.serving.requests.protocol import HttpServer
from stowplan.net.serving.serving_error import ServingError, reason_of
from stowplan.net.serving.tls.contexts import IdentitySource, TlsContexts
from stowplan.net.serving.tls.key_pairs import CertificateFiles, IdentityFiles, generated_identity
from stowplan.net.serving.tls.tls_parameters import TlsOptions, tls_parameters
from stowplan.net.serving.tls.transport import OpenConnections, TlsConnection, address_text
from stowplan.net.serving.user import Authenticator, Authorizer


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


log = get_logger(__name__)

_MAX_HEADERS = 256
#: Seconds to drain what clients still send after the response.
_LINGERING = 2.0
#: Seconds for handlers to react to cancellation.
_CANCELLING = 0.5


class SecureServer:
    def __init__(
        self,
        settings: ServingSettings,
        *,
        pages: Mapping[str, Page],
        authenticator: Authenticator,
        authorizer: Authorizer,
        times: Times = REAL_TIMES,
        listener: Listener | None = None,
    ) -> None:
        """Pages by exact path, or by a prefix that ends in "/". A listener may already be open."""
        self._settings = settings
        self._times = times
        self._listener = listener or Listener(settings, wall_clock=times.wall_clock)
        self._handler = Handler(pages=pages, authenticator=authenticator, authorizer=authorizer, times=times)
        self._connections = OpenConnections(most=settings.max_connections)
        self._server: asyncio.Server | None = None
        self._http: HttpServer | None = None

    @property
    def address(self) -> str:
        """Its address in Go's format: `[::]:10259`."""
        return self._listener.address

    @property
    def port(self) -> int:
        return self._listener.port

    async def start(self) -> None:
        """Start serving; raises ServingError."""
        if not self._listener.is_open:
            self._listener.open()
        settings = self._settings
        self._http = HttpServer(
            self._handler,
            refuse=refuse,
            sleep=self._times.sleep,
            write_timeout=settings.write_timeout,
            head_timeout=settings.head_timeout,
            max_head_bytes=settings.max_head_bytes,
            max_heads_bytes=settings.max_heads_bytes,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=settings.idle_timeout,
            lingering_time=_LINGERING,
            max_line_size=settings.max_head_bytes,
            max_field_size=settings.max_head_bytes,
            max_headers=_MAX_HEADERS,
        )
        opened = self._listener.take_socket()
        self._server = await asyncio.get_running_loop().create_server(self._connection, sock=opened, backlog=1024)
        log.v(0).plain(f"Serving securely on {self.address}")

    def _connection(self) -> TlsConnection:
        assert self._http is not None
        return TlsConnection(
            self._http,
            contexts=self._listener.contexts,
            open_connections=self._connections,
            sleep=self._times.sleep,
            handshake_timeout=self._settings.head_timeout,
        )

    async def stop(self, grace: float = 5.0) -> None:
        """Close the port immediately; requests in progress have the grace period."""
        self._listener.close()
        if self._server is None or self._http is None:
            return
        server, http, self._server, self._http = self._server, self._http, None, None
        server.close()
        log.v(0).plain(f"Stopped listening on {self.address}")
        log.info("[graceful-termination] secure server has stopped listening")
        for connection in self._connections:
            connection.end_if_idle()
        # The others end after their response.
        http.pre_shutdown()
        if not await self._ended(grace):
            log.error(None, "Failed to shutdown server: requests were under way for longer than the grace period")
        for connection in self._connections:
            connection.abort()
        # One iteration for the transports to report their end, which cancels handlers; another one for these.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await http.shutdown(_CANCELLING)
        log.info("[graceful-termination] secure server is exiting")

    async def _ended(self, grace: float) -> bool:
        """Whether all connections have ended in time."""
        try:
            await within(grace, self._connections.ended(), sleep=self._times.sleep)
        except TimeoutError:
            return False
        return True
