"""Cells of containers, as agents publish them, and what evictions give back."""

import pytest

import stowplan
from stowplan.testing import a_pod
from stowplan_scheduler_plugins.node_topologies import Topology, exclusive_requests
from stowplan_scheduler_plugins.numa_placements import (
    METADATA,
    VECTOR,
    EvictionError,
    check_freed,
    container_hash,
    freed,
    placements_of,
)

ONE = {"cpu": "2", "memory": "1Gi"}
NANO = 10**9


def info(name, *requests):
    made = [{"name": f"c{i}", "resources": {"requests": one, "limits": one}} for i, one in enumerate(requests)]
    return stowplan.Cluster().pod(a_pod(name).spec(containers=made).obj())


def published(pods, metadata, *vectors, policy="single-numa-node"):
    zones = [
        {"name": f"node-{i}", "type": "Node", "attributes": [{"name": VECTOR, "value": one}] if one else []}
        for i, one in enumerate(vectors)
    ]
    attributes = [{"name": "topologyManagerPolicy", "value": policy}, {"name": METADATA, "value": metadata}]
    topology = Topology(content={"attributes": attributes, "zones": zones})
    found = placements_of(topology, pods, {"cpu", "memory"})
    ordered = sorted(container_hash(pod, one) for pod in pods for one, _ in exclusive_requests(pod, ()))
    return [found.get(one) for one in ordered]


THREE = [info("a", ONE, ONE), info("b", ONE)]
HUNDRED = [info(f"p{i}", ONE) for i in range(100)]


def test_the_cell_with_the_most_containers_has_those_that_no_vector_has():
    assert published(THREE, "npv0v001::ve=leb89::cc=3::nn=2::bn=1", "#", "") == [1, 0, 1]


def test_numbers_are_distances_and_may_have_several_digits():
    # 1, then 2 more, then 64 + 0 * 64 + 5 more.
    found = published(HUNDRED, "npv0v001::ve=leb89::cc=100::nn=2::bn=0", "", "#$f(")
    assert [i for i, cell in enumerate(found) if cell == 1] == [1, 3, 72]


def test_a_number_that_is_cut_off_counts_as_minus_one():
    assert published(THREE, "npv0v001::ve=leb89::cc=3::nn=2::bn=1", "#z", "") == [0, 0, 1]


@pytest.mark.parametrize(
    ("metadata", "vectors"),
    [
        pytest.param("npv0v002::ve=leb89::cc=3::nn=2::bn=1", ("#", ""), id="another version"),
        pytest.param("npv0v001::ve=other::cc=3::nn=2::bn=1", ("#", ""), id="another encoding"),
        pytest.param("npv0v001::ve=leb89::cc=4::nn=2::bn=1", ("#", ""), id="another number of containers"),
        pytest.param("npv0v001::ve=leb89::cc=3::nn=2::bn=2", ("#", ""), id="no such cell"),
        pytest.param("npv0v001::ve=leb89::cc=3::nn=2", ("#", ""), id="the busiest cell is missing"),
        pytest.param("npv0v001::ve=leb89::cc=3::nn=2::bn=1::x=1", ("#", ""), id="an unknown field"),
        pytest.param("npv0v001::ve=leb89::cc=3::nn=2::bn=1", ("", "#"), id="a vector of the busiest cell"),
        pytest.param("npv0v001::ve=leb89::cc=3::nn=2::bn=1", ("(", ""), id="beyond the last container"),
        pytest.param("npv0v001::ve=leb89::cc=3::nn=2::bn=1", ("#!", ""), id="a container twice"),
        pytest.param("npv0v001::ve=leb89::cc=3::nn=2::bn=1", ("z", ""), id="cut off"),
        pytest.param("npv0v001::ve=leb89::cc=3::nn=2::bn=1", ("é", ""), id="not a digit"),
    ],
)
def test_what_does_not_fit_together_says_nothing(metadata, vectors):
    assert published(THREE, metadata, *vectors) == [None] * 3


def test_only_for_the_policy_that_aligns():
    metadata = "npv0v001::ve=leb89::cc=3::nn=2::bn=1"
    assert published(THREE, metadata, "#", "", policy="restricted") == [None] * 3


def test_exclusive_resources_are_given_back_to_their_cells():
    pod = info("a", ONE, {"cpu": "1500m", "memory": "1Gi"})
    hashes = [container_hash(pod, one) for one in pod.pod.spec.containers]
    found = freed([pod], {hashes[0]: 0, hashes[1]: 1}, {"cpu", "memory"})
    assert found == {0: {"cpu": 2 * NANO, "memory": 2**30 * NANO}, 1: {"memory": 2**30 * NANO}}


def test_pods_without_exclusive_resources_give_nothing_back():
    with pytest.raises(EvictionError, match="no resources to add"):
        freed([stowplan.Cluster().pod(a_pod("p").requests({"cpu": "2"}).obj())], {1: 0}, set())


@pytest.mark.parametrize(("more", "too_much"), [(2, False), (3, True)])
def test_a_cell_gets_back_no_more_than_it_has(more, too_much):
    zone = {"name": "node-0", "resources": [{"name": "cpu", "allocatable": "4", "available": "2"}]}
    topology = Topology(content={"zones": [zone]})
    given = topology, {0: {"cpu": 2 * NANO}}, {0: {"cpu": more * NANO, "memory": NANO}}
    if too_much:
        with pytest.raises(EvictionError, match="exceeds NUMA allocatable"):
            check_freed(*given)
    else:
        check_freed(*given)
