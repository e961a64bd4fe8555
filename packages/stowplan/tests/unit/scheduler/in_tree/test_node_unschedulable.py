"""NodeUnschedulable: cordoned nodes fit only pods that tolerate the cordon."""

import pytest

from stowplan.scheduler.in_tree.node_unschedulable.plugin import NodeUnschedulable
from stowplan.testing import a_node, a_pod

KEY = "node.kubernetes.io/unschedulable"
CORDONED = {"cordoned": "node(s) were unschedulable"}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod(), CORDONED, id="no toleration"),
        pytest.param(a_pod().tolerates(KEY, effect="NoSchedule"), {}, id="key exists, NoSchedule"),
        pytest.param(a_pod().tolerates(KEY), {}, id="key exists, any effect"),
        pytest.param(a_pod().tolerates(KEY, ""), {}, id="equal, empty value"),
        pytest.param(a_pod().tolerates(KEY, "x"), CORDONED, id="equal, other value"),
        pytest.param(a_pod().tolerates(KEY, effect="NoExecute"), CORDONED, id="other effect"),
        pytest.param(a_pod().tolerates(), {}, id="tolerates everything"),
        pytest.param(a_pod().tolerates("other"), CORDONED, id="other key"),
    ],
)
def test_cordons_keep_pods_off(bench, pod, expected):
    world = bench(NodeUnschedulable, a_node("open"), a_node("cordoned").unschedulable())
    assert world.refusals(pod) == expected
    assert world.refusals(pod, "open") == {}
    assert world.refusals(pod, "cordoned") == expected
