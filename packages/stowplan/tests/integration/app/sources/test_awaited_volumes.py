"""A pod with a node, for which a provisioner has yet to create a volume: explain says what it waits for."""

from stowplan import Cluster
from stowplan.app.sources.cluster_source import ClusterSource
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
    return text.splitlines()[0], "Does it wait all the same?" in text


def test_its_headline_names_claim_and_provisioner():
    first, asks = headline(selected="n1")
    assert first.startswith("default/p waits for claim data (provisioner csi.example.com) to run on n1")
    assert not asks


def test_without_a_selected_node_it_waits_for_its_scheduler():
    first, asks = headline(selected="")
    assert first.startswith("default/p goes to n0")
    assert asks
