"""The HTTP server of the embedded API.

aiohttp implements HTTP; requests are handled by `handler.py`. `Front` owns the sockets from `start()` to `stop()`; the
ApiServer that it serves outlives it.

Upstream: staging/src/k8s.io/apiserver/pkg/server/secure_serving.go, genericapiserver.go.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from stowplan.kube.api.api_errors import BadRequest, InternalError
from stowplan.kube.api.users import AUTHENTICATED, MASTERS, UserInfo
from stowplan.net.serving.requests.messages import ALWAYS, Page
from stowplan.net.serving.requests.protocol import HttpServer, Sleep
from stowplan_cluster.apiserver.authorization import Authorizer
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.front.access import Access, Tokens
from stowplan_cluster.front.credentials import Certificates, certificates_for, kubeconfig, write_kubeconfig
from stowplan_cluster.front.front_metrics import Metrics
from stowplan_cluster.front.front_settings import FrontSettings
from stowplan_cluster.front.handler import Handler
from stowplan_cluster.front.non_resource_paths import Pages
from stowplan_cluster.front.responses import status_body

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.api_server import ApiServer

ADMIN = UserInfo(name="kubernetes-admin", groups=(MASTERS, AUTHENTICATED))

_NO_CHECKS: Mapping[str, Callable[[], bool]] = {}
#: Wildcard addresses -> an address to connect to.
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}
#: Seconds to drain what a client still sends after its response.
_LINGERING = 2.0
#: Seconds for requests in flight at shutdown.
_SHUTDOWN = 3.0


class Front:
    def __init__(
        self,
        server: ApiServer,
        *,
        settings: FrontSettings | None = None,
        checks: Mapping[str, Callable[[], bool]] = _NO_CHECKS,
        sleep: Sleep = asyncio.sleep,
        monotonic: Callable[[], float] = time.perf_counter,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`checks` are additional /readyz checks, by name."""
        self._settings = settings or FrontSettings()
        self._clock = server.clock
        self._sleep = sleep
        self.token = self._settings.token or secrets.token_urlsafe(32)
        self.metrics = Metrics()
        registry = server.registry
        tokens = Tokens({**self._settings.users, self.token: ADMIN})
        self._pages = Pages(registry, self.metrics, checks=checks)
        self._handler = Handler(
            registry=registry,
            access=Access(tokens, Authorizer(server.store.list, server.store.on_change)),
            pages=self._pages,
            metrics=self.metrics,
            settings=self._settings,
            sleep=sleep,
            monotonic=monotonic,
            chance=chance,
        )
        self._certificates: Certificates | None = None
        self._listening: asyncio.Server | None = None
        #: The server's URL, once started.
        self.url = ""

    def mount(self, pages: Mapping[str, Page]) -> None:
        """Serve pages of another component in this process; a path with a trailing slash includes all below it."""
        self._pages.of_others = {**self._pages.of_others, **pages}

    @property
    def ca_certificate(self) -> bytes | None:
        """The CA certificate in PEM; None without TLS or before the start."""
        return None if self._certificates is None else self._certificates.ca_certificate

    def kubeconfig(self) -> JsonObject:
        return kubeconfig(self.url, token=self.token, ca_certificate=self.ca_certificate)

    def write_kubeconfig(self, path: Path) -> None:
        write_kubeconfig(path, self.kubeconfig())

    async def start(self) -> None:
        settings = self._settings
        context = None
        if settings.tls:
            self._certificates = certificates_for(settings.host, directory=settings.certificates, clock=self._clock)
            context = self._certificates.server_context()
        http = HttpServer(
            self._handler,
            refuse=_refuse,
            sleep=self._sleep,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=settings.idle_timeout,
            lingering_time=_LINGERING,
            max_line_size=settings.max_line_bytes,
            max_field_size=settings.max_line_bytes,
            max_headers=settings.max_headers,
        )
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(http, settings.host or None, settings.port, ssl=context)
        self._http = http
        host = _WILDCARDS.get(settings.host) or (f"[{settings.host}]" if ":" in settings.host else settings.host)
        port = self._listening.sockets[0].getsockname()[1]
        self.url = f"{'https' if settings.tls else 'http'}://{host}:{port}"
        self._pages.address = f"{host}:{port}"

    async def stop(self) -> None:
        """End watches, let other requests finish, then close all connections."""
        self._handler.stop()
        listening, self._listening = self._listening, None
        if listening is None:
            return
        listening.close()
        # Requests that have arrived begin.
        await asyncio.sleep(0)
        self._http.pre_shutdown()
        await self._http.shutdown(_SHUTDOWN)


def _refuse(status: int, message: str) -> web.Response:
    """The response to a request that is not HTTP, or that failed."""
    error: BadRequest | InternalError
    if status < 500:
        error = BadRequest(f"malformed HTTP request: {message}", code=status)
    else:
        error = InternalError("Internal error occurred: the server's log says which")
    headers = {**ALWAYS, "Content-Type": "application/json"}
    return web.Response(status=status, body=status_body(error.status), headers=headers)
