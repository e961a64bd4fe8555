"""Metrics that only Stowplan has, as scraped."""

from types import SimpleNamespace

import pytest

from stowplan.app.daemon.assembly import gather
from stowplan.drivers.hang_guard.guarded_plugins import guarded_registry
from stowplan.drivers.hang_guard.hang_guard import HangGuard
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.metrics.build_info import BuildInfo, CompatibilityVersions
from stowplan.kube.metrics.component import ComponentMetrics
from stowplan.kube.metrics.registry import MetricsOptions
from stowplan.plugins import NodeFilterPlugin, PostBindPlugin


class Mine(NodeFilterPlugin, PostBindPlugin):
    name = "Mine"

    def filter_node(self, state, pod, node):
        return None

    async def post_bind(self, state, pod, node):
        return None


def blank(kind):
    return kind(**dict.fromkeys(kind.__struct_fields__, ""))


@pytest.fixture
def metrics():
    return ComponentMetrics(
        MetricsOptions(),
        gates=DEFAULT_FEATURES,
        features=(),
        build=blank(BuildInfo),
        versions=blank(CompatibilityVersions),
        stowplan_version="",
    )


def scraped(metrics, name):
    page = metrics.page("")[1].decode()
    return {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in page.splitlines() if line.startswith(name)}


def test_counters_of_hangs_start_at_zero(metrics):
    """An alert uses an increase, which a series that starts at 1 does not show."""
    guard = HangGuard()
    guarded_registry((Mine,), guard)
    scheduler = SimpleNamespace(dropped_events=0, stories=(), refresh_metrics=lambda: None)
    gather(metrics, scheduler, lanes=None, guard=guard)
    filter_, post_bind = (
        f'stowplan_plugin_hangs_total{{extension_point="{point}",plugin="Mine"}}' for point in ("Filter", "PostBind")
    )
    found = scraped(metrics, "stowplan_plugin_hangs_total")
    assert (found[filter_], found[post_bind]) == ("0", "0")
    guard.interrupted["Mine", "Filter"] += 1
    found = scraped(metrics, "stowplan_plugin_hangs_total")
    assert (found[filter_], found[post_bind]) == ("1", "0")
