"""Reading from and writing to one client, never without bounds.

A body that is too large, or too long under way, is not read to its end. How long a client may leave an
answer unread is the protocol's business (`protocol.py`).

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go (limitedReadBody), server/filters/timeout.go.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from stowplan.api.api_errors import BadRequest, RequestEntityTooLarge, Timeout, UnsupportedMediaType
from stowplan.timing.times import within
from stowplan_cluster.front.protocol import FrontConnection
from stowplan_cluster.front.responses import ALWAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aiohttp.web_request import BaseRequest

    from stowplan_cluster.front.protocol import Sleep
    from stowplan_cluster.front.responses import Answer
    from stowplan_cluster.front.settings import FrontSettings

#: Answers larger than this are compressed for those who ask.
_GZIP_THRESHOLD = 128 * 1024
_GZIP_LEVEL = 1
#: How zlib is told to write gzip, with its largest window.
_GZIP_FORMAT = 31
#: Answers up to this size fit into the connection's buffer.
_SMALL = 32 * 1024
#: Bytes of an answer that are joined and sent at a time.
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
    """One request's way in and out."""

    def __init__(self, request: BaseRequest, settings: FrontSettings, sleep: Sleep) -> None:
        self._request = request
        self._settings = settings
        self._sleep = sleep
        #: Set when what the client sends next cannot be understood.
        self.must_close = False

    @property
    def cut_off(self) -> bool:
        """Whether the client left too much unread for too long."""
        protocol = self._request.protocol
        return isinstance(protocol, FrontConnection) and protocol.cut_off

    async def read_body(self) -> bytes:
        request, limit = self._request, self._settings.max_body_bytes
        content = request.content
        if content.exception() is not None:
            raise self._malformed()
        if content.at_eof():
            return b""
        encoding = request.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            raise UnsupportedMediaType(f"the body of the request has Content-Encoding {encoding[:64]}: send it plain")
        if (request.content_length or 0) > limit:
            raise self._too_large()
        if content.is_eof():
            body = content.read_nowait(-1)
            if len(body) > limit:
                raise self._too_large()
            return body
        await self._invite_body()
        try:
            return await within(self._settings.read_timeout, self._read_slowly(limit), sleep=self._sleep)
        except TimeoutError:
            self.must_close = True
            raise Timeout(
                f"Timeout: the body of the request did not arrive within {self._settings.read_timeout:g} s"
            ) from None
        except RequestPayloadError:
            raise self._malformed() from None

    async def _read_slowly(self, limit: int) -> bytes:
        chunks, size = [], 0
        while chunk := await self._request.content.readany():
            size += len(chunk)
            if size > limit:
                raise self._too_large()
            chunks.append(chunk)
        return b"".join(chunks)

    def _malformed(self) -> BadRequest:
        self.must_close = True
        return BadRequest("the body of the request is malformed: no valid transfer coding")

    def _too_large(self) -> RequestEntityTooLarge:
        self.must_close = True
        return RequestEntityTooLarge(f"Request entity too large: limit is {self._settings.max_body_bytes}")

    async def _invite_body(self) -> None:
        """Answer a client that waits to hear whether its body is wanted."""
        transport = self._request.transport
        if transport is not None and self._request.headers.get("Expect", "").lower() == "100-continue":
            transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def send(self, answer: Answer) -> web.StreamResponse:
        """The response, sent already if it is large."""
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
        asked = self._request.headers.get("Accept-Encoding", "")
        return any(coding.strip() == "gzip" for coding in asked.split(","))

    async def begin_stream(self, content_type: str) -> web.StreamResponse:
        """A response without a known end, whose head goes out at once."""
        response = web.StreamResponse(headers={**ALWAYS, "Content-Type": content_type})
        await response.prepare(self._request)
        return response

    async def write(self, data: bytes) -> None:
        """ConnectionError if the client is gone, or has not read for too long."""
        writer = self._request.writer
        await writer.write(data)
        await writer.drain()
