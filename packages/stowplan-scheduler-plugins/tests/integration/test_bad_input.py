"""Many groups, and NUMA zones that contradict each other: bounded work, and an answer for every node."""

import asyncio

import pytest
import yaml

import stowplan
from stowplan.controllers import Runner
from stowplan.kube.timing.times import ManualTime, settle
from stowplan.testing import a_node, a_pod
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from stowplan_scheduler_plugins.controller import PodGroupController
from stowplan_scheduler_plugins.kinds import LABEL
from support.api.embedded import Api, pod
from support.paths import ROOT

DEFINITION = ROOT / "deploy" / "manifests" / "scheduler-plugins" / "crds" / "podgroups.yaml"
GROUPS = "podgroups.scheduling.x-k8s.io"


class Counting(PodGroupController):
    calls = 0

    def reconcile(self, key, objects, now):
        self.calls += 1
        return super().reconcile(key, objects, now)


async def test_work_grows_with_the_number_of_groups_alone():
    api, controller, count = Api(), Counting(), 300
    api.create("customresourcedefinitions.apiextensions.k8s.io", yaml.safe_load(DEFINITION.read_text()))
    for i in range(count):
        api.create(GROUPS, {"metadata": {"name": f"g{i}", "namespace": "default"}, "spec": {"minMember": 1}})
        api.create("pods", pod(f"p{i}", labels={LABEL: f"g{i}"}))
    runner = Runner(EmbeddedApi(api.server), [controller], times=ManualTime())
    task = asyncio.create_task(runner.run())
    await runner.synced.wait()
    while not runner.idle:
        await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert {api.get(GROUPS, "default", f"g{i}")["status"]["phase"] for i in range(count)} == {"Scheduling"}
    # Pending, Scheduling, counters, and one that finds nothing to do.
    assert controller.calls <= 4 * count


def zone(name, cpu, **fields):
    resources = [{"name": "cpu", "capacity": cpu, "allocatable": cpu, "available": cpu}]
    return {"name": name, "type": "Node", "resources": resources, **fields}


@pytest.mark.parametrize(
    "zones",
    [
        pytest.param([zone("node-0", "4"), zone("node-0", "1")], id="twice the same"),
        pytest.param([zone("node-0", "-4")], id="negative"),
        pytest.param([zone("node-64", "4"), zone("node-99", "4"), zone("numa", "4")], id="no cells"),
        pytest.param([zone("node-3", "9000000000000000000")], id="too much"),
        pytest.param([zone("node-0", "4", parent="node-1"), zone("node-1", "4", parent="node-0")], id="circle"),
        pytest.param([], id="none"),
    ],
)
def test_zones_that_contradict_each_other_give_an_answer(zones):
    topology = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"},
        "topologyPolicies": ["SingleNUMANodeContainerLevel"],
        "zones": zones,
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "NodeResourceTopologyMatch"}]}}}],
    }
    nodes = [a_node(name).allocatable(cpu="8", memory="8Gi", pods="10").obj() for name in ("n1", "n2")]
    wants = a_pod("p").requests(cpu="2", memory="1Gi").limits(cpu="2", memory="1Gi").obj()
    verdict = stowplan.Cluster([*nodes, topology], config=config).explain(wants).to_dict()
    assert set(verdict["scores"]) | set(verdict["rejected"]) == {"n1", "n2"}
    reasons = (verdict["rejected"].get("n1") or {}).get("reasons", [])
    assert reasons in ([], ["cannot align container"])
