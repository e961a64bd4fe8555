"""Workloads of the initial cluster: their controllers take over the pods that exist."""

from __future__ import annotations

import json

import pytest

from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario
from support.scenarios.manifests import container, group, scenario

START = 2.1


def workload(kind, name="web", **spec):
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container("1")]}}
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": f"{name}-uid"},
        "spec": {"selector": selector, "template": template, **spec},
    }


def pod(name, kind, owner, node="a-1", cpu="1", **labels):
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"{owner}-uid", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": {"app": "web", **labels},
            "ownerReferences": [reference],
        },
        "spec": {"nodeName": node, "containers": [container(cpu)]},
        "status": {"phase": "Running"},
    }


def node(name):
    size = {"cpu": "4", "memory": "64Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": size}}


@pytest.fixture
def after(tmp_path):
    """Rows of a simulation of these objects, two nodes and events, in order of arrival and name."""

    def simulated(*objects, events=(), duration=200, **more):
        file = tmp_path / "objects.json"
        items = [node("a-1"), node("a-2"), *objects]
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        given = scenario(groups=[group("more", count=0, cpu=4)], events=list(events), duration=duration, **more)
        given["cluster"]["files"] = [str(file)]
        return sorted(simulate_scenario(given).decisions, key=lambda row: (row.arrived, row.pod))

    return simulated


DRAIN = {"at": 50, "drain": {"nodes": ["a-1"], "then": "uncordon", "for": 100}}


def test_a_deployment_replaces_a_lost_pod_from_its_template(after):
    labels = {"pod-template-hash": "5d4f8"}
    objects = [
        workload("Deployment", replicas=2),
        pod("web-5d4f8-x", "ReplicaSet", "web-5d4f8", cpu="2", **labels),
        pod("web-5d4f8-y", "ReplicaSet", "web-5d4f8", node="a-2", cpu="2", **labels),
    ]
    rows = after(*objects, events=[DRAIN])
    assert [(row.pod, row.workload, row.requests["cpu"], row.end) for row in rows] == [
        ("default/web-5d4f8-x", "web-5d4f8", 2000, "drained"),
        ("default/web-5d4f8-y", "web-5d4f8", 2000, "running"),
        ("default/web-5d4f8-1", "web-5d4f8", 1000, "running"),
    ]


def test_missing_and_surplus_pods(after):
    mine = [pod(f"web-5d4f8-{number}", "ReplicaSet", "web-5d4f8") for number in range(2)]
    assert len(after(workload("Deployment", replicas=3), *mine)) == 3
    ends = [row.end for row in after(workload("ReplicaSet", "web-5d4f8", replicas=1), *mine)]
    assert sorted(ends) == ["running", "scaled down"]


def test_a_stateful_sets_pod_comes_back_with_its_name(after):
    mine = [pod(f"web-{number}", "StatefulSet", "web", node=f"a-{number + 1}") for number in range(2)]
    rows = after(workload("StatefulSet", replicas=3), *mine, events=[DRAIN])
    # The third one was on the same node.
    assert [row.pod for row in rows] == [f"default/web-{ordinal}" for ordinal in (0, 1, 2, 0, 2)]
    first, _, third, again, third_again = rows
    # It is created when both others run.
    assert third.arrived == pytest.approx(START)
    assert (first.end, again.end, third_again.end) == ("drained", "running", "running")
    assert first.ended <= again.arrived
    assert third_again.arrived == pytest.approx(again.placed + START)


def test_new_nodes_get_pods_of_daemon_sets(after):
    rows = after(
        workload("DaemonSet"),
        pod("web-x", "DaemonSet", "web"),
        events=[{"at": 20, "resize": {"group": "more", "count": 1}}],
    )
    assert [(row.pod, row.node) for row in rows] == [
        ("default/web-1", "a-2"),
        ("default/web-x", "a-1"),
        ("default/web-2", "more-1"),
    ]


def test_owners_that_are_not_known_recreate_pods_like_their_own(after):
    rows = after(pod("web-5d4f8-x", "ReplicaSet", "web-5d4f8", cpu="2"), events=[DRAIN])
    assert [(row.requests["cpu"], row.end) for row in rows] == [(2000, "drained"), (2000, "running")]


def test_without_controllers_nothing_is_created(after):
    rows = after(
        workload("Deployment", replicas=3), pod("web-5d4f8-x", "ReplicaSet", "web-5d4f8"), models={"controllers": False}
    )
    assert len(rows) == 1


def test_an_invalid_workload_is_refused_with_its_name(after):
    wrong = workload("StatefulSet", podManagementPolicy="Paralell")
    with pytest.raises(
        ScenarioError, match=r"cluster: StatefulSet default/web: spec.podManagementPolicy: Invalid value"
    ):
        after(wrong, pod("web-0", "StatefulSet", "web"))
