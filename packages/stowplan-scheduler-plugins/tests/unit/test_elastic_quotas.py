"""What quotas allow and what is used of them, followed change by change: compared with a look at everything."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stowplan
from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.elastic_quotas import Ledger, Quota, exceeds, plus, request_of
from support.examples import examples

NAMESPACES = ("a", "b", "c")
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"preFilter": {"enabled": [{"name": "CapacityScheduling"}]}}}],
}

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("quota"), st.sampled_from(NAMESPACES), st.integers(1, 2), st.integers(0, 3)),
        st.tuples(st.just("no quota"), st.sampled_from(NAMESPACES), st.integers(1, 2)),
        st.tuples(st.just("pod"), st.sampled_from(NAMESPACES), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.just("no pod"), st.sampled_from(NAMESPACES), st.integers(1, 3)),
        st.tuples(st.sampled_from(("begin", "end", "look"))),
    ),
    max_size=30,
)


def a_quota(namespace, number, least=0):
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": f"q{number}", "namespace": namespace},
        "spec": {"min": {"cpu": str(least)}},
    }


def a_running_pod(namespace, number, cpu=1):
    return a_pod(f"p{number}", namespace).requests(cpu=str(cpu)).on("n1").obj()


class Changing:
    def __init__(self):
        self.cluster = stowplan.Cluster([a_node("n1").obj()], config=CONFIG)
        [framework] = self.cluster.algorithm.frameworks.values()
        self.ledger = Ledger(framework.plugins["CapacityScheduling"].handle)
        #: What there is, as of now and as of each open transaction.
        self.quotas, self.pods, self.before = {}, {}, []

    def step(self, what, *about):
        match what:
            case "quota":
                self.cluster.add(a_quota(*about))
                self.quotas[about[:2]] = about[2]
            case "no quota":
                self.cluster.remove(a_quota(*about))
                self.quotas.pop(about, None)
            case "pod":
                self.cluster.add(a_running_pod(*about))
                self.pods[about[:2]] = about[2]
            case "no pod":
                self.cluster.remove(a_running_pod(*about))
                self.pods.pop(about, None)
            case "begin" if len(self.before) < 2:
                transaction = self.cluster.transaction()
                transaction.__enter__()
                self.before.append((transaction, dict(self.quotas), dict(self.pods)))
            case "end" if self.before:
                transaction, self.quotas, self.pods = self.before.pop()
                transaction.rollback()


@examples(200)
@given(steps=STEPS)
def test_the_ledger_has_what_a_look_at_all_quotas_and_pods_finds(steps):
    changing = Changing()
    for step in [*steps, ("look",)]:
        changing.step(*step)
        if step[0] not in ("look", "end"):
            continue
        found = changing.ledger.quotas()
        used, least = Counter(), {}
        for (namespace, _), cpu in changing.pods.items():
            used[namespace] += cpu * 1000
        for (namespace, _), cpu in sorted(changing.quotas.items()):
            # Of equally old ones of a namespace, the first by name.
            least.setdefault(namespace, cpu * 1000)
        assert {one.namespace: one.min.get("cpu", 0) for one in found} == least
        assert {one.namespace: one.used.get("cpu", 0) for one in found} == {one: used[one] for one in least}
        assert found.used.get("cpu", 0) == sum(used[one] for one in least)
        assert found.min.get("cpu", 0) == sum(least.values())


def test_the_oldest_of_several_quotas_counts():
    changing = Changing()
    for number, created in ((2, "2026-01-01T00:00:00Z"), (1, "2026-01-02T00:00:00Z"), (3, "2026-01-03T00:00:00Z")):
        quota = a_quota("a", number, number)
        changing.cluster.add(quota | {"metadata": quota["metadata"] | {"creationTimestamp": created}})
    assert changing.ledger.quotas().get("a").min["cpu"] == 2000


def test_what_was_asked_stays_as_it_was():
    changing = Changing()
    for step in (("quota", "a", 1, 1), ("pod", "a", 1, 2)):
        changing.step(*step)
    before = changing.ledger.quotas()
    changing.step("pod", "a", 2, 3)
    changing.step("quota", "b", 1, 2)
    now = changing.ledger.quotas()
    assert (before.get("a").used["cpu"], before.used["cpu"], before.min["cpu"]) == (2000, 2000, 1000)
    assert (now.get("a").used["cpu"], now.used["cpu"], now.min["cpu"]) == (5000, 5000, 3000)


@pytest.mark.parametrize(
    ("amount", "limit", "unnamed", "over"),
    [
        pytest.param({"cpu": 1}, {"cpu": 1}, 0, False, id="as much as allowed"),
        pytest.param({"cpu": 2}, {"cpu": 1}, 0, True, id="more than allowed"),
        pytest.param({"memory": 1}, {"cpu": 1}, 9, True, id="a limit without memory allows none"),
        pytest.param({"gpu": 1}, {"cpu": 1}, 9, False, id="other resources without a limit"),
        pytest.param({"gpu": 1}, {"cpu": 1}, 0, True, id="other resources without a minimum"),
    ],
)
def test_amounts_against_limits(amount, limit, unnamed, over):
    assert exceeds(amount, limit, unnamed) is over


def test_without_a_maximum_cpu_and_memory_are_unlimited_and_a_minimum_is_nothing():
    quota = Quota.of("a", {}, {})
    assert not quota.over_max_with({"cpu": 10**9, "memory": 10**15})
    assert quota.over_min_with({"cpu": 1})


def test_an_init_container_counts_if_it_is_larger_and_overhead_always():
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
    init = [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]
    cluster = stowplan.Cluster([a_node("n1").obj()], config=CONFIG)
    pod = a_pod("p").spec(containers=containers, initContainers=init, overhead={"cpu": "500m"}).obj()
    assert request_of(cluster.pod(pod)) == {"cpu": 3500, "memory": 2**30}


def test_sums_name_each_resource():
    assert plus({"cpu": 1}, {"cpu": 2, "gpu": 0}) == {"cpu": 3, "gpu": 0}
