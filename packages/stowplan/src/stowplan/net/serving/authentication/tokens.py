"""Authenticate by bearer token, from the Authorization header or a WebSocket protocol.

Browsers cannot set headers for a WebSocket; they offer the encoded token as one of their protocols. Schemes other than
Bearer are ignored. An unknown token is rejected, and never treated as a missing one.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/bearertoken, request/websocket/protocol.go.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from typing import TYPE_CHECKING

from stowplan.kube.api.users import TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo
from stowplan.kube.klog import get_logger
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.kube.timing.times import Times
from stowplan.net.serving.access_metrics import TokenCacheMetrics
from stowplan.net.serving.reviewer import FAILURES, ReviewCache, Reviewer, answer_within
from stowplan.net.serving.user import Rejected, readable

if TYPE_CHECKING:
    from stowplan.net.serving.user import Headers, Peer

PROTOCOLS = "Sec-WebSocket-Protocol"
_TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."
_BASE64URL = re.compile(r"[0-9A-Za-z_-]*").fullmatch

INVALID = "invalid bearer token"


class BearerTokens:
    def __init__(self, owners: ReviewedTokens) -> None:
        self._owners = owners

    async def identify(self, headers: Headers, peer: Peer) -> UserInfo | None:
        token = bearer_token(headers)
        return await _owner(self._owners, token, peer) if token else None


class WebSocketTokens:
    def __init__(self, owners: ReviewedTokens) -> None:
        self._owners = owners

    async def identify(self, headers: Headers, peer: Peer) -> UserInfo | None:
        token = web_socket_token(headers)
        return await _owner(self._owners, token, peer) if token else None


async def _owner(owners: ReviewedTokens, token: str, peer: Peer) -> UserInfo:
    user = await owners.owner_of(token, source=peer.remote)
    if user is None:
        raise Rejected(INVALID)
    return user


def bearer_token(headers: Headers) -> str:
    """Exactly one space may precede it; anything after a second one is ignored."""
    parts = readable(headers.get("Authorization", "")).strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


def web_socket_token(headers: Headers) -> str:
    """Raises Rejected for a malformed token protocol."""
    if not _is_web_socket(headers):
        return ""
    offered = [protocol.strip() for value in headers.getall(PROTOCOLS, ()) for protocol in value.split(",")]
    encoded = [protocol.removeprefix(_TOKEN_PROTOCOL) for protocol in offered if protocol.startswith(_TOKEN_PROTOCOL)]
    if len(encoded) > 1:
        raise Rejected("multiple base64.bearer.authorization tokens specified")
    token = _decoded(encoded[0]) if encoded else ""
    if token and len(offered) == 1:
        # The server has to select a protocol, which must not be the token.
        raise Rejected("missing additional subprotocol")
    return token


def without_token(headers: Headers) -> list[str]:
    """The offered protocols without the token."""
    offered = [protocol.strip() for value in headers.getall(PROTOCOLS, ()) for protocol in value.split(",")]
    return [protocol for protocol in offered if not protocol.startswith(_TOKEN_PROTOCOL)]


def _is_web_socket(headers: Headers) -> bool:
    upgrades = any("upgrade" in value.lower() for value in headers.getall("Connection", ()))
    return upgrades and headers.get("Upgrade", "").lower() == "websocket"


def _decoded(encoded: str) -> str:
    try:
        if not _BASE64URL(encoded):
            raise binascii.Error
        token = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except binascii.Error:
        raise Rejected("invalid base64.bearer.authorization token encoding") from None
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise Rejected("invalid base64.bearer.authorization token") from None


# TokenReview requests, with short-lived caching.
#
# Tokens are not stored: cache keys are digests with a key of this process, and messages are stripped of the token.
#
# Parity: upstream does not cache a rejection with a message, and kube-apiserver always sends one; here a client that
# repeats an invalid token causes one review in ten seconds, not one per request.
#
# Upstream: staging/src/k8s.io/apiserver/plugin/pkg/authenticator/token/webhook, pkg/authentication/token/cache.

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
