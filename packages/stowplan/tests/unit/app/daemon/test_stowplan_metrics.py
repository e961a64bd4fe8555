"""Metrics that only Stowplan has, as scraped."""

from types import SimpleNamespace

import pytest

from stowplan import Cluster
from stowplan.app.daemon.assembly import gather
from stowplan.drivers.hang_guard.guarded_plugins import guarded_registry
from stowplan.drivers.hang_guard.hang_guard import HangGuard
from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.kube.metrics.component import BuildInfo, CompatibilityVersions, ComponentMetrics
from stowplan.kube.metrics.registry import MetricsOptions
from stowplan.plugins import NodeFilterPlugin, PostBindPlugin
from stowplan.testing import a_node, a_pod


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


def a_scheduler(*objects):
    state = Cluster(objects).state
    return SimpleNamespace(dropped_events=0, stories=(), refresh_metrics=lambda: None, state=state)


def test_room_by_shape(metrics):
    gpus = {"cpu": "16", "pods": 10, "example.com/gpu": 2}
    pod = a_pod("p").requests({"example.com/gpu": 1}).on("a").obj()
    nodes = [a_node(name).allocatable(gpus).obj() for name in "ab"]
    scheduler = a_scheduler(*nodes, pod)
    gather(metrics, scheduler, lanes=None, guard=HangGuard())
    whole = 'stowplan_room_pods{if_together="%s",shape="2 example.com/gpu on a node"}'
    found = scraped(metrics, "stowplan_room_pods")
    assert (found[whole % "false"], found[whole % "true"]) == ("1", "1")
    assert not any('shape="1 example.com/gpu"' not in name and "a node" not in name for name in found)
    assert scraped(metrics, "stowplan_fragmentation")['stowplan_fragmentation_ratio{resource="example.com/gpu"}'] == "0"
    scheduler.state = Cluster().state
    assert not scraped(metrics, "stowplan_room_pods"), "no cluster, no shapes"


def test_counters_of_hangs_start_at_zero(metrics):
    """An alert uses an increase, which a series that starts at 1 does not show."""
    guard = HangGuard()
    guarded_registry((Mine,), guard)
    scheduler = a_scheduler()
    gather(metrics, scheduler, lanes=None, guard=guard)
    filter_, post_bind = (
        f'stowplan_plugin_hangs_total{{extension_point="{point}",plugin="Mine"}}' for point in ("Filter", "PostBind")
    )
    found = scraped(metrics, "stowplan_plugin_hangs_total")
    assert (found[filter_], found[post_bind]) == ("0", "0")
    guard.interrupted["Mine", "Filter"] += 1
    found = scraped(metrics, "stowplan_plugin_hangs_total")
    assert (found[filter_], found[post_bind]) == ("1", "0")
