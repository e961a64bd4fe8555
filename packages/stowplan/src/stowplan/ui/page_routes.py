"""The page's routes below /stowplan/, the same on every server, and the server for the user of this machine.

    /stowplan/               the page itself, its assets below it
    /stowplan/source         where the data comes from, and which routes are available
    /stowplan/plan           the plan as server-sent events: a snapshot, then changes
    /stowplan/configuration  which plugins run where

The server adds the routes that it can answer: those of a running scheduler or of `cluster_inspection`.

Upstream has no counterpart.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import isfinite, nan
from typing import TYPE_CHECKING, Protocol

from stowplan.kube.api.api_errors import BadRequest, NotFound
from stowplan.kube.api.whole_numbers import whole_number
from stowplan.net.serving.loopback import LoopbackServer
from stowplan.net.serving.requests.messages import JSON, Answer, Page, Request, Response
from stowplan.scheduler.inspection.records import Record, encoded
from stowplan.ui.assets import asset_pages
from stowplan.ui.source_records import ConfigurationRecord, SourceRecord

if TYPE_CHECKING:
    from stowplan.ui.event_stream import PlanStreams

PREFIX = "/stowplan/"
#: Default and maximum number of entries of a list.
FEW, MOST = 100, 1000


def is_public(path: str) -> bool:
    """Whether it contains no data, and may be read without authentication."""
    return path == PREFIX or path.startswith(f"{PREFIX}assets/")


def page_routes(
    source: Callable[[], SourceRecord],
    *,
    streams: PlanStreams,
    configuration: Callable[[], ConfigurationRecord],
    answers: Mapping[str, Page],
) -> dict[str, Page]:
    """Pages by path; `answers` are the routes specific to this source."""

    def plan(request: Request) -> Answer:
        return streams.stream()

    return {
        **asset_pages(PREFIX),
        f"{PREFIX}source": _document(source),
        f"{PREFIX}configuration": _document(configuration),
        f"{PREFIX}plan": plan,
        **answers,
    }


def _document(record: Callable[[], Record]) -> Page:
    return lambda request: Response(encoded(record()), content_type=JSON)


# -- parameters of requests --------------------------------------------------------------------------------------------


def key_of(request: Request, route: str) -> str:
    """The namespace and name after a route, which ends with a slash; raises BadRequest."""
    key = request.path.removeprefix(route)
    namespace, _, name = key.partition("/")
    if not namespace or not name or "/" in name:
        raise BadRequest(f"{route}<namespace>/<pod>: which pod? got {key!r}")
    return key


def timeline_name_of(request: Request, names: Sequence[str]) -> str:
    """The requested timeline, by default the first; raises NotFound."""
    name = request.first("timeline", names[0])
    if name not in names:
        raise NotFound(f"timeline {name!r} not found; there is {', '.join(map(repr, names))}")
    return name


def time_of(request: Request) -> float | None:
    """The requested moment in seconds since the epoch, None for the end; raises BadRequest."""
    text = request.first("at")
    try:
        found = float(text) if text else None
    except ValueError:
        found = nan
    if found is not None and not isfinite(found):
        raise BadRequest(f"at: want seconds since the epoch, got {text!r}")
    return found


def limit_of(request: Request) -> int:
    """The requested number of entries; raises BadRequest."""
    text = request.first("limit", str(FEW))
    limit = whole_number(text)
    if limit is None:
        raise BadRequest(f"limit: want a number up to {MOST}, got {text!r}")
    return min(limit, MOST)


# -- on a port of 127.0.0.1 --------------------------------------------------------------------------------------------


class Streams(Protocol):
    """`event_stream.PlanStreams`, or another owner of streams."""

    def close(self) -> None:
        """End them."""


@asynccontextmanager
async def page_served(pages: Mapping[str, Page], streams: Streams, *, port: int = 0) -> AsyncIterator[str]:
    """Serve within the context; yields the URL. Raises ServingError."""
    token = secrets.token_urlsafe(24)
    server = LoopbackServer(pages, token=token, public=is_public, port=port)
    await server.start()
    try:
        # The fragment of a URL stays in the browser: the token is in no log and no referrer.
        yield f"{server.url}{PREFIX}#token={token}"
    finally:
        streams.close()
        await server.stop()
