"""Gangs as a whole and what their quotas guarantee: it is taken back if the whole gang then fits, and only then."""

from contextlib import contextmanager

import pytest

from stowplan.testing import a_node, a_pod
from stowplan.testing.live import Latency, live_cluster
from stowplan_scheduler_plugins.capacity_scheduling import CapacityScheduling
from stowplan_scheduler_plugins.coscheduling import Coscheduling
from support.plugins.scheduler_plugins import DEFINITIONS, GROUP, custom

ALONE = {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]}
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "multiPoint": {"enabled": [{"name": "Coscheduling"}, {"name": "CapacityScheduling"}]},
                "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
                "postFilter": ALONE,
                "podGroupPostFilter": ALONE,
            },
            "pluginConfig": [{"name": "Coscheduling", "args": {"wholeGroups": True}}],
        }
    ],
}


def quota(namespace, cpu):
    return custom("ElasticQuota", namespace, min={"cpu": str(cpu), "memory": "64Gi", "pods": "99"})


def member(name, cpu="2", priority=0, **spec):
    pod = a_pod(name, "a").labels({f"{GROUP}/pod-group": "a"}).requests(cpu=cpu).priority(priority)
    return (pod.spec(**spec) if spec else pod).obj()


@contextmanager
def teams(*quotas, others=8, namespace="b", priority=0):
    """A node of 8 CPUs, which pods of 1 CPU of another namespace fill."""
    node = a_node("n1").allocatable(cpu="8", memory="64Gi", pods="110").obj()
    with live_cluster(
        *DEFINITIONS,
        node,
        *quotas,
        config=CONFIG,
        plugins=[Coscheduling, CapacityScheduling],
        latency=Latency(requests=0.01),
    ) as cluster:
        cluster.create(*(a_pod(f"b{i}", namespace).requests(cpu="1").priority(priority).obj() for i in range(others)))
        cluster.advance(1)
        yield cluster


def gang(cluster, *members, least=None):
    cluster.create(custom("PodGroup", "a", minMember=least or len(members)), *members)
    cluster.advance(120)


def on_nodes(cluster, namespace, names):
    return [name for name in names if cluster.node_of(name, namespace=namespace)]


def evicted(cluster):
    return len(cluster.events(reason="Preempted"))


def test_what_was_lent_is_taken_back_for_the_whole_gang():
    with teams(quota("a", 6), quota("b", 2), priority=100) as cluster:
        gang(cluster, member("a0"), member("a1"))
        assert on_nodes(cluster, "a", ["a0", "a1"]) == ["a0", "a1"]
        assert evicted(cluster) == 4


def test_nothing_is_evicted_for_a_gang_that_would_not_fit():
    """Its last pod is larger than the node."""
    with teams(quota("a", 20), quota("b", 2)) as cluster:
        gang(cluster, member("a0"), member("a1"), member("a2", cpu="9"))
        assert evicted(cluster) == 0
        assert on_nodes(cluster, "a", ["a0", "a1", "a2"]) == []


def test_no_more_is_taken_back_than_was_lent():
    with teams(quota("a", 6), quota("b", 6)) as cluster:
        gang(cluster, member("a0"), member("a1"))
        assert evicted(cluster) == 0


def test_a_gang_beyond_its_quota_evicts_pods_of_its_own_that_are_less_important():
    with teams(quota("a", 2), quota("b", 6), others=8, namespace="a") as cluster:
        gang(cluster, member("a0", priority=10), member("a1", priority=10))
        assert on_nodes(cluster, "a", ["a0", "a1"]) == ["a0", "a1"]
        assert evicted(cluster) == 4


def test_only_as_many_pods_count_for_the_quota_as_have_to_start_together():
    with teams(quota("a", 4), quota("b", 2)) as cluster:
        gang(cluster, member("a0"), member("a1"), member("a2"), least=2)
        assert len(on_nodes(cluster, "a", ["a0", "a1", "a2"])) >= 2


@pytest.mark.parametrize(("priority", "number"), [(0, 0), (10, 4)])
def test_without_a_quota_less_important_pods_without_one_are_evicted(priority, number):
    with teams(priority=5) as cluster:
        gang(cluster, member("a0", priority=priority), member("a1", priority=priority))
        assert evicted(cluster) == number


def test_a_gang_that_never_preempts_does_not():
    with teams(quota("a", 6), quota("b", 2)) as cluster:
        gang(cluster, member("a0", preemptionPolicy="Never"), member("a1"))
        assert evicted(cluster) == 0
