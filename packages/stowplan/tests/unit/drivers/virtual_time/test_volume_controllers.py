"""Binding and provisioning in simulated time, as on a cluster, once a pod has its node."""

import pytest

import stowplan
from stowplan.kube.api.types import PersistentVolume, PersistentVolumeClaim
from stowplan.testing import a_node, a_pod
from support.plugins.claims import COMPLETED, HOST, ZONE, a_class, claim, volume
from support.plugins.storage import csi_node

LOCAL = "kubernetes.io/no-provisioner"


def node(name, zone):
    return a_node(name).labels({HOST: name, ZONE: zone, "rack": f"rack-{name}"}).obj()


def using(name, *claims):
    pod = a_pod(name)
    for one in claims:
        pod.claims_volume(one)
    return pod.obj()


def bound_to(cluster, name):
    found = cluster.state.objects.get(PersistentVolumeClaim, f"default/{name}")
    assert COMPLETED in found.metadata.annotations
    return cluster.state.objects.get(PersistentVolume, found.spec.volume_name)


def nodes_of(decisions):
    return [decision.node_name for decision in decisions]


@pytest.mark.parametrize(
    ("topology", "key"),
    [
        pytest.param([], ZONE, id="the zone"),
        pytest.param([csi_node("n1") | {"spec": {"drivers": [
            {"name": "p", "nodeID": "n1", "topologyKeys": ["rack"]}]}}], "rack", id="the driver's keys"),
    ],
)  # fmt: skip
def test_a_volume_is_provisioned_for_the_pods_node(topology, key):
    cluster = stowplan.Cluster([node("n1", "a"), a_class(), claim("c"), *topology])
    assert nodes_of(cluster.schedule([using("p", "c")])) == ["n1"]
    made = bound_to(cluster, "c")
    (term,) = made.spec.node_affinity.required.node_selector_terms
    assert [(e.key, e.values) for e in term.match_expressions] == [
        (key, ("a",) if key == ZONE else ("rack-n1",)),
    ]
    assert made.spec.csi.driver == "p"
    assert len(cluster.state.assumed) == 0
    cluster.engine.validate()


def test_topologies_of_the_class():
    cluster = stowplan.Cluster([node("n1", "a"), node("n2", "b"), a_class(zones=["b"]), claim("c"), claim("d")])
    assert nodes_of(cluster.schedule([using("p", "c"), using("q", "d")])) == ["n2", "n2"]


@pytest.mark.parametrize("uid", ["uid", ""])
def test_one_volume_for_two_pods(uid):
    claims = [claim(name, metadata={"uid": uid and f"{name}-{uid}"}) for name in "cd"]
    there = [node("n1", "a"), a_class(provisioner=LOCAL), *claims, volume("v", on={HOST: ["n1"]})]
    cluster = stowplan.Cluster(there)
    assert nodes_of(cluster.schedule([using("p", "c"), using("q", "d")])) == ["n1", ""]
    assert bound_to(cluster, "c").metadata.name == "v"


def test_transactions_are_undone():
    cluster = stowplan.Cluster([node("n1", "a"), a_class(), claim("c")])
    before = cluster.state.dump()
    with cluster.transaction():
        assert nodes_of(cluster.schedule([using("p", "c")])) == ["n1"]
        assert bound_to(cluster, "c")
    assert cluster.state.dump() == before
    assert cluster.state.objects.count(PersistentVolume) == 0
    assert nodes_of(cluster.schedule([using("p", "c")])) == ["n1"]


def test_a_claim_shared_by_two_pods():
    cluster = stowplan.Cluster([node("n1", "a"), node("n2", "b"), a_class(), claim("c")])
    first, second = nodes_of(cluster.schedule([using("p", "c"), using("q", "c")]))
    assert first == second != ""
