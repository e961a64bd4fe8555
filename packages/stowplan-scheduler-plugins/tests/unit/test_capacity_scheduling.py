"""Quotas: who may borrow, who has to give back, and to whom."""

import stowplan
from stowplan.ask.what_if.fit import fit
from stowplan.testing import a_node, a_pod

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "multiPoint": {"enabled": [{"name": "CapacityScheduling"}]},
                "postFilter": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]},
            }
        }
    ],
}


def quota(namespace, least, most=None):
    """A quota of CPUs; without a maximum, it is unlimited."""
    limit = {} if most is None else {"max": {"cpu": most, "memory": "1Ti", "ephemeral-storage": "1Ti"}}
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": least}, **limit},
    }


def a_cpu(name, namespace, cpu="1", priority=0):
    return a_pod(name, namespace).requests(cpu=cpu).priority(priority)


def cluster(*objects):
    return stowplan.Cluster([a_node("n1").allocatable(cpu="4", pods="110").obj(), *objects], config=CONFIG)


TEAMS = [quota("a", "2", "4"), quota("b", "2", "3")]


def test_a_namespace_borrows_what_others_do_not_use():
    found = cluster(*TEAMS, *(a_cpu(f"p{i}", "a").on("n1").obj() for i in range(3)))
    assert found.explain(a_cpu("p3", "a").obj()).node_name == "n1"


def test_nobody_uses_more_than_the_maximum():
    found = cluster(*TEAMS, *(a_cpu(f"p{i}", "b").on("n1").obj() for i in range(3)))
    assert (
        "Pod b/p3 is rejected in PreFilter because ElasticQuota b is more than Max"
        in found.explain(a_cpu("p3", "b").obj()).message
    )


def test_all_together_use_no_more_than_all_minimums():
    found = cluster(quota("a", "1"), quota("b", "1"), *(a_cpu(f"p{i}", "a").on("n1").obj() for i in range(2)))
    message = "Pod b/p is rejected in PreFilter because total ElasticQuota used is more than min"
    assert message in found.explain(a_cpu("p", "b").obj()).message


def test_what_was_borrowed_is_taken_back_whatever_its_priority():
    borrowed = [a_cpu(f"p{i}", "a", priority=1000).on("n1").obj() for i in range(4)]
    verdict = cluster(*TEAMS, *borrowed).explain(a_cpu("own", "b").obj())
    [victim] = verdict.preemption.candidates["n1"].victims
    assert victim.key.startswith("a/")


def test_nothing_is_taken_from_a_namespace_within_its_minimum():
    used = [a_cpu("p0", "a", "2").on("n1").obj(), a_cpu("p1", "b", "2", priority=10).on("n1").obj()]
    verdict = cluster(*TEAMS, *used).explain(a_cpu("p", "a", priority=1000).obj())
    assert verdict.preemption.candidates["n1"].victims[0].key == "a/p0"


def test_pods_without_a_quota_only_evict_each_other():
    used = [a_cpu("p0", "a", "2").on("n1").obj(), a_cpu("p1", "free", "2").on("n1").obj()]
    verdict = cluster(*TEAMS, *used).explain(a_cpu("p", "free", "2", priority=10).obj())
    assert [victim.key for victim in verdict.preemption.candidates["n1"].victims] == ["free/p1"]


def test_a_pod_that_never_preempts_is_not_eligible():
    full = a_cpu("p0", "a", "4").on("n1").obj()
    verdict = cluster(*TEAMS, full).explain(a_cpu("p", "b").preemption_policy("Never").obj())
    assert verdict.preemption.ineligible_reason == "not eligible due to preemptionPolicy=Never."


def test_no_more_pods_fit_than_the_quota_allows():
    found = fit(cluster(quota("a", "3"), a_cpu("p", "a").obj()), "a/p")
    assert (found.fits, [limit.plugin for limit in found.limited_by]) == (3, ["CapacityScheduling"])
