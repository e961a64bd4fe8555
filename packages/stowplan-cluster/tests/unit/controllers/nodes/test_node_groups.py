"""Groups of nodes for the cluster autoscaler: what their files may say."""

import pytest

from stowplan_cluster.apiserver.simulated_nodes import TemplateError
from stowplan_cluster.controllers.nodes.node_groups import GROUP, groups_of


def template(name="small-{n}", **annotations):
    about = {f"stowplan.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": name, "annotations": {"team": "a", **about}}
    status = {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def test_a_group():
    (group,) = groups_of([template(min_nodes="1", max_nodes="5", boot_after="20s", idle_for="1m", price="0.4")])
    assert (group.name, group.limits, group.boot, group.price) == ("small", (1, 5, 60.0, 0.5), 20.0, 0.4)
    node = group.node(7)
    assert (node["metadata"]["name"], node["metadata"]["labels"][GROUP]) == ("small-0007", "small")
    assert node["metadata"]["annotations"] == {"team": "a"}
    assert group.ready_node(7).status.allocatable["cpu"] == "4"


def test_defaults():
    (group,) = groups_of([template(max_nodes="2")])
    assert (group.limits, group.boot, group.price) == ((0, 2, 600.0, 0.5), 90.0, 0.0)


@pytest.mark.parametrize(
    ("templates", "problem"),
    [
        ([], "expected Nodes, got nothing"),
        ([{"apiVersion": "v1", "kind": "Pod"}], "expected a Node of apiVersion v1, got 'Pod'"),
        ([template()], "small: metadata.annotations: stowplan.io/max-nodes is missing"),
        ([template(max_nodes="x")], "stowplan.io/max-nodes: expected a whole number, got 'x'"),
        ([template(max_nodes="1", min_nodes="2")], "min-nodes is more than stowplan.io/max-nodes"),
        ([template(max_nodes="1", boot_after="soon")], "small: metadata.annotations: stowplan.io/boot-after: "),
        ([template(max_nodes="1", idle_for="-1s")], "stowplan.io/idle-for: '-1s' is negative"),
        ([template(max_nodes="1", utilization="2")], "expected a share from 0 to 1, got '2'"),
        ([template(max_nodes="1", price="much")], "stowplan.io/price: expected a number of 0 or more, got 'much'"),
        ([template(max_nodes="1", max_node="1")], "there is no stowplan.io/max-node; there are "),
        ([template(max_nodes="1"), template("small", max_nodes="1")], "there are several groups 'small'"),
        ([{**template(max_nodes="1"), "status": {"capacity": {"cpu": [1]}}}], "small: status.capacity"),
    ],
)
def test_refused_groups(templates, problem):
    with pytest.raises(TemplateError) as caught:
        groups_of(templates)
    assert problem in str(caught.value)
