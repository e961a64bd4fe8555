"""What callers pass: natural forms are accepted, anything else gets a clear message."""

import inspect

import pytest

import stowplan.ask.what_if
from stowplan import Cluster
from stowplan.ask.offline import ClusterError
from stowplan.ask.what_if import AddNodes, Label, NodeKind, Remove, Scale, drain, fit, what_if
from support.api.storage_objects import claim, storage_class
from support.what_if.objects import node, owned, pod


@pytest.fixture
def cluster():
    return Cluster([node("a"), node("b"), owned(pod("web-0", nodeName="a"))])


def test_a_list_of_changes(cluster):
    changes = [Label("b", "disk", "ssd"), Remove("a")]
    assert what_if(cluster, changes) == what_if(cluster, *changes)


def test_the_name_of_one_node(cluster):
    assert drain(cluster, "a") == drain(cluster, ["a"])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda cluster: what_if(cluster, "a"), """want changes such as Remove("node-1"), got 'a'"""),
        (lambda cluster: what_if(cluster, Remove(["a"])), "want the name of a node, got ['a']"),
        (lambda cluster: AddNodes("a", 2), """as in AddNodes(2, "node-1"), got 'a'"""),
        (lambda cluster: AddNodes(-1, "a"), "want a number of nodes from 1 to 10,000"),
        (lambda cluster: Scale("Deployment", "default", "web", "3"), "want a number of pods, 0 or more, got '3'"),
        (lambda cluster: fit(cluster, "web-0", replicas="10"), "want a whole number, 0 or more, got '10'"),
        (lambda cluster: drain(cluster, "a", rolling="1"), "want 1 or more, got '1'"),
    ],
)
def test_nonsense(cluster, ask, message):
    with pytest.raises(ClusterError) as error:
        ask(cluster)
    assert message in str(error.value)


def test_objects_without_a_namespace_are_in_the_default_one(cluster):
    data = claim("data", class_="fast")
    del data["metadata"]["namespace"]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    for obj in (storage_class(), data, pod("p", volumes=volumes)):
        cluster.add(obj)
    found = fit(cluster, "p")
    assert (found.fits, found.notes) == (7, ("assumed that csi.example.com creates the volumes of class fast",))


def test_signatures_can_be_read():
    for name in stowplan.ask.what_if.__all__:
        assert "*args" not in str(inspect.signature(getattr(stowplan.ask.what_if, name)))


def test_prices_are_added_in_decimal(cluster):
    kinds = [NodeKind("a", price=0.1), NodeKind("b", price=0.1)]
    found = fit(cluster, "web-0", replicas=19, kinds=kinds)
    assert [add.price for add in found.nodes_to_add] == [0.3, 0.3]
    assert found.cheapest.price == 0.3


def test_there_is_no_number_of_pods_of_a_daemon_set_that_fits(cluster):
    cluster.add(owned(pod("agent-x", nodeName="a"), "DaemonSet", "agent"))
    with pytest.raises(ClusterError, match=r"DaemonSet default/agent has one pod on each of its nodes.*explain daemon"):
        fit(cluster, "agent-x")


@pytest.mark.parametrize("given", [pod("p"), pod("p", nodeName="a")], ids=["pending", "on a node"])
def test_a_misspelled_field_of_an_object(cluster, given):
    del given["metadata"]["uid"]
    given["spec"]["containers"][0]["resources"] = {"request": {"cpu": "1"}}
    message = r'Pod "default/p": unknown field "spec.containers\[0\].resources.request"; did you mean requests\?'
    with pytest.raises(ClusterError, match=message):
        cluster.add(given)
    with pytest.raises(ClusterError, match=message):
        fit(cluster, given)
