"""Gangs that are decided as a whole: `wholeGroups` of Coscheduling."""

from contextlib import contextmanager

import stowplan
from stowplan.testing import a_node, a_pod
from stowplan.testing.live import Latency, live_cluster
from stowplan_scheduler_plugins.capacity_scheduling import CapacityScheduling
from stowplan_scheduler_plugins.coscheduling import Coscheduling
from support.plugins.scheduler_plugins import DEFINITIONS, GROUP, custom

BOTH = [Coscheduling, CapacityScheduling]
GANG = [f"a{i:02}" for i in range(15)]


def config(*, whole=True):
    plugins = {
        "multiPoint": {"enabled": [{"name": "Coscheduling"}, {"name": "CapacityScheduling"}]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    }
    profile = {"plugins": plugins, "pluginConfig": [{"name": "Coscheduling", "args": {"wholeGroups": whole}}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def node(name, cpus):
    return a_node(name).allocatable(cpu=str(cpus), memory="64Gi", pods="110").obj()


def member(name, cpu="1"):
    return a_pod(name).labels({f"{GROUP}/pod-group": "gang"}).requests(cpu=cpu).obj()


@contextmanager
def gang(*objects, cpus):
    """A cluster of one node, and a gang of 15 pods of 1 CPU; requests to the API server take time."""
    latency = Latency(requests=0.01)
    with live_cluster(
        *DEFINITIONS, node("n1", cpus), *objects, config=config(), plugins=BOTH, latency=latency
    ) as cluster:
        cluster.create(custom("PodGroup", "gang", "default", minMember=15), *map(member, GANG))
        cluster.advance(30)
        yield cluster


def placed(cluster, names=GANG):
    return sum(bool(cluster.node_of(name)) for name in names)


def test_a_gang_that_lacks_room_holds_none():
    with gang(cpus=14) as cluster:
        assert placed(cluster) == 0
        assert "minCount (15) cannot be satisfied: 14 scheduled, 0 remaining" in cluster.why_pending("a00")
        cluster.create(a_pod("single").requests(cpu="14").obj())
        cluster.advance(1)
        assert cluster.node_of("single") == "n1"
        assert len(cluster.engine.waiting_pods) == 0


def test_a_gang_that_fits_starts_at_once():
    with gang(cpus=14) as cluster:
        cluster.create(node("n2", 1))
        cluster.advance(15)
        assert placed(cluster) == 15
        assert not cluster.get("podgroups.scheduling.x-k8s.io", "gang").get("status")


def test_a_quota_refuses_the_whole_gang():
    quota = custom(
        "ElasticQuota", "team", "default", min={"cpu": "14", "memory": "1Gi"}, max={"cpu": "20", "memory": "1Gi"}
    )
    with gang(quota, cpus=30) as cluster:
        assert placed(cluster) == 0
        assert "total ElasticQuota used is more than min" in cluster.why_pending("a14")
        cluster.patch("elasticquotas.scheduling.x-k8s.io", "team", {"spec": {"min": {"cpu": "15", "memory": "1Gi"}}})
        cluster.advance(15)
        assert placed(cluster) == 15


def test_a_member_that_is_deleted_is_replaced():
    with gang(cpus=14) as cluster:
        cluster.delete("pods", "a03")
        cluster.create(node("n2", 5))
        cluster.advance(30)
        assert placed(cluster, [name for name in GANG if name != "a03"]) == 0
        cluster.create(member("a99"))
        cluster.advance(15)
        assert cluster.node_of("a99")
        cluster.delete("pods", "a99")
        cluster.create(member("a98"))
        cluster.advance(1)
        assert cluster.node_of("a98"), "the others count"


def test_the_group_is_explained():
    objects = [node("n1", 14), custom("PodGroup", "gang", "default", minMember=15), *map(member, GANG)]
    cluster = stowplan.Cluster(objects, config=config(), plugins=BOTH)
    verdict = cluster.explain_group("gang")
    assert "14 of 15 pods fit together" in repr(verdict)
    assert verdict.min_count == 15


def test_another_configuration_may_turn_it_on():
    objects = [node("n1", 14), custom("PodGroup", "gang", "default", minMember=15)]
    cluster = stowplan.Cluster(objects, config=config(whole=False), plugins=BOTH)
    for name in GANG:
        cluster.add(member(name) | ({"spec": member(name)["spec"] | {"nodeName": "n1"}} if name < "a14" else {}))
    assert "14 more have a node" in repr(cluster.reconfigured(config()).explain_group("gang"))
