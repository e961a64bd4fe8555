"""Gangs that wait for their last pods hold what their quotas count, and others may take it back."""

from contextlib import contextmanager

from stowplan.testing import a_node, a_pod
from stowplan.testing.live import Latency, live_cluster
from stowplan_scheduler_plugins.capacity_scheduling import CapacityScheduling
from stowplan_scheduler_plugins.coscheduling import Coscheduling
from support.plugins.scheduler_plugins import DEFINITIONS, GROUP, custom

NODE = a_node("n1").allocatable(cpu="4", memory="8Gi", pods="110").obj()
PLUGINS = {
    "multiPoint": {
        "enabled": [{"name": "Coscheduling"}, {"name": "CapacityScheduling"}],
        "disabled": [{"name": "PrioritySort"}],
    },
    "postFilter": {"enabled": [{"name": "Coscheduling"}, {"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]},
}


def config(reject_percentage):
    args = {"podGroupRejectPercentage": reject_percentage, "podGroupBackoffSeconds": 60}
    profile = {"plugins": PLUGINS, "pluginConfig": [{"name": "Coscheduling", "args": args}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def member(name, cpu="1"):
    return a_pod(name, "a").labels({f"{GROUP}/pod-group": "a"}).requests(cpu=cpu).obj()


@contextmanager
def teams(*, reject_percentage=10):
    """One node with 4 CPUs, of which team a is guaranteed 1, and team b 3; requests to the API server take time."""
    quotas = custom("ElasticQuota", "a", min={"cpu": "1"}), custom("ElasticQuota", "b", min={"cpu": "3"})
    with live_cluster(
        *DEFINITIONS,
        NODE,
        *quotas,
        config=config(reject_percentage),
        plugins=[Coscheduling, CapacityScheduling],
        latency=Latency(requests=0.01),
    ) as cluster:
        yield cluster


def test_pods_that_wait_for_their_gang_are_counted_until_it_is_refused():
    with teams(reject_percentage=100) as cluster:
        cluster.create(custom("PodGroup", "a", minMember=5, scheduleTimeoutSeconds=5), member("a0", "8"))
        cluster.create(*(member(f"a{i}", "500m") for i in range(1, 5)))
        cluster.advance(1)
        quotas = cluster.plugin("CapacityScheduling").quotas
        assert quotas().get("a").used["cpu"] == 2000
        cluster.advance(4.5)
        assert "rejected due to timeout after waiting 5s" in cluster.why_pending("a4", namespace="a")
        assert quotas().get("a").used.get("cpu", 0) == 0


def test_pods_of_a_refused_gang_are_not_evicted():
    """Until their bindings have ended, they hold room that others may need, and are no longer waiting."""
    names = ["a0", "a1", "a2"]
    with teams() as cluster:
        cluster.create(custom("PodGroup", "a", minMember=3), *(member(name, "2") for name in names))
        cluster.create(a_pod("b0", "b").requests(cpu="2").obj())
        cluster.advance(30)
        assert cluster.node_of("b0", namespace="b") == "n1"
        assert [cluster.node_of(name, namespace="a") for name in names] == ["", "", ""], "all are still there"
        assert not cluster.events(reason="Preempted")
