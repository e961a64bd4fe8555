"""TokenReview requests, with short-lived caching.

Tokens are not stored: cache keys are digests with a key of this process, and messages are stripped of the token.

Parity: upstream does not cache a rejection with a message, and kube-apiserver always sends one; here a client that
repeats an invalid token causes one review in ten seconds, not one per request.

Upstream: staging/src/k8s.io/apiserver/plugin/pkg/authenticator/token/webhook, pkg/authentication/token/cache.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from stowplan.kube.api.users import TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo
from stowplan.kube.klog import get_logger
from stowplan.net.serving.access_metrics import TokenCacheMetrics
from stowplan.net.serving.review_cache import ReviewCache
from stowplan.net.serving.reviewer import FAILURES, answer_within
from stowplan.net.serving.user import Rejected

if TYPE_CHECKING:
    from stowplan.kube.metrics.serving import ServingMetrics
    from stowplan.kube.timing.times import Times
    from stowplan.net.serving.reviewer import Reviewer

_log = get_logger(__name__)

#: Timeout in seconds for all tries together.
TIMEOUT = 10.0

#: Shorter ones can be guessed, and occur in any text by chance.
_SHORTEST_SECRET = 8


class ReviewedTokens:
    """Must be closed."""

    def __init__(
        self, reviewer: Reviewer, *, kept_for: float, key: bytes, times: Times, metrics: ServingMetrics | None = None
    ) -> None:
        self._reviewer = reviewer
        #: Secret and unique per process, so that nobody can compute the cache key of a token.
        self._key = key
        self._times = times
        self._metrics = TokenCacheMetrics(metrics, clock=times.clock)
        self._answers: ReviewCache[TokenReviewStatus] = ReviewCache(clock=times.clock, seconds_of=lambda _: kept_for)

    async def owner_of(self, token: str, *, source: str) -> UserInfo | None:
        status = await self._status(token, source)
        if status.authenticated:
            user = status.user
            return UserInfo(user.username, uid=user.uid, groups=user.groups, extra=user.extra)
        if status.error:
            raise Rejected(_without(token, status.error))
        return None

    async def close(self) -> None:
        await self._answers.close()

    async def _status(self, token: str, source: str) -> TokenReviewStatus:
        digest = hmac.digest(self._key, token.encode(), "sha256")
        kept = self._answers.kept(digest)
        if kept is not None:
            self._metrics.hit()
            return kept
        with self._metrics.missed():
            return await self._answers.ask(digest, lambda: self._review(token), kind=source)

    async def _review(self, token: str) -> TokenReviewStatus:
        review = TokenReview(spec=TokenReviewSpec(token=token))
        try:
            with self._metrics.fetching():
                answer = await answer_within(TIMEOUT, self._reviewer.review(review), times=self._times)
        except FAILURES as error:
            self._metrics.fetched(accepted=False)
            why = _without(token, str(error))
            _log.error(why, "Failed to make webhook authenticator request")
            raise Rejected(why) from None
        self._metrics.fetched(accepted=not answer.status.error)
        return answer.status


def _without(token: str, text: str) -> str:
    return text.replace(token, "<token>") if len(token) >= _SHORTEST_SECRET else text
