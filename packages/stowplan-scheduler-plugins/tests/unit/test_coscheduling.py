"""Gangs in a running scheduler: complete, too small, without room, timed out, with a member deleted while it waits."""

import pytest

import stowplan
from stowplan.ask.what_if.fit import fit
from stowplan.testing import a_node, a_pod
from stowplan.testing.live import live_cluster
from stowplan_scheduler_plugins.coscheduling import Coscheduling

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": "scheduling.x-k8s.io",
        "names": {"kind": "PodGroup", "plural": "podgroups"},
        "scope": "Namespaced",
        "versions": [{"name": "v1alpha1", "served": True, "storage": True}],
    },
}
NODE = a_node("n1").allocatable(cpu="4", pods="110").obj()
PLUGINS = {
    "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
    "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
}
CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def group(name, size, **spec):
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": size, **spec},
    }


def member(name, of, cpu="1"):
    return a_pod(name).labels({"scheduling.x-k8s.io/pod-group": of}).requests(cpu=cpu).obj()


@pytest.fixture
def gangs():
    """A cluster of one node with 4 CPUs, whose scheduler knows PodGroups."""
    args = {"permitWaitingTimeSeconds": 30, "podGroupBackoffSeconds": 10}
    config = CONFIG | {"profiles": [{"plugins": PLUGINS, "pluginConfig": [{"name": "Coscheduling", "args": args}]}]}
    with live_cluster(NODE, CRD, config=config, plugins=[Coscheduling]) as cluster:
        yield cluster


def nodes(cluster, *names):
    return [cluster.node_of(name) for name in names]


def test_a_group_starts_together(gangs):
    gangs.create(group("a", 3), member("a-0", "a"), member("a-1", "a"))
    assert nodes(gangs, "a-0", "a-1") == ["", ""]
    gangs.create(member("a-2", "a"))
    gangs.advance(20)
    assert nodes(gangs, "a-0", "a-1", "a-2") == ["n1", "n1", "n1"]


def test_a_group_with_too_few_pods_is_refused(gangs):
    gangs.create(group("a", 3), member("a-0", "a"))
    assert "cannot find enough sibling pods, current pods number: 1, minMember of group: 3" in gangs.why_pending("a-0")


def test_a_group_without_room_is_refused_before_any_pod_waits(gangs):
    gangs.create(group("a", 2, minResources={"cpu": "6"}), member("a-0", "a", "3"), member("a-1", "a", "3"))
    assert "resource gap: map[cpu:{{2 0} {<nil>}  DecimalSI}]" in gangs.why_pending("a-1")


def test_one_pod_that_does_not_fit_rejects_those_that_wait(gangs):
    gangs.create(group("a", 2), member("a-0", "a", "3"), member("a-1", "a", "3"))
    assert nodes(gangs, "a-0", "a-1") == ["", ""]
    said = gangs.why_pending("a-0") + gangs.why_pending("a-1")
    assert "PodGroup default/a gets rejected due to Pod" in said
    assert "optimistic rejection in PostFilter" in said


def test_pods_without_a_group_do_not_wait(gangs):
    gangs.create(a_pod("single").requests(cpu="1").obj())
    assert gangs.node_of("single") == "n1"


def test_a_pod_whose_group_does_not_exist_is_refused(gangs):
    gangs.create(member("a-0", "a"))
    assert "PodGroup not found" in gangs.why_pending("a-0")


# -- in a Cluster -----------------------------------------------------------------------------------------------------


def scheduled(group, *pods, backoff=0):
    """Name -> node, or the message."""
    args = {"podGroupBackoffSeconds": backoff}
    config = CONFIG | {"profiles": [{"plugins": PLUGINS, "pluginConfig": [{"name": "Coscheduling", "args": args}]}]}
    cluster = stowplan.Cluster([NODE, group], config=config)
    return {one.pod.name: one.node_name or one.message for one in cluster.schedule(list(pods))}


def test_pods_that_are_scheduled_one_by_one_wait_for_each_other():
    found = scheduled(group("a", 2), member("a-0", "a"), a_pod("single").obj(), member("a-1", "a"))
    assert found == {"a-0": "n1", "single": "n1", "a-1": "n1"}


def test_a_group_that_does_not_fit_gets_an_answer_although_no_time_passes():
    found = scheduled(group("a", 2), member("a-0", "a", "3"), member("a-1", "a", "3"), backoff=9)
    assert "optimistic rejection in PostFilter" in found["a-0"]
    assert "podGroup default/a failed recently" in found["a-1"]


def test_a_group_that_is_tried_without_end_gets_an_answer_for_each_pod():
    found = scheduled(group("a", 9), *(member(f"a-{i}", "a", "3") for i in range(9)))
    assert "Insufficient cpu" in found["a-0"]
    assert found["a-8"] == "not tried: another pod was tried 100 times before"


@pytest.mark.parametrize(("pod", "asked"), [(a_pod("p").requests(cpu="1").obj(), 0), (member("p", "a"), 5)])
def test_copies_are_placed_one_by_one_only_in_groups(monkeypatch, pod, asked):
    """Each of the four that fit, and the one that does not."""
    calls, pre_filter = [], Coscheduling.pre_filter

    def counted(self, state, pod, nodes):
        calls.append(pod.name)
        return pre_filter(self, state, pod, nodes)

    monkeypatch.setattr(Coscheduling, "pre_filter", counted)
    cluster = stowplan.Cluster([NODE, group("a", 1)], config=CONFIG | {"profiles": [{"plugins": PLUGINS}]})
    assert fit(cluster, pod).fits == 4
    assert min(len(calls), 5) == asked
