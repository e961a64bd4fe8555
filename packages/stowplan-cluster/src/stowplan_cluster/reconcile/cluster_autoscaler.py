"""The cluster autoscaler: how many nodes of which group the waiting pods need, and which nodes are not needed.

Groups are asked in the order of their price per cpu. A group gets as many nodes as the pods that it would accept need
by their requests, next to nodes that are already coming, and within its limit; what is left over goes to the next one.
Whether a new node accepts a pod is for the caller to say, by the scheduler's filters. Spreading among new nodes is not
predicted: pods that are still unschedulable when the nodes are there are considered again.

A node is removed after it had no pods for a time, except for those that belong to it. One with pods is a candidate
while its share of cpu and memory is low. After that time, if its pods would fit elsewhere by the scheduler's filters,
it is drained, subject to budgets, and removed; one at a time, and none for as long after a node was added. Nodes with a
pod that nobody would recreate, that is marked as not safe to evict, or that no budget allows to evict now, stay; so do
those that are a group's minimum.

Left out: pods of kube-system and those with local storage, which keep their nodes there.

Upstream: kubernetes/autoscaler, cluster-autoscaler/core (scaleup, scaledown), FAQ.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from msgspec import field

from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.pod import Pod
from stowplan.kube.api.quantity import milli_value, parse_quantity, value
from stowplan.kube.api.types import Node
from stowplan.kube.structs import PlainStruct

#: How long it is tried to evict the pods of a node, before it is given up.
_EVICTION_SECONDS = 120.0
_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
#: Maximum number of candidates for which it is tried whether their pods fit elsewhere, per look.
_MOST_TRIED = 10


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


class Order(NamedTuple):
    group: str
    nodes: int
    #: The uids of the pods that need them.
    pods: Sequence[str]


class ScaleUp(NamedTuple):
    orders: Sequence[Order]
    #: Pods that neither these nodes nor those that are coming would take.
    left: Sequence[WaitingPod]


def nodes_to_add(groups: Iterable[NodeGroup], waiting: Sequence[WaitingPod], accepts: Accepts) -> ScaleUp:
    found = []
    for group in sorted(groups, key=_price_of_cpu):
        if not waiting:
            break
        accepted = accepts(group.name, waiting)
        if not accepted or (group.room <= 0 and not group.coming):
            continue
        nodes = _Packing(group.capacity, group.coming, group.coming + max(0, group.room))
        places = {pod.uid: nodes.take(pod.requests) for pod in waiting if pod.uid in accepted}
        waiting = [pod for pod in waiting if places.get(pod.uid) is None]
        if nodes.used > group.coming:
            pods = [uid for uid, place in places.items() if place is not None and place >= group.coming]
            found.append(Order(group.name, nodes.used - group.coming, pods))
    return ScaleUp(found, waiting)


_AT_LIMIT = "max node group size reached"


def unhelped_text(groups: Iterable[NodeGroup], refusals: Mapping[str, Sequence[str]]) -> str:
    """Why no group gets a node for a pod. `refusals`: why a node of a group refuses it, for groups with room."""
    counted: Counter[str] = Counter()
    for group in groups:
        counted.update(refusals[group.name] if group.room > 0 else (_AT_LIMIT,))
    reasons = ", ".join(sorted(f"{number} {reason}" for reason, number in counted.items()))
    return f"pod didn't trigger scale-up: {reasons}"


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

    def take(self, requests: Mapping[str, int]) -> int | None:
        """The node into which it is put; None: there is none."""
        wanted = {**requests, "pods": 1}
        for place, free in enumerate(self._free):
            if self._put(free, wanted):
                return place
        if len(self._free) >= self._most:
            return None
        fresh = dict(self._capacity)
        if not self._put(fresh, wanted):
            return None
        self._free.append(fresh)
        return len(self._free) - 1

    @staticmethod
    def _put(free: dict[str, int], wanted: Mapping[str, int]) -> bool:
        if any(free.get(name, 0) < amount for name, amount in wanted.items()):
            return False
        for name, amount in wanted.items():
            if amount:
                free[name] -= amount
        return True


def node_amounts(node: Node) -> dict[str, int]:
    """What can be requested of a node, in the scheduler's units."""
    found = {}
    for resource, quantity in node.status.allocatable.items():
        nano = parse_quantity(quantity)
        found[resource] = milli_value(nano) if resource == "cpu" else value(nano)
    return found


# -- scale-down --------------------------------------------------------------------------------------------------------


class Limits(NamedTuple):
    """What a group's nodes are kept for."""

    least: int
    most: int
    #: Seconds until a node that is not needed is removed.
    idle: float
    #: Of a node with pods: it is a candidate below this share; 0: never.
    utilization: float


class IdleNodes(PlainStruct):
    """Nodes without pods, except for those that belong to them."""

    #: Node -> its number of pods.
    busy: Counter[str] = field(default_factory=Counter)
    #: Node -> since when it has none.
    since: dict[str, float] = field(default_factory=dict)

    def begin(self, node: str, now: float) -> None:
        self.since[node] = now

    def remove(self, node: str) -> None:
        self.since.pop(node, None)
        self.busy.pop(node, None)

    def pod_came(self, node: str) -> None:
        self.busy[node] += 1
        self.since.pop(node, None)

    def pod_left(self, node: str) -> bool:
        """Whether it was the last one."""
        self.busy[node] -= 1
        if self.busy[node] > 0:
            return False
        del self.busy[node]
        return True

    def ends(self, node: str, *, spare: bool, wanted: bool, now: float) -> bool:
        """Whether a node that has been idle for long enough is removed.

        `spare`: whether its group has more than its minimum; `wanted`: whether pods are on their way to it. Otherwise
        its time begins again; that of a node that is not spare only after it has had pods.
        """
        if spare and not wanted:
            return True
        del self.since[node]
        if spare:
            self.since[node] = now
        return False


class LowNode(NamedTuple):
    """A candidate."""

    share: float
    #: Seconds until it is removed.
    idle: float


class ScaleDown(PlainStruct):
    """Nodes with few pods."""

    #: Candidate -> since when it is one.
    since: dict[str, float] = field(default_factory=dict)
    #: When a node was added.
    added_at: float = -inf
    #: The node that is being drained, and when that is given up if some of its pods are not evicted.
    emptying: str = ""
    gives_up_at: float = inf

    def look(self, low: Mapping[str, LowNode], now: float, can_go: Callable[[str], bool]) -> tuple[str, float | None]:
        """The node to drain, or ""; and when to look again, if only because time has passed."""
        self.since = {node: self.since.get(node, now) for node in low}
        if self.emptying or not low:
            return "", None
        due = {node: max(self.since[node], self.added_at) + low[node].idle for node in low}
        ready = [node for node in sorted(low, key=lambda name: (low[name].share, name)) if due[node] <= now]
        going = next((node for node in ready[:_MOST_TRIED] if can_go(node)), "")
        if going:
            self.emptying, self.gives_up_at = going, now + _EVICTION_SECONDS
            del self.since[going]
            return going, None
        return "", min((at for at in due.values() if at > now), default=None)


def low_nodes(
    nodes: Mapping[str, float], limits: Limits, size: int, is_candidate: Callable[[str], bool]
) -> dict[str, LowNode]:
    """Of a group of this size, with the shares of its nodes. `is_candidate`: schedulable, and with pods to move."""
    if size <= limits.least:
        return {}
    low = {node: share for node, share in nodes.items() if share < limits.utilization}
    return {node: LowNode(share, limits.idle) for node, share in low.items() if is_candidate(node)}


def keeps_its_node(pod: Pod) -> bool:
    """Whether a pod must not be evicted to remove its node."""
    return eviction_outcome(pod) is EvictionOutcome.LOST or pod.metadata.annotations.get(_SAFE) == "false"


def next_look(now: float, start: float, interval: float) -> float:
    """Seconds until the next multiple of the interval since the start."""
    return interval - (now - start) % interval
