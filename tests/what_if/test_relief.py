"""Suggestions for groups of pods have the effect that the change would really have."""

from hypothesis import given
from hypothesis import strategies as st

from stowplan.explain.text.overview import Group
from stowplan.offline import Cluster
from stowplan.testing import a_node, a_pod
from stowplan.what_if.nodes import node_like, node_named
from stowplan.what_if.relief import relief

NODES = st.lists(st.integers(1, 8), min_size=1, max_size=4)
PODS = st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["", "ssd"])), min_size=1, max_size=8)


def a_cluster(nodes, pods):
    objects = [a_node(f"n{i}").allocatable(cpu=str(cpu), pods="10").obj() for i, cpu in enumerate(nodes)]
    for i, (cpu, disk) in enumerate(pods):
        made = a_pod(f"p{i}").requests(cpu=str(cpu))
        objects.append((made.node_selector(disk=disk) if disk else made).obj())
    return Cluster(objects)


def groups_of(cluster):
    return [Group(cluster.explain(key)) for key in cluster.pending()]


@given(NODES, PODS)
def test_the_number_of_nodes_is_sufficient_and_minimal(nodes, pods):
    cluster = a_cluster(nodes, pods)
    refused = [group.verdict.key for group in groups_of(cluster) if group.is_refused]
    for found in relief(cluster, groups_of(cluster)):
        (change, *others) = found.changes
        if change["kind"] != "addNodes" or others:
            continue
        assert placed_with(cluster, refused, change["like"], change["nodes"]) == found.pods
        assert placed_with(cluster, refused, change["like"], change["nodes"] - 1) < found.pods
        assert placed_with(cluster, refused, change["like"], len(pods) + 3) == found.pods


def placed_with(cluster, keys, like, number):
    """In a cluster of its own."""
    grown = Cluster([info.pod for info in cluster.state.pending.values()])
    for row in cluster.state.table.row_of.values():
        grown.add(cluster.state.table.nodes[row])
    for i in range(number):
        grown.add(node_like(node_named(cluster, like), f"new-{i}"))
    return sum(1 for decision in grown.schedule(keys) if decision.node_name)


@given(NODES, PODS)
def test_the_cluster_is_unchanged(nodes, pods):
    cluster = a_cluster(nodes, pods)
    before = cluster.state.version, cluster.pending()
    relief(cluster, groups_of(cluster))
    assert (cluster.state.version, cluster.pending()) == before


def test_a_change_is_tried_for_all_its_pods():
    cluster = a_cluster([8], [(2, "ssd"), (3, "ssd"), (4, "ssd"), (1, "")])
    found = {one.text: one.pods for one in relief(cluster, groups_of(cluster))}
    # 2 and 3 fit together; 4 does not fit beside them.
    assert found["drop nodeSelector disk=ssd"] == 2
    assert not any(text.startswith("add ") for text in found)


def test_pods_that_fit_need_no_relief():
    cluster = a_cluster([8], [(2, "")])
    assert relief(cluster, groups_of(cluster)) == []
