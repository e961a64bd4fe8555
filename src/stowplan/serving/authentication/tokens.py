"""Authenticate by bearer token, from the Authorization header or a WebSocket protocol.

Browsers cannot set headers for a WebSocket; they offer the token as one of the protocols they speak, encoded. A scheme
other than Bearer is no credential for us. A token that nobody has is refused, never taken for no token at all.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/bearertoken, request/websocket/protocol.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Protocol

from stowplan.serving.user import Rejected, readable

if TYPE_CHECKING:
    from stowplan.api.users import UserInfo
    from stowplan.serving.user import Headers, Peer

PROTOCOLS = "Sec-WebSocket-Protocol"
_TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."
_BASE64URL = re.compile(r"[0-9A-Za-z_-]*").fullmatch

INVALID = "invalid bearer token"


class TokenOwners(Protocol):
    async def owner_of(self, token: str, *, source: str) -> UserInfo | None:
        """Of a token that came from this host; None if it is nobody's.

        Raise Rejected with what is wrong with it, or why that could not be found out.
        """


class BearerTokens:
    def __init__(self, owners: TokenOwners) -> None:
        self._owners = owners

    async def identify(self, headers: Headers, peer: Peer) -> UserInfo | None:
        token = bearer_token(headers)
        return await _owner(self._owners, token, peer) if token else None


class WebSocketTokens:
    def __init__(self, owners: TokenOwners) -> None:
        self._owners = owners

    async def identify(self, headers: Headers, peer: Peer) -> UserInfo | None:
        token = web_socket_token(headers)
        return await _owner(self._owners, token, peer) if token else None


async def _owner(owners: TokenOwners, token: str, peer: Peer) -> UserInfo:
    user = await owners.owner_of(token, source=peer.remote)
    if user is None:
        raise Rejected(INVALID)
    return user


def bearer_token(headers: Headers) -> str:
    """Only one space may stand before it; what follows it after another is ignored."""
    parts = readable(headers.get("Authorization", "")).strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


def web_socket_token(headers: Headers) -> str:
    """Raise Rejected for a request that offers a token in no way that can be understood."""
    if not _is_web_socket(headers):
        return ""
    offered = [protocol.strip() for value in headers.getall(PROTOCOLS, ()) for protocol in value.split(",")]
    encoded = [protocol.removeprefix(_TOKEN_PROTOCOL) for protocol in offered if protocol.startswith(_TOKEN_PROTOCOL)]
    if len(encoded) > 1:
        raise Rejected("multiple base64.bearer.authorization tokens specified")
    token = _decoded(encoded[0]) if encoded else ""
    if token and len(offered) == 1:
        # The server has to choose one of the protocols, and that must not be the token.
        raise Rejected("missing additional subprotocol")
    return token


def without_token(headers: Headers) -> list[str]:
    """The protocols that are offered besides a token."""
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
