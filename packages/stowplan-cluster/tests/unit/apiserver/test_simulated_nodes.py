"""Nodes created from a template."""

import pytest

from stowplan_cluster.apiserver.simulated_nodes import TEMPLATE, TemplateError, check_template, nodes_of


def template(name="n", **metadata):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


def test_placeholders_are_replaced_everywhere():
    labels = {"row": "r{n}", "zone-{zone}": "yes"}
    taints = [{"key": "z", "value": "{zone}", "effect": "NoSchedule"}]
    nodes = list(nodes_of({**template("big-{n}", labels=labels), "spec": {"taints": taints, "n": 3}}, 4))
    assert [node["metadata"]["name"] for node in nodes] == ["big-0000", "big-0001", "big-0002", "big-0003"]
    assert nodes[1]["metadata"]["labels"] == {"kubernetes.io/hostname": "big-0001", "row": "r0001", "zone-b": "yes"}
    assert [node["spec"]["taints"][0]["value"] for node in nodes] == ["a", "b", "c", "a"]
    assert nodes[0]["spec"]["n"] == 3


def test_a_name_without_placeholder_gets_a_number():
    assert [node["metadata"]["name"] for node in nodes_of(template(), 2)] == ["n-0000", "n-0001"]


def test_a_hostname_label_is_kept():
    (node,) = nodes_of(template(labels={"kubernetes.io/hostname": "h{n}"}), 1)
    assert node["metadata"]["labels"] == {"kubernetes.io/hostname": "h0000"}


def test_the_template_is_not_changed():
    before = repr(TEMPLATE)
    list(nodes_of(TEMPLATE, 3))
    assert repr(TEMPLATE) == before


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ({"apiVersion": "v1", "kind": "Pod"}, "got 'Pod'"),
        ({"apiVersion": "v2", "kind": "Node"}, "expected a Node of apiVersion v1"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {}}, r"metadata\.name: missing"),
    ],
)
def test_invalid_templates(bad, complaint):
    with pytest.raises(TemplateError, match=complaint):
        check_template(bad)
