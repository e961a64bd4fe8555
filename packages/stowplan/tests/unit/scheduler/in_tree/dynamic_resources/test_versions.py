"""What changed for devices with 1.37, without a gate, through the whole scheduler."""

import pytest

from stowplan import Cluster
from stowplan.kube.api.types import ResourceClaim
from stowplan.testing import a_node, a_pod
from support.plugins.devices import a_claim, a_class, a_device, a_slice, a_taint_rule, allocation, everything, exactly

COUNTERS = {"set": {"slots": "1"}}
POD = a_pod("p").claims_devices("c").obj()


def verdict(version, *objects, claim):
    nodes = [a_node(name).allocatable({"cpu": 4, "pods": 10}).obj() for name in ("a", "b")]
    cluster = Cluster([*nodes, a_class(), *objects, claim, POD], emulated_version=version)
    return cluster.explain("default/p").to_dict()


def test_unfinished_counters_of_another_node_do_not_matter():
    """A pool of a third node, of which only the counters are published; all devices of node b are asked for."""
    slices = [
        a_slice("counters", pool="p", count=2, nodeName="elsewhere", counters=COUNTERS),
        a_slice("b", a_device("d"), nodeName="b"),
    ]
    claim = a_claim("c", everything())
    assert "asks for all devices" in verdict("1.36", *slices, claim=claim)["error"]
    assert verdict("1.37", *slices, claim=claim)["feasible"] == ["b"]


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_devices_consume_counters_of_a_slice_beside_theirs(version):
    slices = [
        a_slice("counters", pool="p", count=3, allNodes=True, counters=COUNTERS),
        a_slice("of-a", a_device("a0", consumes={"set": {"slots": "1"}}), pool="p", count=3, nodeName="a"),
        a_slice("of-b", a_device("b0", consumes={"set": {"slots": "2"}}), pool="p", count=3, nodeName="b"),
    ]
    assert verdict(version, *slices, claim=a_claim("c", exactly()))["feasible"] == ["a"]


def test_counters_that_devices_of_another_node_use():
    """partitionable-devices-devices-consume-counter-set-in-different-nodes of upstream's allocator_testing.go, 1.37."""
    d1, d2, d3 = (
        a_device(name, consumes={"set": {"slots": slots}}) for name, slots in (("d1", "6"), ("d2", "6"), ("d3", "2"))
    )
    slices = [
        a_slice("s1", pool="p", count=3, nodeName="a", counters={"set": {"slots": "8"}}),
        a_slice("s2", d1, pool="p", count=3, nodeName="a"),
        a_slice("s3", d2, d3, pool="p", count=3, nodeName="b"),
    ]
    taken = a_claim("taken", exactly(), status=allocation("d1"))
    nodes = [a_node(name).allocatable({"cpu": 4, "pods": 10}).obj() for name in ("a", "b")]
    cluster = Cluster([*nodes, a_class(), *slices, taken, a_claim("c", exactly()), POD])
    assert [decision.node_name for decision in cluster.schedule()] == ["b"]
    claim = cluster.state.objects.get(ResourceClaim, "default/c")
    (result,) = claim.status.allocation.devices.results
    assert result.device == "d3"


def test_taint_rules_apply_by_default_since_1_37():
    slices = [a_slice(name, a_device("d"), nodeName=name) for name in ("a", "b")]
    rule = a_taint_rule(pool="a")
    assert verdict("1.36", *slices, rule, claim=a_claim("c", exactly()))["feasible"] == ["a", "b"]
    assert verdict("1.37", *slices, rule, claim=a_claim("c", exactly()))["feasible"] == ["b"]
