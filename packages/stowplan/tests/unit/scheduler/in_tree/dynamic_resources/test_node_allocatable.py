"""Devices that provide cpu, memory or huge pages of their node (DRANodeAllocatableResources)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan import Cluster
from stowplan.kube.api.types import ResourceClaim
from stowplan.testing import a_node, a_pod
from support.examples import times
from support.plugins.devices import a_claim, a_class, a_device, a_slice, allocation, exactly

GATE = {"DRANodeAllocatableResources": True}


def mapped(name="d0", *, shareable=False, capacity=None, **mappings):
    """A device that provides resources of its node: `cpu="2"`, or `memory=("size", "2")` for twice a capacity."""
    found = {}
    for resource, what in mappings.items():
        key, multiplier = what if isinstance(what, tuple) else (None, what)
        entry = {"capacityKey": key, "allocationMultiplier": multiplier}
        found[resource] = {name: value for name, value in entry.items() if value is not None}
    flags = {"allowMultipleAllocations": True} if shareable else {}
    return a_device(name, capacity=capacity, nodeAllocatableResourceMappings=found, **flags)


def node(name="n0", **allocatable):
    return a_node(name).allocatable(**{"cpu": 4, "memory": "8Gi", "pods": 10, **allocatable}).obj()


def user(name="p", *claims, uses=None, **requests):
    pod = a_pod(name).claims_devices(*claims).requests(**requests).obj()
    container = pod["spec"]["containers"][0]
    entries = [entry["name"] for entry in pod["spec"]["resourceClaims"]]
    container["resources"]["claims"] = [{"name": entry} for entry in (entries if uses is None else uses)]
    return pod


def cluster_of(*objects, gates=GATE, version="1.36"):
    """With the fields of 1.36."""
    return Cluster([a_class(), *objects], feature_gates=gates, emulated_version=version)


def reported(cluster):
    return {
        info.name: [(s.resource_claim_name, s.containers, s.resources) for s in _statuses(info)]
        for info in cluster.state.placed_pods()
    }


def _statuses(info):
    return info.pod.status.node_allocatable_resource_claim_statuses


def used(cluster, resource, name="n0"):
    table = cluster.state.table
    return int(table.requested[table.resources[resource], table.row_of[name]])


def test_resources_of_devices_are_counted_and_reported():
    objects = node(), a_slice("n0", mapped(cpu="2", memory="1Gi"), nodeName="n0")
    cluster = cluster_of(*objects, a_claim("c", exactly()), user("p", "c", cpu=1))
    (decision,) = cluster.schedule()
    assert decision.node_name == "n0"
    assert reported(cluster) == {"p": [("c", ("main",), {"cpu": "2", "memory": "1Gi"})]}
    assert used(cluster, "cpu") == 3000


def test_without_the_gate_nothing_is_counted():
    objects = node(), a_slice("n0", mapped(cpu="9"), nodeName="n0")
    cluster = cluster_of(*objects, a_claim("c", exactly()), user("p", "c", cpu=1), gates={})
    (decision,) = cluster.schedule()
    assert decision.node_name == "n0"
    assert reported(cluster) == {"p": []}
    assert used(cluster, "cpu") == 1000


@pytest.mark.parametrize(
    ("device", "requests", "message"),
    [
        (mapped(cpu="3500m"), {"cpu": 1}, "1 Insufficient cpu"),
        (mapped(memory="9Gi"), {"cpu": 1}, "1 Insufficient memory"),
        (mapped(cpu="5", memory="9Gi"), {}, "1 Insufficient cpu, 1 Insufficient memory"),
        (mapped(**{"hugepages-2Mi": "4Mi"}), {}, "1 Insufficient hugepages-2Mi"),
    ],
)
def test_a_node_with_too_little_left_is_refused(device, requests, message):
    objects = node(), a_slice("n0", device, nodeName="n0")
    (decision,) = cluster_of(*objects, a_claim("c", exactly()), user("p", "c", **requests)).schedule()
    assert message in decision.message


def test_preemption_resolves_only_some_shortages():
    objects = node(), a_slice("n0", mapped(cpu="3"), nodeName="n0"), a_pod("other").on("n0").requests(cpu=2).obj()
    (decision,) = cluster_of(*objects, a_claim("c", exactly()), user("p", "c")).schedule()
    assert decision.message.endswith(
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    objects = node(), a_slice("n0", mapped(cpu="5"), nodeName="n0")
    (decision,) = cluster_of(*objects, a_claim("c", exactly()), user("p", "c")).schedule()
    assert decision.message.endswith("preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.")


def test_a_claim_unused_by_containers_is_refused():
    objects = node(), a_slice("n0", mapped(cpu="1"), nodeName="n0")
    (decision,) = cluster_of(*objects, a_claim("c", exactly()), user("p", "c", uses=[])).schedule()
    assert "claim c: node-allocatable resource claim not referenced by any container within the pod" in decision.message


@pytest.mark.parametrize(("cpu", "fits"), [("2", False), ("3", True)])
def test_pod_level_requests_must_cover_it(cpu, fits):
    pod = user("p", "c", cpu=1)
    pod["spec"]["resources"] = {"requests": {"cpu": cpu}}
    objects = node(), a_slice("n0", mapped(cpu="2"), nodeName="n0")
    cluster = cluster_of(*objects, a_claim("c", exactly()), pod)
    (decision,) = cluster.schedule()
    assert (decision.node_name == "n0") is fits
    if not fits:
        assert "pod level request for cpu is insufficient to cover" in decision.message


def test_a_share_of_a_capacity_counts_by_what_is_consumed():
    device = mapped(shareable=True, capacity={"size": "4"}, cpu=("size", "500m"))
    claims = [a_claim(f"c{i}", exactly(capacity={"requests": {"size": str(i + 1)}})) for i in range(2)]
    cluster = cluster_of(
        node(), a_slice("n0", device, nodeName="n0"), *claims, *(user(f"p{i}", f"c{i}") for i in range(2))
    )
    cluster.schedule()
    assert reported(cluster) == {
        "p0": [("c0", ("main",), {"cpu": "500m"})],
        "p1": [("c1", ("main",), {"cpu": "1"})],
    }


def test_an_unconsumed_capacity_is_an_error():
    device = mapped(capacity={"size": "4"}, cpu=("size", None))
    objects = node(), a_slice("n0", device, nodeName="n0")
    (decision,) = cluster_of(*objects, a_claim("c", exactly()), user("p", "c")).schedule()
    assert "claim default/c, device d0: ConsumedCapacity is nil, but Capacity key 'size' is set" in decision.message


def test_a_claim_is_for_one_pod_per_node():
    held = user("q", "c")
    held["spec"]["nodeName"] = "n0"
    held["metadata"]["uid"] = "q-uid"
    held["status"] = {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c", "containers": ["main"]}]}
    status = {**allocation("d0", pool="n0"), "reservedFor": [{"resource": "pods", "name": "q", "uid": "q-uid"}]}
    objects = node(), a_slice("n0", mapped(cpu="1"), nodeName="n0"), held
    (decision,) = cluster_of(*objects, a_claim("c", exactly(), status=status), user("p", "c")).schedule()
    assert "1 node allocatable resource claim c is already used by another pod" in decision.message


amounts = st.integers(0, 5)


@settings(max_examples=times(60))
@given(
    st.lists(st.tuples(amounts, amounts), min_size=1, max_size=3),
    st.lists(st.tuples(amounts, amounts), min_size=1, max_size=5),
)
def test_placements_agree_with_the_plain_rule(nodes, pods):
    """The plain rule: a pod is scheduled where its request and its device's cpu fit; nothing is allocated twice."""
    objects = []
    for n, (allocatable, stands_for) in enumerate(nodes):
        objects.append(a_node(f"n{n}").allocatable(cpu=allocatable, pods=10).obj())
        devices = [mapped(f"d{i}", cpu=str(stands_for)) for i in range(2)]
        objects.append(a_slice(f"n{n}", *devices, nodeName=f"n{n}"))
    for i, (request, _) in enumerate(pods):
        objects += [a_claim(f"c{i}", exactly()), user(f"p{i}", f"c{i}", cpu=request)]
    cluster = cluster_of(*objects)
    decisions = {decision.pod.name: decision for decision in cluster.schedule()}
    left = [allocatable for allocatable, _ in nodes]
    free = [2] * len(nodes)
    for i, (request, _) in enumerate(pods):
        fitting = [n for n, (_, more) in enumerate(nodes) if free[n] and request + more <= left[n]]
        chosen = decisions[f"p{i}"].node_name
        assert bool(chosen) is bool(fitting)
        if chosen:
            n = int(chosen[1:])
            assert n in fitting
            left[n] -= request + nodes[n][1]
            free[n] -= 1
    for n, (allocatable, _) in enumerate(nodes):
        assert used(cluster, "cpu", f"n{n}") == (allocatable - left[n]) * 1000
    booked = [
        (result.pool, result.device)
        for claim in cluster.state.objects.all(ResourceClaim)
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    ]
    assert len(booked) == len(set(booked))


# -- since 1.37 -------------------------------------------------------------------------------------------------------


def taking(name="d0", *, capacity=None, **resources):
    return a_device(name, capacity=capacity, nodeAllocatableResources=resources)


def status_since_1_37(*devices, count=1, uses=None, more=None):
    slices = a_slice("n0", *devices, nodeName="n0")
    claim = a_claim("c", exactly(count=count, **(more or {})))
    cluster = cluster_of(node(), slices, claim, user("p", "c", cpu=1, uses=uses), version="1.37")
    (decision,) = cluster.schedule()
    assert decision.node_name, decision.message
    (info,) = cluster.state.placed_pods()
    return [
        (
            {mapped.name: mapped.quantity for mapped in status.mapping},
            {one.name: (one.per_pod, one.per_container) for one in status.overhead},
        )
        for status in _statuses(info)
    ], used(cluster, "cpu")


PER_DEVICE = {"mapping": {"deviceMultiplier": "500m"}}
OVERHEAD = {"overhead": {"perPod": "200m", "perContainer": "100m"}}


@pytest.mark.parametrize(
    ("devices", "count", "uses", "mapping", "overhead", "cpu"),
    [
        ([taking(cpu=PER_DEVICE)], 1, None, {"cpu": "500m"}, {}, 1500),
        ([taking("a", cpu=PER_DEVICE), taking("b", cpu=PER_DEVICE)], 2, None, {"cpu": "1"}, {}, 2000),
        ([taking(cpu=OVERHEAD)], 1, None, {}, {"cpu": ("200m", "100m")}, 1300),
        ([taking(cpu=OVERHEAD)], 1, [], {}, {"cpu": ("200m", "100m")}, 1200),
        ([taking(cpu={**PER_DEVICE, **OVERHEAD})], 1, None, {"cpu": "500m"}, {"cpu": ("200m", "100m")}, 1800),
    ],
)
def test_mappings_and_overheads_since_1_37(devices, count, uses, mapping, overhead, cpu):
    assert status_since_1_37(*devices, count=count, uses=uses) == ([(mapping, overhead)], cpu)


def test_a_multiple_of_a_consumed_capacity_since_1_37():
    device = taking(
        capacity={"cores": "8"}, cpu={"mapping": {"capacityKey": "cores", "capacityMultiplier": "500m"}}
    ) | {"allowMultipleAllocations": True}
    found = status_since_1_37(device, more={"capacity": {"requests": {"cores": "2"}}})
    assert found == ([({"cpu": "1"}, {})], 2000)


def test_the_fields_of_another_version_are_ignored():
    assert status_since_1_37(mapped(cpu="2")) == ([], 1000)
    objects = node(), a_slice("n0", taking(cpu=PER_DEVICE), nodeName="n0"), a_claim("c", exactly()), user("p", "c")
    cluster = cluster_of(*objects)
    cluster.schedule()
    assert reported(cluster) == {"p": []}


def test_pods_that_share_a_claim_have_its_overhead_each_since_1_37():
    objects = node(), a_slice("n0", taking(cpu=OVERHEAD), nodeName="n0"), a_claim("c", exactly())
    pods = [user(name, "c", cpu=cpu) for name, cpu in (("p", 1), ("q", 1), ("r", "1300m"))]
    cluster = cluster_of(*objects, *pods, version="1.37")
    first, second, third = cluster.schedule()
    assert (first.node_name, second.node_name) == ("n0", "n0")
    assert used(cluster, "cpu") == 2600
    assert "1 Insufficient cpu" in third.message
