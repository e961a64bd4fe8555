"""The sort key of the active queue, derived from the QueueSort plugin.

For a plugin that declares `by_priority_and_time`, such as PrioritySort, that is a plain tuple. Any other plugin
compares two pods at a time, as they were when they were queued; where it puts neither first, or raises, they keep
their order of arrival.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from stowplan.scheduler.framework.boundary import Raised, call
from stowplan.scheduler.framework.status import typed

if TYPE_CHECKING:
    from collections.abc import Callable

    from stowplan.scheduler.framework.interface import QueueSortPlugin
    from stowplan.scheduler.queue.observer import QueueObserver
    from stowplan.scheduler.queue.queued_pod import QueuedPod


def sort_key(plugin: QueueSortPlugin, observer: QueueObserver) -> Callable[[QueuedPod], Any]:
    """A sort key that gives the plugin's order."""
    if plugin.by_priority_and_time:
        return _by_priority
    order = _Order(plugin, observer)
    return lambda queued: _Ranked(copy(queued), order)


def _by_priority(queued: QueuedPod) -> tuple[int, float]:
    return -queued.pod.priority, queued.timestamp


class _Order:
    """A plugin's comparison of two pods."""

    def __init__(self, plugin: QueueSortPlugin, observer: QueueObserver) -> None:
        self._plugin = plugin
        self._observer = observer
        self._reported = False

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        first = call(self._plugin.less, a, b, check=bool, required=True, failed=Raised)
        if isinstance(first, bool):
            return first
        if not self._reported:
            self._reported = True
            self._observer.problem(
                f'QueueSort plugin "{self._plugin.name}" failed to compare pods {a.key} and {b.key}, '
                f"pods that it cannot compare keep their order of arrival: {typed(first.cause)}"
            )
        return False


class _Ranked:
    """A pod as of the time it was queued."""

    __slots__ = ("_order", "_queued")

    def __init__(self, queued: QueuedPod, order: _Order) -> None:
        self._queued = queued
        self._order = order

    def __lt__(self, other: _Ranked) -> bool:
        mine, theirs = self._queued, other._queued
        if self._order.less(mine, theirs):
            return True
        return not self._order.less(theirs, mine) and mine.arrival < theirs.arrival
