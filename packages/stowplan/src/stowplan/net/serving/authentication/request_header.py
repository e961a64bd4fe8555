"""Authenticate by front-proxy headers.

Headers are only trusted from a peer whose certificate is signed by an authority of front proxies, and whose common name
is allowed. From all others they are ignored, and hidden from pages.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/headerrequest/requestheader.go, request/x509
(Verifier), pkg/endpoints/filters/authentication.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from multidict import CIMultiDict, CIMultiDictProxy

from stowplan.kube.api.users import UserInfo
from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.authentication.authorities import Authorities
from stowplan.net.serving.authentication.client_certificates import common_name, parsed, verify_in_thread
from stowplan.net.serving.user import Rejected, readable

if TYPE_CHECKING:
    from stowplan.net.serving.user import Headers, Peer


class RequestHeaders(PlainStruct, frozen=True, kw_only=True):
    """The names of the headers, case-insensitive."""

    usernames: tuple[str, ...] = ()
    uids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()
    #: Common names of front proxies; empty: any that is signed by the authorities.
    allowed_names: tuple[str, ...] = ()

    def is_identity_header(self, header: str) -> bool:
        header = header.lower()
        named = (*self.usernames, *self.uids, *self.groups)
        return any(header == name.lower() for name in named) or any(
            header.startswith(prefix.lower()) for prefix in self.extra_prefixes
        )


STANDARD = RequestHeaders(
    usernames=("X-Remote-User",),
    uids=("X-Remote-Uid",),
    groups=("X-Remote-Group",),
    extra_prefixes=("X-Remote-Extra-",),
)


class FrontProxy:
    def __init__(
        self, authorities: Authorities, headers: Callable[[], RequestHeaders], *, wall_clock: Callable[[], float]
    ) -> None:
        self._authorities = authorities
        self.headers = headers
        self._wall_clock = wall_clock
        self._one_at_a_time = asyncio.Lock()

    async def identify(self, headers: Headers, peer: Peer) -> UserInfo | None:
        """The user that a front proxy asserts; None if there is none; raises Rejected for other peers."""
        authorities = self._authorities.current()
        if not peer.certificates or not authorities:
            return None
        # As client certificates are: one at a time.
        async with self._one_at_a_time:
            await verify_in_thread(peer.certificates, authorities, now=self._wall_clock())
        names = self.headers()
        proxy = common_name(parsed(peer.certificates[0]))
        if names.allowed_names and proxy not in names.allowed_names:
            raise Rejected(f"x509: subject with cn={proxy} is not in the allowed list")
        return _user(headers, names)


def _user(headers: Headers, names: RequestHeaders) -> UserInfo | None:
    name = _first(headers, names.usernames)
    if not name:
        return None
    return UserInfo(
        name,
        uid=_first(headers, names.uids),
        groups=tuple(readable(value) for group in names.groups for value in headers.getall(group, ()) if value),
        extra=_extra(headers, names.extra_prefixes),
    )


def _first(headers: Headers, names: Sequence[str]) -> str:
    """The first non-empty value among the headers' first values."""
    return readable(next((value for name in names if (value := headers.get(name))), ""))


def _extra(headers: Headers, prefixes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for prefix in prefixes:
        for header, value in headers.items():
            if header.lower().startswith(prefix.lower()):
                key = _unescaped(header[len(prefix) :].lower())
                extra[key] = (*extra.get(key, ()), readable(value))
    return extra


def _unescaped(key: str) -> str:
    """Decode percent-encoding; an invalid one is kept unchanged."""
    pieces = key.split("%")[1:]
    if any(len(piece) < 2 or not _is_hex(piece[:2]) for piece in pieces):
        return readable(key)
    return unquote_to_bytes(key).decode(errors="replace")


def _is_hex(text: str) -> bool:
    return all(char in "0123456789abcdef" for char in text)


def without(headers: Headers, *spoken_of: RequestHeaders, names: Sequence[str] = ()) -> Headers:
    """The headers without these, and without those that identify a user."""
    dropped = {name.lower() for name in names}
    return CIMultiDictProxy(
        CIMultiDict(
            (header, value)
            for header, value in headers.items()
            if header.lower() not in dropped and not any(each.is_identity_header(header) for each in spoken_of)
        )
    )
