"""The routes of timelines: the history of a recording or a simulation, optionally with a second one.

    /stowplan/time?timeline=NAME                        its times, figures and marks
    /stowplan/frames?timeline=NAME                      its initial plan, and the changes of each frame
    /stowplan/explain/NS/POD?timeline=NAME&at=SECONDS   the routes of `cluster_inspection` and `workbench` at a moment
    /stowplan/explain/NS/POD                            at the end of the first timeline, which the plan shows

A timeline is computed on first request. The cluster at a moment is rebuilt, which takes as long as deciding took until
then: in another thread, once for all concurrent requests. The last few moments are cached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import field

from stowplan.ask.offline import Cluster
from stowplan.kube.api.api_errors import BadRequest
from stowplan.kube.structs import PlainStruct
from stowplan.net.serving.requests.messages import JSON, Page, Request, Response
from stowplan.scheduler.engine.input_log.recording import RecordingError
from stowplan.scheduler.inspection.records import Record, encoded
from stowplan.ui.cluster_inspection import ClusterInspection, JudgedCluster
from stowplan.ui.page_routes import time_of, timeline_name_of
from stowplan.ui.timeline import FramesRecord, Timeline, TimeRecord
from stowplan.ui.workbench import Workbench

Pages = dict[str, Callable[[Request], Response]]

#: Number of cached moments.
MAX_MOMENTS = 4
_ROUTES = ("explain/", "nodes/", "podgroups/", "pending", "room", "devices", "devices/", "what-if")


class Timelines(PlainStruct):
    """Timelines by their names, each with the function that computes it."""

    made_by: Mapping[str, Callable[[], Timeline]]
    _known: dict[str, Timeline] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.made_by)

    def pages(self, prefix: str) -> dict[str, Page]:
        def time(request: Request) -> Response:
            name = timeline_name_of(request, self.names)
            return _json(self.timeline(name).time_record(name))

        def frames(request: Request) -> Response:
            name = timeline_name_of(request, self.names)
            return _json(self.timeline(name).frames_record(name))

        return {f"{prefix}time": time, f"{prefix}frames": frames}

    def timeline(self, name: str) -> Timeline:
        """Raises BadRequest if its recording cannot be played."""
        if name not in self._known:
            try:
                self._known[name] = self.made_by[name]()
            except RecordingError as error:
                raise BadRequest(str(error)) from error
        return self._known[name]

    def records(self) -> tuple[dict[str, TimeRecord], dict[str, FramesRecord]]:
        """The answers of both routes for all of them, for a saved copy."""
        found = {name: self.timeline(name) for name in self.names}
        times = {name: timeline.time_record(name) for name, timeline in found.items()}
        return times, {name: timeline.frames_record(name) for name, timeline in found.items()}


def _json(record: Record) -> Response:
    return Response(encoded(record), content_type=JSON)


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
    """Moments of timelines by the timelines' names. `end`: that of the first timeline, if already known."""

    def __init__(self, built_by: Mapping[str, Build], end: MomentCluster | None = None) -> None:
        self._built_by = built_by
        self._names = tuple(built_by)
        self._end = end
        self._stopped = False
        #: Least recently used first.
        self._known: dict[tuple[str, float | None], asyncio.Future[Pages]] = {}

    def pages(self, prefix: str) -> dict[str, Page]:
        return {f"{prefix}{route}": self._page(prefix, f"{prefix}{route}") for route in _ROUTES}

    def end(self) -> MomentCluster:
        """The end of the first timeline; raises MomentError."""
        return self._built(self._names[0], None)

    def close(self) -> None:
        """Abort builds in progress."""
        self._stopped = True

    def _page(self, prefix: str, route: str) -> Page:
        async def page(request: Request) -> Response:
            pages = await self._pages_of(request, prefix)
            return pages[route](request)

        return page

    async def _pages_of(self, request: Request, prefix: str) -> Pages:
        key = timeline_name_of(request, self._names), time_of(request)
        found = self._known.pop(key, None)
        if found is None or (found.done() and found.exception() is not None):
            found = asyncio.get_running_loop().run_in_executor(None, self._pages_at, key, prefix)
            # All waiters may be gone when it fails.
            found.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._known[key] = found
        if len(self._known) > MAX_MOMENTS:
            del self._known[next(iter(self._known))]
        try:
            # A cancelled waiter does not cancel it for others.
            return await asyncio.shield(found)
        except MomentError as error:
            raise BadRequest(str(error)) from None

    def _pages_at(self, key: tuple[str, float | None], prefix: str) -> Pages:
        about = self._built(*key)
        return ClusterInspection(about).pages(prefix) | Workbench(lambda: about.cluster).pages(prefix)

    def _built(self, name: str, at: float | None) -> MomentCluster:
        if self._end is not None and at is None and name == self._names[0]:
            return self._end
        return self._built_by[name](at, lambda: self._stopped)
