"""Answers about a moment of a timeline: the cluster is rebuilt on demand.

    /stowplan/explain/NS/POD?track=NAME&at=SECONDS   the routes of `answers` and `trials` at a moment of a timeline
    /stowplan/explain/NS/POD                         at the end of the first timeline, which the plan shows

Rebuilding takes as long as deciding took until then. It is done in another thread, once for all concurrent requests;
the last few moments are cached.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from stowplan.api.api_errors import BadRequest
from stowplan.page.answers import Answers, JudgedCluster
from stowplan.page.asking import time_of, track_of
from stowplan.page.trials import Trials

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stowplan.offline import Cluster
    from stowplan.serving.requests.messages import Page, Request, Response

    Pages = dict[str, Callable[[Request], Response]]

#: Number of cached moments.
MOST = 4
_ROUTES = ("explain/", "nodes/", "podgroups/", "pending", "what-if")


class MomentError(ValueError):
    """A moment cannot be rebuilt; the message is for users."""


class MomentCluster(JudgedCluster, Protocol):
    """`sources.cluster_source.ClusterSource`."""

    @property
    def cluster(self) -> Cluster: ...


class Build(Protocol):
    """Rebuilds the moments of a timeline."""

    def __call__(self, at: float | None, stopped: Callable[[], bool], /) -> MomentCluster:
        """The cluster at that time, None: at the end; raises MomentError.

        `stopped`: whether the result is no longer needed.
        """


class Moments:
    """Moments of timelines by the names of their tracks. `end`: that of the first timeline, if already known."""

    def __init__(self, built_by: Mapping[str, Build], end: MomentCluster | None = None) -> None:
        self._built_by = built_by
        self._tracks = tuple(built_by)
        self._end = end
        self._stopped = False
        #: Least recently used first.
        self._known: dict[tuple[str, float | None], asyncio.Future[Pages]] = {}

    def pages(self, prefix: str) -> dict[str, Page]:
        return {f"{prefix}{route}": self._page(prefix, f"{prefix}{route}") for route in _ROUTES}

    def end(self) -> MomentCluster:
        """The end of the first timeline; raises MomentError."""
        return self._built(self._tracks[0], None)

    def close(self) -> None:
        """Abort builds in progress."""
        self._stopped = True

    def _page(self, prefix: str, route: str) -> Page:
        async def page(request: Request) -> Response:
            pages = await self._pages_of(request, prefix)
            return pages[route](request)

        return page

    async def _pages_of(self, request: Request, prefix: str) -> Pages:
        key = track_of(request, self._tracks), time_of(request)
        found = self._known.pop(key, None)
        if found is None or (found.done() and found.exception() is not None):
            found = asyncio.get_running_loop().run_in_executor(None, self._pages_at, key, prefix)
            # All waiters may be gone when it fails.
            found.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._known[key] = found
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        try:
            # A cancelled waiter does not cancel it for others.
            return await asyncio.shield(found)
        except MomentError as error:
            raise BadRequest(str(error)) from None

    def _pages_at(self, key: tuple[str, float | None], prefix: str) -> Pages:
        about = self._built(*key)
        return Answers(about).pages(prefix) | Trials(lambda: about.cluster).pages(prefix)

    def _built(self, track: str, at: float | None) -> MomentCluster:
        if self._end is not None and at is None and track == self._tracks[0]:
            return self._end
        return self._built_by[track](at, lambda: self._stopped)
