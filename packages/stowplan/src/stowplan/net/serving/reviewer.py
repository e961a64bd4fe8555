"""Send review requests to the API server, with retries.

Refusals and connection failures are final; errors, throttling and lost responses are retried up to five times, starting
with a delay of half a second.

Upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/webhook.go, pkg/server/options/authentication.go.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from stowplan.kube.api.api_errors import ApiError, InternalError, ServerTimeout, Timeout, TooManyRequests
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.port import Api, Unreachable
from stowplan.kube.api.users import SubjectAccessReview, TokenReview
from stowplan.kube.timing.backoff import Backoff, BackoffPolicy
from stowplan.kube.timing.times import Times, within
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.net.serving.access_metrics import RequestMetrics

R = TypeVar("R", TokenReview, SubjectAccessReview)
T = TypeVar("T")

TRIES = 5
RETRYING = BackoffPolicy(initial=0.5, cap=float("inf"), factor=1.5, jitter=0.2)
#: Timeout in seconds of one request.
REQUEST_TIMEOUT = 10.0

#: Errors of a request. An undecodable response counts as none.
FAILURES = (ApiError, Unreachable, DecodeError)
#: The status code in metrics of requests without a response.
NO_ANSWER = "<error>"

_PASSING = (InternalError, Timeout, ServerTimeout, TooManyRequests, OutcomeUnknown)


class Reviewer:
    def __init__(self, api: Api, *, times: Times, metrics: RequestMetrics | None = None) -> None:
        self._api = api
        self._times = times
        self._metrics = metrics

    async def review(self, review: R) -> R:
        """The review with its status; raises one of FAILURES."""
        backoff = Backoff(RETRYING, clock=self._times.clock, random=self._times.random)
        for _ in range(TRIES - 1):
            try:
                return await self._ask(review)
            except FAILURES as error:
                if not _passes(error):
                    raise
            await self._times.sleep(backoff.next())
        return await self._ask(review)

    async def _ask(self, review: R) -> R:
        began = self._times.clock()
        code = NO_ANSWER
        try:
            answer = await answer_within(REQUEST_TIMEOUT, self._api.create(review), times=self._times)
            code = "201"
        except ApiError as error:
            code = str(error.status.code)
            raise
        finally:
            if self._metrics is not None:
                self._metrics.observe(code, self._times.clock() - began)
        return answer


def _passes(error: Exception) -> bool:
    return isinstance(error, _PASSING) or (isinstance(error, ApiError) and error.retry_after_seconds > 0)


async def answer_within(seconds: float, work: Coroutine[Any, Any, T], *, times: Times) -> T:
    """The result or exception of the work; cancelled and Unreachable if it takes longer."""
    try:
        return await within(seconds, work, sleep=times.sleep)
    except TimeoutError:
        raise Unreachable(f"no answer within {seconds:g} seconds") from None


# A cache in which concurrent identical requests share one result.
#
# The number of concurrent requests per kind is limited. A request counts until it is answered, not until its waiters
# leave, so a client that disconnects and retries does not get more requests in flight.
#
# A failure is reported to all waiters and not cached. Keys are digests, so that the cache does not reveal requests
# (tokens) and does not grow with their length. The least recently used answer is evicted.
#
# Upstream: staging/src/k8s.io/apiserver/pkg/authentication/token/cache/cached_token_authenticator.go,
# staging/src/k8s.io/apimachinery/pkg/util/cache/lruexpirecache.go.

A = TypeVar("A")

MAX_ANSWERS = 8192
#: Maximum number of concurrent requests per kind.
MAX_ASKED = 32


class ReviewCache(Generic[A]):
    """Must be closed: a request continues even if its waiters are gone."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        seconds_of: Callable[[A], float],
        most: int = MAX_ANSWERS,
        most_asked: int = MAX_ASKED,
    ) -> None:
        self._most_asked = most_asked
        #: By kind, as long as it has requests.
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._clock = clock
        #: Seconds that a result is valid; it is not cached if not positive.
        self._seconds_of = seconds_of
        self._most = most
        #: Key -> result and its expiration, the most recently used one last.
        self._kept: OrderedDict[bytes, tuple[A, float]] = OrderedDict()
        self._in_progress: dict[bytes, asyncio.Task[A]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def kept(self, key: bytes) -> A | None:
        found = self._kept.get(key)
        if found is None:
            return None
        answer, until = found
        if self._clock() >= until:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return answer

    async def ask(self, key: bytes, question: Callable[[], Coroutine[None, None, A]], *, kind: str) -> A:
        """The result of an identical request in progress, or of a new one; exceptions propagate.

        A new request waits for a slot of its kind.
        """
        task = self._in_progress.get(key)
        if task is None:
            slots = self._slots.setdefault(kind, asyncio.Semaphore(self._most_asked))
            await slots.acquire()
            # It may have been requested in the meantime.
            task, answer = self._in_progress.get(key), self.kept(key)
            if task is not None or answer is not None:
                slots.release()
            if answer is not None:
                return answer
            if task is None:
                task = self._begin(key, question, slots)
        # A cancelled waiter does not cancel it for others.
        return await asyncio.shield(task)

    def _begin(
        self, key: bytes, question: Callable[[], Coroutine[None, None, A]], slots: asyncio.Semaphore
    ) -> asyncio.Task[A]:
        task = self._in_progress[key] = asyncio.create_task(question())
        task.add_done_callback(lambda done: self._answered(key, done))
        task.add_done_callback(lambda done: slots.release())
        return task

    async def close(self) -> None:
        tasks = list(self._in_progress.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _answered(self, key: bytes, task: asyncio.Task[A]) -> None:
        del self._in_progress[key]
        # Retrieving a task's exception also marks it as handled.
        if task.cancelled() or task.exception() is not None:
            return
        answer = task.result()
        seconds = self._seconds_of(answer)
        if seconds <= 0:
            return
        self._kept[key] = (answer, self._clock() + seconds)
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
