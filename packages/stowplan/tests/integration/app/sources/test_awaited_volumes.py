"""A pod with a node, for which a provisioner has yet to create a volume: explain says what it waits for."""

import pytest

from stowplan import Cluster
from stowplan.app.cli.explain.answers import about_pods
from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.app.sources.selection import Selection
from stowplan.ask.explain.text.tables import plain
from stowplan.ask.explain.text.verdict_text import explanation
from support.api.storage_objects import claim, storage_class
from support.what_if.objects import node, pod

DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def headline(*, selected):
    waiting = claim(class_="fast", annotations={"volume.kubernetes.io/selected-node": selected} if selected else {})
    nodes = [node("n0"), node("n1")]
    cluster = Cluster([*nodes, storage_class(mode="WaitForFirstConsumer"), waiting, pod("p", volumes=DATA)])
    reported = ClusterSource(cluster, {}, reports=True).reported(cluster.pod("p"))
    text = plain(explanation(cluster.engine, cluster.explain("p"), reported=reported))
    assert "What this scheduler knows of it" not in text
    return text.splitlines()[0], "Does it wait all the same?" in text


def test_its_headline_names_claim_and_provisioner():
    first, asks = headline(selected="n1")
    assert first.startswith("default/p waits for claim data (provisioner csi.example.com) to run on n1")
    assert not asks


def test_without_a_selected_node_it_waits_for_its_scheduler():
    first, asks = headline(selected="")
    assert first.startswith("default/p goes to n0")
    assert asks


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        pytest.param(
            ("n0", "n0"),
            "default/db-0 and 1 more like it (default/db-1) wait for claims such as db-0 (provisioner csi.example.com) "
            "to run on n0 and would go there again: 1 of 2 nodes would take it",
            id="of one node",
        ),
        pytest.param(("n0", "n1"), "2 pods: 2 wait for their claims", id="of two"),
    ],
)
def test_those_that_have_been_given_a_node_are_counted_apart(nodes, first):
    """Whether they would have room together is not asked: each has its node already."""
    names = [f"db-{i}" for i in range(len(nodes))]
    claims = [
        claim(name, class_="fast", annotations={"volume.kubernetes.io/selected-node": selected})
        for name, selected in zip(names, nodes, strict=True)
    ]
    pods = [pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}]) for name in names]
    cluster = Cluster([node("n0"), node("n1"), storage_class(mode="WaitForFirstConsumer"), *claims, *pods])
    answer = about_pods(ClusterSource(cluster, {}, reports=True), Selection(), "text")
    assert plain(answer.page()).splitlines()[0] == first
    summary = answer.data()["summary"]
    cause = {"plugin": "VolumeBinding", "reason": "waits for its claim (provisioner csi.example.com)", "pods": 2}
    assert summary["causes"] == [{**cause, "namespaces": {"default": 2}}]
    assert (summary["onClaim"], summary["placeable"], summary["together"]) == (2, 0, 0)
    assert not answer.some_without_node()
