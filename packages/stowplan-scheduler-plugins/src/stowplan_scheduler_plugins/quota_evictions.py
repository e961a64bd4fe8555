"""Which pods may be evicted for a pod, by quotas, and what quotas still refuse: on each node by itself, in arrays.

A namespace within its minimum takes back what others borrowed, until these are at their minimums; one beyond it evicts
its own pods of lower priority; a pod without quota evicts other pods without quota. As use only shrinks, what may be
taken from a quota on a node are its first pods there.

Upstream: SelectVictimsOnNode in pkg/capacityscheduling of scheduler-plugins.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stowplan.plugins import Ints, Mask, PodInfo, PodShape, Rows
from stowplan.plugins.preemption import PodsOnNodes
from stowplan_scheduler_plugins.elastic_quotas import ALWAYS, UNLIMITED, Amounts, Quotas, request_of

EXCEEDED = "global quota max exceeded"

#: What a pod requests beyond it is cut off, so that sums stay within 64 bits; and the sums themselves.
_MOST_OF_POD, _MOST = 2**55, 2**62


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What PreFilter found: quotas as they were then, and what the pod requests."""

    quotas: Quotas
    request: Amounts
    #: With nominated pods that come first: those that count for the pod's own quota, and for all.
    in_quota: Amounts
    in_total: Amounts


class QuotaEvictions:
    def __init__(self, pod: PodInfo, asked: Asked, nodes: int) -> None:
        self._pod, self._asked, self._quotas = pod, asked, asked.quotas
        self._own = asked.quotas.get(pod.namespace)
        self._names = sorted({*ALWAYS, *asked.quotas.used, *asked.in_quota, *asked.in_total})
        #: What was evicted of all quotas, and of the pod's own; shape (resources, rows).
        self._gone, self._gone_own = (np.zeros((len(self._names), nodes), np.int64) for _ in range(2))
        self._shapes: Sequence[PodShape] = ()
        self._of_shapes: Ints = np.zeros((len(self._names), 0), np.int64)

    def may_evict(self, pods: PodsOnNodes) -> Mask:
        own = self._own
        lower: Mask = pods.priorities < self._pod.priority
        if own is None:
            without = [self._quotas.get(shape.namespace) is None for shape in pods.shapes]
            return _of_pods(without, pods) & lower
        if own.over_min_with(self._asked.in_quota):
            return _of_pods([shape.namespace == own.namespace for shape in pods.shapes], pods) & lower
        others = [
            shape.namespace != own.namespace and self._quotas.get(shape.namespace) is not None for shape in pods.shapes
        ]
        found = _of_pods(others, pods)
        at = np.flatnonzero(found)
        found[at] = self._borrowed(pods.at(at))
        return found

    def _borrowed(self, pods: PodsOnNodes) -> Mask:
        """Of pods with quotas: whose quotas are over their minimums, without those before them on the same node."""
        known: dict[str, int] = {}
        of_shape = np.array([known.setdefault(shape.namespace, len(known)) for shape in pods.shapes], np.intp)
        over = np.stack([self._over_min(namespace) for namespace in known] or [np.zeros(len(self._names), np.int64)])
        quota = of_shape[pods.shape_index]
        group = pods.rows * max(len(known), 1) + quota
        order = np.argsort(group, kind="stable")
        amounts = self._amounts(pods)[:, order]
        before = np.cumsum(amounts, axis=1) - amounts
        starts = np.flatnonzero(np.diff(group[order], prepend=-1))
        before -= np.repeat(before[:, starts], np.diff(np.append(starts, len(order))), axis=1)
        found = np.zeros(len(order), np.bool_)
        found[order] = (over.T[:, quota[order]] > before).any(axis=0)
        return found

    def _over_min(self, namespace: str) -> Ints:
        """By how much more is used than the minimum, by resource."""
        quota = self._quotas.get(namespace)
        if quota is None:
            return np.full(len(self._names), -_MOST)
        named = {*ALWAYS, *quota.used}
        return _vector(
            quota.used.get(name, 0) - quota.min.get(name, 0) if name in named else -_MOST for name in self._names
        )

    def no_victims(self, node_name: str) -> str:
        return f"No victims found on node {node_name} for preemptor pod {self._pod.name}"

    def move(self, pods: PodsOnNodes, sign: int) -> None:
        if not len(pods.rows):
            return
        # Pods are sorted by their nodes.
        starts = np.flatnonzero(np.diff(pods.rows, prepend=-1))
        amounts, rows = self._amounts(pods), pods.rows[starts]
        self._gone[:, rows] -= sign * np.add.reduceat(amounts, starts, axis=1)
        own = _of_pods([shape.namespace == self._pod.namespace for shape in pods.shapes], pods)
        self._gone_own[:, rows] -= sign * np.add.reduceat(amounts * own, starts, axis=1)

    def hopeless(self, rows: Rows) -> tuple[Mask, str]:
        return self._over(rows, self._asked.request, self._asked.request), EXCEEDED

    def exceeded(self, rows: Rows) -> Mask:
        return self._over(rows, self._asked.in_quota, self._asked.in_total)

    def _over(self, rows: Rows, in_quota: Amounts, in_total: Amounts) -> Mask:
        """Whether the pod's quota, or all quotas together, would be exceeded by this."""
        own, quotas = self._own, self._quotas
        if own is None:
            return np.zeros(len(rows), np.bool_)
        above_max = self._above(own.used, in_quota, own.max, UNLIMITED, {*ALWAYS, *in_quota})
        above_min = self._above(quotas.used, in_total, quotas.min, 0, {*ALWAYS, *quotas.used, *in_total})
        beyond_max = (above_max[:, None] > self._gone_own[:, rows]).any(axis=0)
        beyond_min = (above_min[:, None] > self._gone[:, rows]).any(axis=0)
        found: Mask = np.logical_or(beyond_max, beyond_min)
        return found

    def _above(self, used: Amounts, more: Amounts, limit: Mapping[str, int], unnamed: int, names: set[str]) -> Ints:
        limits = {name: limit.get(name, 0 if name in ALWAYS else unnamed) for name in names}
        return _vector(
            used.get(name, 0) + more.get(name, 0) - limits[name] if name in names else -_MOST for name in self._names
        )

    def _amounts(self, pods: PodsOnNodes) -> Ints:
        """What each pod's quota counts for it; shape (resources, pods)."""
        if self._shapes is not pods.shapes:
            self._shapes = pods.shapes
            counted = [request_of(one) if self._quotas.get(one.namespace) else {} for one in pods.shapes]
            of_shapes = [[min(one.get(name, 0), _MOST_OF_POD) for one in counted] for name in self._names]
            self._of_shapes = np.array(of_shapes, np.int64).reshape(len(self._names), len(counted))
        found: Ints = self._of_shapes[:, pods.shape_index]
        return found


def _of_pods(of_shapes: list[bool], pods: PodsOnNodes) -> Mask:
    found: Mask = np.array(of_shapes, np.bool_)[pods.shape_index]
    return found


def _vector(amounts: Iterable[int]) -> Ints:
    return np.array([max(-_MOST, min(amount, _MOST)) for amount in amounts], np.int64)
