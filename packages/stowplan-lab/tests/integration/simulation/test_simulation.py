"""Complete simulations, feature by feature; test_conservation has the invariants of all simulations."""

from __future__ import annotations

import json
from functools import partial

import msgspec
import pytest

import stowplan_lab
from stowplan.drivers.hang_guard.hang_guard import CallGuard
from stowplan.plugins import NodeFilterPlugin, Reason, unschedulable
from stowplan_cluster.reconcile.kubelet import last_renewal
from stowplan_lab.simulation import simulate as simulation
from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario
from support.scenarios.manifests import STORAGE_CLASS, a_workload, group, pod, scenario, stateful
from support.scenarios.witness import check_sums, run


def test_seeds_change_results_and_arrivals_do_not_depend_on_decisions():
    given_scenario = scenario(
        {"name": "w", "manifest": pod(), "poisson": "6/m", "lifetime": {"exponential": 60}}, duration=600
    )
    one, other = simulate_scenario(given_scenario), simulate_scenario(given_scenario, seed=2)
    assert one.summary.digest != other.summary.digest
    packed = simulate_scenario(given_scenario, config=_packing())
    assert [row.arrived for row in sorted(packed.decisions, key=_by_name)] == [
        row.arrived for row in sorted(one.decisions, key=_by_name)
    ]


def _by_name(row):
    return row.pod


def _packing():
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]}],
    }


# -- waiting ----------------------------------------------------------------------------------------------------------


def test_waiting_times_and_causes_in_the_summary():
    found = run(
        scenario({"name": "w", "manifest": pod("4"), "at": 0, "each": 3, "lifetime": 60}, models={"startup": 0})
    )
    waits = sorted(row.placed - row.arrived for row in found.decisions)
    assert waits[:2] == [0, 0]
    assert 60 <= waits[2] <= 75, "it is woken by the end of one, and backs off at most"
    (late,) = (row for row in found.decisions if row.reasons)
    assert late.reasons == {"NodeResourcesFit": 1}
    assert "Insufficient cpu" in late.message
    assert found.summary.causes[0].cause == "NodeResourcesFit"
    assert found.summary.causes[0].seconds == pytest.approx(waits[2])
    assert found.summary.waits.longest == pytest.approx(waits[2])


def test_higher_priority_preempts_and_the_controller_replaces():
    found = run(
        scenario(
            {"name": "low", "manifest": a_workload("Deployment", "2", replicas=4)},
            {"name": "high", "manifest": pod("4", priority=100), "at": "10s"},
            duration=120,
        )
    )
    assert found.summary.ends["preempted"] == 2
    assert found.summary.evictions == 2
    assert sum(row.end == "pending" for row in found.decisions) == 2
    high = next(row for row in found.decisions if row.workload == "high")
    assert high.placed == pytest.approx(15, abs=2), "not when its victims have finished"


def test_unknown_schedulers_and_gates_are_causes():
    found = run(
        scenario(
            {"name": "other", "manifest": pod(schedulerName="nobody")},
            {"name": "gated", "manifest": pod(schedulingGates=[{"name": "g"}])},
            duration=60,
        )
    )
    assert found.summary.ends == {"pending": 2}
    assert {one.cause for one in found.summary.causes} == {"not tried yet", "SchedulingGates"}


def test_an_error_of_a_plugin_is_noted():
    found = run_with_plugin(Broken, scenario({"name": "w", "manifest": pod(), "each": 2}, duration=60))
    (note,) = found.summary.notes
    failed = f"{found.summary.attempts} attempts failed with an error"
    assert note.startswith(f"{failed}; the first: pod default/w-1: ")
    assert "no such model" in note
    assert [one.cause for one in found.summary.causes] == ["error"]


def run_with_plugin(plugin, given_scenario):
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}}],
    }
    return run(given_scenario, plugins=[plugin], config=config)


class Broken(NodeFilterPlugin):
    name = "Broken"

    def filter_node(self, state, pod, node):
        raise LookupError("no such model")


def gangs(*sizes, gates=True):
    """One gang per size, which is also the number of its pods; each takes half a node of two."""
    names = [f"gang{i}" for i in range(len(sizes))]
    given = scenario(
        *(
            {"name": name, "manifest": pod("2", schedulingGroup={"podGroupName": name}), "each": size}
            for name, size in zip(names, sizes, strict=True)
        ),
        groups=[group(count=2)],
        duration=120,
    )
    if gates:
        given["scheduler"] = {"featureGates": {"GenericWorkload": True}}
    items = [
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": size}}},
        }
        for name, size in zip(names, sizes, strict=True)
    ]
    return given, {"apiVersion": "v1", "kind": "List", "items": items}


def run_with_files(tmp_path, given, objects):
    (tmp_path / "objects.json").write_text(json.dumps(objects))
    given["cluster"]["files"] = [str(tmp_path / "objects.json")]
    return run(given)


def test_a_gang_that_can_never_fit(tmp_path):
    found = run_with_files(tmp_path, *gangs(3, 5))
    assert found.summary.ends == {"pending": 5, "running": 3}
    assert found.summary.notes == ("gang1 can never run: it needs 10 cpu for 5 pods, nodes and groups allow at most 8",)
    # It is tried again when its backoff is over, which grows to 10 s times the root of the group's size: after 1, 2, 4,
    # 8, 16, 22.4, 22.4, … s, as by kube-scheduler 1.37. Once a pod does not fit, the others are not tried.
    assert found.summary.attempts == 3 + 2 * 9 == sum(row.attempts for row in found.decisions)
    assert {one.cause for one in found.summary.causes} == {"NodeResourcesFit", "pod group"}


def test_each_arrival_is_a_gang_of_its_own():
    """Two of three gangs fit at a time, so none is there in part; a Job's pods are one, too."""
    given = scenario(
        {"name": "t", "manifest": pod("2"), "each": 2, "at": ["1s", "2s", "3s"], "lifetime": "60s", "podGroup": {}},
        {
            "name": "j",
            "manifest": {"kind": "Job", "spec": {"parallelism": 3, "completions": 3, "template": pod("2")}},
            "at": "200s",
            "lifetime": "60s",
            "podGroup": {"schedulingConstraints": {"topology": [{"key": "kubernetes.io/hostname"}]}},
        },
        groups=[group(count=2, cpu=5)],
        duration=400,
    )
    gates = ("GenericWorkload", "TopologyAwareWorkloadScheduling")
    given["scheduler"] = {"featureGates": dict.fromkeys(gates, True)}
    found = run(given)
    starts = {row.pod.partition("/")[2]: row.placed for row in found.decisions}
    assert [round(starts[f"t-{n}"], 1) for n in range(1, 5)] == [1, 1, 2, 2]
    assert starts["t-5"] == starts["t-6"] > 60
    # A node has room for two of the Job's pods.
    assert {row.end for row in found.decisions if row.workload == "j"} == {"pending"}
    given["workloads"][0]["each"] = 40
    assert run(given).summary.notes[:1] == (
        "t-1 can never run: it needs 80 cpu for 40 pods, nodes and groups allow at most 10",
    )


def test_gangs_need_their_gate(tmp_path):
    found = run_with_files(tmp_path, *gangs(5, gates=False))
    assert found.summary.ends == {"pending": 1, "running": 4}
    assert found.summary.notes == ("gangs are ignored: scheduler.featureGates does not enable GenericWorkload",)


def test_a_pod_that_can_never_fit():
    groups = [group(count=0, autoscale={"min": 0, "max": 2, "boot": "60s"})]
    found = run(scenario({"name": "w", "manifest": pod("5")}, groups=groups, duration=300))
    assert found.summary.notes == ("w can never run: a pod requests 5 cpu, nodes have at most 4",)
    fits = run(scenario({"name": "w", "manifest": pod("4"), "each": 2}, groups=groups, duration=300))
    assert not fits.summary.notes
    assert fits.summary.ends == {"running": 2}, "the autoscaler also adds the first node"
    assert {one.cause for one in fits.summary.causes} == {"no nodes"}


def test_refused_pods_have_a_row():
    # Both create a pod named x-1-1.
    found = run(
        scenario(
            {"name": "x", "manifest": a_workload("Deployment", replicas=1), "at": [0, 1]},
            {"name": "x-1", "manifest": pod(), "at": 2},
            duration=5,
        )
    )
    assert found.summary.ends == {"refused": 1, "running": 2}
    (refused,) = (row for row in found.decisions if row.end == "refused")
    assert (refused.pod, refused.workload) == ("default/x-1-1", "x-1")
    assert "already exists" in refused.message


NOT_THE_FIRST = Reason("NotTheFirst", "not the first")


class OnlyTheFirst(NodeFilterPlugin):
    """An out-of-tree plugin."""

    name = "OnlyTheFirst"

    def filter_node(self, state, pod, node):
        return None if node.name == "a-1" else unschedulable(NOT_THE_FIRST.of())


def test_out_of_tree_plugins():
    given_scenario = scenario({"name": "w", "manifest": pod("3"), "each": 2}, duration=5)
    found = run_with_plugin(OnlyTheFirst, given_scenario)
    assert sorted(row.node for row in found.decisions) == ["", "a-1"]
    assert found.summary.causes[0].cause == "NodeResourcesFit, OnlyTheFirst"


def test_a_plugin_that_hangs_is_interrupted(monkeypatch):
    class Hangs(NodeFilterPlugin):
        name = "Hangs"

        def filter_node(self, state, pod, node):
            while True:
                pass

    monkeypatch.setattr(simulation, "CallGuard", partial(CallGuard, seconds=0.05))
    profile = {"plugins": {"filter": {"enabled": [{"name": "Hangs"}]}}}
    given = scenario({"name": "w", "manifest": pod(), "at": 0}, duration=30)
    found = simulate_scenario(given, config={**_packing(), "profiles": [profile]}, plugins=[Hangs])
    assert [row.node for row in found.decisions] == [""]


def test_omitted_rows_are_reported(tmp_path):
    (tmp_path / "t.csv").write_text("id,at,cpu\na,1,1\nb,,1\nc,3,x\nd,4,1\n")
    trace = {
        "format": "csv",
        "file": "t.csv",
        "name": "id",
        "time": "at",
        "resources": {"cpu": "cpu"},
        "badRows": "skip",
    }
    groups = [{"name": "a", "count": 1, "capacity": {"cpu": 8}}]
    scenario = tmp_path / "s.yaml"
    scenario.write_bytes(
        msgspec.json.encode({"cluster": {"groups": groups}, "workloads": [{"name": "t", "trace": trace}]})
    )
    found = simulate_scenario(scenario).summary
    assert found.arrived == 2
    assert found.notes == ("workload t: 2 rows of the trace left out (badRows: skip)",)


# -- workloads --------------------------------------------------------------------------------------------------------


def test_a_daemon_set_has_a_pod_on_each_node_and_follows_nodes():
    found = run(
        scenario(
            {"name": "d", "manifest": a_workload("DaemonSet", "100m")},
            events=[{"at": 30, "resize": {"group": "a", "count": 3}}, {"at": 60, "resize": {"group": "a", "count": 1}}],
            duration=110,
        )
    )
    assert found.summary.ends == {"node removed": 2, "running": 1}
    assert [row.ended for row in found.decisions if row.node != "a-1"] == [100, 100], "not before the node is missed"
    assert sorted(row.node for row in found.decisions) == ["a-1", "a-2", "a-3"]


# -- events -----------------------------------------------------------------------------------------------------------


def test_a_stateful_sets_pods_keep_their_names_and_claims(tmp_path):
    file = tmp_path / "class.yaml"
    file.write_text(STORAGE_CLASS)
    given_scenario = scenario(
        {"name": "db", "manifest": stateful(cpu="2", replicas=4, podManagementPolicy="Parallel")},
        groups=[group(count=4, cpu=3, zones=["x", "y"])],
        events=[{"at": 100, "drain": {"zone": "x", "then": "uncordon", "for": 200}}],
        duration=600,
    )
    given_scenario["cluster"]["files"] = [str(file)]
    found = run(given_scenario)
    rows = [row for row in found.decisions if row.workload == "db"]
    assert {row.pod for row in rows} == {f"default/db-{index}" for index in range(4)}
    first = {row.pod: row for row in rows if row.end == "drained"}
    again = {row.pod: row for row in rows if row.arrived > 100}
    assert len(first) == 2
    assert first.keys() == again.keys()
    for before, after in zip(first.values(), map(again.get, first), strict=True):
        assert after.arrived > before.ended, "two pods have one name at once"
        # Its volume is in zone x, so it waits until a node of that zone accepts pods again.
        assert after.placed > 300
        assert after.reasons


def moments(found, *, of="placed"):
    """When each pod was placed, or created: of the first per name."""
    rows = sorted(found.decisions, key=lambda row: row.arrived)
    return {row.pod.removeprefix("default/"): getattr(row, of) for row in reversed(rows)}


@pytest.mark.parametrize(
    ("spec", "arrivals"),
    [
        pytest.param({}, [0, 2.1, 4.2], id="one after the other, as each runs"),
        pytest.param({"minReadySeconds": 10}, [0, 12.1, 24.2], id="and has for a while"),
        pytest.param({"podManagementPolicy": "Parallel"}, [0, 0, 0], id="together"),
    ],
)
def test_the_order_of_a_stateful_sets_pods(spec, arrivals):
    found = run(scenario({"name": "db", "manifest": a_workload("StatefulSet", replicas=3, **spec)}, duration=60))
    arrived = moments(found, of="arrived")
    assert [arrived[f"db-{index}"] for index in range(3)] == pytest.approx(arrivals)
    assert found.summary.ends == {"running": 3}


def test_a_stateful_set_waits_for_an_unschedulable_pod():
    found = run(
        scenario(
            {"name": "full", "manifest": pod("4"), "lifetime": 60, "each": 2},
            {"name": "db", "manifest": a_workload("StatefulSet", "3", replicas=2), "at": 5},
            duration=200,
        )
    )
    placed = moments(found)
    assert 60 <= placed["db-0"] < placed["db-1"]
    assert moments(found, of="arrived")["db-1"] == pytest.approx(placed["db-0"] + 2.1)


def test_without_controllers_a_stateful_set_still_starts_in_order():
    found = run(
        scenario(
            {"name": "db", "manifest": a_workload("StatefulSet", replicas=3), "lifetime": 30},
            models={"controllers": False},
            duration=200,
        )
    )
    assert found.summary.ends == {"finished": 3}


def test_immediate_claims_are_bound_before_their_pods_are_placed(tmp_path):
    file = tmp_path / "class.yaml"
    file.write_text(STORAGE_CLASS.replace("WaitForFirstConsumer", "Immediate"))
    given_scenario = scenario(
        {"name": "db", "manifest": stateful(replicas=4, podManagementPolicy="Parallel")},
        groups=[group(count=4, cpu=3, zones=["x", "y"])],
        duration=60,
    )
    given_scenario["cluster"]["files"] = [str(file)]
    found = run(given_scenario)
    rows = sorted(found.decisions, key=lambda row: row.pod)
    assert [row.reasons for row in rows] == [{"VolumeBinding": 1}] * 4
    assert all(1 <= row.placed < 10 for row in rows)
    # a-1 and a-3 are in zone x, the others in y.
    assert sorted(row.node in ("a-1", "a-3") for row in rows) == [False, False, True, True]


@pytest.mark.parametrize(
    ("returns", "ended"),
    [
        pytest.param(30, (180, "finished"), id="before it is noticed"),
        pytest.param(340, (490, "finished"), id="before its pods are evicted"),
        pytest.param(1000, (1100, "node failed"), id="evicted pods are gone when it is back"),
    ],
)
def test_an_outage_lasts_until_the_last_one_ends(returns, ended):
    lengths = {"at": 100, "fail": {"nodes": ["a-1"], "for": returns}}, {"at": 110, "fail": {"nodes": ["a-1"], "for": 5}}
    found = run(
        scenario(
            {"name": "w", "manifest": pod(), "lifetime": 50, "at": 90},
            groups=[group(count=1)],
            events=[*lengths, {"at": 120, "fail": {"nodes": ["a-1"], "for": returns - 20}}],
            models={"startup": 0},
            duration=2000,
        )
    )
    [row] = found.decisions
    assert (row.ended, row.end) == ended


def test_pods_of_a_node_that_never_returns_are_collected():
    found = run(
        scenario(
            {"name": "web", "manifest": a_workload("Deployment", replicas=1)},
            {"name": "job", "manifest": pod(restartPolicy="Never"), "lifetime": "1h"},
            groups=[group(count=1)],
            events=[{"at": 100, "fail": {"nodes": ["a-1"]}}],
            duration=400,
        )
    )
    heartbeat = last_renewal("a-1", 0, 100)
    ended = [row.ended for row in found.decisions if row.end == "node failed"]
    assert ended == [round(heartbeat + 50 + 40, 6)] * 2
    assert found.summary.ends["pending"] == 1


def test_pods_that_do_not_restart_fail_with_their_node():
    found = run(
        scenario(
            {"name": "w", "manifest": pod(restartPolicy="Never"), "lifetime": 100},
            groups=[group(count=1)],
            events=[{"at": 50, "fail": {"nodes": ["a-1"], "for": 20}}],
        )
    )
    assert [(row.ended, row.end) for row in found.decisions] == [(70, "node failed")]


def test_a_node_that_returns_soon_restarts_its_pods():
    found = run(
        scenario(
            {"name": "w", "manifest": pod(), "lifetime": 100},
            groups=[group(count=1)],
            events=[{"at": 50, "fail": {"nodes": ["a-1"], "for": 20}}],
            models={"startup": 0},
        )
    )
    assert [row.ended for row in found.decisions] == [170]


def test_a_failed_zone_gets_no_new_nodes_until_it_is_back():
    found = run(
        scenario(
            {"name": "w", "manifest": pod("4"), "at": 100, "each": 4},
            groups=[group(count=1, zones=["x", "y"], autoscale={"max": 6, "boot": 10})],
            events=[{"at": 30, "outage": {"zone": "x", "for": 2000}}],
            duration=600,
        )
    )
    assert found.summary.ends["running"] == 4
    assert found.series[-1].zones["y"]["cpu"] == 1.0


def drained(tmp_path, spec, kind="Deployment", replicas=4, **more):
    """Node a-1 of two is drained; the budget protects the pods."""
    selector = {"matchLabels": {"app": "web"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {**spec, "selector": selector},
    }
    scaled = {} if kind == "Job" else {"replicas": replicas, "selector": selector}
    web = a_workload(kind, labels={"app": "web"}, **scaled)
    (tmp_path / "budget.json").write_bytes(msgspec.json.encode(budget))
    given_scenario = scenario(
        {"name": "web", "manifest": web, **({"lifetime": "1h"} if kind == "Job" else {})},
        groups=[group(count=2, cpu=4)],
        events=[{"at": 60, "drain": {"nodes": ["a-1"], "then": "remove"}}],
        duration=300,
        **more,
    )
    given_scenario["cluster"]["files"] = [str(tmp_path / "budget.json")]
    return run(given_scenario)


def test_budgets_with_a_share_refer_to_the_scale(tmp_path):
    """Of nine pods that are wanted, eight have room: one is unavailable already."""
    found = drained(tmp_path, {"maxUnavailable": 1}, replicas=9)
    assert found.summary.ends == {"running": 8, "pending": 1}
    assert found.summary.nodes_at_end == 2


def test_jobs_have_no_scale_for_a_budget(tmp_path):
    assert drained(tmp_path, {"maxUnavailable": 4}, kind="Job").summary.ends == {"running": 1}
    assert drained(tmp_path, {"minAvailable": 0}, kind="Job").summary.ends == {"drained": 1, "running": 1}


def test_an_upgrade_replaces_nodes_one_by_one():
    found = run(
        scenario(
            {"name": "web", "manifest": a_workload("Deployment", replicas=4)},
            groups=[group(count=3)],
            events=[{"at": 60, "upgrade": {"group": "a", "takes": "1m"}}],
            duration=900,
        )
    )
    assert min(row.nodes for row in found.series) == 2
    assert found.summary.nodes_at_end == 3
    assert found.summary.ends["running"] == 4
    assert found.summary.ends["upgraded"] >= 4


def test_spot_nodes_are_reclaimed_after_their_notice():
    found = run(
        scenario(
            {"name": "web", "manifest": a_workload("Deployment", replicas=2)},
            events=[{"at": 60, "reclaim": {"nodes": ["a-1"], "notice": 30}}],
            duration=200,
        )
    )
    assert found.summary.ends == {"reclaimed": 1, "running": 2}
    assert found.summary.nodes_at_end == 1


def test_costs_of_nodes():
    found = run(
        scenario(
            {"name": "w", "manifest": pod()},
            groups=[group(count=2, price=3.0)],
            events=[{"at": "30m", "price": {"group": "a", "price": 6}}],
            duration="1h",
        )
    )
    assert found.summary.cost == pytest.approx(2 * (1.5 + 3.0))


def test_events_about_missing_nodes_are_noted():
    found = run(scenario({"name": "w", "manifest": pod()}, events=[{"at": 1, "drain": {"nodes": ["z"]}}], duration=5))
    assert any("node z" in note for note in found.summary.notes)


# -- the autoscaler ---------------------------------------------------------------------------------------------------


def autoscaled(**limits):
    return group(count=1, price=1, autoscale={"min": 1, "max": 5, "boot": "60s", "idle": "5m", **limits})


def test_the_autoscaler_adds_and_removes_nodes():
    found = run(
        scenario({"name": "w", "manifest": pod("2"), "at": 5, "each": 8, "lifetime": "10m"}, groups=[autoscaled()])
    )
    summary = found.summary
    assert (summary.nodes_added, summary.nodes_removed, summary.nodes_most, summary.nodes_at_end) == (3, 3, 4, 1)
    assert summary.ends == {"finished": 8}
    late = [row.placed for row in found.decisions if row.placed > 5]
    assert late == [pytest.approx(70)] * 6, "looked at 10 s, there a minute later"


def test_limits_of_the_autoscaler():
    found = run(
        scenario(
            {"name": "w", "manifest": pod("4"), "each": 9},
            {"name": "big", "manifest": pod("64")},
            groups=[autoscaled()],
            duration="30m",
        )
    )
    assert found.summary.nodes_most == 5
    assert found.summary.ends == {"pending": 5, "running": 5}


def emptied(workload, *more, **options):
    """Two workloads fill three nodes; the larger one ends, and the rest would fit one node."""
    limits = options.pop("limits", {})
    big = {"name": "big", "manifest": a_workload("Deployment", cpu="3", replicas=3)}
    return run(
        scenario(
            big,
            {"name": "left", "manifest": workload},
            groups=[group(count=3, **autoscale(**limits))],
            events=[{"at": 100, "scale": {"workload": "big", "replicas": 0}}, *more],
            duration="40m",
        )
    )


def autoscale(**limits):
    return {"price": 1, "autoscale": {"min": 1, "max": 3, "boot": "60s", "idle": "5m", **limits}}


def test_underused_nodes_are_removed_if_their_pods_fit_elsewhere():
    found = emptied(a_workload("Deployment", replicas=3))
    assert found.summary.nodes_at_end == 1
    assert found.summary.nodes_removed == 2
    moved = [row for row in found.decisions if row.workload == "left" and row.end == "node removed"]
    assert 2 <= len(moved) <= 3
    assert min(row.evicted for row in moved) >= 400, "low since 100, for five minutes"
    running = [row for row in found.decisions if row.end == "running"]
    assert len(running) == 3
    assert len({row.node for row in running}) == 1
    assert all(row.placed - row.arrived < 1 for row in running), "the pods would not have fit"


@pytest.mark.parametrize(
    ("workload", "limits"),
    [
        pytest.param(a_workload("Deployment", replicas=3), {"utilization": 0}, id="switched off"),
        pytest.param(a_workload("Deployment", replicas=3), {"utilization": 0.2}, id="in use enough"),
        pytest.param(a_workload("Deployment", replicas=3), {"min": 3}, id="as few as may be"),
        pytest.param({**pod(), "metadata": {"name": "left"}}, {}, id="pods without controller"),
    ],
)
def test_nodes_that_are_not_removed(workload, limits):
    found = emptied(workload, limits=limits)
    nodes = {row.node for row in found.decisions if row.end == "running"}
    assert found.summary.evictions == 0
    assert found.summary.nodes_at_end >= len(nodes)
    assert not any(row.end == "node removed" for row in found.decisions)


def test_a_node_whose_pods_fit_nowhere_else_is_not_removed():
    """Each pod fits only its own node because of anti-affinity."""
    term = {"labelSelector": {"matchLabels": {"app": "left"}}, "topologyKey": "kubernetes.io/hostname"}
    workload = a_workload("Deployment", replicas=3, labels={"app": "left"}, selector={"matchLabels": {"app": "left"}})
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    workload["spec"]["template"]["spec"]["affinity"] = affinity
    found = emptied(workload)
    assert found.summary.nodes_at_end == 3
    assert found.summary.evictions == 0


def test_the_autoscaler_can_be_disabled():
    found = run(
        scenario(
            {"name": "w", "manifest": pod("4"), "each": 2},
            groups=[autoscaled()],
            models={"autoscaler": False},
            duration=600,
        )
    )
    assert found.summary.nodes_added == 0


# -- from Python ------------------------------------------------------------------------------------------------------


def test_the_public_name():
    assert stowplan_lab.simulate_scenario is simulate_scenario
    assert stowplan_lab.ScenarioError is ScenarioError


def test_stopping_early_keeps_results():
    def stop(progress, simulation):
        if progress.arrived >= 20:
            simulation.stop()

    found = simulate_scenario(
        scenario({"name": "w", "manifest": pod("100m"), "rate": "1/s"}, duration=600), progress=stop
    )
    assert found.summary.interrupted
    assert 20 <= found.summary.arrived < 40
    check_sums(found)


@pytest.mark.parametrize(
    ("workload", "problem"),
    [
        ({"manifest": {"kind": "Deploymnt"}}, "did you mean Deployment"),
        ({"manifest": {"kind": "Deployment"}}, "no pod template"),
        ({"manifest": a_workload("Job")}, "a Job's pods end: give a lifetime"),
        ({"manifest": a_workload("Deployment", replicas="x")}, "w: spec.replicas: expected an integer, got a string"),
        ({"manifest": a_workload("Deployment", replcas=1)}, 'w: unknown field "spec.replcas"; did you mean replicas?'),
        (
            {"manifest": a_workload("StatefulSet", podManagementPolicy="Paralell")},
            "w: spec.podManagementPolicy: Invalid value: .*must be 'OrderedReady' or 'Parallel'",
        ),
        ({"manifest": pod("much")}, "is not a quantity"),
        ({"file": "none.yaml"}, "none.yaml"),
        ({"trace": {"format": "parquet"}}, "no such trace format: 'parquet'"),
    ],
    ids=str,
)
def test_invalid_workloads(workload, problem):
    with pytest.raises(ScenarioError, match=problem):
        simulate_scenario(scenario({"name": "w", **workload}, duration=5))


def test_invalid_groups():
    with pytest.raises(ScenarioError, match=r"a: .*is not a quantity"):
        simulate_scenario(scenario(groups=[{"name": "a", "capacity": {"cpu": "lots"}}]))
