"""QOSSort: priority, then QoS class, then time."""

import pytest

import stowplan
from stowplan.testing import a_pod
from stowplan_scheduler_plugins.golden.scenarios import Queued
from stowplan_scheduler_plugins.qos_sort import QOSSort

GUARANTEED = a_pod("guaranteed").requests(cpu="1", memory="1Gi").limits(cpu="1", memory="1Gi")
BURSTABLE = a_pod("burstable").requests(cpu="1")
BEST_EFFORT = a_pod("best-effort")


def queued(builder, *, priority=0, time=0):
    pod = stowplan.Cluster().pod(builder.priority(priority).obj())
    return Queued(pod, time, time)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(queued(BEST_EFFORT, priority=1), queued(GUARANTEED), id="priority before class"),
        pytest.param(queued(GUARANTEED, time=9), queued(BURSTABLE), id="class before time"),
        pytest.param(queued(BURSTABLE, time=9), queued(BEST_EFFORT), id="requests before none"),
        pytest.param(queued(BURSTABLE, time=1), queued(BURSTABLE, time=2), id="time last"),
    ],
)
def test_the_order(first, second):
    sort = QOSSort(None, None)
    assert sort.less(first, second)
    assert not sort.less(second, first)


def test_equal_pods_have_no_order():
    assert not QOSSort(None, None).less(queued(BURSTABLE), queued(BURSTABLE))
