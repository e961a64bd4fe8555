"""TopologyPlacementGenerator: upstream's table, TestGeneratePlacements of topology_placement_test.go, all 8 cases.

They are those of 1.36; no newer text was found.
"""

import pytest

from stowplan.kube.config.features import group_gates
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.interface import Placement, PodGroupInfo
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.in_tree.topology_placement_generator.plugin import TopologyPlacementGenerator
from stowplan.testing import a_node, a_pod
from support.scheduling.groups import a_group

MIXED = {"n0": ("t2", "d1"), "n1": ("t2", "d4"), "n2": ("t", "d1"), "n3": ("t", "d2"), "n4": ("t", "d1"),
         "n5": ("t", "d3")}  # fmt: skip
TWO = {"n0": ("t", "d2"), "n1": ("t", "d1")}
D1 = {"n2": ("t", "d1"), "n3": ("t", "d1")}
#: Nodes with the group's pods -> the domains, or None for an error.
CASES = {
    "no constraint": (None, {"n1": None, "n2": ("t", "x")}, {"n3": None}, (), {"parent": ["n1", "n2"]}),
    "domains": ("t", MIXED, {}, (), {"d1": ["n2", "n4"], "d2": ["n3"], "d3": ["n5"]}),
    "no node has the label": ("t3", MIXED, {}, (), {}),
    "pods in one domain": ("t", TWO, D1, ("n2", "n3"), {"d1": ["n1"]}),
    "their domain is elsewhere": ("t", {"n0": ("t", "d2")}, D1, ("n2", "n3"), {}),
    "pods in two domains": ("t", TWO, {"n2": ("t", "d0"), "n3": ("t", "d1")}, ("n2", "n3"), None),
    "a pod on an unknown node": ("t", TWO, D1, ("n2", "n4"), None),
    "a pod on a node without the label": ("t", {"n1": ("t", "d2")}, {"n2": ("foo", "bar")}, ("n2",), None),
}


@pytest.mark.parametrize("version", [V1_36, V1_37], ids=str)
@pytest.mark.parametrize(("key", "within", "others", "placed", "expected"), CASES.values(), ids=CASES)
def test_generate_placements(bench, key, within, others, placed, expected, version):
    nodes = [a_node(name).labels(dict([label] if label else [])) for name, label in {**within, **others}.items()]
    member = {"schedulingGroup": {"podGroupName": "g"}}
    pods = [a_pod(f"p{i}").uid(f"p{i}").on(name).spec(**member) for i, name in enumerate(placed)]
    objects = (*nodes, a_group("g", topology=key), *pods)
    world = bench(TopologyPlacementGenerator, *objects, version=version, **group_gates(version))
    world.state.pending.put(world.pod(a_pod("waits").spec(**member)))
    group = PodGroupInfo(namespace="default", name="g")
    found = world.plugin.generate_placements(CycleState(), group, Placement(world.nodes(*within), "parent"))
    assert isinstance(found, Status) == (expected is None)
    if expected is not None:
        assert {placement.name: placement.nodes.names() for placement in found} == expected
