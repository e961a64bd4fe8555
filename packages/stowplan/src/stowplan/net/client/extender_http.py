"""HTTP requests to extenders, over persistent connections with per-extender TLS and timeout.

The result is a status and a body of limited length. The timeout (`httpTimeout`, 5 s by default) covers one request
from connection to body; nothing else limits how long a scheduling cycle waits for an extender. Redirects are not
followed. An idle connection that the server closes may fail just when it is used again: questions are then retried once
on a new connection, with a new timeout; a binding is not.

Upstream: makeTransport and send in pkg/scheduler/extender.go.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from stowplan.kube.api.urls import without_password
from stowplan.kube.timing.times import REAL_TIMES, Times
from stowplan.net.client.client_errors import ClientConfigError, NoResponse
from stowplan.net.client.endpoint.file_content import Content, FileContent, InlineContent
from stowplan.net.client.endpoint.proxies import proxy_from_environment
from stowplan.net.client.endpoint.tls import CertificatePair, NoCertificate, TlsSettings
from stowplan.net.client.http.dialing import probed_socket
from stowplan.net.client.http.failures import FAILURES, failure_of

if TYPE_CHECKING:
    from stowplan.kube.config.configuration import Extender

#: As in Go's transport.
_KEPT_IDLE = 90.0
_OK = 200
_PIECE = 1 << 16
#: A timeout that expires immediately; aiohttp treats 0 as none.
_AT_ONCE = 1e-9


class ExtenderHttp:
    """Must be created within a running event loop, and closed."""

    def __init__(self, *, agent: str, times: Times = REAL_TIMES) -> None:
        self._times = times
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_IDLE, socket_factory=probed_socket),
            headers={"User-Agent": agent, "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        self._tls: dict[Extender, TlsSettings] = {}

    async def close(self) -> None:
        await self._session.close()

    async def post(
        self, extender: Extender, url: str, body: bytes, *, longest: int, repeatable: bool
    ) -> tuple[int, bytes]:
        """The status and the body, which is only read for a success; raises NoResponse.

        `longest`: maximum size of the body in bytes.
        """
        try:
            try:
                return await self._post(extender, url, body, longest)
            except aiohttp.ServerDisconnectedError:
                if not repeatable:
                    raise
                return await self._post(extender, url, body, longest)
        except NoResponse:
            raise
        except ClientConfigError as error:
            raise _no_answer(url, str(error)) from None
        except aiohttp.InvalidURL as error:
            raise _no_answer(url, "it is not an http or https URL") from error
        except FAILURES as error:
            failure = failure_of(error)
            raise _no_answer(url, failure.why, sent=failure.sent) from error

    async def _post(self, extender: Extender, url: str, body: bytes, longest: int) -> tuple[int, bytes]:
        target = _parsed(url)
        tls = self._tls_of(extender)
        async with self._session.post(
            target,
            data=body,
            headers={"Content-Type": "application/json"},
            proxy=proxy_from_environment(str(target.origin()), os.environ),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=max(extender.http_timeout.seconds, _AT_ONCE)),
            ssl=tls.context() if target.scheme == "https" else True,
            server_hostname=tls.server_name,
        ) as response:
            if response.status != _OK:
                return response.status, b""
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise _no_answer(url, "the response is compressed, which was not requested", sent=True)
            pieces, length = [], 0
            async for piece in response.content.iter_chunked(_PIECE):
                pieces.append(piece)
                length += len(piece)
                if length > longest:
                    response.close()
                    raise _no_answer(url, f"the answer is longer than {longest} bytes", sent=True)
            return response.status, b"".join(pieces)

    def _tls_of(self, extender: Extender) -> TlsSettings:
        found = self._tls.get(extender)
        if found is None:
            found = self._tls[extender] = tls_of(extender, clock=self._times.clock)
        return found


def tls_of(extender: Extender, *, clock: Callable[[], float]) -> TlsSettings:
    """The TLS settings of an extender; data takes precedence over files."""
    said = extender.tls_config
    if said is None:
        # Parity: the only effect of enableHTTPS.
        return TlsSettings(insecure=extender.enable_https)

    def content(data: bytes, path: str, field: str) -> Content | None:
        where = f"extender {without_password(extender.url_prefix)}: tlsConfig.{field}"
        if data:
            return InlineContent(data, where=f"{where}Data")
        return FileContent(path, where=f"{where}File", clock=clock) if path else None

    authority = content(said.ca_data, said.ca_file, "ca")
    certificate, key = content(said.cert_data, said.cert_file, "cert"), content(said.key_data, said.key_file, "key")
    return TlsSettings(
        ca=authority,
        server_name=said.server_name or None,
        insecure=said.insecure or (extender.enable_https and authority is None),
        certificate=NoCertificate()
        if certificate is None or key is None
        else CertificatePair(certificate=certificate, key=key),
    )


def _parsed(url: str) -> URL:
    try:
        parsed = URL(url)
        usable = parsed.scheme in ("http", "https") and bool(parsed.host)
    except ValueError:
        usable = False
    if not usable:
        raise _no_answer(url, "it is not an http or https URL")
    return parsed


def _no_answer(url: str, why: str, *, sent: bool = False) -> NoResponse:
    # The prefix of Go's client; the rest is our own text.
    return NoResponse(f'Post "{without_password(url)}": {why}', sent=sent)


def post_blocking(
    extender: Extender, url: str, body: bytes, *, longest: int, repeatable: bool, agent: str
) -> tuple[int, bytes]:
    """`post` for callers without an event loop, or blocking within one: uses a loop and a thread of its own."""

    async def post() -> tuple[int, bytes]:
        http = ExtenderHttp(agent=agent)
        try:
            return await http.post(extender, url, body, longest=longest, repeatable=repeatable)
        finally:
            await http.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, post()).result()
