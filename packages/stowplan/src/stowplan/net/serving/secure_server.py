"""The secure port's server: accept, serve, shut down.

One object owns the connections from `start()` to `stop()`; the pages belong to others.

Upstream: staging/src/k8s.io/apiserver/pkg/server/secure_serving.go, cmd/kube-scheduler/app/server.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from stowplan.kube.klog.logger import get_logger
from stowplan.kube.timing.times import REAL_TIMES, Times, within
from stowplan.net.serving.handler import Handler, refuse
from stowplan.net.serving.listener import Listener, ServingSettings
from stowplan.net.serving.requests.messages import Page
from stowplan.net.serving.requests.protocol import HttpServer
from stowplan.net.serving.tls.transport import OpenConnections, TlsConnection
from stowplan.net.serving.user import Authenticator, Authorizer

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
