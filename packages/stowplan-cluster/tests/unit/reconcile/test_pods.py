from random import Random

import pytest

from stowplan.kube.api.decode import convert
from stowplan.kube.api.meta import timestamp
from stowplan_cluster.reconcile.pods import Pod, by_deletion_order, next_availability

NOW = 1_700_000_000.0


def pod(name, *, node="node-1", phase="Running", ready_for=None, cost=None, restarts=0, sidecar_restarts=0, age=1000):
    conditions = []
    if ready_for is not None:
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": timestamp(NOW - ready_for)}]
    annotations = {} if cost is None else {"controller.kubernetes.io/pod-deletion-cost": cost}
    return convert(
        {
            "metadata": {"name": name, "creationTimestamp": timestamp(NOW - age), "annotations": annotations},
            "spec": {
                "nodeName": node,
                "initContainers": [{"name": "helper", "restartPolicy": "Always"}, {"name": "once"}],
            },
            "status": {
                "phase": phase,
                "conditions": conditions,
                "containerStatuses": [{"name": "main", "restartCount": restarts}],
                "initContainerStatuses": [
                    {"name": "helper", "restartCount": sidecar_restarts},
                    {"name": "once", "restartCount": 99 if name == "last" else 0},
                ],
            },
        },
        Pod,
    )


#: Each is deleted before all that follow, for the reason in its name.
IN_ORDER = [
    pod("unassigned", node="", phase="Pending", ready_for=None),
    pod("pending", phase="Pending"),
    pod("unknown", phase="Unknown"),
    pod("not ready"),
    pod("cheap", ready_for=500, cost="-5"),
    pod("on a crowded node", node="crowded", ready_for=500),
    pod("ready for a short time", ready_for=10),
    pod("restarted", ready_for=500, restarts=3),
    pod("sidecar restarted", ready_for=500, sidecar_restarts=2),
    pod("young", ready_for=500, age=600),
    pod("last", ready_for=500),
    pod("dear", ready_for=500, cost="7"),
]
RELATED = [*IN_ORDER, *(pod(f"sibling {number}", node="crowded") for number in range(20))]


@pytest.mark.parametrize("seed", range(5))
def test_order_of_deletion(seed):
    shuffled = Random(seed).sample(IN_ORDER, len(IN_ORDER))
    assert [one.name for one in by_deletion_order(shuffled, RELATED)] == [one.name for one in IN_ORDER]


def test_an_invalid_deletion_cost_counts_as_zero():
    assert [one.name for one in by_deletion_order([pod("b", cost="much"), pod("a", cost="-1")])] == ["a", "b"]


@pytest.mark.parametrize(
    ("seconds", "available", "left"),
    [
        pytest.param(0, True, None, id="none asked"),
        pytest.param(10, True, None, id="just enough"),
        pytest.param(25, False, 15.0, id="not yet"),
    ],
)
def test_availability(seconds, available, left):
    ready = pod("ready", ready_for=10)
    assert ready.available(seconds, NOW) is available
    assert next_availability([ready, pod("not ready")], seconds, NOW) == left
