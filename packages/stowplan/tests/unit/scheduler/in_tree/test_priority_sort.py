"""PrioritySort: by priority, then by time in the queue."""

import pytest

from stowplan.scheduler.in_tree.priority_sort.plugin import PrioritySort
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.testing import a_pod


@pytest.mark.parametrize(
    ("a", "b", "a_first", "b_first"),
    [
        pytest.param((5, 2), (9, 1), False, True, id="lower priority"),
        pytest.param((9, 9), (5, 1), True, False, id="higher priority, later"),
        pytest.param((7, 1), (7, 2), True, False, id="earlier"),
        pytest.param((None, 1), (-1, 0), True, False, id="no priority is 0"),
        pytest.param((7, 1), (7, 1), False, False, id="equal"),
    ],
)
def test_less(bench, a, b, a_first, b_first):
    world = bench(PrioritySort)

    def queued(priority, timestamp):
        info = world.pod(a_pod() if priority is None else a_pod().priority(priority))
        return QueuedPod(pod=info, key=info.key, timestamp=timestamp)

    assert world.plugin.less(queued(*a), queued(*b)) is a_first
    assert world.plugin.less(queued(*b), queued(*a)) is b_first
