"""The page's routes below /stowplan/, the same on every server.

    /stowplan/               the page itself, its assets below it
    /stowplan/source         where the data comes from, and which routes are available
    /stowplan/plan           the plan as server-sent events: a snapshot, then changes
    /stowplan/configuration  which plugins run where

The server adds the routes that it can answer: those of a running scheduler or of `answers`.

Upstream has no counterpart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.inspection.records import encoded
from stowplan.page.assets import asset_pages
from stowplan.serving.requests.messages import JSON, Answer, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stowplan.inspection.records import Record
    from stowplan.page.feed import Feed
    from stowplan.page.records import ConfigurationRecord, SourceRecord
    from stowplan.serving.requests.messages import Page, Request

PREFIX = "/stowplan/"


def is_public(path: str) -> bool:
    """Whether it contains no data, and may be read without authentication."""
    return path in (PREFIX, f"{PREFIX}data.js") or path.startswith(f"{PREFIX}assets/")


def site(
    source: Callable[[], SourceRecord],
    *,
    feed: Feed,
    configuration: Callable[[], ConfigurationRecord],
    answers: Mapping[str, Page],
) -> dict[str, Page]:
    """Pages by path; `answers` are the routes specific to this source."""

    def plan(request: Request) -> Answer:
        return feed.stream()

    return {
        **asset_pages(PREFIX),
        f"{PREFIX}source": _document(source),
        f"{PREFIX}configuration": _document(configuration),
        f"{PREFIX}plan": plan,
        **answers,
    }


def _document(record: Callable[[], Record]) -> Page:
    return lambda request: Response(encoded(record()), content_type=JSON)
