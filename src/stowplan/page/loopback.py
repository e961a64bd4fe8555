"""The page on a loopback port of its own, protected by a token in its URL."""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from stowplan.page.site import PREFIX, is_public
from stowplan.serving.loopback import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from stowplan.serving.requests.messages import Page


class Streams(Protocol):
    """`feed.Feed`, or another owner of streams."""

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
