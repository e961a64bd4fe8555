"""The page's data for a cluster without a scheduler: the same routes and records as of a running one."""

import json

import pytest

from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.explain.judging import judged
from stowplan.ask.offline import Cluster
from stowplan.kube.api.api_errors import BadRequest, NotFound
from stowplan.kube.api.users import ANONYMOUS_USER
from stowplan.net.serving.requests.messages import Request
from stowplan.ui.cluster_inspection import MAX_KINDS, ClusterInspection
from support.plugins.devices import DRIVER, a_claim, a_device, a_slice, allocation, exactly
from support.what_if.objects import node, owned, pod

PREFIX = "/stowplan/"


def answers_about(*objects):
    return ClusterInspection(ClusterSource(Cluster(objects), {}))


def get(answers, path, **query):
    pages = answers.pages(PREFIX)
    route = next(route for route in pages if (PREFIX + path).startswith(route))
    asked = Request(
        method="GET",
        path=PREFIX + path,
        user=ANONYMOUS_USER,
        query={name: [value] for name, value in query.items()},
    )
    return json.loads(pages[route](asked).body)


@pytest.fixture
def answers():
    big = pod("big", cpu="64")
    gated = pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    return answers_about(node("a"), owned(pod("web-0", nodeName="a")), pod("small"), big, gated)


def test_the_verdict_on_a_pending_pod(answers):
    found = get(answers, "explain/default/big")
    assert (found["pod"], found.get("node")) == ("default/big", None)
    assert found["rejected"]["a"]["plugin"] == "NodeResourcesFit"
    assert "suggestions" not in found


def test_suggestions_on_request():
    found = get(answers_about(node("a", unschedulable=True), pod("small")), "explain/default/small", suggestions="true")
    assert found["suggestions"][0]["gain"] == 1


def test_devices_and_who_holds_them():
    """Halves and a whole of one GPU, and a tainted GPU."""
    counters = {"gpu0": {"memory": "80Gi"}}
    taint = {"key": "example.com/broken", "value": "fan", "effect": "NoSchedule"}
    devices = [
        a_device("whole", consumes={"gpu0": {"memory": "80Gi"}}),
        a_device("half-0", consumes={"gpu0": {"memory": "40Gi"}}),
        a_device("half-1", consumes={"gpu0": {"memory": "40Gi"}}),
        a_device("broken", taints=[taint]),
    ]
    counting = a_slice("n-counters", pool="n", count=2, counters=counters, nodeName="n")
    gpus = a_slice("n", *devices, count=2, nodeName="n")
    status = {
        **allocation("half-0", pool="n"),
        "reservedFor": [{"resource": "pods", "name": "user", "uid": "default/user"}],
    }
    held = a_claim("held", exactly(), status=status)
    answers = answers_about(node("n"), node("m"), pod("user", nodeName="n"), counting, gpus, held)
    count = {"driver": DRIVER, "devices": 4, "held": 1, "unusable": 2}
    counted = get(answers, "devices")
    assert (counted["nodes"], counted["pods"]) == ({"n": [count]}, {"default/user": {DRIVER: 1}})
    found = {one.pop("name"): one for one in get(answers, "devices/n")["devices"]}
    about = {"driver": DRIVER, "pool": "n"}
    assert found == {
        "whole": {**about, "status": "blocked", "part": True},
        "half-0": {**about, "status": "held", "part": True, "claims": ["default/held"], "pods": ["default/user"]},
        "half-1": {**about, "status": "free", "part": True},
        "broken": {**about, "status": "free", "taints": ["example.com/broken=fan:NoSchedule"]},
    }
    assert get(answers, "devices/m")["devices"] == []
    with pytest.raises(NotFound):
        get(answers, "devices/gone")


def test_a_device_of_several_pods_counts_in_parts():
    users = [{"resource": "pods", "name": name, "uid": f"default/{name}"} for name in ("one", "two")]
    held = a_claim("held", exactly(), status={**allocation("gpu-0", pool="n"), "reservedFor": users})
    answers = answers_about(node("n"), a_slice("n", a_device("gpu-0"), nodeName="n"), held)
    assert get(answers, "devices")["pods"] == {f"default/{name}": {DRIVER: 0.5} for name in ("one", "two")}


def test_nodes_to_add_are_suggested():
    answers = answers_about(node("a"), pod("first", cpu="3", nodeName="a"), pod("new", cpu="3"))
    (more,) = get(answers, "explain/default/new", suggestions="true")["relief"]
    assert (more["text"], more["pods"]) == ("add 1 node like a", 1)
    assert "relief" not in get(answers, "explain/default/first", suggestions="true")


def test_the_verdict_on_a_bound_pod(answers):
    found = get(answers, "explain/default/web-0")
    assert (found["node"], found["currentNode"]) == ("a", "a")


def test_why_pods_wait(answers):
    found = get(answers, "pending")
    places = {one["pod"]: one["place"] for one in found["pods"]}
    assert places == {"default/small": "placeable", "default/big": "unschedulable", "default/gated": "gated"}
    assert found["counts"] == {"placeable": 1, "unschedulable": 1, "gated": 1}
    big, gated = (next(one for one in found["pods"] if one["pod"] == name) for name in ("default/big", "default/gated"))
    assert (big["rejectedBy"], big["reason"]) == (["NodeResourcesFit"], "Insufficient cpu")
    assert gated["gatedBy"] == "SchedulingGates"


def test_further_pods_are_counted(answers):
    found = get(answers, "pending", limit="1")
    assert (len(found["pods"]), found["leftOut"]) == (1, 2)


def test_equal_pods_are_evaluated_once():
    answers, seen = answers_about(node("a"), *(owned(pod(f"web-{i}", cpu="64")) for i in range(50))), []
    verdict = answers.cluster.verdict
    answers.cluster.verdict = lambda info: seen.append(info) or verdict(info)
    assert get(answers, "pending")["counts"] == {"unschedulable": 50}
    assert len(seen) == 1
    get(answers, "pending")
    assert len(seen) == 1


def test_pods_are_reevaluated_after_changes():
    answers = answers_about(node("a"), pod("big", cpu="6"))
    assert get(answers, "pending")["counts"] == {"unschedulable": 1}
    answers.cluster.cluster.add(node("b", cpu="8"))
    assert get(answers, "pending")["counts"] == {"placeable": 1}
    answers.cluster.cluster.add(pod("other", cpu="6"))
    assert get(answers, "pending")["counts"] == {"placeable": 2}


def test_the_number_of_evaluated_kinds_is_bounded():
    pods = [pod(f"p-{i}", cpu=f"{i + 1}m") for i in range(MAX_KINDS + 3)]
    assert get(answers_about(node("a"), *pods), "pending")["counts"] == {"placeable": MAX_KINDS, "not judged": 3}


def test_pods_of_other_schedulers_are_not_evaluated():
    found = get(answers_about(node("a"), pod("other", schedulerName="somebody")), "pending")
    assert found["pods"] == [{"pod": "default/other", "place": "not judged"}]


def test_a_node(answers):
    found = get(answers, "nodes/a")
    assert (found["node"], found["resources"]["cpu"]["requested"]) == ("a", "1")


def test_a_group():
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    member = {"schedulingGroup": {"podGroupName": "train"}}
    found = get(
        answers_about(node("a"), group, pod("one", nodeName="a", **member), pod("two", **member)),
        "podgroups/default/train",
    )
    assert (found["minCount"], found["haveNode"]) == (2, {"default/one": "a"})
    assert [one["pod"] for one in found["waiting"]] == ["default/two"]


def test_pods_that_wait_for_their_group():
    spec = {"schedulingPolicy": {"gang": {"minCount": 5}}}
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": spec,
    }
    members = [pod(f"t{i}", schedulingGroup={"podGroupName": "train"}) for i in range(5)]
    gates = {"GenericWorkload": True, "GangScheduling": True}
    cluster = Cluster([node("a"), group, *members], feature_gates=gates, emulated_version="1.36")
    found = get(ClusterInspection(ClusterSource(cluster, {})), "pending")
    assert found["counts"] == {"waits for its pod group": 5}
    assert found["pods"][0]["reason"] == ("default/train does not fit: 4 of 5 pods fit together, 1 more pod is needed")


@pytest.mark.parametrize("path", ["explain/default/nobody", "nodes/nowhere", "podgroups/default/none"])
def test_missing_objects(answers, path):
    with pytest.raises(NotFound):
        get(answers, path)


@pytest.mark.parametrize(
    ("path", "query"), [("explain/", {}), ("explain/a/b/c", {}), ("podgroups/a", {}), ("pending", {"limit": "-1"})]
)
def test_invalid_requests(answers, path, query):
    with pytest.raises(BadRequest):
        get(answers, path, **query)


def test_agrees_with_the_engines_verdict(answers):
    cluster = answers.cluster
    info = cluster.cluster.pod("default/big")
    assert get(answers, "explain/default/big")["message"] == judged(cluster.engine, info).record().message
