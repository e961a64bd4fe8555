"""What aiohttp's server leaves to its users, changed: errors below our handler are Status objects.

A request that is no HTTP, or whose head is too long, never reaches a handler; aiohttp would answer
with plain text and log a traceback. Here the client gets a Status and the log one line. An
exception out of our own handler is a bug: it is logged with its traceback and answered with 500.

Upstream: staging/src/k8s.io/apiserver/pkg/server/filters/wrap.go (panic recovery).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from stowplan.api.api_errors import BadRequest, InternalError
from stowplan.apiserver.front.responses import ALWAYS, status_body

if TYPE_CHECKING:
    from aiohttp.web_request import BaseRequest
    from aiohttp.web_response import StreamResponse

log = logging.getLogger(__name__)


class FrontServer(web.Server):
    """aiohttp's low-level server with our connections."""

    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=asyncio.get_running_loop(), **self._kwargs)


class _Connection(RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> StreamResponse:
        if status < 500:
            log.debug("refused a malformed request from %s: %s", request.remote, type(exc).__name__)
            error: BadRequest | InternalError = BadRequest(f"malformed HTTP request: {_first_line(message)}")
        else:
            log.error("a request failed: %s", request, exc_info=exc)
            error = InternalError("Internal error occurred: the server's log says which")
        if request.writer.output_size > 0:
            # Part of an answer is out: nothing can be added that would be understood.
            raise ConnectionResetError("the answer was broken off")
        headers = {**ALWAYS, "Content-Type": "application/json"}
        response = web.Response(status=status, body=status_body(error.status), headers=headers)
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        log.error(*args, **kwargs)


def _first_line(message: str | None) -> str:
    """What the parser said, without the bytes it shows below."""
    return (message or "").strip().partition("\n")[0].rstrip(":")[:200]
