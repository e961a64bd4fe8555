"""The front's connections: whatever cannot be answered otherwise is answered with a Status object.

Upstream: staging/src/k8s.io/apiserver/pkg/server/filters/wrap.go (panic recovery).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from stowplan.api.api_errors import BadRequest, InternalError
from stowplan.serving.requests.messages import ALWAYS
from stowplan.serving.requests.protocol import HttpConnection, HttpServer, Sleep
from stowplan_cluster.front.responses import status_body

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp.web_request import BaseRequest
    from aiohttp.web_response import StreamResponse

__all__ = ("FrontConnection", "FrontServer", "Sleep")

FrontConnection = HttpConnection


class FrontServer(HttpServer):
    def __init__(
        self,
        handler: Callable[[BaseRequest], Awaitable[StreamResponse]],
        *,
        sleep: Sleep,
        write_timeout: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(handler, refuse=_refuse, sleep=sleep, write_timeout=write_timeout, **kwargs)


def _refuse(status: int, message: str) -> web.Response:
    error: BadRequest | InternalError
    if status < 500:
        error = BadRequest(f"malformed HTTP request: {message}")
    else:
        error = InternalError("Internal error occurred: the server's log says which")
    headers = {**ALWAYS, "Content-Type": "application/json"}
    return web.Response(status=status, body=status_body(error.status), headers=headers)
