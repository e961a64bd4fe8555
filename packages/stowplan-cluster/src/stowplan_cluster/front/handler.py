"""The request pipeline: well-formedness, authentication, authorization, concurrency limits.

It dispatches to pages, verbs and watches. Whatever rejects a request raises an ApiError, which becomes the response
here.

Upstream: staging/src/k8s.io/apiserver/pkg/server/config.go (DefaultBuildHandlerChain), server/filters/maxinflight.go.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING

from stowplan.kube.api.api_errors import ApiError, BadRequest, NotAcceptable, TooManyRequests
from stowplan.kube.api.users import UserInfo
from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.requests.messages import JSON, Query, Response, Stream
from stowplan.net.serving.requests.messages import Answer as MountedAnswer
from stowplan.net.serving.requests.messages import Page as MountedPage
from stowplan.net.serving.requests.messages import Request as PageRequest
from stowplan.net.serving.requests.protocol import Sleep
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.front import negotiation
from stowplan_cluster.front.access import Access
from stowplan_cluster.front.front_connection import Connection
from stowplan_cluster.front.front_metrics import Metrics, RequestLabels
from stowplan_cluster.front.front_settings import FrontSettings
from stowplan_cluster.front.non_resource_paths import Pages, shown
from stowplan_cluster.front.request_options import first
from stowplan_cluster.front.responses import PLAIN, Answer, Headers, Renderer, error_answer, form_of
from stowplan_cluster.front.routes import Route, route_of, split_target
from stowplan_cluster.front.verbs import MethodNotServed, Request, Verbs, resource_of
from stowplan_cluster.front.watching import WatchStream

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.web_request import BaseRequest


_READING = ("get", "list", "watch")
_TOO_MANY = "Too many requests, please try again later."


class Handler:
    def __init__(
        self,
        *,
        registry: Registry,
        access: Access,
        pages: Pages,
        metrics: Metrics,
        settings: FrontSettings,
        sleep: Sleep,
        monotonic: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._access = access
        self._pages = pages
        self._metrics = metrics
        self._settings = settings
        self._sleep = sleep
        self._monotonic = monotonic
        self._chance = chance
        self._renderer = Renderer(registry)
        self._verbs = Verbs(registry, self._renderer, access)
        self._streams: set[WatchStream] = set()
        self._stopping = False

    def stop(self) -> None:
        """End all watches, including those not started yet."""
        self._stopping = True
        for stream in self._streams:
            stream.stop()

    async def __call__(self, request: BaseRequest) -> web.StreamResponse:
        since = self._monotonic()
        connection = Connection(request, self._settings, self._sleep)
        exchange = _Exchange(request, connection, _unknown(request.method))
        try:
            response = await self._answer(exchange)
        except ApiError as error:
            response = await connection.send(_refusal(request, error))
        except RecursionError:
            too_deep = BadRequest("the request is nested too deeply")
            response = await connection.send(_refusal(request, too_deep))
        self._metrics.observe(exchange.labels, response.status, self._monotonic() - since)
        return response

    async def _answer(self, exchange: _Exchange) -> web.StreamResponse:
        request, connection = exchange.request, exchange.connection
        _check_headers(request)
        path, query = split_target(request.raw_path)
        route = route_of(request.method, path, query)
        user = self._access.authenticate(request.headers, route)
        if not route.is_resource:
            mounted = self._pages.mounted(route.path)
            if mounted is None:
                return await connection.send(self._page(exchange, user, route, query))
            found = await self._mounted(exchange, user, route, query, mounted)
            if isinstance(found, Response):
                return await connection.send(shown(found))
            return await self._stream(connection, found)
        if route.verb:
            self._access.authorize(user, route, name=_selected_name(query))
        resource = resource_of(self._registry, route)
        exchange.labels = _labels(request, route, query)
        if route.verb == "watch":
            return await self._watch(exchange, resource, _request(request, route, query, user))
        with self._inflight(route):
            body = await connection.read_body()
            answer = self._verbs.answer(resource, _request(request, route, query, user, body))
            return await connection.send(answer)

    def _page(self, exchange: _Exchange, user: UserInfo, route: Route, query: Query) -> Answer:
        request = exchange.request
        self._access.authorize(user, route)
        answer = self._pages.answer(
            request.method,
            route.path,
            query,
            accept=request.headers.get("Accept", ""),
            if_none_match=request.headers.get("If-None-Match", ""),
        )
        # Set only for existing pages: unknown paths must not create time series.
        exchange.labels = RequestLabels(request.method, "", "", "", "/" + route.path[1:].partition("/")[0], "")
        return answer

    async def _mounted(
        self, exchange: _Exchange, user: UserInfo, route: Route, query: Query, page: MountedPage
    ) -> MountedAnswer:
        """Answer with a page mounted by another component, which may be slow."""
        request = exchange.request
        self._access.authorize(user, route)
        if request.method != "GET":
            raise MethodNotServed(["GET"])
        exchange.labels = RequestLabels("GET", "", "", "", "/" + route.path[1:].partition("/")[0], "")
        with self._inflight(route):
            page_request = PageRequest(method="GET", path=route.path, user=user, query=dict(query))
            found = page(page_request)
            return await found if inspect.isawaitable(found) else found

    async def _stream(self, connection: Connection, stream: Stream) -> web.StreamResponse:
        """Send a stream; its page ends it on shutdown."""
        async with aclosing(stream.pieces) as pieces:
            response = await connection.begin_stream(stream.content_type)
            async for piece in pieces:
                await connection.write(piece)
        await response.write_eof()
        return response

    @contextmanager
    def _inflight(self, route: Route) -> Iterator[None]:
        kind = "readOnly" if route.verb in _READING else "mutating"
        limit = self._settings.max_reading if kind == "readOnly" else self._settings.max_mutating
        inflight = self._metrics.inflight
        if inflight[kind] >= limit:
            self._metrics.dropped[kind] += 1
            raise TooManyRequests(_TOO_MANY)
        inflight[kind] += 1
        try:
            yield
        finally:
            inflight[kind] -= 1

    async def _watch(self, exchange: _Exchange, resource: Resource, request: Request) -> web.StreamResponse:
        if len(self._streams) >= self._settings.max_watches:
            self._metrics.dropped["readOnly"] += 1
            raise TooManyRequests(_TOO_MANY)
        connection = exchange.connection
        source, wanted = self._verbs.watch(resource, request)
        stream = WatchStream(
            source,
            write=connection.write,
            sleep=self._sleep,
            timeout=wanted.timeout_seconds or self._settings.watch_timeout * (1 + self._chance()),
            bookmark_interval=self._settings.bookmark_interval if wanted.bookmarks else 0,
        )
        self._streams.add(stream)
        self._metrics.long_running(exchange.labels, 1)
        if self._stopping:
            stream.stop()
        try:
            response = await connection.begin_stream(JSON)
            await stream.run()
            await response.write_eof()
        finally:
            self._metrics.slow_watchers += connection.cut_off
            source.close()
            self._streams.discard(stream)
            self._metrics.long_running(exchange.labels, -1)
            self._metrics.count_watch_events(resource.group, resource.version, resource.plural, source.count)
        return response


class _Exchange(PlainStruct):
    """One request in the handler chain."""

    request: BaseRequest
    connection: Connection
    #: Metric labels, completed once the route is resolved.
    labels: RequestLabels


def _check_headers(request: BaseRequest) -> None:
    """Reject headers that are not UTF-8: they could not be stored (field manager) or quoted in errors."""
    for name, value in request.raw_headers:
        # A token is only compared, never stored or quoted.
        if value.isascii() or name.lower() == b"authorization":
            continue
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            raise BadRequest(f"header {name.decode('ascii', 'replace')} is not UTF-8") from None


def _refusal(request: BaseRequest, error: ApiError) -> Answer:
    headers = _headers_of(error)
    try:
        accepted = negotiation.negotiate(request.headers.get("Accept", ""), "plain")
    except NotAcceptable:
        # This error takes precedence over the one about the format.
        return error_answer(error, headers=headers)
    form = PLAIN if accepted.media_type == JSON else form_of(accepted, "", pretty=False)
    return error_answer(error, form, headers=headers)


def _headers_of(error: ApiError) -> Headers:
    if isinstance(error, MethodNotServed):
        return (("Allow", ", ".join(error.allowed)),)
    if isinstance(error, TooManyRequests) and error.status.details is None:
        return (("Retry-After", "1"),)
    if error.status.code == 401:
        return (("WWW-Authenticate", "Bearer"),)
    return ()


def _request(request: BaseRequest, route: Route, query: Query, user: UserInfo, body: bytes = b"") -> Request:
    headers = request.headers
    return Request(
        route=route,
        query=query,
        user=user,
        body=body,
        content_type=headers.get("Content-Type", ""),
        accept=headers.get("Accept", ""),
        user_agent=headers.get("User-Agent", ""),
    )


def _selected_name(query: Query) -> str:
    """The object name that a field selector requires: a user who may read only that object may list it."""
    for term in first(query, "fieldSelector").split(","):
        field, _, value = term.replace("==", "=").partition("=")
        if field == "metadata.name":
            return value
    return ""


def _unknown(method: str) -> RequestLabels:
    return RequestLabels(method, "", "", "", "", "")


def _labels(request: BaseRequest, route: Route, query: Query) -> RequestLabels:
    verb = request.method
    if route.verb in ("list", "watch", "deletecollection"):
        verb = route.verb.upper()
    elif verb == "PATCH" and request.headers.get("Content-Type", "").startswith("application/apply-patch"):
        verb = "APPLY"
    return RequestLabels(
        verb,
        route.group,
        route.version,
        route.plural,
        route.subresource,
        route.scope,
        "All" if "dryRun" in query else "",
    )
