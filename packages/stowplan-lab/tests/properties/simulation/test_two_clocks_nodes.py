"""Nodes on the embedded cluster and in a simulation: the same nodes, pods and budgets whenever something happened."""

from __future__ import annotations

import pytest

from support.live.two_clocks_nodes import Drain, Fail, Remove, Taint, agree_on_nodes
from support.scenarios.manifests import container


def tolerating(key, seconds=None):
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **limit}


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


def budget(kind, spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": kind.lower(), "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": kind}}, **spec},
    }


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
        "web": workload("ReplicaSet", 5, [tolerating("k", 20)]),
        "db": workload("StatefulSet", 3, [tolerating("k"), tolerating("other", 40)], serviceName="db"),
        "d": workload("DaemonSet"),
    }
    budgets = [budget("ReplicaSet", {"maxUnavailable": 1}), budget("StatefulSet", {"minAvailable": 2})]
    agree_on_nodes(workloads, events, tmp_path, budgets=budgets)
