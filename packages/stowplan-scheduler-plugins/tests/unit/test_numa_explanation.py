"""What the cells of a node have of what a pod requests."""

from types import SimpleNamespace

import stowplan
from stowplan.testing import a_pod
from stowplan_scheduler_plugins.node_topologies import Topology
from stowplan_scheduler_plugins.numa_explanation import NumaExplanation
from stowplan_scheduler_plugins.numa_fit import NOT_ALIGNED, STALE
from stowplan_scheduler_plugins.topology_caches import Passthrough


def detail(reason, *cells):
    pod = stowplan.Cluster().pod(a_pod("p").requests({"cpu": "3", "memory": "1Gi"}).obj())
    zones = [
        {
            "name": f"node-{i}",
            "type": "Node",
            "resources": [{"name": name, "available": amount} for name, amount in cell.items()],
        }
        for i, cell in enumerate(cells)
    ]
    inspection = SimpleNamespace(pod=pod, names=["n1"])
    return NumaExplanation(inspection, Passthrough(lambda node: Topology(content={"zones": zones}))).detail(0, reason)


def test_what_cells_have_of_each_requested_resource():
    said = detail(NOT_ALIGNED, {"cpu": "2", "memory": "8Gi"}, {"cpu": "1500m"})
    assert said == "its cells have 2, 1500m cpu and 8192Mi, 0 memory"


def test_a_node_without_cells():
    assert detail(NOT_ALIGNED) == "it has no cells"


def test_a_node_of_which_nothing_is_known():
    assert detail(STALE) == "pods were placed there that its agent has not measured yet"
