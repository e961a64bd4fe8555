"""/metrics, /metrics/slis and /metrics/resources, with content negotiation.

Upstream: staging/src/k8s.io/component-base/metrics (HandlerWithReset, HandlerFor); prometheus/promhttp.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING

from stowplan.net.serving.requests.messages import Page, Request, Response, text

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

#: Accept header -> content type and body.
Render = Callable[[str], tuple[str, bytes] | Awaitable[tuple[str, bytes]]]

_LEVEL = 1


def metrics_page(
    render: Render,
    *,
    reset: Callable[[], None] | None = None,
    shown: Callable[[], bool] = lambda: True,
    process_start: float | None = None,
) -> Page:
    """`reset` is called for DELETE; the page is empty unless it is `shown`."""
    headers = () if process_start is None else (("Process-Start-Time-Unix", str(int(process_start))),)

    async def page(request: Request) -> Response:
        if request.method == "DELETE" and reset is not None:
            reset()
            return text("metrics reset\n")
        if not shown():
            return text("")
        rendered = render(request.headers.get("Accept", ""))
        content_type, body = await rendered if isawaitable(rendered) else rendered
        if not _takes_gzip(request.headers):
            return Response(body, content_type=content_type, headers=headers)
        packed = await asyncio.to_thread(gzip.compress, body, _LEVEL)
        return Response(packed, content_type=content_type, headers=(*headers, ("Content-Encoding", "gzip")))

    return page


def _takes_gzip(headers: CIMultiDictProxy[str]) -> bool:
    codings = (coding.partition(";") for coding in headers.get("Accept-Encoding", "").split(","))
    return any(name.strip() == "gzip" and weight.strip() not in ("q=0", "q=0.0") for name, _, weight in codings)
