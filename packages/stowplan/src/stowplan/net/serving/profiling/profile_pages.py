"""Pages below /debug/pprof/.

    profile?seconds=N       CPU time by stack
    goroutine               tasks of the event loop, and threads (debug=1: as text, 2: one by one)
    heap, allocs            empty: Python does not record where objects were allocated
    block, mutex            empty: one event loop does all the work, so there is no lock contention
    threadcreate            empty: threads are among the goroutines
    trace                   not supported, and says so
    symbol                  there are no addresses to look up

Empty profiles keep tools working that collect all of them.

Upstream: net/http/pprof of Go; docs/reference/behaviour.md, Profiles.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from stowplan.net.serving.profiling import stacks
from stowplan.net.serving.profiling.cpu import CpuSampler
from stowplan.net.serving.profiling.pprof import encode
from stowplan.net.serving.requests.messages import TEXT, Request, Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stowplan.net.serving.requests.messages import Page

PREFIX = "/debug/pprof/"
_DEFAULT_SECONDS = 30.0
_MAX_SECONDS = 600.0
_BINARY = "application/octet-stream"
_NO_SNIFF = ("X-Content-Type-Options", "nosniff")

#: Type of the values and reason, for each profile without samples.
_EMPTY = {
    "allocs": ("space", "bytes", "Python does not record where objects were allocated: use a memory profiler"),
    "block": ("contentions", "count", "one event loop does the work: nothing waits for a lock"),
    "heap": ("space", "bytes", "Python does not record where objects were allocated: use a memory profiler"),
    "mutex": ("contentions", "count", "one event loop does the work: nothing waits for a lock"),
    "threadcreate": ("threadcreate", "count", "threads are among the goroutines"),
}
_INDEX = {
    "goroutine": "stacks of all tasks of the event loop and of all threads; debug=1 or 2 for text",
    "profile": "CPU time by stack, over ?seconds=N (default 30)",
    "symbol": "nothing: profiles carry their names with them",
    "trace": "not available: Python has no execution trace",
    **{name: f"empty: {why}" for name, (_, _, why) in _EMPTY.items()},
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
            "goroutine": _goroutine,
            "profile": self._cpu,
            "symbol": _symbol,
            "trace": _trace,
            **{name: partial(_empty, name=name) for name in _EMPTY},
        }

    def pages(self) -> dict[str, Page]:
        return {PREFIX.rstrip("/"): _to_index, PREFIX: self._named}

    def _named(self, request: Request) -> Response | Awaitable[Response]:
        page = self._profiles.get(request.path.removeprefix(PREFIX))
        return _refused(404, "Unknown profile") if page is None else page(request)

    async def _cpu(self, request: Request) -> Response:
        seconds = _seconds(request) or _DEFAULT_SECONDS
        if self._measuring:
            return _refused(500, "Could not enable profiling: cpu profiling already in use")
        self._measuring = True
        sampler = self._sampler()
        sampler.start()
        try:
            await self._sleep(seconds)
        finally:
            # Even if the client is gone.
            profile = sampler.stop()
            self._measuring = False
        return _saved(profile, "profile")


def _to_index(request: Request) -> Response:
    return Response(b"", status=302, headers=(("Location", PREFIX),))


def _index(request: Request) -> Response:
    rows = "".join(f'<li><a href="{name}">{name}</a>: {about}</li>\n' for name, about in _INDEX.items())
    page = f"<html>\n<head><title>{PREFIX}</title></head>\n<body>\n{PREFIX}\n<ul>\n{rows}</ul>\n</body>\n</html>\n"
    return Response(page.encode(), content_type="text/html; charset=utf-8", headers=(_NO_SNIFF,))


def _goroutine(request: Request) -> Response:
    tasks, threads = stacks.tasks(), stacks.threads()
    found = [stack for _, stack in [*tasks, *threads]]
    match request.first("debug"):
        case "2":
            return _text(stacks.single_text(tasks, threads))
        case "" | "0":
            counted = {stack: (number,) for stack, number in Counter(found).items()}
            return _saved(encode(counted, ("goroutine", "count")), "goroutine")
    return _text(stacks.counted_text(found))


def _empty(request: Request, *, name: str) -> Response:
    what, unit, why = _EMPTY[name]
    return _saved(encode({}, (what, unit), comment=why), name)


def _symbol(request: Request) -> Response:
    return _text("num_symbols: 0\n")


def _trace(request: Request) -> Response:
    return _refused(
        501, "Python has no execution trace; profile?seconds=N and goroutine?debug=2 are what comes nearest"
    )


def _text(body: str) -> Response:
    return Response(body.encode(), content_type=TEXT, headers=(_NO_SNIFF,))


def _saved(profile: bytes, name: str) -> Response:
    saved_as = ("Content-Disposition", f'attachment; filename="{name}"')
    return Response(profile, content_type=_BINARY, headers=(_NO_SNIFF, saved_as))


def _refused(status: int, why: str) -> Response:
    # Go's tools check for the header.
    return Response(f"{why}\n".encode(), status=status, headers=(_NO_SNIFF, ("X-Go-Pprof", "1")))


def _seconds(request: Request) -> float:
    """0 by default; Go treats invalid values the same way."""
    try:
        seconds = float(request.first("seconds", "0"))
    except ValueError:
        return 0.0
    # NaN counts as missing.
    return min(seconds, _MAX_SECONDS) if seconds > 0 else 0.0
