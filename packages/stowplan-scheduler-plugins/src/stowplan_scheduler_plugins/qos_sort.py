"""Order the active queue by priority, then by QoS class (Guaranteed first), then by time.

Upstream: pkg/qos in scheduler-plugins.
"""

from typing import Any

from stowplan.plugins import QueueSortPlugin
from stowplan.plugins.objects import qos_class

_RANKS = {"Guaranteed": 2, "Burstable": 1, "BestEffort": 0}


class QOSSort(QueueSortPlugin):
    name = "QOSSort"

    def less(self, a: Any, b: Any) -> bool:
        if a.pod.priority != b.pod.priority:
            return bool(a.pod.priority > b.pod.priority)
        first, second = _RANKS[qos_class(a.pod)], _RANKS[qos_class(b.pod)]
        return first > second if first != second else bool(a.timestamp < b.timestamp)
