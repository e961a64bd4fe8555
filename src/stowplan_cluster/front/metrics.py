"""What the front counts, in the text form that Prometheus reads.

Names, labels and buckets are upstream's, so that its dashboards and alerts fit. Labels come from
what is served, never from what somebody typed: the number of series stays bounded.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go.
"""

from __future__ import annotations

import os
import resource as process_limits
import sys
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COMPONENT = "apiserver"
_BUCKETS = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0),
    *(4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)


class RequestLabels(NamedTuple):
    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    scope: str
    dry_run: str = ""


class _Duration:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        #: Requests by bucket, those beyond the last one at the end.
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0


class Metrics:
    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()
        self._requests: dict[tuple[RequestLabels, int], int] = {}
        self._durations: dict[RequestLabels, _Duration] = {}
        self._long_running: dict[RequestLabels, int] = {}
        self._watch_events: dict[tuple[str, str, str], int] = {}
        #: Requests being answered now: [reading, writing].
        self.inflight = {"readOnly": 0, "mutating": 0}
        #: Requests turned away because there were too many.
        self.dropped = {"readOnly": 0, "mutating": 0}
        #: Watches ended because their reader was too slow.
        self.slow_watchers = 0

    @property
    def watches(self) -> int:
        return sum(self._long_running.values())

    def observe(self, labels: RequestLabels, code: int, seconds: float) -> None:
        key = (labels, code)
        self._requests[key] = self._requests.get(key, 0) + 1
        duration = self._durations.get(labels)
        if duration is None:
            duration = self._durations[labels] = _Duration()
        duration.counts[bisect_left(_BUCKETS, seconds)] += 1
        duration.total += seconds

    def long_running(self, labels: RequestLabels, change: int) -> None:
        self._long_running[labels] = self._long_running.get(labels, 0) + change

    def count_watch_events(self, group: str, version: str, resource: str, count: int) -> None:
        key = (group, version, resource)
        self._watch_events[key] = self._watch_events.get(key, 0) + count

    def text(self) -> str:
        return "\n".join((*self._request_lines(), *self._state_lines(), *self._process_lines(), ""))

    def _request_lines(self) -> Iterator[str]:
        yield from _head("apiserver_request_total", "counter", "Requests by verb, resource, scope and HTTP code.")
        for (labels, code), count in self._requests.items():
            pairs = (*_pairs(labels), ("component", _COMPONENT), ("code", str(code)))
            yield _line("apiserver_request_total", pairs, count)
        name = "apiserver_request_duration_seconds"
        yield from _head(name, "histogram", "How long requests took, by verb, resource and scope.")
        for labels, duration in self._durations.items():
            yield from _histogram(name, (*_pairs(labels), ("component", _COMPONENT)), duration)

    def _state_lines(self) -> Iterator[str]:
        name = "apiserver_longrunning_requests"
        yield from _head(name, "gauge", "Watches open now.")
        for labels, count in self._long_running.items():
            pairs = [pair for pair in _pairs(labels) if pair[0] != "dry_run"]
            yield _line(name, (*pairs, ("component", _COMPONENT)), count)
        name = "apiserver_current_inflight_requests"
        yield from _head(name, "gauge", "Requests being answered now, by kind.")
        yield from (_line(name, (("request_kind", kind),), count) for kind, count in self.inflight.items())
        name = "apiserver_dropped_requests_total"
        yield from _head(name, "counter", "Requests turned away because there were too many.")
        yield from (_line(name, (("request_kind", kind),), count) for kind, count in self.dropped.items())
        name = "apiserver_watch_events_total"
        yield from _head(name, "counter", "Events sent to watches.")
        for (group, version, resource), count in self._watch_events.items():
            yield _line(name, (("group", group), ("version", version), ("resource", resource)), count)
        name = "apiserver_terminated_watchers_total"
        yield from _head(name, "counter", "Watches ended because their reader was too slow.")
        yield _line(name, (), self.slow_watchers)

    def _process_lines(self) -> Iterator[str]:
        usage = process_limits.getrusage(process_limits.RUSAGE_SELF)
        told: list[tuple[str, str, str, float]] = [
            ("process_cpu_seconds_total", "counter", "CPU time spent.", usage.ru_utime + usage.ru_stime),
            ("process_resident_memory_bytes", "gauge", "Resident memory.", _resident_bytes(usage.ru_maxrss)),
            ("process_start_time_seconds", "gauge", "When the server began, since the epoch.", self._started),
            ("process_max_fds", "gauge", "Files that may be open.", _max_files()),
        ]
        for name, kind, about, value in told:
            yield from _head(name, kind, about)
            yield _line(name, (), value)


def _resident_bytes(most_kilobytes: int) -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except FileNotFoundError:
        # No Linux: the most there ever was is the best that is known, on macOS in bytes.
        return most_kilobytes if sys.platform == "darwin" else most_kilobytes * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def _max_files() -> int:
    return process_limits.getrlimit(process_limits.RLIMIT_NOFILE)[0]


def _pairs(labels: RequestLabels) -> tuple[tuple[str, str], ...]:
    return tuple(zip(labels._fields, labels, strict=True))


def _head(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _histogram(name: str, pairs: tuple[tuple[str, str], ...], duration: _Duration) -> Iterator[str]:
    total = 0
    for bound, count in zip((*map(_number, _BUCKETS), "+Inf"), duration.counts, strict=True):
        total += count
        yield _line(f"{name}_bucket", (*pairs, ("le", bound)), total)
    yield _line(f"{name}_sum", pairs, duration.total)
    yield _line(f"{name}_count", pairs, total)


def _line(name: str, pairs: Iterable[tuple[str, str]], value: float) -> str:
    # Alphabetically, with the bound of a bucket at the end, as Prometheus' own libraries write them.
    ordered = sorted(pairs, key=lambda pair: (pair[0] == "le", pair[0]))
    labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in ordered)
    return f"{name}{{{labels}}} {_number(value)}" if labels else f"{name} {_number(value)}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
