"""Pages below /debug/pprof/.

    profile?seconds=N   CPU time by stack
    goroutine           tasks of the event loop, and threads (debug=1: as text, 2: one by one)
    heap, allocs        objects by type; ?seconds=N: allocations during that time, by line
    threadcreate        threads
    block, mutex        empty: one event loop does all the work, so there is no lock contention
    trace               not supported, and says so
    symbol              there are no addresses to look up

One profile at a time: two would measure each other.

Upstream: net/http/pprof of Go; docs/reference/behaviour.md, Profiles.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from stowplan.serving.profiling import heap, stacks
from stowplan.serving.profiling.cpu import CpuSampler
from stowplan.serving.profiling.pprof import Profile
from stowplan.serving.requests.messages import TEXT, Request, Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stowplan.serving.requests.messages import Page

PREFIX = "/debug/pprof/"
_DEFAULT_SECONDS = 30.0
_MAX_SECONDS = 600.0
_BINARY = "application/octet-stream"
_NO_SNIFF = ("X-Content-Type-Options", "nosniff")

_INDEX = {
    "allocs": "objects by type; with ?seconds=N live allocations made meanwhile, by line",
    "block": "empty: nothing here waits for a lock (see profile and goroutine for what keeps the event loop)",
    "goroutine": "stacks of all tasks of the event loop and of all threads; debug=1 or 2 for text",
    "heap": "as allocs",
    "mutex": "empty, as block",
    "profile": "CPU time by stack, over ?seconds=N (default 30)",
    "symbol": "nothing: profiles carry their names with them",
    "threadcreate": "threads, with where they are now",
    "trace": "not available: Python has no execution trace",
}


class Profiling:
    """`pages` are for the server's routes, to be added only if profiling is enabled."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        sampler: Callable[[], CpuSampler] = CpuSampler,
    ) -> None:
        self._sleep = sleep
        self._sampler = sampler
        self._measuring = False
        self._profiles: dict[str, Callable[[Request], Response | Awaitable[Response]]] = {
            "": _index,
            "allocs": self._heap,
            "block": partial(_empty, what="contentions"),
            "goroutine": _goroutine,
            "heap": self._heap,
            "mutex": partial(_empty, what="contentions"),
            "profile": self._cpu,
            "symbol": _symbol,
            "threadcreate": _threads,
            "trace": _trace,
        }

    def pages(self) -> dict[str, Page]:
        return {PREFIX.rstrip("/"): _to_index, PREFIX: self._named}

    def _named(self, request: Request) -> Response | Awaitable[Response]:
        page = self._profiles.get(request.path.removeprefix(PREFIX))
        return _refused(404, "Unknown profile") if page is None else page(request)

    async def _cpu(self, request: Request) -> Response:
        seconds = _seconds(request) or _DEFAULT_SECONDS
        if self._measuring:
            return _busy("cpu profiling already in use")
        self._measuring = True
        sampler = self._sampler()
        sampler.start()
        try:
            await self._sleep(seconds)
        finally:
            # Even if the client is gone.
            profile = sampler.stop()
            self._measuring = False
        return _gzipped(profile, "profile")

    async def _heap(self, request: Request) -> Response:
        name = request.path.removeprefix(PREFIX)
        seconds = _seconds(request)
        if heap.tracing() and not self._measuring:
            return _gzipped(await heap.traced(), name)
        if not seconds:
            return _gzipped(await heap.objects_by_type(pause=partial(self._sleep, 0)), name)
        if self._measuring:
            return _busy("another profile is being taken")
        self._measuring = True
        try:
            profile = await heap.traced_for(seconds, sleep=self._sleep)
        finally:
            self._measuring = False
        return _gzipped(profile, name)


# -- constant responses ------------------------------------------------------------------------------------------------


def _to_index(request: Request) -> Response:
    return Response(b"", status=302, headers=(("Location", PREFIX),))


def _index(request: Request) -> Response:
    rows = "".join(f'<li><a href="{name}">{name}</a>: {about}</li>\n' for name, about in _INDEX.items())
    page = f"<html>\n<head><title>{PREFIX}</title></head>\n<body>\n{PREFIX}\n<ul>\n{rows}</ul>\n</body>\n</html>\n"
    return Response(page.encode(), content_type="text/html; charset=utf-8", headers=(_NO_SNIFF,))


def _goroutine(request: Request) -> Response:
    tasks, threads = stacks.tasks(), stacks.threads()
    match request.first("debug"):
        case "2":
            return _text(stacks.single_text(tasks, threads))
        case "" | "0":
            return _gzipped(stacks.profile_of([*tasks, *threads], "goroutine"), "goroutine")
    return _text(stacks.counted_text([*tasks, *threads], "goroutine"))


def _threads(request: Request) -> Response:
    threads = stacks.threads()
    if request.first("debug") in ("", "0"):
        return _gzipped(stacks.profile_of(threads, "threadcreate"), "threadcreate")
    return _text(stacks.counted_text(threads, "threadcreate"))


def _empty(request: Request, *, what: str) -> Response:
    profile = Profile((what, "count"), ("delay", "nanoseconds"), period=(what, "count", 1))
    profile.comments.append("one event loop does the work: nothing waits for a lock")
    return _gzipped(profile, request.path.removeprefix(PREFIX))


def _symbol(request: Request) -> Response:
    return _text("num_symbols: 0\n")


def _trace(request: Request) -> Response:
    return _refused(
        501, "Python has no execution trace; profile?seconds=N and goroutine?debug=2 are what comes nearest"
    )


def _text(body: str) -> Response:
    return Response(body.encode(), content_type=TEXT, headers=(_NO_SNIFF,))


def _gzipped(profile: Profile, name: str) -> Response:
    saved_as = ("Content-Disposition", f'attachment; filename="{name}"')
    return Response(profile.encode(), content_type=_BINARY, headers=(_NO_SNIFF, saved_as))


def _refused(status: int, why: str) -> Response:
    # Go's tools check for the header.
    return Response(f"{why}\n".encode(), status=status, headers=(_NO_SNIFF, ("X-Go-Pprof", "1")))


def _busy(why: str) -> Response:
    return _refused(500, f"Could not enable profiling: {why}")


def _seconds(request: Request) -> float:
    """0 by default; Go treats invalid values the same way."""
    try:
        seconds = float(request.first("seconds", "0"))
    except ValueError:
        return 0.0
    # NaN counts as missing.
    return min(seconds, _MAX_SECONDS) if seconds > 0 else 0.0
