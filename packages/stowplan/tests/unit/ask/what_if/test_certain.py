"""Losses whose pods certainly find other nodes are those that the full prediction would find."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan import Cluster
from stowplan.ask.what_if import survive
from stowplan.ask.what_if.survive import CertainPods
from stowplan.plugins import ScorePlugin
from stowplan.testing import a_node, a_pod
from support.examples import examples
from support.plugins.answering_plugins import configuration
from support.scheduling.worlds import HOST, RACK, ZONE, clusters

WEB = {"matchLabels": {"app": "web"}}
MOSTLY_PLAIN = ("node affinity", "node preference", "toleration", "owner", "away", "near", "spread", "port", "disk")


def owned(pod, i):
    """Most pods have a controller, so that they come back."""
    metadata = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r"}]}
    metadata["ownerReferences"][0]["controller"] = True
    return {**pod, "metadata": {**pod["metadata"], **(metadata if i % 5 else {})}}


def without_certainty(patch):
    patch.setattr(CertainPods, "find_nodes", lambda self, pods, lost: False)


@pytest.fixture
def settled(monkeypatch):
    """The losses that are not certain."""
    found = []
    real = CertainPods.find_nodes

    def counted(self, pods, lost):
        certain = real(self, pods, lost)
        found.extend(() if certain else lost)
        return certain

    monkeypatch.setattr(CertainPods, "find_nodes", counted)
    return found


def cluster_of(objects, **options):
    """Of builders and dicts."""
    return Cluster([obj.obj() if hasattr(obj, "obj") else obj for obj in objects], **options)


RANDOM_CLUSTERS = [
    pytest.param(clusters(least_nodes=3, most_nodes=8, special=MOSTLY_PLAIN), id="mostly plain"),
    pytest.param(
        clusters(least_nodes=5, most_nodes=9, most_pods=7, special=("away", "near", "spread")),
        id="pods that others can refuse",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("random_clusters", RANDOM_CLUSTERS)
def test_agrees_with_full_predictions(random_clusters):
    @examples(200)
    @given(random_clusters, st.sampled_from(("node", "node", "rack", ZONE)), st.booleans())
    def agrees(cluster, by, few_pods):
        nodes, pods, objects = cluster
        pods = pods[: len(nodes)] if few_pods else pods
        if by != "node" and not any(by in node["metadata"]["labels"] for node in nodes):
            return
        found = Cluster([*nodes, *(owned(pod, i) for i, pod in enumerate(pods)), *objects])
        losses = survive(found, by)
        with pytest.MonkeyPatch.context() as patch:
            without_certainty(patch)
            assert survive(found, by) == losses

    agrees()


def nodes(count, *, cpu="4"):
    return [
        a_node(f"n{i}").zone("ab"[i % 2]).labels(rack="rst"[i % 3]).allocatable(cpu=cpu, pods="20")
        for i in range(count)
    ]


def pods(count, *, on="n0", **labels):
    return [
        a_pod(f"p{i}").uid(f"p{i}").labels(**labels).requests(cpu="1").on(on).owner("ReplicaSet", "web")
        for i in range(count)
    ]


def test_more_nodes_than_pods_are_certainty(settled):
    """Two of three others fit two pods, though not the third one."""
    survive(cluster_of([*nodes(3, cpu="1"), *pods(2)]), "node", only="n0")
    assert settled == []
    survive(cluster_of([*nodes(3, cpu="1"), *pods(3)]), "node", only="n0")
    assert settled == ["n0"]


def test_full_nodes_do_not_count(settled):
    full = a_pod("full").uid("full").requests(cpu="1").on("n2")
    survive(cluster_of([*nodes(3, cpu="1"), *pods(2), full]), "node", only="n0")
    assert settled == ["n0"]


def test_pods_that_rather_spread_are_certain(settled):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"}}
    survive(cluster_of([*nodes(5), *pods(3, app="web"), service | {"spec": {"selector": {"app": "web"}}}]), "node")
    assert settled == []


@pytest.mark.parametrize(
    ("change", "certain"),
    [
        pytest.param(lambda pod: pod, True, id="plain"),
        pytest.param(lambda pod: pod.spreads(RACK, WEB, max_skew=9), False, id="spreads over racks"),
        pytest.param(lambda pod: pod.spreads(HOST, WEB, max_skew=9), False, id="spreads over nodes"),
        pytest.param(lambda pod: pod.avoids_pods(HOST, WEB), False, id="alone on its node"),
        pytest.param(lambda pod: pod.host_port(80), False, id="has a port"),
    ],
)
def test_nodes_with_room_for_several_pods_count_several_times(settled, change, certain):
    """Five pods of a zone, and three nodes that take as many of the large ones."""
    small = [change(pod) for pod in pods(3, app="web")]
    large = [a_pod(f"l{i}").uid(f"l{i}").requests(cpu="2").on("n2").owner("ReplicaSet", "big") for i in range(2)]
    found = cluster_of([*nodes(6), *small, *large, a_pod("there").uid("there").requests(cpu="2").on("n1")])
    losses = survive(found, ZONE, only="a")
    assert settled == ([] if certain else ["n0", "n2", "n4"])
    with pytest.MonkeyPatch.context() as patch:
        without_certainty(patch)
        assert losses == survive(found, ZONE, only="a")


def test_room_that_just_is_not_enough(settled):
    """Eight pods fit, and the largest one alone."""
    found = cluster_of([*nodes(4), *pods(8), a_pod("big").requests(cpu="2").on("n2").owner("ReplicaSet", "big")])
    (loss,) = survive(found, ZONE, only="a").losses
    assert (loss.moved, len(loss.stranded), settled) == (8, 1, ["n0", "n2"])


@pytest.mark.parametrize(
    ("constraint", "certain"),
    [
        pytest.param(lambda pod: pod.spreads(ZONE, WEB), True, id="spreads over zones"),
        pytest.param(lambda pod: pod.spreads(ZONE, WEB, max_skew=2, min_domains=3), False, id="wants more zones"),
        pytest.param(lambda pod: pod.spreads(ZONE, WEB).spreads(RACK, WEB), False, id="spreads over two things"),
        pytest.param(lambda pod: pod.spreads(HOST, WEB), True, id="spreads over nodes"),
        pytest.param(lambda pod: pod.avoids_pods(HOST, WEB), True, id="alone on its node"),
        pytest.param(lambda pod: pod.avoids_pods(ZONE, WEB), False, id="alone in its zone"),
        pytest.param(lambda pod: pod.requires_pods(ZONE, WEB), True, id="near others"),
    ],
)
def test_what_others_can_refuse(settled, constraint, certain):
    """One pod of each node; others of them stay."""
    made = [constraint(a_pod(f"p{i}").uid(f"p{i}").labels(app="web").owner("ReplicaSet", "web")) for i in range(3)]
    placed = [pod.requests(cpu="1").on(f"n{i}") for i, pod in enumerate(made)]
    found = cluster_of([*nodes(7), *placed])
    losses = survive(found, "node", only="n0")
    assert settled == ([] if certain else ["n0"])
    with pytest.MonkeyPatch.context() as patch:
        without_certainty(patch)
        assert losses == survive(found, "node", only="n0")


def test_spreading_over_more_nodes_than_will_be_left_is_not(settled):
    """With one node less, a node may have only one of the pods, as if some node had none."""
    placed = [a_pod(f"p{i}").uid(f"p{i}").labels(app="web").owner("ReplicaSet", "web").on(f"n{i}") for i in range(3)]
    found = cluster_of([*nodes(3), *(pod.spreads(HOST, WEB, min_domains=3) for pod in placed)])
    (loss,) = survive(found, "node", only="n0").losses
    assert (loss.moved, len(loss.stranded), settled) == (0, 1, ["n0"])


def test_a_term_whose_holder_is_on_a_node_without_the_topology_key_counts(settled):
    """It will refuse a zone once its holder is in one."""
    outside = a_node("x").allocatable(cpu="4", pods="20")
    web, db = pods(2, on="x")
    db.labels(app="db").priority(5).avoids_pods(ZONE, WEB)
    found = cluster_of([*nodes(4)[::2], outside, web.labels(app="web"), db])
    (loss,) = survive(found, "node", only="x").losses
    assert (loss.moved, len(loss.stranded), settled) == (1, 1, ["x"])


def test_plugins_of_others_might_fail(settled):
    class Harmless(ScorePlugin):
        name = "Harmless"

        def score(self, state, pod, nodes):
            return nodes.pod_count()

    profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "Harmless"}]}}}
    config = configuration(profile)
    survive(cluster_of([*nodes(5), *pods(1)], config=config, plugins=[Harmless]), "node", only="n0")
    assert settled == ["n0"]
