"""Send review requests to the API server, with retries.

Refusals and connection failures are final; errors, throttling and lost responses are retried up to five times, starting
with a delay of half a second.

Upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/webhook.go, pkg/server/options/authentication.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from stowplan.kube.api.api_errors import ApiError, InternalError, ServerTimeout, Timeout, TooManyRequests
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.users import SubjectAccessReview, TokenReview
from stowplan.kube.timing.backoff import Backoff, BackoffPolicy
from stowplan.kube.timing.times import within
from stowplan.net.client.client_errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from stowplan.kube.api.port import Api
    from stowplan.kube.timing.times import Times

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


class RequestMetrics(Protocol):
    def observe(self, code: str, seconds: float) -> None: ...


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
