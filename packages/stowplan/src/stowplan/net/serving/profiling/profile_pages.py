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
import gzip
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count

from stowplan.kube.api.protobuf_fields import bytes_field, number_field, packed_field, text_field
from stowplan.net.serving.profiling import stacks
from stowplan.net.serving.profiling.stacks import Frame, Stack, stack_of
from stowplan.net.serving.requests.messages import TEXT, Page, Request, Response

# Encode pprof profiles (gzipped protobuf).
#
# Upstream: github.com/google/pprof/proto/profile.proto.


def encode(
    samples: Mapping[Stack, Sequence[int]],
    *types: tuple[str, str],
    period: int = 1,
    began: float = 0.0,
    lasted: float = 0.0,
    comment: str = "",
) -> bytes:
    """Stacks with one number for each of `types`, which are (what, unit); `period` is in the unit of the last."""
    # Both number their keys as they come: location 0 is none, string 0 the empty one.
    strings: defaultdict[str, int] = defaultdict(count(1).__next__, {"": 0})
    locations: defaultdict[Frame, int] = defaultdict(count(1).__next__)
    value_types = [number_field(1, strings[what]) + number_field(2, strings[unit]) for what, unit in types]
    parts = [bytes_field(1, one) for one in value_types]
    for stack, values in samples.items():
        numbers = [locations[frame] for frame in stack]
        parts.append(bytes_field(2, packed_field(1, numbers) + packed_field(2, values)))
    # One binary with all symbols resolved, so that pprof does not look for them.
    resolved = b"".join(number_field(number, 1) for number in (7, 8, 9))
    parts.append(bytes_field(3, number_field(1, 1) + number_field(5, strings["python"]) + resolved))
    for frame, number in locations.items():
        # The location and its function, which have the same number.
        line = number_field(1, number) + number_field(2, frame.line)
        parts.append(bytes_field(4, number_field(1, number) + number_field(2, 1) + bytes_field(4, line)))
        name = strings[frame.function]
        function = (number, name, name, strings[frame.file], frame.start)
        parts.append(bytes_field(5, b"".join(number_field(i, value) for i, value in enumerate(function, start=1))))
    parts += [number_field(9, round(began * 1e9)), number_field(10, round(lasted * 1e9))]
    parts += [bytes_field(11, value_types[-1]), number_field(12, period), packed_field(13, [strings[comment]])]
    # Last, because the parts above add to the string table.
    parts += [text_field(6, text) for text in strings]
    return gzip.compress(b"".join(parts), compresslevel=1, mtime=0)


# CPU profiles: a thread samples the others and attributes their CPU time.
#
# The kernel reports the CPU time of a thread; the thread's location at the end of a period represents the whole
# period. A waiting thread is charged nothing, so the profile shows work only. Samples are taken where Python can be
# interrupted: time in long C calls is charged to the Python line that made the call.
#
# A sample needs the interpreter lock, which an event loop only releases where it waits: without further measures, the
# sampler would only see that wait. So the interpreter's switch interval is shortened during sampling.
#
# Upstream: runtime/pprof's StartCPUProfile, which a timer signal drives.

#: Seconds between two samples, as in Go.
PERIOD = 0.01
#: Maximum delay of a sample in seconds, for `sys.setswitchinterval`.
_LATE = 0.0001


class CpuSampler:
    """Samples from `start` to `stop`; `busy` returns the CPU seconds of a thread by its ident."""

    def __init__(self, *, period: float = PERIOD, busy: Callable[[int], float] | None = None) -> None:
        self._period = period
        self._busy = cpu_seconds if busy is None else busy
        #: Samples and nanoseconds of each stack.
        self._samples: defaultdict[Stack, list[int]] = defaultdict(lambda: [0, 0])
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="profiler", daemon=True)
        self._used: dict[int, float] = {}

    def start(self) -> None:
        self._began = time.time()
        self._switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(_LATE)
        self._thread.start()

    def stop(self) -> bytes:
        """Stop, within a period, and return the profile."""
        self._stopped.set()
        self._thread.join()
        sys.setswitchinterval(self._switch_interval)
        return encode(
            self._samples,
            ("samples", "count"),
            ("cpu", "nanoseconds"),
            period=int(self._period * 1e9),
            began=self._began,
            lasted=time.time() - self._began,
        )

    def _run(self) -> None:
        # Earlier usage does not count.
        self.look()
        while not self._stopped.wait(self._period):
            self.look()

    def look(self) -> None:
        """Charge all threads except for our own."""
        own = threading.get_ident()
        # A thread with a frame is alive, so its clock exists.
        for ident, frame in sys._current_frames().items():
            if ident == own:
                continue
            used = self._busy(ident)
            spent = used - self._used.get(ident, used)
            self._used[ident] = used
            if spent > 0:
                charged = self._samples[stack_of(frame)]
                charged[0] += 1
                charged[1] += round(spent * 1e9)


def cpu_seconds(ident: int) -> float:
    """CPU time of a living thread; where the system does not support that, wall time."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.perf_counter()
    return time.clock_gettime(time.pthread_getcpuclockid(ident))


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
