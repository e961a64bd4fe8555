"""Rebalancing from time to time: goals and policies, what ends a plan, and measured use."""

from collections import Counter

import pytest

from stowplan_lab import ScenarioError, simulate_scenario
from support.scenarios.manifests import a_workload

POINTS = {"LowNodeUtilization": "balance", "RemoveDuplicates": "balance"}
APP = {"app": "web"}


def a_policy(name, args=None):
    plugins = {POINTS[name]: {"enabled": [name]}}
    profile = {"name": "p", "pluginConfig": [{"name": name, "args": args}], "plugins": plugins}
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}


def simulated(event, *events, nodes=3, replicas=6, usage=None, **more):
    manifest = a_workload("Deployment", "1", replicas=replicas, selector={"matchLabels": APP}, labels=APP)
    web = {"name": "web", "manifest": manifest, **({"usage": usage} if usage else {})}
    group = {"name": "g", "count": nodes, "capacity": {"cpu": 8, "memory": "32Gi", "pods": 50}}
    scenario = {
        "duration": "1h",
        "cluster": {"groups": [group]},
        "workloads": [web],
        "events": [event, *events],
        **more,
    }
    return simulate_scenario(scenario)


def on_nodes(found):
    return sorted({row.node for row in found.decisions if row.end == "running"})


def ended(found):
    return found.summary.ends.get("rebalanced", 0)


def test_a_goal():
    found = simulated({"at": "10m", "rebalance": {"goal": "free-nodes=1"}})
    assert ended(found) == 2
    assert len(on_nodes(found)) == 2
    assert found.summary.ends["running"] == 6


def test_weights_of_a_goal():
    found = simulated({"at": "10m", "rebalance": {"goal": "pack", "weights": {"disruption": 1}}})
    assert not ended(found)


def test_a_policy_from_time_to_time():
    unevenly = ({"at": 0, "resize": {"group": "g", "count": 1}}, {"at": "5m", "resize": {"group": "g", "count": 3}})
    event = {"at": "10m", "every": "10m", "rebalance": {"policy": a_policy("RemoveDuplicates"), "maxMoves": 1}}
    found = simulated(event, *unevenly)
    assert 1 < ended(found) <= 6
    assert len(on_nodes(found)) == 3


def test_moves_of_one_owner_come_one_after_the_other():
    found = simulated({"at": "10m", "rebalance": {"goal": "free-nodes=1"}}, models={"startup": "60s"})
    evicted = sorted(row.evicted for row in found.decisions if row.end == "rebalanced")
    assert evicted[1] - evicted[0] >= 60


def test_replacements_that_never_run_end_a_plan():
    more = {"at": "30m", "scale": {"workload": "web", "replicas": 12}}
    found = simulated({"at": "10m", "rebalance": {"goal": "free-nodes=1"}}, more, models={"startup": "20m"})
    assert ended(found) == 1
    # Its node is not cordoned any more.
    assert min(Counter(row.node for row in found.decisions if row.end == "running").values()) > 2


@pytest.mark.parametrize(("used", "moved"), [("10m", False), ("1500m", True)])
def test_measured_use(used, moved):
    args = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    args["metricsUtilization"] = {"source": "KubernetesMetrics"}
    unevenly = ({"at": 0, "resize": {"group": "g", "count": 1}}, {"at": "5m", "resize": {"group": "g", "count": 2}})
    event = {"at": "10m", "rebalance": {"policy": a_policy("LowNodeUtilization", args)}}
    found = simulated(event, *unevenly, nodes=2, usage={"cpu": used})
    assert (ended(found) > 0) == moved


def of_trace(tmp_path, recreate, **spec):
    """Two pods of a trace on two nodes run for an hour; after half of it, one of them makes place."""
    (tmp_path / "pods.csv").write_text("name,at,end,cpu\none,0,3600,3\nother,0,3600,3\n")
    columns = {"name": "name", "time": "at", "end": "end", "resources": {"cpu": "cpu"}}
    workload = {"name": "w", "trace": {"format": "csv", "file": str(tmp_path / "pods.csv"), **columns}}
    group = {"name": "g", "count": 2, "capacity": {"cpu": 8, "memory": "32Gi", "pods": 50}}
    event = {"at": "30m", "rebalance": {"goal": "free-nodes=1", **spec}}
    models = {"startup": 0, "termination": 0, "latency": 0}
    workloads = [workload | ({"recreate": recreate} if recreate else {})]
    return simulate_scenario(
        {"cluster": {"groups": [group]}, "workloads": workloads, "events": [event], "models": models}
    )


@pytest.mark.parametrize(
    ("recreate", "spec", "last"),
    [("", {}, 3600), ("rest", {}, 3600), ("anew", {}, 5400), ("anew", {"maxLostWork": "29m"}, 3600)],
)
def test_pods_of_a_trace_that_are_recreated(tmp_path, recreate, spec, last):
    found = of_trace(tmp_path, recreate, **spec)
    assert ended(found) == (recreate != "" and not spec)
    assert max(row.ended for row in found.decisions) == pytest.approx(last, abs=2)


def test_only_pods_of_a_trace_are_recreated_so(tmp_path):
    with pytest.raises(ScenarioError, match="recreate: want anew or rest, got 'now'"):
        of_trace(tmp_path, "now")
    with pytest.raises(ScenarioError, match=r"workloads\[0\].recreate: goes with trace"):
        simulate_scenario({"workloads": [{"name": "w", "manifest": a_workload("Deployment", "1"), "recreate": "rest"}]})


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({}, "events[0].rebalance: want one of goal, policy"),
        ({"goal": "tidy"}, "events[0].rebalance.goal: want mend|spread|pack|free-nodes=N, got 'tidy'"),
        ({"goal": "mend", "weights": {"time": 1}}, "events[0].rebalance: weights: mend: it is reached or not"),
        ({"policy": {}, "weights": {"time": 1}}, "events[0].rebalance.weights: they are for a goal"),
        ({"goal": "mend", "maxMoves": 0}, "events[0].rebalance.maxMoves: want 1 or more, got 0"),
        ({"policy": {"kind": "Policy"}}, "kind: want DeschedulerPolicy, got Policy"),
        ({"policy": "/nowhere.yaml"}, "/nowhere.yaml: No such file or directory"),
    ],
)
def test_mistakes(spec, problem):
    with pytest.raises(ScenarioError) as raised:
        simulated({"rebalance": spec})
    assert problem in str(raised.value)
