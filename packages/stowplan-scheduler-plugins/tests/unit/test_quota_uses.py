"""How quotas stand, in what-if answers and on the page."""

import stowplan
from stowplan.ask.explain.text.tables import plain
from stowplan.ask.what_if import Put, what_if
from stowplan.scheduler.inspection.queue_state import quota_records
from stowplan.testing import a_node, a_pod

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"preFilter": {"enabled": [{"name": "CapacityScheduling"}]}}}],
}


def quota(namespace, least, **most):
    spec = {"min": {"cpu": least}} | ({"max": most} if most else {})
    metadata = {"name": "quota", "namespace": namespace}
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": metadata,
        "spec": spec,
    }


def pods(namespace, number):
    return [a_pod(f"p{i}", namespace).requests(cpu="1").obj() for i in range(number)]


def cluster_of(*objects):
    return stowplan.Cluster([a_node("n1").allocatable(cpu="16", pods="110").obj(), *objects], config=CONFIG)


def cpu_of(cluster):
    found = quota_records(cluster.engine.frameworks.values())
    return [(one.quota, one.used, one.least, one.most, one.lenders) for one in found if one.resource == "cpu"]


def test_those_that_borrow_are_first():
    cluster = cluster_of(quota("a", "4"), quota("b", "2", cpu="8", memory="1Gi"), *pods("b", 5))
    cluster.schedule()
    assert cpu_of(cluster) == [("b", 5000, 2000, 8000, ("a",)), ("a", 0, 4000, None, ())]


def test_who_lends_most_is_named_first():
    lending = [quota(f"a{i}", str(i)) for i in range(1, 6)]
    cluster = cluster_of(*lending, quota("b", "1"), *pods("b", 2))
    cluster.schedule()
    assert cpu_of(cluster)[0] == ("b", 2000, 1000, None, ("a5", "a4", "a3"))


def test_what_if_says_how_quotas_change():
    cluster = cluster_of(quota("a", "4"), quota("b", "2"), *pods("b", 9))
    answer = what_if(cluster, Put((quota("a", "6"),)))
    assert [one.used for one in answer.after.quotas if one.resource == "cpu"] == [8000, 0]
    text = plain(answer.page())
    assert "What quotas use" in text
    assert "b       6 cpu  8 cpu       2 cpu           6 cpu of a" in text


def test_nothing_is_said_of_quotas_that_stay():
    answer = what_if(cluster_of(quota("a", "4"), *pods("a", 1)))
    assert "quotas" not in plain(answer.page())


def test_schedulers_without_quotas_have_none():
    cluster = stowplan.Cluster([a_node("n1").obj()])
    assert quota_records(cluster.engine.frameworks.values()) == ()
