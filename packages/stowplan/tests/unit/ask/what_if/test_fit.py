"""How many more fit, compared with scheduling copies one by one; nodes to add, compared with adding them."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan import Cluster, ClusterError
from stowplan.ask.what_if import NodeKind, fit
from stowplan.kube.api.decode import decode_object
from support.what_if.objects import ZONE, node, owned, pod


def placed_one_by_one(cluster, pod, most=1000):
    """The plain rule."""
    with cluster.transaction():
        for number in range(most):
            copy = pod | {"metadata": pod["metadata"] | {"name": f"c{number}", "uid": f"c{number}"}}
            copy["spec"] = pod["spec"] | {"preemptionPolicy": "Never"}
            if not cluster.schedule([copy])[0].node_name:
                return number
    return most


SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}
APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
}
PORT = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
TOLERANT = {"tolerations": [{"operator": "Exists"}]}
KINDS = [{}, SPREAD, APART, PORT, TOLERANT, {"nodeSelector": {ZONE: "b"}}]


@st.composite
def clusters(draw):
    sizes = st.sampled_from(["500m", "2", "3", "7"])
    nodes = [
        node(
            f"n{i}",
            draw(sizes),
            draw(st.sampled_from(["", "a", "b"])),
            draw(st.sampled_from(["2", "10"])),
            **draw(
                st.sampled_from([{}, {}, {"unschedulable": True}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}])
            ),
        )
        for i in range(draw(st.integers(0, 4)))
    ]
    pods = [
        pod(f"p{i}", draw(st.sampled_from(["100m", "1"])), nodeName=draw(st.sampled_from(nodes))["metadata"]["name"])
        for i in range(draw(st.integers(0, 4)) if nodes else 0)
    ]
    asked = pod("web", draw(st.sampled_from(["0", "300m", "1", "2"])))
    asked["metadata"]["labels"] = {"app": "web"}
    asked["spec"] |= draw(st.sampled_from(KINDS))
    return [*nodes, *pods], asked


@given(clusters(), st.integers(0, 12))
def test_as_many_as_can_be_placed(given_cluster, wanted):
    objects, asked = given_cluster
    cluster = Cluster(objects)
    before = cluster.state.version
    found = fit(cluster, asked)
    assert found.fits == placed_one_by_one(cluster, asked) == sum(found.per_node.values())
    assert fit(cluster, asked, replicas=wanted).fits == min(wanted, found.fits)
    assert cluster.state.version == before


@given(clusters(), st.integers(1, 12))
def test_the_minimum_number_of_nodes_to_add(given_cluster, wanted):
    objects, asked = given_cluster
    cluster = Cluster(objects)
    model = node("model", "3", "a")
    found = fit(cluster, asked, replicas=wanted, kinds=[NodeKind(cluster_node(model))])
    for add in found.nodes_to_add:
        for count, enough in ((add.count, True), (add.count - 1, False)):
            more = Cluster([*objects, *(node(f"more-{i}", "3", "a") for i in range(count))])
            assert (placed_one_by_one(more, asked, wanted) == wanted) is enough
    if not found.nodes_to_add and found.fits < wanted:
        more = Cluster([*objects, *(node(f"more-{i}", "3", "a") for i in range(2 * wanted + 2))])
        assert placed_one_by_one(more, asked, wanted) < wanted


def cluster_node(obj):
    return decode_object(obj)


def test_limiting_resources():
    cluster = Cluster([node("a", "4", "x"), node("b", "2", "y"), node("c", "9", "y", unschedulable=True)])
    found = fit(cluster, pod())
    assert (found.fits, found.per_node, found.per_zone) == (6, {"a": 4, "b": 2}, {"x": 4, "y": 2})
    assert [(limit.reason, limit.nodes, limit.zones) for limit in found.limited_by] == [
        ("Insufficient cpu", 2, {"x": 1, "y": 1}),
        ("node(s) were unschedulable", 1, {"y": 1}),
    ]


def test_the_number_of_pods_of_a_node_is_a_limit():
    found = fit(Cluster([node("a", "100", pods="3")]), pod(cpu="1m"))
    assert (found.fits, found.limited_by[0].reason) == (3, "Too many pods")


def test_new_nodes_have_pods_of_daemon_sets():
    daemon = owned(pod("d", "1", nodeName="a"), "DaemonSet", "d")
    found = fit(Cluster([node("a", "4"), daemon]), pod(), replicas=9, kinds=[NodeKind("a")])
    assert (found.fits, [(add.count, add.each) for add in found.nodes_to_add]) == (3, [(2, 3)])


@given(
    wanted=st.integers(1, 12),
    kinds=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 9)), min_size=2, max_size=3),
)
def test_no_mix_is_cheaper(wanted, kinds):
    """Compared with every mix of at most `wanted` nodes of each kind."""
    cluster = Cluster([node(f"k{i}", str(cpu), unschedulable=True) for i, (cpu, _) in enumerate(kinds)])
    asked = [NodeKind(f"k{i}", float(price)) for i, (_, price) in enumerate(kinds)]
    found = fit(cluster, pod(), replicas=wanted, kinds=asked).cheapest
    room = {f"k{i}": cpu for i, (cpu, _) in enumerate(kinds)}
    assert sum(room[name] * number for name, number in found.nodes.items()) >= wanted
    cheapest = min(
        sum(number * price for number, (_, price) in zip(numbers, kinds, strict=True))
        for numbers in product(range(wanted + 1), repeat=len(kinds))
        if sum(number * cpu for number, (cpu, _) in zip(numbers, kinds, strict=True)) >= wanted
    )
    assert found.price == cheapest


def test_useless_kinds_of_nodes_are_reported():
    found = fit(Cluster([node("a", "1")]), pod(cpu="2"), replicas=1, kinds=[NodeKind("a")])
    assert (found.nodes_to_add, found.notes) == ((), ("nodes like a would not help",))


def test_no_pod_is_evicted():
    lesser = pod("lesser", "4", nodeName="a", priority=0)
    found = fit(Cluster([node("a", "4"), lesser]), pod("important", "1", priority=1000))
    assert found.fits == 0


def test_unknown_names():
    with pytest.raises(ClusterError, match='node "x" not found'):
        fit(Cluster([node("a", "1")]), pod(cpu="2"), replicas=1, kinds=[NodeKind("x")])
    with pytest.raises(ClusterError, match="want a whole number, 0 or more, got -1"):
        fit(Cluster(), pod(), replicas=-1)
    with pytest.raises(ClusterError, match='node "x" not found'):
        fit(Cluster([node("a", "1")]), pod(), replicas=1, kinds=[NodeKind("x")])


def test_numbers_have_an_upper_bound():
    with pytest.raises(ClusterError, match="want at most 100,000, got 1,000,000,000; without a number, as many as fit"):
        fit(Cluster(), pod(), replicas=10**9)


def test_of_pods_whose_nodes_depend_on_each_other_not_more_are_tried_than_takes_seconds(monkeypatch):
    monkeypatch.setitem(fit.__globals__, "_MOST_UNASKED", 3)
    monkeypatch.setattr("stowplan.ask.what_if.added_nodes.MOST_TRIED", 3)
    cluster = Cluster([node("n0", "4", "a"), pod("web", "1", **SPREAD)])
    found = fit(cluster, "web")
    assert (found.fits, found.limited_by, found.nodes_to_add) == (3, (), ())
    assert found.notes == ("after 3 copies no more were tried: there may be room for others",)
    found = fit(Cluster([node("n0", "1", "a"), pod("web", "1", **SPREAD)]), "web", replicas=4)
    assert (found.fits, found.nodes_to_add) == (1, ())
    assert "4 pods are more than 3" in found.notes[0]


def test_new_nodes_have_the_limits_of_volumes_of_the_one_that_they_are_like():
    limits = {"name": "csi.example.com", "nodeID": "a", "allocatable": {"count": 1}}
    csi_node = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "a"}}
    csi = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "csi"}}
    csi |= {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "csi", "resources": {"requests": {"storage": "1Gi"}}}
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    cluster = Cluster([node("a"), csi_node | {"spec": {"drivers": [limits]}}, csi])
    found = fit(cluster, pod(volumes=[scratch]), replicas=3, kinds=[NodeKind("a")])
    assert (found.fits, [add.count for add in found.nodes_to_add]) == (1, [2])


class TestMixes:
    """Of pods whose nodes depend on each other."""

    ZONES = (node("a1", "2", "a"), node("b1", "2", "b"), node("c1", "2", "c"))

    def test_zones_that_pods_spread_over(self):
        kinds = [NodeKind("a1", 1.0), NodeKind("b1", 2.0), NodeKind("c1", 1.0)]
        found = fit(Cluster([*self.ZONES]), pod(**SPREAD), replicas=12, kinds=kinds)
        assert (found.fits, found.nodes_to_add, found.cheapest) == (6, (), None)
        assert (found.mix.nodes, found.mix.price) == ({"a1": 1, "b1": 1, "c1": 1}, 4.0)
        assert found.notes[0] == "nodes like a1 alone would not make all of them fit"

    def test_a_kind_in_each_zone_is_tried_if_none_is_given(self):
        found = fit(Cluster([*self.ZONES]), pod(**SPREAD), replicas=18)
        assert (found.mix.nodes, found.mix.price, found.notes) == ({"a1": 2, "b1": 2, "c1": 2}, None, ())

    def test_what_suffices_alone_is_no_mix(self):
        found = fit(Cluster([*self.ZONES]), pod(**SPREAD), replicas=7, kinds=[NodeKind("a1", 1.0), NodeKind("b1", 2.0)])
        assert [(add.like, add.count) for add in found.nodes_to_add] == [("a1", 1), ("b1", 1)]
        assert found.mix is None


def test_json():
    assert fit(Cluster([node("a", "1")]), pod()).to_dict() == {
        "schemaVersion": 2,
        "kind": "Fit",
        "pod": "default/web",
        "wanted": None,
        "fits": 1,
        "perNode": {"a": 1},
        "perZone": {},
        "limitedBy": [{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 1, "zones": {}}],
        "nodesToAdd": [],
        "cheapest": None,
        "mix": None,
        "notes": [],
    }


@pytest.mark.parametrize(
    ("spec", "note"),
    [
        ({}, "another node like n0 would take 4 more"),
        (SPREAD, "how many nodes like n0 to add depends on the number of pods: set replicas"),
    ],
)
def test_notes_about_kinds_without_a_number(spec, note):
    cluster = Cluster([node("n0", "4", "a", "10"), pod("web", "1", **spec)])
    found = fit(cluster, "web", kinds=[NodeKind("n0")])
    assert (found.fits, found.nodes_to_add) == (4, ())
    assert note in found.notes
    with pytest.raises(ClusterError, match='node "zz" not found'):
        fit(cluster, "web", kinds=[NodeKind("zz")])
