"""Process metrics, read from a fake /proc."""

import os

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from stowplan.kube.metrics.process_metrics import ProcessMetrics, PythonMetrics, register_start_time
from stowplan.kube.metrics.registry import MetricsRegistry, render

STAT = (
    "4711 (sched (odd) name) S 1 4711 4711 0 -1 4194560 8817 0 0 0 {utime} {stime} 0 0 20 0 5 0 {start} 104857600 "
    "{pages} 18446744073709551615 1 1 0 0 0 0 0 16781312 17634 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max open files            1024                 524288               files
Max address space         {space}            unlimited            bytes
"""
NETSTAT = """TcpExt: SyncookiesSent SyncookiesRecv
TcpExt: 1 2
IpExt: InNoRoutes InOctets OutOctets
IpExt: 3 1000 2000
"""


@pytest.fixture
def proc(tmp_path):
    ticks = os.sysconf("SC_CLK_TCK")
    own = tmp_path / "self"
    (own / "fd").mkdir(parents=True)
    (own / "net").mkdir()
    for name in ("0", "1", "2"):
        (own / "fd" / name).touch()
    (own / "stat").write_text(STAT.format(utime=3 * ticks, stime=ticks // 2, start=60 * ticks, pages=10))
    (own / "limits").write_text(LIMITS.format(space="unlimited"))
    (own / "net" / "netstat").write_text(NETSTAT)
    (tmp_path / "stat").write_text("cpu  1 2 3\nintr 5\nbtime 1700000000\nprocesses 7\n")
    return tmp_path


def shown_families(registry):
    return list(parse(render([registry], "")[1].decode()))


def values(registry):
    return {sample.name: sample.value for family in shown_families(registry) for sample in family.samples}


def test_values_from_proc(proc):
    registry = MetricsRegistry()
    ProcessMetrics(registry, proc=proc)
    assert values(registry) == {
        "process_cpu_seconds_total": 3.5,
        "process_max_fds": 1024,
        "process_network_receive_bytes_total": 1000,
        "process_network_transmit_bytes_total": 2000,
        "process_open_fds": 3,
        "process_resident_memory_bytes": 10 * os.sysconf("SC_PAGE_SIZE"),
        "process_start_time_seconds": 1700000060,
        "process_virtual_memory_bytes": 104857600,
        "process_virtual_memory_max_bytes": 2.0**64,
    }


def test_help_has_no_stability(proc):
    registry = MetricsRegistry()
    ProcessMetrics(registry, proc=proc)
    PythonMetrics(registry)
    assert not [metric.name for metric in shown_families(registry) if metric.documentation.startswith("[")]


def test_each_scrape_rereads(proc):
    registry = MetricsRegistry()
    ProcessMetrics(registry, proc=proc)
    values(registry)
    (proc / "self" / "fd" / "3").touch()
    (proc / "self" / "limits").write_text(LIMITS.format(space=4096))
    registry.reset()
    shown = values(registry)
    assert shown["process_open_fds"] == 4
    assert shown["process_virtual_memory_max_bytes"] == 4096
    assert shown["process_cpu_seconds_total"] == 3.5


@pytest.mark.parametrize(
    ("missing", "gone"),
    [
        ("self/stat", {"cpu_seconds_total", "resident_memory_bytes", "virtual_memory_bytes", "start_time_seconds"}),
        ("stat", {"cpu_seconds_total", "resident_memory_bytes", "virtual_memory_bytes", "start_time_seconds"}),
        ("self/limits", {"max_fds", "virtual_memory_max_bytes"}),
        ("self/net/netstat", {"network_receive_bytes_total", "network_transmit_bytes_total"}),
    ],
)
def test_missing_values_are_omitted(proc, missing, gone):
    whole = MetricsRegistry()
    ProcessMetrics(whole, proc=proc)
    everything = set(values(whole))
    (proc / missing).unlink()
    registry = MetricsRegistry()
    ProcessMetrics(registry, proc=proc)
    assert everything - set(values(registry)) == {f"process_{name}" for name in gone}


@pytest.mark.parametrize("text", ["", "IpExt: InOctets\nIpExt: 5\n", "IpExt: InOctets OutOctets\n"])
def test_a_kernel_that_does_not_count_bytes(proc, text):
    (proc / "self" / "net" / "netstat").write_text(text)
    registry = MetricsRegistry()
    ProcessMetrics(registry, proc=proc)
    assert not [name for name in values(registry) if "network" in name]


def test_without_proc_there_are_no_metrics(tmp_path):
    registry = MetricsRegistry()
    ProcessMetrics(registry, proc=tmp_path / "none")
    register_start_time(MetricsRegistry(), proc=tmp_path / "none")
    assert values(registry) == {}


def test_the_start_alone_is_a_metric_of_kubernetes(proc):
    registry = MetricsRegistry()
    register_start_time(registry, proc=proc)
    (metric,) = shown_families(registry)
    assert metric.documentation.startswith("[ALPHA] ")
    assert values(registry) == {"process_start_time_seconds": 1700000060}


def test_the_interpreter():
    registry = MetricsRegistry()
    PythonMetrics(registry)
    metrics = {metric.name: metric for metric in shown_families(registry)}
    assert set(metrics) == {
        "python_gc_collections",
        "python_gc_objects_collected",
        "python_gc_objects_uncollectable",
        "python_info",
    }
    assert [sample.labels["generation"] for sample in metrics["python_gc_collections"].samples] == ["0", "1", "2"]
    (info,) = metrics["python_info"].samples
    assert info.labels["version"].startswith(f"{info.labels['major']}.{info.labels['minor']}")
