"""Authenticated users and the interfaces of authenticators and authorizers.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/user, pkg/authentication/authenticator/interfaces.go,
pkg/authorization/authorizer/interfaces.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stowplan.api.api_errors import InternalError
from stowplan.api.field_errors import go_quote

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

    from stowplan.api.users import UserInfo

    Headers = CIMultiDictProxy[str]

#: Names and paths come from requests and go into messages that a browser may show.
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True)
class Peer:
    """The other end of a connection. Its certificates are what it presented, which nobody has verified yet."""

    #: DER, the peer's own first.
    certificates: tuple[bytes, ...] = ()
    remote: str = ""


class Rejected(Exception):
    """Credentials were presented and are no good; `str()` is for the log, never for the one who presented them."""


class Authenticator(Protocol):
    async def authenticate(self, headers: Headers, peer: Peer) -> UserInfo:
        """Who this is; raise api_errors.Unauthorized for credentials that are no good."""

    def without_credentials(self, headers: Headers) -> Headers:
        """The headers that pages may see: none that says who somebody is, true or not."""


class Authorizer(Protocol):
    async def authorize(self, user: UserInfo, *, verb: str, path: str) -> None:
        """Return if they may; raise api_errors.Forbidden, or AuthorizationFailed if nobody could say."""


class AuthorizationFailed(InternalError):
    """Whether they may could not be found out. It is answered in plain text with `text`, as upstream does."""

    def text(self, request_uri: str) -> str:
        return escaped(f"Internal Server Error: {go_quote(request_uri)}: {self}")


def escaped(message: str) -> str:
    return message.translate(_HTML)


def readable(value: str) -> str:
    """A header's value as text that JSON can carry; bytes that are no UTF-8 are replaced, as Go does it."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
