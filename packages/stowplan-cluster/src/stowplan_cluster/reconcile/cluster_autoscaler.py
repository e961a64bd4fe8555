"""The cluster autoscaler: how many nodes of which group the waiting pods need.

Groups are asked in the order of their price per cpu. A group gets as many nodes as the pods that it would accept need
by their requests, next to nodes that are already coming, and within its limit; what is left over goes to the next one.
Whether a new node accepts a pod is for the caller to say, by the scheduler's filters. Spreading among new nodes is not
predicted: pods that are still unschedulable when the nodes are there are considered again.

Upstream: kubernetes/autoscaler, cluster-autoscaler/core/scaleup.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple


class NodeGroup(NamedTuple):
    """Identical nodes, of which there may be more."""

    name: str
    #: Of a node, in the scheduler's units.
    capacity: Mapping[str, int]
    price: float
    #: Nodes that were ordered and are not there yet.
    coming: int
    #: How many more may be ordered; negative if there are too many.
    room: int


class WaitingPod(NamedTuple):
    uid: str
    requests: Mapping[str, int]


#: (group, pods) -> the uids of those that a new node of the group would accept.
Accepts = Callable[[str, Sequence[WaitingPod]], Collection[str]]


def nodes_to_add(groups: Iterable[NodeGroup], waiting: Sequence[WaitingPod], accepts: Accepts) -> dict[str, int]:
    """Group -> number of nodes to order."""
    found = {}
    for group in sorted(groups, key=_price_of_cpu):
        if not waiting:
            break
        accepted = accepts(group.name, waiting)
        if not accepted or (group.room <= 0 and not group.coming):
            continue
        nodes = _Packing(group.capacity, group.coming, group.coming + max(0, group.room))
        waiting = [pod for pod in waiting if pod.uid not in accepted or not nodes.take(pod.requests)]
        if nodes.used > group.coming:
            found[group.name] = nodes.used - group.coming
    return found


def _price_of_cpu(group: NodeGroup) -> tuple[float, str]:
    return group.price / max(group.capacity.get("cpu", 0), 1), group.name


class _Packing:
    """First fit of requests into identical nodes, the first of which are already coming."""

    def __init__(self, capacity: Mapping[str, int], present: int, most: int) -> None:
        self._capacity = dict(capacity)
        self._most = most
        self._free = [dict(capacity) for _ in range(present)]

    @property
    def used(self) -> int:
        return len(self._free)

    def take(self, requests: Mapping[str, int]) -> bool:
        wanted = {**requests, "pods": 1}
        for free in self._free:
            if self._put(free, wanted):
                return True
        if len(self._free) >= self._most:
            return False
        fresh = dict(self._capacity)
        if not self._put(fresh, wanted):
            return False
        self._free.append(fresh)
        return True

    @staticmethod
    def _put(free: dict[str, int], wanted: Mapping[str, int]) -> bool:
        if any(free.get(name, 0) < amount for name, amount in wanted.items()):
            return False
        for name, amount in wanted.items():
            if amount:
                free[name] -= amount
        return True
