"""Counters and their text format."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.front.front_metrics import Metrics, RequestLabels

LIST_PODS = RequestLabels("LIST", "", "v1", "pods", "", "cluster")
LINE = re.compile(r'[a-z_]+(\{([a-z_]+="(\\.|[^"\\])*",?)*\})? -?[0-9.e+-]+')


def metrics() -> Metrics:
    return Metrics()


def text_of(metrics: Metrics) -> str:
    content_type, body = metrics.page("text/plain")
    assert content_type.startswith("text/plain")
    return body.decode()


def value_of(text: str, start: str) -> float:
    found = [line for line in text.splitlines() if line.startswith(start)]
    assert len(found) == 1, found
    return float(found[0].rpartition(" ")[2])


def test_requests_are_counted_with_upstreams_labels():
    told = metrics()
    told.observe(LIST_PODS, 200, 0.01)
    told.observe(LIST_PODS, 200, 0.03)
    told.observe(LIST_PODS, 403, 0.0)
    line = (
        'apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",'
        'scope="cluster",subresource="",verb="LIST",version="v1"}'
    )
    assert value_of(text_of(told), line) == 2


@given(st.lists(st.floats(0, 100), max_size=30))
def test_a_histogram_is_cumulative(durations):
    told = metrics()
    for seconds in durations:
        told.observe(LIST_PODS, 200, seconds)
    buckets = re.findall(r'_duration_seconds_bucket\{.*le="([^"]+)"\} (\d+)', text_of(told))
    assert bool(buckets) is bool(durations)
    for bound, count in buckets:
        assert int(count) == sum(seconds <= float(bound) for seconds in durations)


def test_current_requests_are_gauges():
    told = metrics()
    told.inflight["mutating"] = 3
    watch = LIST_PODS._replace(verb="WATCH")
    told.long_running(watch, 1)
    told.long_running(watch, 1)
    told.long_running(watch, -1)
    told.count_watch_events("", "v1", "pods", 5)
    told.slow_watchers += 1
    text = text_of(told)
    assert value_of(text, 'apiserver_current_inflight_requests{request_kind="mutating"}') == 3
    assert value_of(text, "apiserver_longrunning_requests{") == 1
    assert value_of(text, "apiserver_watch_events_total{") == 5
    assert value_of(text, "apiserver_terminated_watchers_total") == 1
    assert value_of(text, "process_start_time_seconds") > 1e9
    assert value_of(text, "process_resident_memory_bytes") > 1 << 20
    assert told.watches == 1


@given(st.text(max_size=20))
def test_every_line_is_valid_with_any_labels(name):
    told = metrics()
    told.observe(LIST_PODS._replace(resource=name), 200, 0.5)
    for line in text_of(told).removesuffix("\n").split("\n"):
        if not line.startswith("#"):
            assert LINE.fullmatch(line), line
