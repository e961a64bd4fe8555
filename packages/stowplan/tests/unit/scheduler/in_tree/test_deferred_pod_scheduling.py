"""DeferredPodScheduling: upstream's table, deferred_pod_scheduling_test.go at the code freeze of 1.37: 3 of 3 cases of
PreFilter, 6 of 6 of Filter, 6 of 6 and 5 of 5 of the hints, 3 of 3 of Permit."""

import pytest

from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.framework.status import SKIP
from stowplan.scheduler.in_tree.deferred_pod_scheduling.plugin import DeferredPodScheduling
from stowplan.testing import a_node, a_pod

CONDITION = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
PLAIN, DEFERRED = a_pod().on("n1"), a_pod().on("n1").status(conditions=[CONDITION])
ENABLED, OTHER = a_node("n1"), a_node("n2")
EMPTY = a_node("n1").spec(podPreemptionPolicy={"disableResizePreemption": []})
DISABLED = a_node("n1").spec(podPreemptionPolicy={"disableResizePreemption": ["policy1"]})


@pytest.fixture
def world(bench):
    def made(*objects, on=True):
        gates = {"InPlacePodVerticalScalingSchedulerPreemption": on}
        return bench(DeferredPodScheduling, *objects, version=V1_37, **gates)

    return made


@pytest.mark.parametrize(
    ("pod", "on", "skips"), [(DEFERRED, False, True), (PLAIN, True, True), (DEFERRED, True, False)]
)
def test_pre_filter(world, pod, on, skips):
    assert world(ENABLED, on=on).pre_filter(pod) is (SKIP if skips else None)


@pytest.mark.parametrize(
    ("pod", "node", "on", "refusal"),
    [
        (DEFERRED, DISABLED, False, ""),
        (PLAIN, DISABLED, True, ""),
        (DEFERRED, ENABLED, True, ""),
        (DEFERRED, EMPTY, True, ""),
        (DEFERRED, DISABLED, True, "node had resize preemption disabled"),
        (DEFERRED, OTHER, True, "pod assigned to different node"),
    ],
)
def test_filter(world, pod, node, on, refusal):
    assert [*world(node, on=on).refusals(pod).values()] == ([refusal] if refusal else [])


@pytest.mark.parametrize(
    ("pod", "old", "new", "on", "queues"),
    [
        (DEFERRED, DISABLED, ENABLED, False, False),
        (PLAIN, DISABLED, ENABLED, True, False),
        (DEFERRED, OTHER, OTHER, True, False),
        (DEFERRED, DISABLED, ENABLED, True, True),
        (DEFERRED, ENABLED, DISABLED, True, False),
        (DEFERRED, ENABLED, ENABLED, True, False),
        (DEFERRED, None, ENABLED, False, False),
        (PLAIN, None, ENABLED, True, False),
        (DEFERRED, None, OTHER, True, False),
        (DEFERRED, None, ENABLED, True, True),
        (DEFERRED, None, DISABLED, True, False),
    ],
)
def test_hints(world, pod, old, new, on, queues):
    assert (world(on=on).hint(pod, old, new) == "Queue") is queues


@pytest.mark.parametrize(
    ("pod", "on", "refused"), [(DEFERRED, False, False), (PLAIN, True, False), (DEFERRED, True, True)]
)
def test_permit(world, pod, on, refused):
    made = world(ENABLED, on=on)
    status, timeout = made.plugin.permit(None, made.pod(pod), "n1")
    assert timeout == 0.0
    assert (status and status.message) == ("pod resize fits, waiting for Kubelet actuation" if refused else None)
