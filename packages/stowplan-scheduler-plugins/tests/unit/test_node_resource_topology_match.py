"""NodeResourceTopologyMatch on a node with two NUMA cells."""

import pytest

import stowplan
from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.numa_placements import METADATA
from stowplan_scheduler_plugins.pod_fingerprints import ATTRIBUTE, fingerprint

DEVICE = "example.com/gpu"


def config(**args):
    plugins = {"multiPoint": {"enabled": [{"name": "NodeResourceTopologyMatch"}]}}
    entry = {"name": "NodeResourceTopologyMatch", "args": args}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins, "pluginConfig": [entry]}],
    }


def topology(policy="SingleNUMANodeContainerLevel", cells=({"cpu": "4", "memory": "8Gi", DEVICE: "1"},) * 2):
    zones = [
        {
            "name": f"node-{i}",
            "type": "Node",
            "resources": [{"name": name, "available": amount} for name, amount in cell.items()],
            "costs": [{"name": f"node-{j}", "value": 10 if i == j else 20} for j in range(len(cells))],
        }
        for i, cell in enumerate(cells)
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"},
        "topologyPolicies": [policy],
        "zones": zones,
    }


def cluster(nrt=None, **args):
    node = a_node("n1").allocatable({"cpu": "8", "memory": "16Gi", DEVICE: "2"}).obj()
    return stowplan.Cluster([node, topology() if nrt is None else nrt], config=config(**args))


def guaranteed(name, *containers):
    made = [{"name": f"c{i}", "resources": {"requests": one, "limits": one}} for i, one in enumerate(containers)]
    return a_pod(name).spec(containers=made).obj()


def reasons(found, pod):
    rejected = found.explain(pod).to_dict().get("rejected")
    return rejected["n1"]["reasons"] if rejected else []


FOUR = {"cpu": "4", "memory": "1Gi"}
FIVE = {"cpu": "5", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("policy", "containers", "refused"),
    [
        pytest.param("SingleNUMANodeContainerLevel", [FOUR, FOUR], [], id="a cell for each container"),
        pytest.param("SingleNUMANodePodLevel", [FOUR, FOUR], ["cannot align pod"], id="a cell for the pod"),
        pytest.param("SingleNUMANodeContainerLevel", [FIVE], ["cannot align container"], id="too large for a cell"),
        pytest.param("RestrictedContainerLevel", [FIVE], [], id="another policy refuses nothing"),
    ],
)
def test_a_pod_has_to_be_aligned(policy, containers, refused):
    assert reasons(cluster(topology(policy)), guaranteed("p", *containers)) == refused


def test_devices_have_to_be_aligned_for_any_pod():
    pod = a_pod("p").requests({DEVICE: "2"}).obj()
    assert reasons(cluster(), pod) == ["cannot align container"]


def test_without_a_topology_nothing_is_refused():
    node = a_node("n1").allocatable({"cpu": "8", "memory": "16Gi"}).obj()
    assert reasons(stowplan.Cluster([node], config=config()), guaranteed("p", FIVE)) == []


def test_what_was_placed_is_taken_off_every_cell():
    found = cluster(cacheResyncPeriodSeconds=60)
    [first, second] = found.schedule([guaranteed("a", {"cpu": "3", "memory": "1Gi"}), guaranteed("b", FOUR)])
    assert (first.node_name, second.node_name) == ("n1", "")


def test_a_placement_that_is_undone_is_not_counted():
    found = cluster(cacheResyncPeriodSeconds=60)
    with found.transaction():
        found.schedule([guaranteed("a", FOUR)])
        assert reasons(found, guaranteed("b", FOUR)) == ["cannot align container"]
    assert reasons(found, guaranteed("b", FOUR)) == []


def test_a_pod_of_another_scheduler_makes_the_node_unknown():
    found = cluster(cacheResyncPeriodSeconds=60)
    found.add(a_pod("foreign").scheduler("other").on("n1").obj())
    assert reasons(found, guaranteed("p", FOUR)) == ["invalid node topology data"]


@pytest.mark.parametrize(("cpu", "points"), [("4", 94), ("5", 82)], ids=["one cell", "both"])
def test_the_fewest_cells_score_best(cpu, points):
    found = cluster(topology("RestrictedPodLevel"), scoringStrategy={"type": "LeastNUMANodes"})
    scores = found.explain(guaranteed("p", {"cpu": cpu, "memory": "1Gi"})).to_dict()["scores"]
    assert scores["n1"]["NodeResourceTopologyMatch"] == points


def with_placements(pods, *, cells, allocatable="4"):
    """What an agent publishes once it has seen the pods: what is left in each cell, and that the first one has them."""
    found = topology(cells=cells)
    for zone in found["zones"]:
        for resource in zone["resources"]:
            resource["allocatable"] = allocatable if resource["name"] == "cpu" else "8Gi"
    placed = {
        ATTRIBUTE: fingerprint(("default", name) for name in pods),
        METADATA: f"npv0v001::ve=leb89::cc={len(pods)}::nn=2::bn=0",
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "container",
    }
    return found | {"attributes": [{"name": name, "value": value} for name, value in placed.items()]}


FULL = {"cpu": "0", "memory": "7Gi"}


@pytest.mark.parametrize(
    ("mode", "allocatable", "victims"),
    [
        pytest.param("Enabled", "4", ["default/victim"], id="the cell is free again"),
        pytest.param("Enabled", "3", [], id="more would be free than the cell has"),
        pytest.param("Disabled", "4", [], id="what victims free is not counted"),
    ],
)
def test_victims_free_their_cells(mode, allocatable, victims):
    found = cluster(cacheResyncPeriodSeconds=5, preemptionMode=mode)
    victim = guaranteed("victim", FOUR)
    victim["spec"]["nodeName"] = "n1"
    victim["status"] = {"phase": "Running"}
    found.add(victim)
    important = guaranteed("important", FOUR)
    important["spec"]["priority"] = 10
    # The first decision finds the node out of date: the others compare what is known with what the agent says.
    found.now = 10
    found.add(with_placements(["victim"], cells=(FULL, {"cpu": "3", "memory": "8Gi"}), allocatable=allocatable))
    found.add(a_pod("other").scheduler("other").on("n1").obj())
    assert reasons(found, important) == ["invalid node topology data"]
    found.remove(a_pod("other").obj())
    found.now = 20
    preemption = found.explain(important).preemption
    assert [one.key for found in preemption.candidates.values() for one in found.victims] == victims
