"""Authenticated users and the interfaces of authenticators and authorizers.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/user, pkg/authentication/authenticator/interfaces.go,
pkg/authorization/authorizer/interfaces.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stowplan.kube.api.api_errors import InternalError
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.users import UserInfo
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

    Headers = CIMultiDictProxy[str]

#: Names and paths from requests are part of messages that a browser may render.
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Peer(PlainStruct, frozen=True):
    """The other end of a connection. Its certificates are unverified."""

    #: DER, the peer's own first.
    certificates: tuple[bytes, ...] = ()
    remote: str = ""


class Rejected(Exception):
    """Invalid credentials; `str()` is for the log, never for the client."""


class Authenticator(Protocol):
    async def authenticate(self, headers: Headers, peer: Peer) -> UserInfo:
        """The user; raises api_errors.Unauthorized for invalid credentials."""

    def without_credentials(self, headers: Headers) -> Headers:
        """The headers visible to pages, without those that identify a user, true or not."""


class Authorizer(Protocol):
    async def authorize(self, user: UserInfo, *, verb: str, path: str) -> None:
        """Return if allowed; raises api_errors.Forbidden, or AuthorizationFailed without a result."""


class AuthorizationFailed(InternalError):
    """The authorization check failed. The response is `text` as plain text, like upstream's."""

    def text(self, request_uri: str) -> str:
        return escaped(f"Internal Server Error: {go_quote(request_uri)}: {self}")


def escaped(message: str) -> str:
    return message.translate(_HTML)


def readable(value: str) -> str:
    """A header's value as valid text; invalid UTF-8 is replaced, as in Go."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
