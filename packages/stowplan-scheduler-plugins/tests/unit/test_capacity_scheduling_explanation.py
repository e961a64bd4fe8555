"""Which quota keeps a pod from starting, who borrows what, and which quotas would let it start."""

import stowplan
from stowplan.ask.explain.detailed_record import detailed
from stowplan.testing import a_node, a_pod

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"preFilter": {"enabled": [{"name": "CapacityScheduling"}]}}}],
}
#: Not named, they would be 0.
REST = {"memory": "1Ti", "ephemeral-storage": "1Ti"}


def quota(namespace, least, most):
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": least}, "max": {"cpu": most, **REST}},
    }


def a_cpu(name, namespace, cpu="1"):
    return a_pod(name, namespace).requests(cpu=cpu)


def advice(namespace, *objects):
    cluster = stowplan.Cluster([a_node("n1").allocatable(cpu="16", pods="110").obj(), *objects], config=CONFIG)
    verdict = cluster.explain(a_cpu("new", namespace).obj())
    suggestions = [one.text for one in verdict.suggestions()]
    general = "CapacityScheduling refuses the pod"
    return [one for one in verdict.to_dict().get("obstacles", ()) if not one.startswith(general)], suggestions


def test_a_namespace_at_its_maximum():
    used = [a_cpu(f"p{i}", "a").on("n1").obj() for i in range(3)]
    obstacles, suggestions = advice("a", quota("a", "4", "3"), *used)
    assert obstacles == ["namespace a uses 3 cpu of at most 3 cpu, and the pod requests 1 cpu"]
    assert suggestions == ["raise the maximum of ElasticQuota a/quota to 4 cpu to gain 1 node (n1)"]


def test_who_borrows_what_others_are_guaranteed():
    used = [a_cpu(f"p{i}", "b", "1500m").on("n1").obj() for i in range(2)]
    obstacles, suggestions = advice("a", quota("a", "1", "9"), quota("b", "2", "9"), *used)
    assert obstacles == ["all quotas together guarantee 3 cpu, of which 3 cpu are used; b borrows 1 cpu"]
    assert suggestions == ["raise the minimum of ElasticQuota a/quota to 2 cpu to gain 1 node (n1)"]


def test_nothing_is_said_of_a_pod_that_its_quota_allows():
    assert advice("a", quota("a", "1", "2")) == ([], [])


def facts(namespace, *objects):
    cluster = stowplan.Cluster([a_node("n1").allocatable(cpu="16", pods="110").obj(), *objects], config=CONFIG)
    return list(detailed(cluster.engine, cluster.explain(a_cpu("new", namespace).obj())).facts)


def test_what_a_namespace_may_borrow_and_who_may_want_it_back():
    used = [a_cpu(f"p{i}", "a", "2").on("n1").obj() for i in range(2)]
    quotas = quota("a", "2", "7"), quota("b", "8", "9"), quota("c", "1", "9")
    assert facts("a", *quotas, *used) == [
        "namespace a uses 4 cpu (2 guaranteed), and may borrow 3 of 9 until b, c want them back"
    ]
    assert facts("a", quota("a", "2", "7"), *used) == ["namespace a uses 4 cpu (2 guaranteed), and may borrow none"]
    assert facts("d", *quotas, *used) == []
