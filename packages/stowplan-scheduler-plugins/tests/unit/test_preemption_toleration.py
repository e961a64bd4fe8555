"""Which pods PreemptionToleration protects, and from whom."""

import pytest

import stowplan
from stowplan.plugins.objects import parse_timestamp
from stowplan.testing import a_node, a_pod
from stowplan_scheduler_plugins.preemption_toleration import MINIMUM_PRIORITY, SECONDS

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {"plugins": {"postFilter": {"enabled": [{"name": "PreemptionToleration"}], "disabled": [{"name": "*"}]}}}
    ],
}
NOON = parse_timestamp("2026-01-01T12:00:00Z")


def preemption(annotations, *, priority=500, now=NOON, class_name="batch", scheduled=True):
    """The dry run for a pod of this priority: one node, full of a pod of class `batch`, whose value is 100."""
    victim = a_pod("old").requests(cpu="4").priority(100, class_name=class_name).on("n1").obj()
    if scheduled:
        since = "2026-01-01T11:59:00Z"
        victim.setdefault("status", {})["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
        ]
    batch = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "batch", "annotations": annotations},
        "value": 100,
    }
    cluster = stowplan.Cluster([a_node("n1").allocatable(cpu="4").obj(), victim, batch], config=CONFIG, now=now)
    return cluster.explain(a_pod("new").requests(cpu="4").priority(priority).obj())


@pytest.mark.parametrize(
    ("annotations", "given", "evicted"),
    [
        pytest.param({}, {}, True, id="any higher priority may evict by default"),
        pytest.param({MINIMUM_PRIORITY: "500"}, {}, True, id="the minimum itself may"),
        pytest.param({MINIMUM_PRIORITY: "501", SECONDS: "3600"}, {}, False, id="below the minimum it may not"),
        pytest.param({MINIMUM_PRIORITY: "501", SECONDS: "60"}, {}, True, id="not any longer"),
        pytest.param({MINIMUM_PRIORITY: "501", SECONDS: "61"}, {}, False, id="for another second"),
        pytest.param({MINIMUM_PRIORITY: "501", SECONDS: "-1"}, {"now": NOON * 2}, False, id="never"),
        pytest.param({MINIMUM_PRIORITY: "501"}, {"scheduled": False}, False, id="not known to be scheduled"),
        pytest.param({MINIMUM_PRIORITY: "much", SECONDS: "-1"}, {}, True, id="no number protects nothing"),
        pytest.param({MINIMUM_PRIORITY: "501", SECONDS: "-1"}, {"class_name": ""}, True, id="without a class"),
    ],
)
def test_a_class_protects_its_pods(annotations, given, evicted):
    verdict = preemption(annotations, **given)
    assert list(verdict.preemption.best) == (["n1"] if evicted else [])


def test_a_class_that_does_not_exist_excludes_the_node():
    verdict = preemption({}, class_name="gone")
    assert verdict.preemption.error == 'priorityclass.scheduling.k8s.io "gone" not found'
    assert not verdict.preemption.candidates
