"""Authenticate by bearer token, from the Authorization header or a WebSocket protocol.

Browsers cannot set headers for a WebSocket; they offer the encoded token as one of their protocols. Schemes other than
Bearer are ignored. An unknown token is rejected, and never treated as a missing one.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/bearertoken, request/websocket/protocol.go.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Protocol

from stowplan.net.serving.user import Rejected, readable

if TYPE_CHECKING:
    from stowplan.kube.api.users import UserInfo
    from stowplan.net.serving.user import Headers, Peer

PROTOCOLS = "Sec-WebSocket-Protocol"
_TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."
_BASE64URL = re.compile(r"[0-9A-Za-z_-]*").fullmatch

INVALID = "invalid bearer token"


class TokenOwners(Protocol):
    async def owner_of(self, token: str, *, source: str) -> UserInfo | None:
        """The owner of a token sent by this host; None if it is unknown.

        Raises Rejected with the problem, or why the review failed.
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
