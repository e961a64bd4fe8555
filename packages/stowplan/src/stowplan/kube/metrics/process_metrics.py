"""Process metrics, read when scraped.

`process_*` have the names that all Prometheus libraries use, including network bytes; `python_*` have those of the
Python library, instead of the reference's `go_*`. Metrics that the platform does not support are omitted: without /proc
there are no `process_*`.

Upstream: github.com/prometheus/client_golang/prometheus/process_collector_procfsenabled.go, and
staging/src/k8s.io/component-base/metrics/processstarttime.go.
"""

from __future__ import annotations

import gc
import os
import platform
from pathlib import Path

from stowplan.kube.metrics.families import CounterVec, GaugeVec
from stowplan.kube.metrics.registry import MetricsRegistry
from stowplan.kube.structs import PlainStruct

_PROC = Path("/proc")
#: The value of an unlimited limit.
_UNLIMITED = float((1 << 64) - 1)
_START_HELP = "When the process was started, in seconds since 1970."


class _Stat(PlainStruct, frozen=True):
    """Values from /proc/self/stat, in seconds and bytes."""

    cpu: float
    since_boot: float
    virtual: float
    resident: float


class ProcessMetrics:
    """The `process_*` metrics of the main page. Each is exported once it could be read."""

    def __init__(self, registry: MetricsRegistry, *, proc: Path = _PROC) -> None:
        self._proc = proc
        self._cpu = _counter(registry, "process_cpu_seconds_total", "Seconds of CPU used, by user and system together.")
        self._received = _counter(
            registry, "process_network_receive_bytes_total", "Bytes received in the network namespace of the process."
        )
        self._sent = _counter(
            registry, "process_network_transmit_bytes_total", "Bytes sent in the network namespace of the process."
        )
        self._open_files = _gauge(registry, "process_open_fds", "File descriptors that are open.")
        self._max_files = _gauge(registry, "process_max_fds", "File descriptors that may be open.")
        self._resident = _gauge(registry, "process_resident_memory_bytes", "Bytes of memory that are resident.")
        self._virtual = _gauge(registry, "process_virtual_memory_bytes", "Bytes of memory that are mapped.")
        self._max_virtual = _gauge(registry, "process_virtual_memory_max_bytes", "Bytes of memory that may be mapped.")
        self._start = _gauge(registry, "process_start_time_seconds", _START_HELP)
        for refresh in (self._read_stat, self._read_files, self._read_limits, self._read_network):
            registry.at_scrape(refresh)

    def _read_stat(self) -> None:
        try:
            stat = _stat(self._proc)
            boot = _boot_time(self._proc)
        except OSError:
            return
        self._cpu.with_label_values().value = stat.cpu
        self._virtual.with_label_values().set(stat.virtual)
        self._resident.with_label_values().set(stat.resident)
        self._start.with_label_values().set(boot + stat.since_boot)

    def _read_files(self) -> None:
        try:
            count = len(os.listdir(self._proc / "self" / "fd"))
        except OSError:
            return
        self._open_files.with_label_values().set(count)

    def _read_limits(self) -> None:
        try:
            lines = (self._proc / "self" / "limits").read_text().splitlines()
        except OSError:
            return
        for title, vector in (("Max open files", self._max_files), ("Max address space", self._max_virtual)):
            for line in lines:
                if line.startswith(title):
                    soft = line.removeprefix(title).split()[0]
                    vector.with_label_values().set(_UNLIMITED if soft == "unlimited" else float(soft))

    def _read_network(self) -> None:
        try:
            lines = (self._proc / "self" / "net" / "netstat").read_text().splitlines()
        except OSError:
            return
        rows = [line.removeprefix("IpExt:").split() for line in lines if line.startswith("IpExt:")]
        counts = dict(zip(*rows, strict=True)) if len(rows) == 2 else {}
        if "InOctets" in counts and "OutOctets" in counts:
            self._received.with_label_values().value = float(counts["InOctets"])
            self._sent.with_label_values().value = float(counts["OutOctets"])


class PythonMetrics:
    """The interpreter's version and garbage collector statistics."""

    def __init__(self, registry: MetricsRegistry) -> None:
        generation = ("generation",)
        self._collected = registry.counter_vec(
            "python_gc_objects_collected_total", "Objects that garbage collection freed.", generation, stability=""
        )
        self._uncollectable = registry.counter_vec(
            "python_gc_objects_uncollectable_total", "Garbage that could not be freed.", generation, stability=""
        )
        self._collections = registry.counter_vec(
            "python_gc_collections_total", "Times that a generation was collected.", generation, stability=""
        )
        _register_python_info(registry)
        registry.at_scrape(self._read)

    def _read(self) -> None:
        for generation, stats in enumerate(gc.get_stats()):
            label = str(generation)
            self._collected.with_label_values(label).value = float(stats["collected"])
            self._uncollectable.with_label_values(label).value = float(stats["uncollectable"])
            self._collections.with_label_values(label).value = float(stats["collections"])


def register_start_time(registry: MetricsRegistry, *, proc: Path = _PROC) -> None:
    """Only the process start time, for pages with counters, so that scrapers detect restarts."""
    start = registry.gauge_vec("process_start_time_seconds", _START_HELP, ())
    try:
        started = _boot_time(proc) + _stat(proc).since_boot
    except OSError:
        return
    start.with_label_values().set(started)


def _register_python_info(registry: MetricsRegistry) -> None:
    major, minor, patch = platform.python_version_tuple()
    registry.gauge_vec(
        "python_info",
        "Always 1; the labels tell which Python runs.",
        ("version", "implementation", "major", "minor", "patchlevel"),
        stability="",
    ).with_label_values(platform.python_version(), platform.python_implementation(), major, minor, patch).set(1.0)


def _counter(registry: MetricsRegistry, name: str, help: str) -> CounterVec:
    return registry.counter_vec(name, help, (), stability="")


def _gauge(registry: MetricsRegistry, name: str, help: str) -> GaugeVec:
    return registry.gauge_vec(name, help, (), stability="")


def _stat(proc: Path) -> _Stat:
    # The program name, in brackets, may contain anything; the third field follows the last bracket.
    fields = (proc / "self" / "stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return _Stat(
        cpu=(int(fields[11]) + int(fields[12])) / ticks,
        since_boot=int(fields[19]) / ticks,
        virtual=float(fields[20]),
        resident=float(int(fields[21]) * os.sysconf("SC_PAGE_SIZE")),
    )


def _boot_time(proc: Path) -> float:
    for line in (proc / "stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    raise OSError(f"{proc}/stat has no line btime")
