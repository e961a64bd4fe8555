"""Handle requests: authenticate, authorize, route.

A missing path is forbidden like any other for users without permission. Refusals are ApiErrors; any other exception of
a page is a bug, and does not close the connection.

Upstream: cmd/kube-scheduler/app/server.go (buildHandlerChain); staging/src/k8s.io/apiserver/pkg/server/httplog,
server/mux/pathrecorder.go, endpoints/filters.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from aiohttp import web

from stowplan.kube.api.api_errors import ApiError, BadRequest
from stowplan.kube.klog.logger import get_logger
from stowplan.kube.klog.value_text import go_quote, stack_trace
from stowplan.kube.timing.times import Times
from stowplan.net.serving.requests import messages
from stowplan.net.serving.requests.forms import error_response
from stowplan.net.serving.requests.protocol import HttpConnection, read_body
from stowplan.net.serving.tls.transport import PEER_CERTIFICATES, address_text, host_of
from stowplan.net.serving.user import Authenticator, AuthorizationFailed, Authorizer, Peer

if TYPE_CHECKING:
    from aiohttp.web_request import BaseRequest


log = get_logger(__name__)

#: The component name in the log.
_NAME = "kube-scheduler"
_PANICKED = "This request caused apiserver to panic. Look in the logs for details."
#: No page of the scheduler needs a larger body.
_MAX_BODY = 64 * 1024
_BODY_TIMEOUT = 32.0
_MAX_PARAMETERS = 1000


class _BadTarget(Exception):
    """The request target is not a path."""


class Handler:
    def __init__(
        self,
        *,
        pages: Mapping[str, messages.Page],
        authenticator: Authenticator,
        authorizer: Authorizer,
        times: Times,
        max_body: int = _MAX_BODY,
    ) -> None:
        """Pages by path, or by a prefix that ends in a slash."""
        self._max_body = max_body
        self._pages = {path: page for path, page in pages.items() if not path.endswith("/")}
        prefixes = [(path, page) for path, page in pages.items() if path.endswith("/")]
        self._prefixes = sorted(prefixes, key=lambda item: (-item[0].count("/"), -len(item[0])))
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._times = times

    async def __call__(self, request: BaseRequest) -> web.StreamResponse:
        # A client with a thousand pipelined requests takes turns with others.
        await asyncio.sleep(0)
        since = self._times.clock()
        error: Exception | None = None
        response: messages.Answer
        try:
            response = await self._answer(request)
        except _BadTarget:
            response = messages.Response(b"400 Bad Request", 400)
        except ApiError as refused:
            response = _refused(request, refused)
        except ConnectionError:
            raise
        except Exception as bug:
            error = bug
            log.error(bug, "apiserver panic'd", trace=True, method=request.method, URI=request.raw_path)
            response = messages.refusal(_PANICKED, 500)
        finally:
            _mark_authorized(request, False)
        self._log(request, response, self._times.clock() - since, error)
        if isinstance(response, messages.Stream):
            return await _streamed(request, response)
        return _to_aiohttp(response)

    async def _answer(self, request: BaseRequest) -> messages.Answer:
        path, query = _split_target(request.raw_path)
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        peer = Peer(transport.get_extra_info(PEER_CERTIFICATES, ()), host_of(transport.get_extra_info("peername")))
        headers = request.headers
        user = await self._authenticator.authenticate(headers, peer)
        await self._authorizer.authorize(user, verb=request.method.lower(), path=path)
        _mark_authorized(request, True)
        page = self._page_of(path)
        if page is None:
            return messages.refusal("404 page not found", 404)
        asked = messages.Request(
            method=request.method,
            path=path,
            user=user,
            query=query,
            headers=self._authenticator.without_credentials(headers),
            body=await self._body(request),
            remote=peer.remote,
        )
        response = page(asked)
        return await response if inspect.isawaitable(response) else response

    def _page_of(self, path: str) -> messages.Page | None:
        page = self._pages.get(path)
        if page is not None:
            _log_page(path, "exact match")
            return page
        for prefix, page in self._prefixes:
            if path.startswith(prefix):
                _log_page(path, f"prefix {prefix}")
                return page
        _log_page(path, "NotFoundHandler")
        return None

    async def _body(self, request: BaseRequest) -> bytes:
        try:
            return await read_body(request, limit=self._max_body, seconds=_BODY_TIMEOUT, sleep=self._times.sleep)
        except TimeoutError:
            raise BadRequest("the body of the request did not arrive") from None

    def _log(self, request: BaseRequest, response: messages.Answer, seconds: float, error: Exception | None) -> None:
        verbose = log.v(3)
        if not verbose.enabled:
            return
        transport = request.transport
        keys = {
            "verb": request.method,
            "URI": request.raw_path,
            "latency": timedelta(seconds=seconds),
            "userAgent": request.headers.get("User-Agent", ""),
            # Parity: always empty in the scheduler.
            "audit-ID": "",
            "srcIP": address_text(transport.get_extra_info("peername")) if transport is not None else "",
            "resp": response.status,
        }
        if error is not None:
            keys["statusStack"] = stack_trace(error)
        verbose.info("HTTP", **keys)


def _mark_authorized(request: BaseRequest, is_authorized: bool) -> None:
    connection = request.protocol
    assert isinstance(connection, HttpConnection)
    connection.is_authorized = is_authorized


def _log_page(path: str, found: str) -> None:
    verbose = log.v(5)
    if verbose.enabled:
        verbose.plain(f"{_NAME}: {go_quote(path)} satisfied by {found}")


def _split_target(target: str) -> tuple[str, messages.Query]:
    """Path and query of a request target, decoded once."""
    if not target.startswith("/"):
        # Absolute URLs, as for a proxy; ValueError for unbalanced brackets.
        try:
            parts = urlsplit(target)
        except ValueError:
            raise _BadTarget from None
        # Not `geturl`, which from 3.13 on adds two slashes to a path that begins with two.
        target = f"{parts.path}?{parts.query}"
    raw_path = target.partition("?")[0]
    if not raw_path.startswith("/") or messages.bad_escape(raw_path):
        raise _BadTarget
    return unquote(raw_path, errors="replace"), _query_of(target)


def _query_of(target: str) -> messages.Query:
    """Parameters beyond the limit are dropped."""
    text = "&".join(target.partition("?")[2].split("&", _MAX_PARAMETERS)[:_MAX_PARAMETERS])
    return messages.parse_query(text, limit=_MAX_PARAMETERS, errors="replace")


def _refused(request: BaseRequest, error: ApiError) -> messages.Response:
    if isinstance(error, AuthorizationFailed):
        return messages.refusal(error.text(request.raw_path), 500)
    return error_response(error, request.headers, _query_of(request.raw_path))


def _to_aiohttp(response: messages.Response) -> web.Response:
    answer = web.Response(
        status=response.status, body=response.body, headers={**messages.ALWAYS, "Content-Type": response.content_type}
    )
    for name, value in response.headers:
        answer.headers[name] = value
    return answer


async def _streamed(request: BaseRequest, stream: messages.Stream) -> web.StreamResponse:
    """Send in pieces; the connection's buffer provides backpressure."""
    response = web.StreamResponse(
        status=stream.status, headers={**messages.ALWAYS, "Content-Type": stream.content_type}
    )
    response.headers.update(stream.headers)
    _mark_authorized(request, True)
    try:
        await response.prepare(request)
        async with aclosing(stream.pieces) as pieces:
            async for piece in pieces:
                await request.writer.write(piece)
                await request.writer.drain()
        await response.write_eof()
    finally:
        _mark_authorized(request, False)
    return response


def refuse(status: int, message: str) -> web.Response:
    """The response to invalid HTTP, with the text of Go's server."""
    reason = {431: "Request Header Fields Too Large", 500: "Internal Server Error"}.get(status, "Bad Request")
    headers = {"Content-Type": "text/plain; charset=utf-8", "Server": "stowplan"}
    return web.Response(status=status, body=f"{status} {reason}".encode(), headers=headers)
