"""A pod whose resize is deferred: what an attempt for it does, beside where the pod could go."""

import pytest

from stowplan.testing import a_node, a_pod

GATE = {"InPlacePodVerticalScalingSchedulerPreemption": True}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


@pytest.mark.parametrize(
    ("cpu", "priority", "told"),
    [
        ("1", 9, "pod resize fits, waiting for Kubelet actuation"),
        ("2", 9, "Insufficient cpu; an attempt evicts default/low for it"),
        ("2", 1, "Insufficient cpu; nothing can be evicted for it"),
        ("5", 9, "Insufficient cpu"),
    ],
)
def test_a_deferred_resize(page, cpu, priority, told):
    low = a_pod("low").requests(cpu="3").on("n1").spec(priority=1)
    pod = a_pod("p").requests(cpu=cpu).on("n1").spec(priority=priority).status(conditions=[DEFERRED])
    objects = [*(a_node(name).allocatable(cpu="4", pods="10") for name in ("n1", "n2")), low, pod]
    objects = [obj.obj() for obj in objects]
    line = f"  its resize on n1 is deferred: {told}"
    assert line in page(objects, "default/p", feature_gates=GATE).splitlines()
    assert "resize" not in page(objects, "default/p")
    if cpu != "5":
        assert "n2" in page(objects, "default/p", feature_gates=GATE).splitlines()[0]
