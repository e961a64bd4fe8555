"""Where waiting pods are, and the moves between the places.

A pod is in one place at a time, and a `namespace/name` is that of one waiting pod. Every way into the active queue, and
into backoff where pods are popped from there, leads past the PreEnqueue plugins; who does not pass sleeps.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (moveToActiveQ, moveToBackoffQ,
requeuePodWithQueueingStrategy), docs/behaviour.md, The queue.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any

from stowplan.framework.events import UNSCHEDULABLE_POD_ADD, UNSCHEDULABLE_POD_UPDATE
from stowplan.queue.active import ActiveQueue
from stowplan.queue.backoff import BackoffQueue
from stowplan.queue.queued_pod import Place, QueuedPod
from stowplan.queue.requeueing import Strategy
from stowplan.queue.unschedulable import UnschedulablePods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stowplan.queue.backoff import QueueSettings
    from stowplan.queue.gating import Gate
    from stowplan.queue.heap import PodHeap
    from stowplan.queue.metrics import QueueMetrics
    from stowplan.queue.nominating import Nominations
    from stowplan.queue.observer import QueueObserver
    from stowplan.queue.requeueing import Requeueing

#: Pods that come with these causes bring the nomination that their status names.
_NEW = (UNSCHEDULABLE_POD_ADD.label, UNSCHEDULABLE_POD_UPDATE.label)


class Places:
    """The active queue, the backoff queue and the sleeping pods."""

    def __init__(
        self,
        settings: QueueSettings,
        *,
        sort_key: Callable[[QueuedPod], Any],
        rejected_in_a_row: int,
        now: Callable[[], float],
        gate: Gate,
        requeueing: Requeueing,
        nominations: Nominations,
        metrics: QueueMetrics,
        observer: QueueObserver,
    ) -> None:
        self._pop_from_backoff = settings.pop_from_backoff
        self._now = now
        self._gate = gate
        self._requeueing = requeueing
        self._nominations = nominations
        self._metrics = metrics
        self._observer = observer
        self.active = ActiveQueue(sort_key, rejected_in_a_row=rejected_in_a_row)
        self.backoff = BackoffQueue(settings, sort_key=sort_key, now=now)
        self.unschedulable = UnschedulablePods()
        #: Waiting pods by `namespace/name`.
        self._queued: dict[str, QueuedPod] = {}
        self._arrivals = 0
        #: Whether something became poppable since somebody last looked.
        self.woke = False
        #: No ungated pod among the sleeping ones is older than this.
        self.oldest = inf
        #: (plugin, profile) -> waiting pods that it rejected.
        self.rejected_by: Counter[tuple[str, str]] = Counter()

    def get(self, key: str) -> QueuedPod | None:
        return self._queued.get(key)

    @property
    def waiting(self) -> int:
        return len(self._queued)

    # -- moves --------------------------------------------------------------------------------------------------------

    def requeue(self, queued: QueuedPod, strategy: Strategy, cause: str) -> bool:
        """Do what the strategy says; False if the pod sleeps."""
        if strategy is Strategy.SKIP:
            self._put_to_sleep(queued, cause)
            return False
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.is_backing_off(queued):
            return self._move_to_backoff(queued, cause)
        return self.move_to_active(queued, cause)

    def wake(self, queued: QueuedPod, strategy: Strategy, cause: str) -> None:
        """The same for a sleeping pod that something happened to."""
        if queued.place is not Place.UNSCHEDULABLE:
            # A plugin that was asked about another pod had this one activated.
            return
        if not self.requeue(queued, strategy, cause):
            # Parity: a pod that is gated again counts as one that left and came.
            self._metrics.came("unschedulable", cause)

    def move_to_active(self, queued: QueuedPod, cause: str, *, from_backoff: bool = False) -> bool:
        """Make the pod ready; False if it is gated."""
        if not (from_backoff and self._pop_from_backoff) and self._is_gated(queued):
            self._put_to_sleep(queued, cause)
            return False
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = self._now()
        self._make_way(queued, cause)
        self._arrive(queued)
        self.active.put(queued)
        self.settle(queued, Place.ACTIVE, cause)
        self.woke = True
        self._metrics.came("active", cause)
        if cause in _NEW:
            self._nominations.add(queued.pod)
        return True

    def _move_to_backoff(self, queued: QueuedPod, cause: str) -> bool:
        """Have the pod wait for its backoff to be over; False if it is gated."""
        if self._pop_from_backoff and self._is_gated(queued):
            self._put_to_sleep(queued, cause)
            return False
        self._make_way(queued, cause)
        self._arrive(queued)
        place = self.backoff.put(queued)
        self.settle(queued, place, cause)
        self.woke = self.woke or (place is Place.BACKOFF and self._pop_from_backoff)
        self._metrics.came("backoff", cause)
        return True

    def _put_to_sleep(self, queued: QueuedPod, cause: str) -> None:
        present = self._queued.get(queued.pod.key)
        if present is queued:
            self.unschedulable.put(queued)
        elif present is not None and present.place is not Place.UNSCHEDULABLE:
            # A second, gated pod of that name: the first one stays.
            return
        else:
            self._make_way(queued, cause)
            self._arrive(queued)
            self.unschedulable.put(queued)
            self.settle(queued, Place.UNSCHEDULABLE, cause)
            self._metrics.came("unschedulable", cause)
        if not queued.gated:
            self.oldest = min(self.oldest, queued.timestamp)

    def _is_gated(self, queued: QueuedPod) -> bool:
        """Ask the PreEnqueue plugins, and note what they say."""
        keeper = self._gate.keeper(queued)
        if keeper:
            if keeper not in queued.unschedulable_plugins:
                if keeper not in queued.pending_plugins:
                    self.rejected_by[keeper, queued.profile] += 1
                queued.unschedulable_plugins.add(keeper)
            queued.gating_plugin_events = self._requeueing.events_of(keeper)
        queued.gating_plugin = keeper
        return bool(keeper)

    # -- in and out ---------------------------------------------------------------------------------------------------

    def take_out(self, queued: QueuedPod) -> None:
        """Take a waiting pod from where it is."""
        key = queued.pod.key
        del self._queued[key]
        if queued.place is Place.UNSCHEDULABLE:
            self.unschedulable.discard(key)
        else:
            self._heap_of(queued).discard(key)

    def pop_active(self) -> QueuedPod | None:
        """Take out the first of the active pods."""
        return self._popped(self.active.pop())

    def pop_rejected(self) -> QueuedPod | None:
        """Take out the first of the rejected pods that back off."""
        return self._popped(self.backoff.rejected.pop())

    def _popped(self, queued: QueuedPod | None) -> QueuedPod | None:
        if queued is not None:
            del self._queued[queued.pod.key]
        return queued

    def end_backoffs(self, cause: str) -> None:
        """Make those ready whose backoff is over, if it is time to look."""
        completed = self.backoff.completed()
        for queued in completed:
            del self._queued[queued.pod.key]
        for queued in completed:
            self.move_to_active(queued, cause, from_backoff=True)

    def refresh(self, queued: QueuedPod) -> None:
        """The pod has changed: it stays, at the turn that is now its."""
        if queued.place is Place.UNSCHEDULABLE:
            self.unschedulable.put(queued)
        else:
            self._heap_of(queued).put(queued)

    def settle(self, queued: QueuedPod, place: Place, cause: str) -> None:
        """Note where the pod is now, and tell."""
        queued.place = place
        self._observer.moved(queued, place, cause)

    def count_rejectors(self, queued: QueuedPod, change: int) -> None:
        if queued.unschedulable_plugins or queued.pending_plugins:
            for plugin in queued.rejectors:
                self.rejected_by[plugin, queued.profile] += change

    def _heap_of(self, queued: QueuedPod) -> ActiveQueue | PodHeap:
        return self.active if queued.place is Place.ACTIVE else self.backoff.heap_of(queued)

    def _make_way(self, queued: QueuedPod, cause: str) -> None:
        """Take the pod from where it is, and any other of its name."""
        present = self._queued.get(queued.pod.key)
        if present is not None:
            self.take_out(present)
            if present is not queued:
                self.settle(present, Place.GONE, cause)

    def _arrive(self, queued: QueuedPod) -> None:
        self._arrivals += 1
        queued.arrival = self._arrivals
        self._queued[queued.pod.key] = queued

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Invariants that do not hold while nobody is calling."""
        yield from self.active.problems()
        yield from self.backoff.problems()
        yield from self.unschedulable.problems()
        yield from self._problems_of_places()
        yield from self._problems_of_rejectors()
        if self.woke:
            yield "a pod became poppable, and nobody was told"

    def _held(self) -> Iterator[tuple[Place, QueuedPod]]:
        """Waiting pods, and the place in which each is found."""
        places = (
            (Place.ACTIVE, self.active),
            (Place.BACKOFF, self.backoff.rejected),
            (Place.ERROR_BACKOFF, self.backoff.errors),
            (Place.UNSCHEDULABLE, self.unschedulable),
        )
        for place, pods in places:
            for queued in pods:
                yield place, queued

    def _problems_of_places(self) -> Iterator[str]:
        found: dict[str, Place] = {}
        for place, queued in self._held():
            key = queued.key
            if key in found:
                yield f"pod {key}: waits twice, as {found[key].value} and as {place.value}"
            found[key] = place
            if queued.place is not place:
                yield f"pod {key}: found among the pods that are {place.value}, but its place is {queued.place.value}"
            if self._queued.get(key) is not queued:
                yield f"pod {key}: {place.value}, but it is not what waits under its name"
        for key, queued in self._queued.items():
            if key not in found:
                yield f"pod {key}: waits, but it is not found where it should be: {queued.place.value}"

    def _problems_of_rejectors(self) -> Iterator[str]:
        counted = Counter((plugin, queued.profile) for _, queued in self._held() for plugin in queued.rejectors)
        for (plugin, profile), pods in counted.items():
            # Parity: the metric still counts pods that were deleted while they were active or backed off.
            if self.rejected_by[plugin, profile] < pods:
                known = self.rejected_by[plugin, profile]
                yield f"plugin {plugin} of {profile}: rejected {pods} waiting pods, {known} are counted"
