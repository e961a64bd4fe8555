"""Nodes on the embedded cluster and in a simulation: the same nodes, pods and budgets whenever something happened."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.examples import times
from support.live.two_clocks_nodes import FOREVER, Drain, Fail, Remove, Taint, agree_on_nodes
from support.scenarios.manifests import container


def tolerating(key, seconds=None):
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **limit}


#: In seconds that rarely add up to a time between two events: what is due at one instant has no order.
TOLERATIONS = [
    [],
    [tolerating("k", 19)],
    [tolerating("k"), tolerating("other", 43)],
    [tolerating("node.kubernetes.io/unreachable", 31)],
]
PROTECTIONS = [{}, {"minAvailable": 2}, {"maxUnavailable": 1}, {"maxUnavailable": "40%"}, {"minAvailable": "50%"}]


def workload(kind, replicas=None, tolerations=(), **more):
    labels = {"app": kind}
    spec = {"containers": [container("100m")], "tolerations": list(tolerations)}
    return {
        "kind": kind,
        "spec": {
            **({} if replicas is None else {"replicas": replicas}),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
            **more,
        },
    }


def job(policy, replacement, tolerations=()):
    made = workload("Job", completions=4, parallelism=3, podReplacementPolicy=replacement, tolerations=tolerations)
    del made["spec"]["selector"]
    template = made["spec"]["template"]
    template["metadata"]["annotations"] = {"stowplan.io/run-for": FOREVER}
    template["spec"]["restartPolicy"] = policy
    return made


def budget(kind, spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": kind.lower(), "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": kind}}, **spec},
    }


NODES = st.sampled_from(["node-1", "node-2", "node-3"])
SECONDS = st.sampled_from([7, 33, 61, 100, 150, 370, 420, 700])
EVENTS = st.one_of(
    st.builds(Fail, NODES, SECONDS),
    st.builds(Taint, NODES, SECONDS, st.sampled_from(["k", "k", "other"])),
    st.builds(Drain, NODES, SECONDS),
    st.just(Remove()),
)


@settings(
    max_examples=times(4), derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.integers(0, 5),
    st.integers(0, 3),
    st.tuples(*[st.sampled_from(TOLERATIONS)] * 4),
    st.tuples(st.sampled_from(["Never", "OnFailure"]), st.sampled_from(["TerminatingOrFailed", "Failed"])),
    st.lists(st.tuples(st.sampled_from([3, 11, 29, 77, 240]), EVENTS), max_size=6),
    st.sampled_from(PROTECTIONS),
    st.sampled_from([0, 6.3]),
    st.sampled_from([0, 2.6, 27.3]),
)
def test_nodes(tmp_path, replicas, ordinals, tolerations, policies, gaps, protection, startup, termination):
    first, second, third, fourth = tolerations
    workloads = {
        "web": workload("ReplicaSet", replicas, first),
        "db": workload("StatefulSet", ordinals, second, serviceName="db"),
        "d": workload("DaemonSet", None, third),
        "j": job(*policies, fourth),
    }
    budgets = [budget("ReplicaSet", protection), budget("StatefulSet", protection)] if protection else []
    events, at = [], 20
    for gap, event in gaps:
        at += gap
        events.append((at, event))
    agree_on_nodes(workloads, events, tmp_path, budgets=budgets, startup=startup, termination=termination)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([(50, Fail("node-1", 20)), (90, Fail("node-2", 120))], id="back before it is noticed, and after"),
        pytest.param([(50, Fail("node-1", 900))], id="back after its pods were evicted"),
        pytest.param(
            [(50, Fail("node-1", 100)), (90, Fail("node-1", 400)), (200, Fail("node-1", 3))], id="overlapping"
        ),
        pytest.param([(50, Fail("node-3", 900)), (300, Remove())], id="removed while it is down"),
        pytest.param([(50, Drain("node-1", 60)), (57, Drain("node-2", 60))], id="two drains"),
        pytest.param([(50, Taint("node-1", 60)), (60, Taint("node-1", 100, "other"))], id="two taints"),
    ],
)
def test_chosen_events(tmp_path, events):
    workloads = {
        "web": workload("ReplicaSet", 5, TOLERATIONS[1]),
        "db": workload("StatefulSet", 3, TOLERATIONS[2], serviceName="db"),
        "d": workload("DaemonSet"),
        "j": job("Never", "TerminatingOrFailed"),
    }
    budgets = [budget("ReplicaSet", {"maxUnavailable": 1}), budget("StatefulSet", {"minAvailable": 2})]
    agree_on_nodes(workloads, events, tmp_path, budgets=budgets)
