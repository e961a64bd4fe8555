"""Send one request: rate limit, credentials, TLS, timeouts, safe retries.

A request is retried if it cannot have been processed (no connection, 429, 503 with Retry-After) or if processing it
twice is harmless (reads; requests marked `repeatable`). Delays grow with each retry and honor Retry-After, within
limits. If the response to any other request is lost, `OutcomeUnknown` is raised: the caller knows how to find out.
Redirects are not followed: credentials are for one server only.

At shutdown (`hurry`) a server that cannot be reached is not waited for: requests fail at the first failure to connect,
and after a few of those without being sent.

After a 401 the credentials are renewed, and the request is sent once more. Connections are kept per SSL context, so new
certificates apply to the next request, while requests in progress complete on their old connection.

`send`, for requests with one complete response, uses our own connections (`connection_pool`, `http1`). `chunks`, for
streamed responses, uses aiohttp (`aiohttp_session`), and so does everything if there is a proxy. A scheduler sends two
requests per pod and has little time for them: on uvloop over TLS, a bind takes 55 µs of CPU this way and 150 with
aiohttp, an event 52 and 141.

Parity: client-go retries writes also after a 5xx with Retry-After, which may execute them twice.

Upstream: staging/src/k8s.io/client-go/rest/with_retry.go, request.go; transport/cache.go (timeouts, keep-alive).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace
from yarl import URL

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.port import Lane, Unreachable
from stowplan.kube.klog import get_logger
from stowplan.kube.structs import PlainStruct
from stowplan.kube.timing.backoff import REQUESTING, Backoff, BackoffPolicy
from stowplan.kube.timing.times import Times, within
from stowplan.net.client.client_errors import ClientConfigError, CredentialsError, OutcomeUnknown, StreamSilent
from stowplan.net.client.connection import Connection
from stowplan.net.client.http.aiohttp_session import READ_BUFFER, AiohttpSession, read
from stowplan.net.client.http.connection_pool import ConnectionPool
from stowplan.net.client.http.failures import FAILURES, Failure, NotAnswered, failure_of
from stowplan.net.client.http.http1 import RequestWriter
from stowplan.net.client.http.lanes import RateLimitedLanes
from stowplan.net.client.http.responses import Answer, Subject, api_error, retry_after_seconds
from stowplan.net.client.request_metrics import NO_ANSWER, MethodMetrics, RequestMetrics

if TYPE_CHECKING:
    import aiohttp
    from multidict import MultiMapping


# Log requests delayed by client-side throttling, at a limited rate.
#
# Upstream: staging/src/k8s.io/client-go/rest/request.go (tryThrottleWithInfo, throttledLogger).

_log = get_logger(__name__)

#: Seconds; shorter waits are not logged.
LONG = 0.05
_VERY_LONG = 1.0
#: (level, seconds between two lines about very long waits); the first enabled level applies.
_BETWEEN_LINES = ((2, 1.0), (0, 10.0))

_MESSAGE = "Waited before sending request"
_REASON = "client-side throttling, not priority and fairness"


class Throttling:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = -inf

    def log(self, verb: str, url: str, seconds: float) -> None:
        """A request waited for longer than LONG."""
        keys = {"delay": timedelta(seconds=seconds), "reason": _REASON, "verb": verb, "URL": url}
        _log.v(3).info(_MESSAGE, **keys)
        if seconds <= _VERY_LONG:
            return
        level, between = next(each for each in _BETWEEN_LINES if _log.v(each[0]).enabled)
        now = self._clock()
        if now - self._last >= between:
            self._last = now
            _log.v(level).info(_MESSAGE, **keys)


_JSON = "application/json"

#: Failures to connect in a row after which nothing more is sent at shutdown.
_UNREACHABLE_AFTER = 16


class Limits(PlainStruct, frozen=True, kw_only=True):
    """Timeouts in seconds, numbers of retries, and limits for Retry-After."""

    connect: float = 10.0
    #: Without a byte of the response.
    silence: float = 60.0
    #: Until the response is complete. Streams have no such limit.
    total: float = 120.0
    tries: int = 8
    #: For failures to connect, which tend to last longer than a request should.
    connection_tries: int = 4
    #: From the first try to the start of the last.
    trying: float = 60.0
    retry_after: float = 30.0
    backoff: BackoffPolicy = REQUESTING

    def within(self, seconds: float | None) -> Limits:
        """With kubectl's --request-timeout, if there is one: no try is longer, and none starts later."""
        if seconds is None:
            return self
        connect, trying = min(self.connect, seconds), min(self.trying, seconds)
        return replace(self, connect=connect, silence=seconds, total=seconds, trying=trying)


class Request(PlainStruct, frozen=True, kw_only=True):
    method: str
    path: str
    subject: Subject
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = _JSON
    lane: Lane = "default"
    #: The accepted content type of a streamed response.
    answers: str = _JSON
    #: Whether to retry after a lost response, although the request may have been processed. GET always is.
    repeatable: bool = False

    @property
    def changes(self) -> bool:
        """Whether only the leader may send it."""
        return self.method != "GET" and self.lane in ("bind", "default")

    @property
    def may_repeat(self) -> bool:
        return self.repeatable or self.method == "GET"


class Transport:
    """Must be created within a running event loop, and closed. Later requests raise RuntimeError."""

    def __init__(
        self,
        connection: Connection,
        *,
        turns: RateLimitedLanes,
        times: Times,
        agent: str,
        limits: Limits | None = None,
        metrics: RequestMetrics | None = None,
    ) -> None:
        self._connection = connection
        self._metrics = metrics
        self._turns = turns
        self._times = times
        self._throttling = Throttling(times.clock)
        self._limits = (limits or Limits()).within(connection.request_timeout)
        encoding = "identity" if connection.disable_compression else "gzip"
        fields = {"User-Agent": agent, "Accept": _JSON, "Accept-Encoding": encoding}
        server = URL(connection.server)
        self._session = AiohttpSession(connection, fields=fields, limits=self._limits)
        self._pool = ConnectionPool(server, tls=connection.tls, limits=self._limits, socket_path=connection.socket_path)
        self._writer = RequestWriter(server, fields)
        #: Checked just before sending a request that changes more than a status or an event; None: always allowed.
        self.may_change: Callable[[], bool] | None = None
        #: Set at shutdown.
        self._hurried = asyncio.Event()
        self._not_connected_in_a_row = 0

    @property
    def server(self) -> str:
        return self._connection.shown

    def hurry(self) -> None:
        """Do not wait for a server that cannot be reached, from now on."""
        self._hurried.set()

    async def close(self) -> None:
        await self._turns.close()
        await self._pool.close()
        await self._session.close()
        # Aborted connections are closed in the next iteration of the event loop.
        await asyncio.sleep(0)

    def error_of(self, answer: Answer, subject: Subject) -> ApiError:
        return api_error(answer, subject, now=self._times.wall_clock())

    async def send(self, request: Request) -> Answer:
        """The response, successful or not; raises Unreachable if there is none."""
        times, limits = self._times, self._limits
        backoff = Backoff(limits.backoff, clock=times.clock, random=times.random)
        started, tries, renewed = times.clock(), 0, False
        metrics = None if self._metrics is None else self._metrics.of(request.method)
        while True:
            tries += 1
            if self._hurried.is_set() and self._not_connected_in_a_row >= _UNREACHABLE_AFTER:
                raise Unreachable(f"{self.server}: not sent, as the server could not be reached")
            outcome, used = await self._try(request, metrics)
            not_connected = isinstance(outcome, Failure) and not outcome.sent
            self._not_connected_in_a_row = self._not_connected_in_a_row + 1 if not_connected else 0
            if metrics is not None:
                _count_try(metrics, request, outcome, again=tries > 1)
            if isinstance(outcome, Answer) and outcome.code == 401 and not renewed:
                renewed = True
                if await self._renew(used):
                    continue
            wait = self._wait(request, outcome, tries, backoff)
            if wait is None or times.clock() + wait - started > limits.trying:
                if metrics is not None:
                    _count_end(metrics, outcome, times.clock() - started)
                return self._final(request, outcome, tries)
            if not_connected:
                with suppress(TimeoutError):
                    await within(wait, self._hurried.wait(), sleep=times.sleep)
            else:
                await times.sleep(wait)

    async def chunks(self, request: Request, *, silence: float) -> AsyncGenerator[bytes, None]:
        """Yield the response's body in pieces; raises ApiError or Unreachable. Takes no turn, and is not retried."""
        opened = False
        try:
            async with self._opened(request, silence) as response:
                opened = True
                async for chunk in response.content.iter_any():
                    yield chunk
        except FAILURES as error:
            if opened and isinstance(error, TimeoutError):
                raise StreamSilent(f"{self.server}: nothing came for {silence:g} seconds") from error
            raise self._unreachable(failure_of(error)) from error
        except RuntimeError as error:
            # aiohttp's error for reading from a closed session.
            if not (opened and self._session.closed):
                raise
            raise Unreachable(f"{self.server}: this client has been closed") from error

    @asynccontextmanager
    async def _opened(self, request: Request, silence: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a stream; after a 401, once more with new credentials."""
        renewed = False
        while True:
            headers = await self._credentials()
            async with self._counted(request, headers, silence) as response:
                head = Answer(response.status, response.headers, b"")
                if head.ok and (head.is_json if request.answers == _JSON else head.content_type == request.answers):
                    yield response
                    return
                if head.ok:
                    head = replace(head, body=await response.content.read(READ_BUFFER))
                    raise Unreachable(f"{self.server}: {head.not_json()}")
                answer = await read(response)
            if answer.code != 401 or renewed or not await self._renew(headers):
                raise self.error_of(answer, request.subject)
            renewed = True

    @asynccontextmanager
    async def _counted(
        self, request: Request, headers: MultiMapping[str], silence: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The start of a stream, with its status code recorded."""
        code = NO_ANSWER
        try:
            async with self._session.opened(request, headers, silence=silence) as response:
                code = str(response.status)
                self._count_stream(request, code)
                yield response
        except FAILURES:
            if code == NO_ANSWER:
                self._count_stream(request, code)
            raise

    def _count_stream(self, request: Request, code: str) -> None:
        if self._metrics is not None:
            self._metrics.of(request.method).tried(code)

    async def _try(self, request: Request, metrics: MethodMetrics | None) -> tuple[Answer | Failure, MultiMapping[str]]:
        credentials = await self._credentials()
        queued_at = self._times.clock()
        try:
            async with self._turns.turn(request.lane):
                if metrics is not None:
                    waited = self._times.clock() - queued_at
                    metrics.waited(waited)
                    if waited > LONG:
                        self._throttling.log(request.method, self.server + request.path, waited)
                return await self._exchange(request, credentials), credentials
        except NotAnswered as error:
            return error.failure, credentials

    async def _exchange(self, request: Request, credentials: MultiMapping[str]) -> Answer:
        if self._connection.proxy_url is not None:
            self._check_lead(request)
            return await self._session.exchange(request, credentials)
        written = self._writer.request(
            request.method,
            request.path,
            query=request.query,
            credentials=credentials,
            body=request.body,
            content_type=request.content_type,
        )
        return await self._pool.exchange(written, before_sending=lambda: self._check_lead(request))

    def _check_lead(self, request: Request) -> None:
        if request.changes and self.may_change is not None and not self.may_change():
            # By the clock, not by a task that may have been suspended as long as this process.
            raise Unreachable(f"{self.server}: not sent, as this process does not lead any more")

    async def _credentials(self) -> MultiMapping[str]:
        try:
            return await self._connection.credentials.headers()
        except (CredentialsError, ClientConfigError) as error:
            raise Unreachable(f"{self.server}: no credentials: {error}") from error

    async def _renew(self, used: MultiMapping[str]) -> bool:
        try:
            return await self._connection.credentials.refused(used)
        except (CredentialsError, ClientConfigError) as error:
            raise Unreachable(
                f"{self.server}: the credentials were refused, and there are no others: {error}"
            ) from error

    def _wait(self, request: Request, outcome: Answer | Failure, tries: int, backoff: Backoff) -> float | None:
        """The delay before the next try; None if the outcome is final."""
        if isinstance(outcome, Failure):
            again = not outcome.lasting and (request.may_repeat or not outcome.sent)
            again = again and (outcome.sent or not self._hurried.is_set())
            return backoff.next() if again and tries < self._limits.connection_tries else None
        retry_after = retry_after_seconds(outcome.headers, now=self._times.wall_clock())
        refused = outcome.code == 429 or (outcome.code == 503 and retry_after is not None)
        failed = outcome.code >= 500 and outcome.code != 501 and request.may_repeat
        if not (refused or failed) or tries >= self._limits.tries:
            return None
        if retry_after is not None:
            delay, url = timedelta(seconds=retry_after), self.server + request.path
            _log.v(4).info("Got a Retry-After response", delay=delay, attempt=tries, url=url)
        return min(retry_after or 0.0, self._limits.retry_after) + backoff.next()

    def _final(self, request: Request, outcome: Answer | Failure, tries: int) -> Answer:
        if isinstance(outcome, Answer):
            return outcome if tries == 1 else replace(outcome, tries=tries)
        raise self._unreachable(outcome, uncertain=outcome.sent and request.method != "GET")

    def _unreachable(self, failure: Failure, *, uncertain: bool = False) -> Unreachable:
        if uncertain:
            return OutcomeUnknown(f"{self.server}: {failure.why}; the request may have been carried out")
        return Unreachable(f"{self.server}: {failure.why}")


def _count_try(metrics: MethodMetrics, request: Request, outcome: Answer | Failure, *, again: bool) -> None:
    code = str(outcome.code) if isinstance(outcome, Answer) else NO_ANSWER
    metrics.tried(code)
    if again:
        metrics.tried_again(code)
    metrics.sent(len(request.body or b""))


def _count_end(metrics: MethodMetrics, outcome: Answer | Failure, seconds: float) -> None:
    metrics.ended(seconds)
    if isinstance(outcome, Answer):
        metrics.received(len(outcome.body))
