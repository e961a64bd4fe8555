"""Rolling updates: the number of pods over time, their order, and templates that do not fit."""

from __future__ import annotations

import pytest

from stowplan_lab.simulation.scenario_errors import ScenarioError
from stowplan_lab.simulation.simulate import simulate_scenario
from support.scenarios.manifests import a_workload, container, group, pod, scenario
from support.scenarios.witness import run, witnessed

WEB = {"selector": {"matchLabels": {"app": "web"}}, "labels": {"app": "web"}}
DELAY, STARTUP = 0.1, 2


def to(cpu, **spec):
    """A patch of the pods' size."""
    return {"spec": {**spec, "template": {"spec": {"containers": [container(cpu)]}}}}


def rollout(at=10, workload="web", **more):
    return {"at": at, "rollout": {"workload": workload, **more}}


def rolled(kind, *events, replicas=4, groups=None, **spec):
    """The simulation of one workload with a rollout."""
    given_scenario = scenario(
        {
            "name": "web",
            "manifest": a_workload(kind, **({} if kind == "DaemonSet" else {"replicas": replicas}), **spec),
        },
        groups=groups or [group(count=4, cpu=8)],
        events=list(events),
        duration=300,
    )
    return run(given_scenario)


def present(found, at):
    """Rows of pods created by then and not terminating."""
    return [row for row in found.decisions if row.arrived <= at and (row.evicted is None or row.evicted > at)]


def changes(found):
    """Times right after each change."""
    return sorted({one + 1e-6 for row in found.decisions for one in (row.arrived, row.evicted) if one is not None})


class TestDeployments:
    def test_without_a_rollout_the_pods_have_the_hash_that_is_in_the_name_of_their_replica_set(self):
        of_web = {"name": "web", "manifest": a_workload("Deployment", **WEB)}
        _, witness = witnessed(scenario(of_web, groups=[group(count=1, cpu=8)], duration=10))
        found = [(one.controller.kind, one.controller.name, one.pod.metadata.labels) for one in witness.pods.values()]
        assert found == [("ReplicaSet", "web-0", {"app": "web", "pod-template-hash": "0"})]

    def test_an_unschedulable_template_stops_at_max_unavailable(self):
        found = rolled("Deployment", rollout(patch=to("64")), **WEB)
        assert found.summary.ends == {"running": 3, "updated": 1, "pending": 2}

    def test_a_rollback_keeps_pods_that_were_not_replaced(self):
        back = rollout(at=100, patch=to("1"))
        found = rolled("Deployment", rollout(patch=to("64")), back, **WEB)
        assert found.summary.ends == {"running": 4, "updated": 3}
        kept = [row for row in found.decisions if row.end == "running" and row.arrived == 0]
        assert len(kept) == 3

    def test_recreate_waits_until_the_old_pods_are_gone(self):
        found = rolled("Deployment", rollout(patch=to("2")), **WEB, strategy={"type": "Recreate"})
        old = [row for row in found.decisions if row.end == "updated"]
        new = [row for row in found.decisions if row.end == "running"]
        assert len(old) == len(new) == 4
        assert min(row.arrived for row in new) >= max(row.ended for row in old) > 10

    def test_without_a_patch_pods_are_recreated(self):
        found = rolled("Deployment", rollout(), rollout(at=100), **WEB)
        assert found.summary.ends == {"running": 4, "updated": 8}

    def test_pods_that_are_lost_during_a_rollout(self):
        drain = {"at": 11, "drain": {"nodes": ["a-1"], "then": "uncordon", "for": 50}}
        found = rolled("Deployment", rollout(patch=to("2")), drain, **WEB)
        assert found.summary.ends["running"] == 4
        assert all(row.arrived >= 10 for row in found.decisions if row.end == "running")


class TestStatefulSets:
    def updated(self, found):
        """Names, in order of their deletion."""
        rows = sorted((row for row in found.decisions if row.end == "updated"), key=lambda row: row.evicted)
        return [row.pod.removeprefix("default/web-") for row in rows]

    def test_partitions(self):
        canary = to("2", updateStrategy={"rollingUpdate": {"partition": 2}})
        found = rolled("StatefulSet", rollout(at=50, patch=canary))
        assert self.updated(found) == ["3", "2"]
        found = rolled("StatefulSet", rollout(at=50, patch=canary), rollout(at=150, patch=to("2")))
        assert self.updated(found) == ["3", "2", "1", "0"]

    def test_pods_below_the_partition_use_the_old_template(self):
        fits_nowhere = to("64", updateStrategy={"rollingUpdate": {"partition": 2}})
        found = rolled(
            "StatefulSet",
            rollout(at=50, patch=fits_nowhere),
            {"at": 100, "fail": {}},
            groups=[group(count=4, cpu=8), group("late", count=0, cpu=8)],
            podManagementPolicy="Parallel",
        )
        assert self.updated(found) == ["3"]
        again = {row.pod: row.end for row in found.decisions if row.arrived > 100}
        assert again.keys() >= {"default/web-0", "default/web-1"}

    def test_max_unavailable(self):
        spec = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}
        found = rolled("StatefulSet", rollout(at=50, patch=to("2", **spec)), podManagementPolicy="Parallel")
        evicted = sorted(row.evicted for row in found.decisions if row.end == "updated")
        assert evicted[0] == evicted[1] == 50 < evicted[2]


class TestDaemonSets:
    def test_new_nodes_get_the_new_pod(self):
        more = {"at": 51, "resize": {"group": "a", "count": 6}}
        found = rolled("DaemonSet", rollout(at=50, patch=to("2")), more)
        assert found.summary.ends == {"running": 6, "updated": 4}


@pytest.mark.parametrize(
    ("kind", "spec", "event", "problem"),
    [
        ("Deployment", {}, rollout(workload="wb"), "there is no workload 'wb'; there are web"),
        (
            "Deployment",
            {},
            rollout(patch={"spec": {"replicas": 3}}),
            "changes spec.template, .* not spec.replicas",
        ),
        ("Deployment", {}, rollout(patch={"metadata": {}}), "not metadata|not spec and metadata"),
        ("Deployment", {}, rollout(patch=to("much")), r"events\[0\].rollout.patch: workloads: web: .*much"),
        ("ReplicaSet", {}, rollout(), "workload 'web' is a ReplicaSet; want one of Deployment, StatefulSet, DaemonSet"),
        ("DaemonSet", {}, {"scale": {"workload": "web", "replicas": 1}}, "workload 'web' is a DaemonSet; want one of"),
        (
            "Deployment",
            {},
            rollout(patch={"spec": {"strategy": {"type": "Recrate"}}}),
            r"events\[0\].rollout.patch: workloads: web: spec.strategy: Unsupported value: .*Recrate",
        ),
    ],
)
def test_invalid_rollouts(kind, spec, event, problem):
    with pytest.raises(ScenarioError, match=problem):
        rolled(kind, event, **spec)


def test_without_controllers_there_is_no_rollout():
    given_scenario = scenario(
        {"name": "web", "manifest": a_workload("Deployment")}, events=[rollout()], models={"controllers": False}
    )
    with pytest.raises(ScenarioError, match="controllers do it"):
        simulate_scenario(given_scenario)


class TestNodesOfDaemonSets:
    def test_only_eligible_nodes_get_a_pod(self):
        found = run(
            scenario(
                {"name": "d", "manifest": {"kind": "DaemonSet", "spec": {"template": self.template()}}},
                groups=[group("plain"), group("gpu", labels={"gpu": "yes"}), group("own", **self.tainted())],
                duration=60,
            )
        )
        assert sorted(row.node for row in found.decisions) == ["gpu-1", "gpu-2"]

    def template(self):
        return {"spec": {"containers": [container("100m")], "nodeSelector": {"gpu": "yes"}}}

    def tainted(self):
        return {"labels": {"gpu": "yes"}, "taints": [{"key": "team", "value": "ml"}]}

    def test_a_preempted_pod_is_recreated_when_it_is_gone(self):
        found = run(
            scenario(
                {"name": "d", "manifest": a_workload("DaemonSet", "500m")},
                {"name": "big", "manifest": pod("1", priority=10), "at": 20, "lifetime": 30},
                groups=[group(count=1, cpu=1)],
                duration=200,
            )
        )
        rows = sorted((row for row in found.decisions if row.workload == "d"), key=lambda row: row.arrived)
        assert [row.end for row in rows] == ["preempted", "running"]
        assert rows[0].ended <= rows[1].arrived < 30
        assert rows[1].placed > 50
