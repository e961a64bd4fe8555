"""Bounded reads and writes for one request.

`net.serving.requests.protocol` reads bodies, and limits how long a client may leave a response unread.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from aiohttp import web

from stowplan.kube.api.api_errors import ApiError, Timeout, UnsupportedMediaType
from stowplan.net.serving.requests.messages import ALWAYS
from stowplan.net.serving.requests.protocol import HttpConnection, Sleep, read_body
from stowplan_cluster.front.front_settings import FrontSettings
from stowplan_cluster.front.responses import Answer

if TYPE_CHECKING:
    from aiohttp.web_request import BaseRequest


#: Responses larger than this are compressed if the client accepts it.
_GZIP_THRESHOLD = 128 * 1024
_GZIP_LEVEL = 1
#: zlib's wbits for gzip with the largest window.
_GZIP_FORMAT = 31
#: Responses up to this size fit into the connection's buffer.
_SMALL = 32 * 1024
#: Bytes of a response that are joined and sent at a time.
_PORTION = 256 * 1024


def _portions(pieces: Sequence[bytes]) -> Iterator[bytes]:
    portion, size = [], 0
    for piece in pieces:
        portion.append(piece)
        size += len(piece)
        if size > _PORTION:
            yield b"".join(portion)
            portion, size = [], 0
    yield b"".join(portion)


def _gzipped(pieces: Sequence[bytes]) -> bytes:
    compressor = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_FORMAT)
    return b"".join([*map(compressor.compress, _portions(pieces)), compressor.flush()])


class Connection:
    """One request and its response."""

    def __init__(self, request: BaseRequest, settings: FrontSettings, sleep: Sleep) -> None:
        self._request = request
        self._settings = settings
        self._sleep = sleep
        #: Set if the rest of the input cannot be parsed.
        self.must_close = False

    @property
    def cut_off(self) -> bool:
        """Whether the connection was aborted because the client did not read."""
        protocol = self._request.protocol
        return isinstance(protocol, HttpConnection) and protocol.cut_off

    async def read_body(self) -> bytes:
        request, settings = self._request, self._settings
        encoding = request.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity" and not request.content.at_eof():
            raise UnsupportedMediaType(f"the body of the request has Content-Encoding {encoding[:64]}: send it plain")
        try:
            return await read_body(
                request, limit=settings.max_body_bytes, seconds=settings.read_timeout, sleep=self._sleep
            )
        except ApiError:
            self.must_close = True
            raise
        except TimeoutError:
            self.must_close = True
            raise Timeout(
                f"Timeout: the body of the request did not arrive within {settings.read_timeout:g} s"
            ) from None

    async def send(self, answer: Answer) -> web.StreamResponse:
        """Build the response; a large one has been sent on return."""
        headers = {**ALWAYS, "Content-Type": answer.content_type}
        pieces, size = answer.pieces, answer.size
        if size > _GZIP_THRESHOLD and self._takes_gzip():
            pieces = (await asyncio.to_thread(_gzipped, pieces),)
            size = len(pieces[0])
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        response: web.StreamResponse
        if size <= _SMALL:
            response = web.Response(status=answer.status, body=b"".join(pieces), headers=headers)
        else:
            response = web.StreamResponse(status=answer.status, headers={**headers, "Content-Length": str(size)})
        for name, value in answer.headers:
            if name == "Warning":
                response.headers.add(name, value)
            else:
                response.headers[name] = value
        if self.must_close:
            response.force_close()
        if size > _SMALL:
            await response.prepare(self._request)
            for portion in _portions(pieces):
                await self.write(portion)
            await response.write_eof()
        return response

    def _takes_gzip(self) -> bool:
        accepted = self._request.headers.get("Accept-Encoding", "")
        return any(coding.strip() == "gzip" for coding in accepted.split(","))

    async def begin_stream(self, content_type: str) -> web.StreamResponse:
        """Start a streamed response and send its headers."""
        response = web.StreamResponse(headers={**ALWAYS, "Content-Type": content_type})
        await response.prepare(self._request)
        return response

    async def write(self, data: bytes) -> None:
        """Write to the stream; raise ConnectionError if the client is gone or too slow."""
        writer = self._request.writer
        await writer.write(data)
        await writer.drain()
