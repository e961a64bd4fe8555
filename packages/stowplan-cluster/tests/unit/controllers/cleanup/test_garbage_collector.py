import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.controllers.cleanup.garbage_collector import GarbageCollector
from stowplan_cluster.controllers.kubelet.kubelet import Kubelet
from stowplan_cluster.controllers.workloads.replica_set import ReplicaSetController
from support.examples import examples
from support.live.controller_cluster import workload
from support.live.living_cluster import Living, fleets, node, pod


@pytest.fixture
def cluster():
    return Living(GarbageCollector)


def owner_of(obj, *, blocks=True):
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    }


def config(name, *owners, finalizers=None, namespace="default"):
    metadata = {"name": name, "namespace": namespace, "ownerReferences": list(owners)}
    if finalizers is not None:
        metadata["finalizers"] = finalizers
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def add(cluster, name, *owners, blocks=True, **rest):
    """Add a ConfigMap with these owners; returns the reference that makes others its dependents."""
    made = cluster.create(config(name, *owners, **rest))
    cluster.settle()
    return owner_of(made, blocks=blocks)


def left(cluster):
    return set(cluster.names("configmaps")) - {"kube-root-ca.crt"}


def owners(cluster, name):
    return [one["name"] for one in cluster.get("configmaps", name)["metadata"].get("ownerReferences") or ()]


def delete(cluster, name, **options):
    cluster.delete("configmaps", name, **options)
    cluster.settle()


def test_dependents_are_deleted_recursively(cluster):
    a = add(cluster, "a")
    add(cluster, "c", add(cluster, "b", a))
    add(cluster, "other")
    delete(cluster, "a")
    assert left(cluster) == {"other"}


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param({"name": "nobody"}, id="no such owner"),
        pytest.param({"uid": "another"}, id="another uid"),
        pytest.param({"kind": "Secret"}, id="another kind"),
    ],
)
def test_an_object_created_without_its_owner_is_deleted(cluster, reference):
    add(cluster, "b", {**add(cluster, "a"), **reference})
    assert left(cluster) == {"a"}


def test_owners_in_other_namespaces_do_not_count(cluster):
    a = add(cluster, "a", namespace="kube-system")
    add(cluster, "b", a)
    assert cluster.get("configmaps", "b") is None


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param({"kind": "Whale", "apiVersion": "sea.example/v1"}, id="kind not served"),
    ],
)
def test_objects_with_owners_of_unknown_kinds_are_kept(cluster, reference):
    add(cluster, "b", {**add(cluster, "a"), **reference})
    assert "b" in left(cluster)


def test_a_cluster_scoped_object_with_a_namespaced_owner_is_kept(cluster):
    created = cluster.create({**node(), "metadata": {"name": "n", "ownerReferences": [add(cluster, "a")]}})
    delete(cluster, "a")
    assert cluster.get("Node", created["metadata"]["name"]) is not None


def test_a_cluster_scoped_owner(cluster):
    owner = owner_of(cluster.create(node()))
    add(cluster, "a", owner)
    assert left(cluster) == {"a"}
    cluster.delete("Node", "node-1")
    cluster.settle()
    assert left(cluster) == set()


# In the foreground


def test_the_owner_waits_for_blocking_dependents(cluster):
    a = add(cluster, "a")
    add(cluster, "b", a, finalizers=["example.com/keep"])
    add(cluster, "c", {**a, "blockOwnerDeletion": False}, finalizers=["example.com/keep"])
    delete(cluster, "a", propagation="Foreground")
    assert left(cluster) == {"a", "b", "c"}
    for name in "bc":
        assert "deletionTimestamp" in cluster.get("configmaps", name)["metadata"]
    cluster.change("configmaps", "b", lambda obj: obj["metadata"].update(finalizers=[]))
    cluster.settle()
    assert left(cluster) == {"c"}


def test_a_chain_is_deleted_from_its_end(cluster):
    a = add(cluster, "a")
    b = add(cluster, "b", a)
    add(cluster, "c", b, finalizers=["example.com/keep"])
    delete(cluster, "a", propagation="Foreground")
    assert left(cluster) == {"a", "b", "c"}
    assert cluster.get("configmaps", "b")["metadata"]["finalizers"] == ["foregroundDeletion"]
    cluster.change("configmaps", "c", lambda obj: obj["metadata"].update(finalizers=[]))
    cluster.settle()
    assert left(cluster) == set()


def test_a_dependent_that_no_longer_blocks(cluster):
    a = add(cluster, "a")
    add(cluster, "b", a, finalizers=["example.com/keep"])
    delete(cluster, "a", propagation="Foreground")

    def unblock(obj):
        obj["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = False

    cluster.change("configmaps", "b", unblock)
    cluster.settle()
    assert left(cluster) == {"b"}


def test_cycles_are_broken(cluster):
    a = add(cluster, "a")
    b = add(cluster, "b", a)
    cluster.change("configmaps", "a", lambda obj: obj["metadata"].update(ownerReferences=[b]))
    cluster.settle()
    assert left(cluster) == {"a", "b"}
    delete(cluster, "a", propagation="Foreground")
    assert left(cluster) == set()


def test_with_pods_that_terminate_slowly():
    cluster = Living(ReplicaSetController, Kubelet, GarbageCollector)
    cluster.create(node())
    annotations = {"stowplan.io/stop-after": "10s"}
    manifest = workload("ReplicaSet", replicas=3, pod_spec={"nodeName": "node-1"})
    manifest["spec"]["template"]["metadata"]["annotations"] = annotations
    cluster.create(manifest)
    cluster.settle()
    cluster.delete("ReplicaSet", "web", propagation="Foreground")
    cluster.advance(8)
    assert (len(cluster.names("Pod")), cluster.names("ReplicaSet")) == (3, ["web"])
    cluster.advance(3)
    assert (cluster.names("Pod"), cluster.names("ReplicaSet")) == ([], [])


def test_the_cost_is_linear_in_the_dependents(monkeypatch, cluster):
    a = add(cluster, "a")
    for number in range(60):
        cluster.create(config(f"c-{number}", a, finalizers=["example.com/keep"]))
    delete(cluster, "a", propagation="Foreground")
    calls = []
    dependents = cluster.store.dependents
    monkeypatch.setattr(cluster.store, "dependents", lambda uid: calls.append(uid) or dependents(uid))
    for number in range(60):
        cluster.change("configmaps", "a", lambda obj, data=str(number): obj.update(data={"seen": data}))
        cluster.change("configmaps", f"c-{number}", lambda obj: obj["metadata"].update(finalizers=[]))
        cluster.settle()
    assert left(cluster) == set()
    assert calls.count(a["uid"]) <= 4


# Orphaned


def test_orphaned_dependents_lose_the_owner_reference(cluster):
    a = add(cluster, "a")
    other = add(cluster, "other")
    add(cluster, "b", a)
    add(cluster, "c", a, other)
    delete(cluster, "a", propagation="Orphan")
    assert left(cluster) == {"b", "c", "other"}
    assert (owners(cluster, "b"), owners(cluster, "c")) == ([], ["other"])


# Custom resources


def fleet(name, *owners):
    metadata = {"name": name, "namespace": "default", "ownerReferences": list(owners)}
    return {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": metadata, "spec": {"size": 1}}


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
def test_custom_resources_are_collected(order, propagation):
    cluster = Living(GarbageCollector)
    cluster.create(fleets())
    if order == "before":
        cluster.loop.close()
        cluster.restart()
    cluster.settle()
    a = cluster.create(fleet("a"))
    cluster.create(fleet("b", owner_of(a)))
    cluster.create(config("c", owner_of(a)))
    cluster.advance(1)
    assert cluster.names("fleets.example.com") == ["a", "b"]
    cluster.delete("fleets.example.com", "a", propagation=propagation)
    cluster.advance(2)
    orphaned = propagation == "Orphan"
    assert cluster.names("fleets.example.com") == (["b"] if orphaned else [])
    assert left(cluster) == ({"c"} if orphaned else set())


def test_a_pod_is_deleted_gracefully(cluster):
    cluster.create(pod("web", node="node-1", owner=add(cluster, "a")))
    delete(cluster, "a")
    assert cluster.pod("web")["metadata"]["deletionGracePeriodSeconds"] == 30


# Compared with the plain rule

names = "abcdef"
graphs = st.lists(st.sets(st.sampled_from(names)), min_size=len(names), max_size=len(names))
deletions = st.lists(
    st.tuples(st.sampled_from(names), st.sampled_from(["Background", "Foreground"])), min_size=1, max_size=3
)


@examples(80)
@given(graph=graphs, plan=deletions, together=st.booleans())
def test_remaining_objects_have_a_remaining_owner_or_never_had_one(graph, plan, together):
    cluster = Living(GarbageCollector)
    # Owners precede their dependents in the alphabet, so there are no cycles.
    wanted = {name: sorted(one for one in owners if one < name) for name, owners in zip(names, graph, strict=True)}
    made = {}
    for name in names:
        made[name] = add(cluster, name, *(made[one] for one in wanted[name]))
    for name, propagation in plan:
        if cluster.get("configmaps", name) is not None:
            cluster.delete("configmaps", name, propagation=propagation)
        if not together:
            cluster.settle()
    cluster.settle()
    alive = set(names) - {name for name, _ in plan}
    for name in names:
        if wanted[name] and not alive.intersection(wanted[name]):
            alive.discard(name)
    assert left(cluster) == alive
    for name in alive:
        assert owners(cluster, name) == [one for one in wanted[name] if one in alive]
