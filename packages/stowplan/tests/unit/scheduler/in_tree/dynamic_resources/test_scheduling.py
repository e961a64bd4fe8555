"""Pods with claims from the queue to their node, in simulated time: allocations, writes and deallocations."""

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan import Cluster
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.types import ResourceClaim
from stowplan.testing import a_node, a_pod
from support.examples import times
from support.plugins.devices import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_slice,
    allocation,
    exactly,
    first_available,
)
from support.scheduling.engines import DrivenEngine
from support.scheduling.worlds import struct


def nodes(count=2, devices=2, **fields):
    found = []
    for n in range(count):
        found.append(a_node(f"n{n}").obj())
        names = [a_device(f"g{i}", **fields) for i in range(devices)]
        found.append(a_slice(f"n{n}", *names, nodeName=f"n{n}"))
    return found


def pods_with_claims(count, *requests):
    found = []
    for i in range(count):
        found += [a_claim(f"c{i}", *requests), a_pod(f"p{i}").claims_devices(f"c{i}").obj()]
    return found


def schedule(*objects):
    cluster = Cluster(list(objects))
    decisions = {}
    for decision in cluster.schedule():
        decisions[decision.pod.pod.metadata.name] = decision
    return cluster, decisions


def claims_of(cluster):
    return {c.metadata.name: c for c in cluster.state.objects.all(ResourceClaim)}


def devices_of(claim):
    return [(r.pool, r.device) for r in claim.status.allocation.devices.results] if claim.status.allocation else []


def allocated(cluster):
    return [device for claim in claims_of(cluster).values() for device in devices_of(claim)]


def test_each_pod_gets_a_device_of_its_own():
    cluster, decisions = schedule(a_class(), *nodes(), *pods_with_claims(5, exactly()))
    assert len(set(allocated(cluster))) == len(allocated(cluster)) == 4
    assert sum(d.node_name == "" for d in decisions.values()) == 1
    claim = claims_of(cluster)["c0"]
    assert claim.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    assert [user.name for user in claim.status.reserved_for] == ["p0"]
    assert claim.status.allocation.allocation_timestamp is not None
    assert len(cluster.state.in_flight) == 0


def test_pods_with_equal_claims_share_an_evaluation():
    """Whether claims are named or made from templates; their requests and allocations distinguish them."""

    def pod(name, **source):
        made = a_pod(name).uid(name).obj()
        made["spec"]["resourceClaims"] = [{"name": "gpu", **source}]
        return made

    def owned(name):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
        return a_claim(f"{name}-gpu", exactly(), ownerReferences=[owner])

    def from_template(name):
        made = pod(name, resourceClaimTemplateName=f"for-{name}")
        made["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
        return made

    claims = [a_claim("c0", exactly()), a_claim("c1", exactly()), a_claim("c2", exactly(count=2))]
    claims += [a_claim("c3", exactly(), status=allocation("g0", pool="n0")), owned("m0"), owned("m1")]
    framework = DrivenEngine(a_class(), *nodes(), *claims).engine.algorithm.frameworks["default-scheduler"]
    pods = [pod(f"p{i}", resourceClaimName=f"c{i}") for i in range(4)] + [from_template("m0"), from_template("m1")]
    first, second, other, taken, *made = (framework.signature(framework.handle.pod_info(struct(p))) for p in pods)
    assert None not in (first, other, taken)
    assert first == second == made[0] == made[1]
    assert len({first, other, taken}) == 3


def test_pods_that_share_a_claim_share_its_node():
    pods = [a_pod(f"p{i}").claims_devices("c").obj() for i in range(3)]
    cluster, decisions = schedule(a_class(), *nodes(), a_claim("c", exactly()), *pods)
    assert len({d.node_name for d in decisions.values()}) == 1
    assert sorted(user.name for user in claims_of(cluster)["c"].status.reserved_for) == ["p0", "p1", "p2"]


def test_the_node_with_the_earlier_alternative_is_preferred():
    weak = a_slice("weak", a_device("d", model="b"), nodeName="weak")
    strong = a_slice("strong", a_device("d", model="a"), nodeName="strong")
    wanted = first_available(
        "r",
        *(exactly(name, selectors=(f'device.attributes["{DRIVER}"].model == "{name}"',)) for name in ("a", "b")),
    )
    cluster, decisions = schedule(
        a_class(), a_node("weak").obj(), a_node("strong").obj(), weak, strong, *pods_with_claims(2, wanted)
    )
    assert decisions["p0"].node_name == "strong"
    assert decisions["p1"].node_name == "weak"
    assert claims_of(cluster)["c1"].status.allocation.devices.results[0].request == "r/b"


def test_a_claim_allocated_on_an_unusable_node_is_deallocated():
    """The devices are on a node that no longer accepts the pod."""
    elsewhere = allocation("g0", pool="n0")
    elsewhere["allocation"]["nodeSelector"] = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]}]
    }
    cluster, decisions = schedule(
        a_class(), *nodes(), a_claim("c", exactly(), status=elsewhere), a_pod("p").claims_devices("c").obj()
    )
    assert decisions["p"].node_name in ("n0", "n1")
    assert devices_of(claims_of(cluster)["c"])[0][0] == decisions["p"].node_name


def test_extended_resources_are_served_by_devices():
    gpu = a_class("gpu", extendedResourceName="x.com/gpu")
    pods = [a_pod(f"p{i}").requests({"x.com/gpu": "1"}).obj() for i in range(2)]
    implicit = a_pod("q").requests({"deviceclass.resource.kubernetes.io/gpu": "1"}).obj()
    cluster, decisions = schedule(gpu, *nodes(2, 1), *pods, implicit)
    placed = [name for name, d in decisions.items() if d.node_name != ""]
    assert len(placed) == 2
    assert len(set(allocated(cluster))) == 2
    status = cluster.state.pod_info(next(p.pod for p in cluster.state.placed_pods())).pod.status
    (mapping,) = status.extended_resource_claim_status.request_mappings
    assert (mapping.container_name, mapping.request_name) == ("main", "container-0-request-0")
    assert status.extended_resource_claim_status.resource_claim_name in claims_of(cluster)


def test_an_extended_resource_of_the_node_belongs_to_a_device_plugin():
    gpu = a_class("gpu", extendedResourceName="x.com/gpu")
    node = a_node("n").allocatable({"cpu": "4", "x.com/gpu": "1"}).obj()
    cluster, decisions = schedule(gpu, node, a_pod("p").requests({"x.com/gpu": "1"}).obj())
    assert decisions["p"].node_name == "n"
    assert not claims_of(cluster)


PARTITIONS = [a_device(f"m{i}", consumes={"set": {"slots": amount}}) for i, amount in enumerate(("4", "2", "2", "1"))]


def test_partitions_of_one_device_share_its_counters():
    cluster, _ = schedule(
        a_class(),
        a_node("n").obj(),
        a_slice("a", pool="p", count=2, counters={"set": {"slots": "4"}}, nodeName="n"),
        a_slice("b", *PARTITIONS, pool="p", count=2, nodeName="n"),
        *pods_with_claims(3, exactly("r", count=2)),
    )
    assert allocated(cluster) == [("p", "m1"), ("p", "m2")]


def test_an_incomplete_pool_is_not_allocated():
    devices = a_slice("a", a_device("d"), pool="p", count=2, nodeName="n")
    cluster, decisions = schedule(a_class(), a_node("n").obj(), devices, *pods_with_claims(1, exactly()))
    assert decisions["p0"].node_name == ""
    cluster.add(a_slice("b", pool="p", count=2, nodeName="n"))
    assert cluster.schedule()[0].node_name == "n"


@settings(max_examples=times(25), deadline=None)
@given(st.data())
def test_codes_follow_every_change(data):
    """After changes, the inventory's codes equal those of a new inventory."""
    from stowplan.scheduler.cluster.state import ClusterState
    from stowplan.scheduler.in_tree.dynamic_resources.allocator.claims import Features
    from stowplan.scheduler.in_tree.dynamic_resources.inventory import Inventory

    state = ClusterState()
    followed = Inventory(state, Features())
    for _ in range(data.draw(st.integers(1, 12))):
        change(state, data.draw)
        followed.refresh()
        fresh = Inventory(state, Features())
        fresh.refresh()
        rows = [row for row in range(state.table.n) if state.table.valid[row]]
        for row in rows:
            assert described(followed.world(row)) == described(fresh.world(row))
        for a in rows:
            for b in rows:
                assert (followed.codes[a] == followed.codes[b]) == (fresh.codes[a] == fresh.codes[b])


def described(world):
    return [
        (v.order, v.state, tuple((d.name, d.content, d.reachable) for d in v.devices), usage)
        for v, usage in world.pools
    ]


def change(state, draw):
    which = draw(st.sampled_from(["node", "no node", "slice", "slice", "no slice", "claim", "claim", "no claim"]))
    name = draw(st.sampled_from(["n0", "n1", "n2"]))
    if which == "node":
        state.add_node(decode_object(a_node(name).labels(zone=draw(st.sampled_from(["a", "b"]))).obj()))
    elif which == "no node":
        state.remove_node(name)
    elif which == "slice":
        where = draw(
            st.sampled_from(
                [{"nodeName": name}, {"nodeName": "n0"}, {"allNodes": True}, {"nodeSelector": ZONE_A}, PER_DEVICE]
            )
        )
        devices = [a_device(f"g{i}", **({"nodeName": f"n{i}"} if where is PER_DEVICE else {})) for i in range(2)]
        generation, count = draw(st.sampled_from([(1, 1), (1, 2), (2, 1)]))
        pool = draw(st.sampled_from(["p", name]))
        obj = a_slice(f"s-{name}", *devices, pool=pool, generation=generation, count=count, **where)
        state.put_object(decode_object(obj))
    elif which == "claim":
        pool, device = draw(st.sampled_from(["p", name])), draw(st.sampled_from(["g0", "g1"]))
        state.put_object(decode_object(a_claim(name, exactly(), status=allocation(device, pool=pool))))
    else:
        kind = {"no slice": a_slice(f"s-{name}"), "no claim": a_claim(name)}[which]
        state.remove_object(decode_object(kind))


ZONE_A = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
PER_DEVICE = {"perDeviceNodeSelection": True}
