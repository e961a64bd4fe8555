"""Many groups, and NUMA zones that contradict each other: bounded work, and an answer for every node."""

import asyncio

import pytest
import yaml

import stowplan
from stowplan.controllers import Runner
from stowplan.kube.timing.times import ManualTime, settle
from stowplan.scheduler.inspection.queue_state import quota_records
from stowplan.testing import a_node, a_pod
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from stowplan_scheduler_plugins.controller import PodGroupController
from stowplan_scheduler_plugins.elastic_quotas import Quota
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


def custom(kind, namespace, name, **spec):
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("whole", [False, True])
def test_ten_thousand_groups_and_quotas_that_overlap(whole, monkeypatch):
    """Each quota is read once. Takes seconds, as there are 30,000 objects."""
    count, read, of = 10_000, [], Quota.of

    def counted(namespace, *args):
        read.append(namespace)
        return of(namespace, *args)

    monkeypatch.setattr(Quota, "of", counted)
    plugins = {
        "multiPoint": {"enabled": [{"name": "Coscheduling"}, {"name": "CapacityScheduling"}]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    }
    args = {"name": "Coscheduling", "args": {"wholeGroups": whole}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins, "pluginConfig": [args]}],
    }
    cluster = stowplan.Cluster([a_node("n1").allocatable(cpu="8", memory="64Gi", pods="110").obj()], config=config)
    for i in range(count):
        cluster.add(custom("PodGroup", f"team-{i}", "gang", minMember=2**63 if i % 2 else 2))
        for name in ("first", "second"):
            cluster.add(custom("ElasticQuota", f"team-{i}", name, min={"cpu": "2", "memory": "1Ki"}, max={"cpu": "1"}))
    for i in range(10):
        for name in "ab":
            cluster.add(a_pod(name, f"team-{i}").labels({LABEL: "gang"}).requests(cpu="500m").obj())
    found = {decision.pod.key: decision for decision in cluster.schedule()}
    assert [bool(found[f"team-{i}/a"].node_name) for i in range(4)] == [True, False, True, False]
    short = "minCount pods" if whole else "current pods number: 2, minMember of group: 9223372036854775808"
    assert short in found["team-1/a"].message
    assert len(read) == count
    assert {use.least for use in quota_records(cluster.engine.frameworks.values()) if use.resource == "cpu"} == {2000}
