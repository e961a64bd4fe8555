"""Reconstruct the order in which the other scheduler decided.

A scheduler decides one pod after the other, each on a state in which all earlier pods already have their nodes; then it
writes binds, many at a time. So the watch delivers binds in the order of the writes, which is nearly the order of the
decisions. Judging a pod on the state as of the watch would leave out some pods that the other scheduler had counted,
and include some that it had not.

Known is the order of its queue: by priority, then by arrival. Binds are therefore held back until no pod that precedes
them in the queue can still be in progress. Pods that are overtaken by too many binds, or for too long, are not in
progress: they were rejected, or wait for something. If a pod's queue position is unknown, it is judged when its bind
arrives, after all earlier binds. That applies to pods that existed before we started (it is unknown whether the other
scheduler saw them arrive, or listed them by name), and to rejected ones. Their binds say nothing about waiting pods.

Nodes and pods are delivered by different watches: a bind to an unknown node is held back until the node is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Pod

#: A pod that was overtaken by this many binds, or for this many seconds, is not in progress. On a machine with too few
#: cores a bind was seen to be overtaken for a second.
MAX_OVERTAKING, MAX_SECONDS = 1024, 5.0
#: Binds within this many seconds may have been decided in another order than they were written: each is held back as
#: long, so that the judgement can take later ones into account.
CONCURRENT_SECONDS = 0.25

#: Priority, highest first; a number that increases with arrival; and 0, or the number of the bind: such a pod directly
#: follows another one.
_Place = tuple[int, int, int]
_FIRST: _Place = (-(2**63), 0, 0)


class Bind(NamedTuple):
    """A bind that is held back."""

    uid: str
    #: From the pod without a node to its latest version.
    change: Change[Pod]
    #: When the pod was first seen pending, and when its bind was seen.
    pending_since: float
    at: float
    #: Sequence number of the bind.
    number: int
    #: Whether its position in the queue is known.
    is_placed: bool

    @property
    def node(self) -> str:
        assert self.change.new is not None
        return self.change.new.spec.node_name

    def may_have_swapped(self, other: Bind) -> bool:
        """Whether the two may have been decided in another order than they are judged in."""
        return not (self.is_placed and other.is_placed)


class DecisionOrder:
    def __init__(self) -> None:
        self._numbers = 0
        self._binds = 0
        #: The highest position of all binds so far.
        self._latest = _FIRST
        #: Positions of pods that may be in progress; the heap contains others, too.
        self._waiting: dict[str, _Place] = {}
        self._heads: list[tuple[_Place, str]] = []
        #: Pods without a node -> when they were first seen.
        self._since: dict[str, float] = {}
        self._held: dict[str, Bind] = {}
        #: By position; and by arrival, from which gone pods are removed lazily.
        self._ordered: list[tuple[_Place, str]] = []
        self._oldest: list[tuple[int, str]] = []

    # -- observations --------------------------------------------------------------------------------------------------

    def pending(self, pod: Pod, now: float, *, came: bool) -> None:
        """A pod exists without a node; `came`: it was just created, after we started."""
        uid = pod.metadata.uid
        self._since.setdefault(uid, now)
        if came and not pod.spec.scheduling_gates:
            self._put(uid, pod)

    def updated(self, old: Pod, new: Pod) -> None:
        """A pod that still has no node has changed."""
        uid = new.metadata.uid
        if _refused(new) and not _refused(old):
            self._waiting.pop(uid, None)
        elif old.spec.scheduling_gates and not new.spec.scheduling_gates:
            self._put(uid, new)

    def gone(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._since.pop(uid, None)

    def bound(self, change: Change[Pod], now: float) -> None:
        """Its bind was seen."""
        pod = change.new
        assert pod is not None
        uid = pod.metadata.uid
        self._binds += 1
        known = self._waiting.pop(uid, None)
        place = known or (*self._latest[:2], self._binds)
        self._latest = max(self._latest, place)
        self._held[uid] = Bind(uid, change, self._since.pop(uid, now), now, self._binds, known is not None)
        heappush(self._ordered, (place, uid))
        heappush(self._oldest, (self._binds, uid))

    def renewed(self, change: Change[Pod]) -> bool:
        """Whether the pod's bind is held back; updates it with a later change."""
        pod = change.new or change.old
        assert pod is not None
        held = self._held.get(pod.metadata.uid)
        if held is None:
            return False
        if change.new is not None:
            self._held[held.uid] = held._replace(change=Change(held.change.old, change.new))
        return True

    # -- judgement -----------------------------------------------------------------------------------------------------

    def held(self) -> Iterator[Bind]:
        return iter(self._held.values())

    def release(self, now: float, is_node: Callable[[str], bool]) -> Iterator[Bind]:
        """Yield the binds that are due, one after the other; `is_node`: whether the watch has delivered this node."""
        while self._ordered:
            place, uid = self._ordered[0]
            if uid in self._held:
                held = self._held[uid]
                if now - held.at < (CONCURRENT_SECONDS if is_node(held.node) else MAX_SECONDS):
                    return
                head = self._head()
                if head is not None and head < place and not self._overtaken(now):
                    return
                self._leave_behind(place)
            heappop(self._ordered)
            bind = self._held.pop(uid, None)
            if bind is not None:
                yield bind

    def release_up_to(self, uid: str) -> Iterator[Bind]:
        """Yield the binds up to this one, even if earlier pods may be in progress."""
        while uid in self._held and self._ordered:
            _, first = heappop(self._ordered)
            bind = self._held.pop(first, None)
            if bind is not None:
                yield bind

    def release_all(self) -> Iterator[Bind]:
        while self._ordered:
            yield from self.release_up_to(self._ordered[0][1])
            if self._ordered and self._ordered[0][1] not in self._held:
                heappop(self._ordered)

    def _overtaken(self, now: float) -> bool:
        """Whether the oldest held-back bind has waited long enough."""
        while self._oldest[0][1] not in self._held:
            heappop(self._oldest)
        number, uid = self._oldest[0]
        return self._binds - number >= MAX_OVERTAKING or now - self._held[uid].at >= MAX_SECONDS

    def _head(self) -> _Place | None:
        """The position of the first pod that may be in progress."""
        while self._heads and self._waiting.get(self._heads[0][1]) != self._heads[0][0]:
            heappop(self._heads)
        return self._heads[0][0] if self._heads else None

    def _leave_behind(self, place: _Place) -> None:
        """Pods before that position are not in progress."""
        while (head := self._head()) is not None and head < place:
            _, uid = heappop(self._heads)
            del self._waiting[uid]

    def _put(self, uid: str, pod: Pod) -> None:
        self._numbers += 1
        place = self._waiting[uid] = -(pod.spec.priority or 0), self._numbers, 0
        heappush(self._heads, (place, uid))


def _refused(pod: Pod) -> bool:
    """Whether a scheduler has reported that no node is feasible."""
    return any(one.type == "PodScheduled" and one.status == "False" for one in pod.status.conditions)
