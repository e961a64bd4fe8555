"""Reconstruct the order in which the other scheduler decided.

A scheduler decides one pod after the other, each on a state in which all pods before it have their nodes already; then
it writes the binds, many at a time. So binds reach the watch in the order of the writes, which is nearly the order of
the decisions, and to judge a pod on the state as the watch has it is to judge it without some pods that the other had
counted, and with some that it had not.

What is known is the order of its queue: by priority, then by when pods came. Binds are therefore held back until no pod
that comes before them in the queue can still be on its way; those that are overtaken by too many, or for too long, are
not on their way: they were refused, or wait for something. Where the order is not known, a pod is taken where its bind
is seen, after all whose binds were seen before: one that was there before us (whether the other scheduler saw it come,
or listed it by name, is not known), and one that was refused. It says nothing of those that wait.

Nodes and pods come by different watches: a bind to a node that is not known yet is held back until it is.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from stowplan.api.changes import Change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stowplan.api.types import Pod

#: A pod that so many were bound after, or that was overtaken for so many seconds, is not on its way. On a machine with
#: too few cores a bind was seen to be overtaken for a second.
MAX_OVERTAKING, MAX_SECONDS = 1024, 5.0
#: Binds of so many seconds may have been decided in another order than they were written in: each is held back as long,
#: so that whoever judges it sees those after it, too.
CONCURRENT_SECONDS = 0.25

#: Priority, highest first; a number that grows as pods come; and 0, or the number of the bind: such a pod stands right
#: behind another one.
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
    #: Which bind it was, in the order in which they were seen.
    number: int
    #: Whether its place in the queue is known.
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
        #: The last place of those whose binds were seen.
        self._latest = _FIRST
        #: Pods that may be on their way: their places; the heap has others, too.
        self._waiting: dict[str, _Place] = {}
        self._heads: list[tuple[_Place, str]] = []
        #: Pods without a node -> when they were first seen.
        self._since: dict[str, float] = {}
        self._held: dict[str, Bind] = {}
        #: By place; and by when they came, of which those that are gone are dropped when they are looked at.
        self._ordered: list[tuple[_Place, str]] = []
        self._oldest: list[tuple[int, str]] = []

    # -- what is seen -------------------------------------------------------------------------------------------------

    def pending(self, pod: Pod, now: float, *, came: bool) -> None:
        """A pod is there without a node; `came`: just now, and not before we looked."""
        uid = pod.metadata.uid
        self._since.setdefault(uid, now)
        if came and not pod.spec.scheduling_gates:
            self._put(uid, pod)

    def updated(self, old: Pod, new: Pod) -> None:
        """A pod that still has none has changed."""
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
        """Whether the pod's bind is held back; it has changed since then."""
        pod = change.new or change.old
        assert pod is not None
        held = self._held.get(pod.metadata.uid)
        if held is None:
            return False
        if change.new is not None:
            self._held[held.uid] = held._replace(change=Change(held.change.old, change.new))
        return True

    # -- what is to be judged -----------------------------------------------------------------------------------------

    def held(self) -> Iterator[Bind]:
        return iter(self._held.values())

    def release(self, now: float, is_node: Callable[[str], bool]) -> Iterator[Bind]:
        """Binds whose turn it is, one after the other; `is_node`: whether the watch has delivered this node."""
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
        """Those up to this one, whoever may still be on its way."""
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
        """Whether the bind that is held back longest has waited long enough."""
        while self._oldest[0][1] not in self._held:
            heappop(self._oldest)
        number, uid = self._oldest[0]
        return self._binds - number >= MAX_OVERTAKING or now - self._held[uid].at >= MAX_SECONDS

    def _head(self) -> _Place | None:
        """The place of the first pod that may be on its way."""
        while self._heads and self._waiting.get(self._heads[0][1]) != self._heads[0][0]:
            heappop(self._heads)
        return self._heads[0][0] if self._heads else None

    def _leave_behind(self, place: _Place) -> None:
        """Pods before that place are not on their way."""
        while (head := self._head()) is not None and head < place:
            _, uid = heappop(self._heads)
            del self._waiting[uid]

    def _put(self, uid: str, pod: Pod) -> None:
        self._numbers += 1
        place = self._waiting[uid] = -(pod.spec.priority or 0), self._numbers, 0
        heappush(self._heads, (place, uid))


def _refused(pod: Pod) -> bool:
    """Whether a scheduler has said that it finds no node."""
    return any(one.type == "PodScheduled" and one.status == "False" for one in pod.status.conditions)
