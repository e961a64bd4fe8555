import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.api_errors import TooManyRequests
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.eviction import evict
from stowplan_cluster.controllers.disruption import BUDGETS, DisruptionController
from support.examples import examples
from support.live.controller_cluster import workload
from support.live.living_cluster import Living, condition, fleets, pod

COUNTS = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")


def budget(name="budget", *, selector=None, **spec):
    selector = {"matchLabels": {"app": "web"}} if selector is None else selector
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": selector, **spec},
    }


class ClusterWithBudgets(Living):
    def __init__(self):
        super().__init__(DisruptionController)

    def add(self, name, *, ready=True, app="web", owner=None, **rest):
        self.create(pod(name, node="node-1", labels={"app": app}, owner=owner, **rest))
        self.set_pod(name, ready=ready)
        self.settle()

    def own(self, kind, name, replicas, *, controlled_by=None):
        """Create a workload without its controller; returns the owner reference for its pods."""
        manifest = workload(kind, name, labels={"app": "web"}, replicas=replicas)
        if controlled_by is not None:
            manifest["metadata"]["ownerReferences"] = [controlled_by]
        made = self.create(manifest)
        return reference_to(made)

    def counts(self, name="budget"):
        status = self.get(BUDGETS, name)["status"]
        return tuple(status[field] for field in COUNTS)

    def evict(self, name):
        evict(self.registry, "default", name, {"metadata": {"name": name}}, DeleteOptions())


def reference_to(obj, *, controller=True):
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": controller,
    }


@pytest.fixture
def cluster():
    return ClusterWithBudgets()


def test_min_available_counts_existing_pods(cluster):
    for name in ("a", "b", "c"):
        cluster.add(name)
    cluster.add("unready", ready=False)
    cluster.add("other", app="db")
    cluster.create(budget(minAvailable=2))
    cluster.settle()
    assert cluster.counts() == (4, 3, 2, 1)
    found = cluster.get(BUDGETS, "budget")
    assert condition(found, "DisruptionAllowed") == ("True", "SufficientPods")
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 1
    cluster.delete("Pod", "a")
    cluster.settle()
    assert cluster.counts() == (4, 2, 2, 0)
    assert condition(cluster.get(BUDGETS, "budget"), "DisruptionAllowed") == ("False", "InsufficientPods")
    cluster.set_pod("unready")
    cluster.settle()
    assert cluster.counts() == (4, 3, 2, 1)


def test_a_budget_without_pods_allows_nothing(cluster):
    cluster.create(budget(minAvailable=0))
    cluster.settle()
    assert cluster.counts() == (0, 0, 0, 0)
    assert ("Normal", "NoPods", "No matching pods found") in cluster.events("budget")


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController", "Deployment"])
def test_percentages_refer_to_the_owners_scale(cluster, kind):
    if kind == "Deployment":
        owner = cluster.own("ReplicaSet", "web-1", 1, controlled_by=cluster.own("Deployment", "web", 5))
    else:
        owner = cluster.own(kind, "web", 5)
    for number in range(4):
        cluster.add(f"web-{number}", owner=owner)
    cluster.create(budget(minAvailable="50%"))
    cluster.settle()
    assert cluster.counts() == (5, 4, 3, 1)


def test_scaling_an_owner_updates_the_budget(cluster):
    deployment = cluster.own("Deployment", "web", 2)
    owner = cluster.own("ReplicaSet", "web-1", 2, controlled_by=deployment)
    for number in range(2):
        cluster.add(f"web-{number}", owner=owner)
    cluster.create(budget(maxUnavailable=1))
    cluster.settle()
    assert cluster.counts() == (2, 2, 1, 1)
    cluster.scale("Deployment", "web", 3)
    cluster.settle()
    assert cluster.counts() == (3, 2, 2, 0)


def test_scales_of_owners_are_added_up(cluster):
    cluster.add("a", owner=cluster.own("ReplicaSet", "one", 3))
    cluster.add("b", owner=cluster.own("StatefulSet", "two", 4))
    cluster.add("c")
    cluster.create(budget(maxUnavailable=6))
    cluster.settle()
    assert cluster.counts() == (7, 3, 1, 2)
    assert "UnmanagedPods" in {reason for _, reason, _ in cluster.events("budget")}


def test_the_scale_of_a_custom_resource(cluster):
    cluster.create(fleets())
    fleet = {"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": {"name": "f"}, "spec": {"size": 4}}
    cluster.add("a", owner=reference_to(cluster.create(fleet)))
    cluster.create(budget(maxUnavailable="75%"))
    cluster.settle()
    assert cluster.counts() == (4, 1, 1, 0)


@pytest.mark.parametrize(
    ("kind", "api_version", "message"),
    [
        ("DaemonSet", "apps/v1", "daemonsets.apps does not implement the scale subresource"),
        ("Whale", "sea.example/v1", 'no matches for kind "Whale" in version "sea.example/v1"'),
        ("ReplicaSet", "apps/v1", 'found no controllers for pod "a"'),
    ],
)
def test_a_budget_without_a_known_scale_allows_nothing(cluster, kind, api_version, message):
    owner = {"apiVersion": api_version, "kind": kind, "name": "web", "uid": "u-1", "controller": True}
    if kind == "DaemonSet":
        owner = reference_to(cluster.create(workload("DaemonSet")))
    cluster.add("a", owner=owner)
    cluster.create(budget(maxUnavailable=1))
    cluster.settle()
    found = cluster.get(BUDGETS, "budget")["status"]
    (told,) = found["conditions"]
    assert (told["status"], told["reason"], told["message"]) == ("False", "SyncFailed", message)
    assert found["disruptionsAllowed"] == 0


# Evictions


def test_an_accepted_eviction_counts_until_its_pod_is_deleted(cluster):
    for name in ("a", "b", "c"):
        cluster.add(name)
    cluster.create(budget(minAvailable=2))
    cluster.settle()
    cluster.evict("a")
    with pytest.raises(TooManyRequests):
        cluster.evict("b")
    cluster.settle()
    assert cluster.counts() == (3, 2, 2, 0)
    assert "disruptedPods" not in cluster.get(BUDGETS, "budget")["status"]
    cluster.add("d")
    cluster.evict("b")
    cluster.settle()
    assert cluster.counts() == (4, 2, 2, 0)


def test_an_accepted_eviction_without_deletion_expires(cluster):
    for name in ("a", "b"):
        cluster.add(name)
    cluster.create(budget(minAvailable=1))
    cluster.settle()

    def disrupt(obj):
        obj["status"]["disruptedPods"] = {"a": "2023-11-14T22:13:20Z", "gone": "2023-11-14T22:13:20Z"}

    cluster.change(BUDGETS, "budget", disrupt, subresource="status")
    cluster.advance(119)
    assert cluster.counts() == (2, 1, 1, 0)
    assert list(cluster.get(BUDGETS, "budget")["status"]["disruptedPods"]) == ["a"]
    cluster.advance(1)
    assert cluster.counts() == (2, 2, 1, 1)
    message = "Pod was expected by PDB default/budget to be deleted but it wasn't"
    assert ("Warning", "NotDeleted", message) in cluster.events("a")


def test_pods_without_a_budget_are_not_decoded(monkeypatch, cluster):
    def fail(*args):
        raise AssertionError("decoded")

    monkeypatch.setattr("stowplan_cluster.controllers.disruption.decode_pod", fail)
    cluster.add("a")
    cluster.set_pod("a", ready=False)
    cluster.settle()
    # It would be counted otherwise: a budget has its pods decoded.
    with pytest.raises(AssertionError, match="decoded"):
        cluster.create(budget(minAvailable=1))


# Compared with a plain recount

names = st.sampled_from(["a", "b", "c", "d"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), names, st.sampled_from(["web", "db"]), st.booleans()),
        st.tuples(st.sampled_from(["delete", "kill"]), names),
        st.tuples(st.just("ready"), names, st.booleans()),
        st.tuples(st.just("label"), names, st.sampled_from(["web", "db"])),
        st.tuples(st.just("scale"), st.integers(0, 5)),
        st.tuples(st.just("evict"), names),
        st.tuples(st.just("select"), st.sampled_from(["web", "db"])),
        st.tuples(st.just("restart")),
    ),
    max_size=20,
)
specs = st.sampled_from(
    [{"minAvailable": 1}, {"minAvailable": "50%"}, {"maxUnavailable": 1}, {"maxUnavailable": "40%"}]
)


def apply(cluster, owner, step):
    kind, *rest = step
    name = rest[0] if rest else ""
    found = cluster.pod(name) if isinstance(name, str) else None
    if kind == "scale":
        cluster.scale("ReplicaSet", "set", name)
    elif kind == "select":
        cluster.change(BUDGETS, "budget", lambda obj: obj["spec"].update(selector={"matchLabels": {"app": name}}))
    elif kind == "restart":
        cluster.loop.close()
        cluster.restart()
    elif kind == "add" and found is None:
        cluster.add(name, app=rest[1], ready=rest[2], owner=owner)
    elif found is None:
        return
    elif kind == "ready":
        cluster.set_pod(name, ready=rest[1])
    elif kind == "label":
        cluster.change("Pod", name, lambda obj: obj["metadata"].update(labels={"app": rest[1]}))
    elif kind == "evict":
        try:
            cluster.evict(name)
        except TooManyRequests:
            return
    elif kind in ("delete", "kill"):
        cluster.delete("Pod", name, grace_period_seconds=0 if kind == "kill" else None)


def recount(cluster):
    """The plain rule, from the objects alone."""
    found = cluster.get(BUDGETS, "budget")
    app = found["spec"]["selector"]["matchLabels"]["app"]
    pods = [one for one in cluster.all("Pod") if one["metadata"]["labels"].get("app") == app]
    healthy = sum(condition(one, "Ready")[0] == "True" for one in pods if "deletionTimestamp" not in one["metadata"])
    spec = found["spec"]
    scale = cluster.get("ReplicaSet", "set")["spec"]["replicas"] if pods else 0
    if spec.get("minAvailable") == 1:
        expected, desired = len(pods), 1
    elif "minAvailable" in spec:
        expected, desired = scale, -(-scale * 50 // 100)
    else:
        unavailable = 1 if spec["maxUnavailable"] == 1 else -(-scale * 40 // 100)
        expected, desired = scale, max(scale - unavailable, 0)
    return expected, healthy, desired, max(healthy - desired, 0) if expected else 0


@examples(60)
@given(spec=specs, plan=steps)
def test_the_status_agrees_with_a_plain_recount(spec, plan):
    cluster = ClusterWithBudgets()
    owner = cluster.own("ReplicaSet", "set", 3)
    cluster.create(budget(**spec))
    cluster.settle()
    for step in plan:
        apply(cluster, owner, step)
        cluster.settle()
        assert cluster.counts() == recount(cluster)
