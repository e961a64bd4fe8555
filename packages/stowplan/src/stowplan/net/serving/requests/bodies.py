"""Read request bodies with limits on size and time.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go (limitedReadBody), server/filters/timeout.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp.web_protocol import RequestPayloadError

from stowplan.kube.api.api_errors import BadRequest, RequestEntityTooLarge
from stowplan.kube.timing.times import within

if TYPE_CHECKING:
    from aiohttp.web_request import BaseRequest

    from stowplan.net.serving.requests.protocol import Sleep


async def read_body(request: BaseRequest, *, limit: int, seconds: float, sleep: Sleep) -> bytes:
    """The whole body; an ApiError if it is too large or malformed, TimeoutError if it does not arrive in time.

    After an error the connection must not be reused, as it is out of sync.
    """
    content = request.content
    if content.exception() is not None:
        raise _malformed()
    if content.at_eof():
        return b""
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    if content.is_eof():
        body = content.read_nowait(-1)
        if len(body) > limit:
            raise _too_large(limit)
        return body
    _send_continue(request)
    try:
        return await within(seconds, _read_chunks(request, limit), sleep=sleep)
    except RequestPayloadError:
        raise _malformed() from None


async def _read_chunks(request: BaseRequest, limit: int) -> bytes:
    chunks, size = [], 0
    while chunk := await request.content.readany():
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _send_continue(request: BaseRequest) -> None:
    """Respond to a client that sent Expect: 100-continue."""
    if request.transport is not None and request.headers.get("Expect", "").lower() == "100-continue":
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _malformed() -> BadRequest:
    return BadRequest("the body of the request is malformed: no valid transfer coding")


def _too_large(limit: int) -> RequestEntityTooLarge:
    return RequestEntityTooLarge(f"Request entity too large: limit is {limit}")
