"""JSON from HTTP services besides the API server: a load watcher, Prometheus.

Proxies are those of the environment. Redirects are not followed, as they would carry credentials elsewhere.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from stowplan.kube.api.urls import without_password
from stowplan.net.client.endpoint.proxies import proxy_from_environment
from stowplan.net.client.http.dialing import probed_socket
from stowplan.net.client.http.failures import FAILURES, failure_of

_OK = 200
#: 100 bytes for each metric of 10,000 nodes, tenfold.
LONGEST = 64 << 20
_PIECE = 1 << 16


class JsonHttp:
    """Must be created within a running event loop, and closed. The caller limits the time."""

    def __init__(self, *, agent: str) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=probed_socket),
            headers={"User-Agent": agent, "Accept": "application/json", "Content-Type": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def close(self) -> None:
        await self._session.close()

    async def get(self, url: str, *, query: Mapping[str, str], headers: Mapping[str, str], insecure: bool) -> Any:
        """The value of a 200; ValueError says what is wrong. `insecure`: certificates are not verified."""
        shown = without_password(url)
        try:
            body = await self._body(url, query, headers, insecure)
        except aiohttp.InvalidURL:
            raise ValueError(f"{shown} is not an http or https URL") from None
        except FAILURES as error:
            raise ValueError(f'Get "{shown}": {failure_of(error).why}') from error
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise ValueError(f'Get "{shown}": the answer is not JSON: {error}') from None

    async def _body(self, url: str, query: Mapping[str, str], headers: Mapping[str, str], insecure: bool) -> bytes:
        async with self._session.get(
            url,
            params=query,
            headers=headers,
            proxy=proxy_from_environment(url, os.environ),
            allow_redirects=False,
            ssl=_unverified() if insecure else True,
        ) as response:
            if response.status != _OK:
                raise ValueError(f'Get "{without_password(url)}": received status code {response.status}')
            pieces, length = [], 0
            async for piece in response.content.iter_chunked(_PIECE):
                pieces.append(piece)
                length += len(piece)
                if length > LONGEST:
                    response.close()
                    raise ValueError(f'Get "{without_password(url)}": the answer is longer than {LONGEST} bytes')
            return b"".join(pieces)


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
