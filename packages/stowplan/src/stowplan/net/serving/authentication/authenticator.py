"""Try each authentication method in turn; the first success wins.

As in upstream's union, invalid credentials do not end the search: an invalid certificate along with a valid token is
authenticated. A request is only rejected if all presented credentials are invalid; a request without credentials is
anonymous. The problem is logged, but not sent to the client.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/authenticatorfactory/delegating.go, request/union, group,
pkg/endpoints/filters/authentication.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace
from multidict import CIMultiDict, CIMultiDictProxy

from stowplan.kube.api.api_errors import Unauthorized
from stowplan.kube.api.field_errors import aggregate
from stowplan.kube.api.users import ANONYMOUS, ANONYMOUS_USER, AUTHENTICATED, UNAUTHENTICATED, UserInfo
from stowplan.kube.klog import get_logger
from stowplan.kube.metrics.serving import ServingMetrics
from stowplan.net.serving.access_metrics import AuthenticationMetrics
from stowplan.net.serving.authentication import request_header, tokens
from stowplan.net.serving.authentication.request_header import RequestHeaders
from stowplan.net.serving.user import Rejected

if TYPE_CHECKING:
    from stowplan.net.serving.user import Headers, Peer

_log = get_logger(__name__)


class Method(Protocol):
    async def identify(self, headers: Headers, peer: Peer) -> UserInfo | None:
        """The user; None if there are no credentials of this kind; raises Rejected if they are invalid."""


class DelegatedAuthenticator:
    """An `Authenticator`."""

    def __init__(
        self,
        methods: Sequence[Method],
        *,
        clock: Callable[[], float],
        headers: Callable[[], RequestHeaders],
        metrics: ServingMetrics | None = None,
    ) -> None:
        """`headers` are those of a front proxy."""
        self._methods = methods
        self._clock = clock
        self._headers = headers
        self._metrics = None if metrics is None else AuthenticationMetrics(metrics)

    async def authenticate(self, headers: Headers, peer: Peer) -> UserInfo:
        began = self._clock()
        try:
            user = await self._identified(headers, peer)
        except Rejected as error:
            _log.error(error, "Unable to authenticate the request")
            self._count(None, began)
            raise Unauthorized("Unauthorized") from None
        self._count(user.name, began)
        return user

    def without_credentials(self, headers: Headers) -> Headers:
        left = request_header.without(
            headers, request_header.STANDARD, self._headers(), names=("Authorization", tokens.PROTOCOLS)
        )
        protocols = tokens.without_token(headers)
        if not protocols:
            return left
        kept = CIMultiDict(left)
        kept[tokens.PROTOCOLS] = ",".join(protocols)
        return CIMultiDictProxy(kept)

    async def _identified(self, headers: Headers, peer: Peer) -> UserInfo:
        errors: list[str] = []
        for method in self._methods:
            try:
                user = await method.identify(headers, peer)
            except Rejected as error:
                errors.append(str(error))
                continue
            if user is not None:
                return _authenticated(user)
        if errors:
            raise Rejected(aggregate(errors))
        return ANONYMOUS_USER

    def _count(self, username: str | None, began: float) -> None:
        if self._metrics is not None:
            self._metrics.attempted(username, self._clock() - began)


def _authenticated(user: UserInfo) -> UserInfo:
    if user.name == ANONYMOUS or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))
