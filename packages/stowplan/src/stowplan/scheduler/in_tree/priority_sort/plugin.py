"""Order the active queue by priority, then by time.

Upstream: pkg/scheduler/framework/plugins/queuesort.
"""

from __future__ import annotations

from typing import Any

from stowplan.scheduler.framework.interface import QueueSortPlugin
from stowplan.scheduler.in_tree.priority_sort.declaration import DECLARATION


class PrioritySort(QueueSortPlugin):
    declaration = DECLARATION
    by_priority_and_time = True

    def less(self, a: Any, b: Any) -> bool:
        """Compare queued pods, which have a `pod` and the `timestamp` at which they last entered the queue."""
        first, second = a.pod.priority, b.pod.priority
        return bool(first > second or (first == second and a.timestamp < b.timestamp))
