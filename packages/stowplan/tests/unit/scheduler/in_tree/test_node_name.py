"""NodeName: a pod that names a node fits no other."""

import pytest

from stowplan.scheduler.in_tree.node_name.plugin import NodeName
from stowplan.testing import a_node, a_pod

REASON = "node(s) didn't match the requested node name"


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        pytest.param("", [], id="none named"),
        pytest.param("n1", ["n2"], id="one of the two"),
        pytest.param("N1", ["n1", "n2"], id="case matters"),
        pytest.param("n3", ["n1", "n2"], id="unknown"),
    ],
)
def test_named_node(bench, wanted, refused):
    world = bench(NodeName, a_node("n1"), a_node("n2"))
    assert world.refusals(a_pod().on(wanted)) == dict.fromkeys(refused, REASON)
    assert world.refusals(a_pod().on(wanted), "n2") == {n: REASON for n in refused if n == "n2"}


def test_pods_that_name_different_nodes_have_different_signatures(bench):
    world = bench(NodeName)
    fragments = [world.plugin.sign_pod(world.pod(a_pod().on(node))) for node in ("", "n1", "n2")]
    assert len({repr(fragment) for fragment in fragments}) == 3
