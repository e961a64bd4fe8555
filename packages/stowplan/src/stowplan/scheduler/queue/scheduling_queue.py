"""The scheduling queue.

A pod is in one place at a time. It is *active* when it is ready to be tried, and *in flight* while it is tried. After a
rejection it is *unschedulable* until an event occurs that may help, according to the queueing hints of the plugins that
rejected it. A pod that is requeued *backs off* before it is active again if its last attempt is too recent. Pods that a
PreEnqueue plugin gates are unschedulable until an event that this plugin registered for. Since 1.37, a group of pods is
one entry with the same places (`group_entries`); until 1.36 its pods wait each for itself.

The queue has no clock and no loop: `now` is the time, and `flush` does what is due. The observer is notified of every
move and its cause; the same calls at the same times give the same moves.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go, docs/reference/behaviour.md, The queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from math import inf
from typing import Any

from stowplan.kube.api.types import Pod
from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, V1_37, KubernetesVersion
from stowplan.kube.metrics.scheduler import QUEUES
from stowplan.scheduler.cluster.nominator import Nominator
from stowplan.scheduler.cluster.pending_pods import PendingPods
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.events import (
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF_Q,
    PROFILE_SWAPPED,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
    ClusterEvent,
    events_of_change,
    pod_events,
)
from stowplan.scheduler.framework.interface import QueueSortPlugin
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.queue.active import sort_key
from stowplan.scheduler.queue.backoff import DEFAULT_SETTINGS, QueueSettings, surrounding_ticks
from stowplan.scheduler.queue.dumped import DumpedQueue, KnownPods, dumped_pod, restored_pod
from stowplan.scheduler.queue.group_entries import GroupEntries, TrialEnd, by_entity
from stowplan.scheduler.queue.in_flight import InFlight, InFlightEvent
from stowplan.scheduler.queue.metrics import QueueMetrics
from stowplan.scheduler.queue.observer import QueueObserver
from stowplan.scheduler.queue.places import Gate, Nominations, Places
from stowplan.scheduler.queue.queued_pod import DONE, POPPED, REMOVED, Place, QueuedGroup, QueuedPod, log_keys, pods_of
from stowplan.scheduler.queue.requeueing import Interest, Requeueing, Strategy

__all__ = ["QUEUE_NAMES", "QueueSettings", "SchedulingQueue"]

#: Names of the queues in the log.
QUEUE_NAMES = {
    Place.ACTIVE: "Active",
    Place.BACKOFF: "Backoff",
    Place.ERROR_BACKOFF: "Backoff",
    Place.UNSCHEDULABLE: "Unschedulable",
}
#: Strategies as the log writes them.
_HINT_NUMBERS = {Strategy.SKIP: 0, Strategy.AFTER_BACKOFF: 1, Strategy.IMMEDIATELY: 2}

#: Seconds between two checks for pods that were unschedulable for too long.
_LEFTOVERS_INTERVAL = 30.0

#: Cause: a plugin that had rejected the pod was switched off, so no event of it can requeue the pod.
PLUGINS_CHANGED = "PluginsChanged"

_log = get_logger(__name__)


@mypyc_attr(allow_interpreted_subclasses=True)
class SchedulingQueue:
    """The pending pods of all profiles.

    `frameworks` may be empty first: `reconfigure` is called whenever its profiles were replaced.
    """

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        nominator: Nominator,
        pending: PendingPods,
        *,
        now: Callable[[], float],
        metrics: QueueMetrics,
        settings: QueueSettings = DEFAULT_SETTINGS,
        observer: QueueObserver | None = None,
        emulated_version: KubernetesVersion = DEFAULT_VERSION,
        root_of: Callable[[str], str] | None = None,
    ) -> None:
        """`root_of`: see `GroupEntries`; None: the pods of a group wait each for itself."""
        self._version = emulated_version
        self._is_newer = emulated_version >= V1_37
        events = pod_events(emulated_version)
        self._pod_added, self._pod_updated = events.added.label, events.updated.label
        self._now = now
        self._settings = settings
        self._metrics = metrics
        self._observer = observer = QueueObserver() if observer is None else observer
        self._frameworks = frameworks
        self._order = order = self._order_of_profiles()
        self._in_flight = InFlight()
        self._requeueing = Requeueing(frameworks, metrics, observer, emulated_version)
        self._nominations = Nominations(nominator, pending)
        self._places = Places(
            settings,
            sort_key=sort_key(order, observer),
            rejected_in_a_row=_in_a_row(settings, order),
            now=now,
            gate=Gate(frameworks, observer),
            requeueing=self._requeueing,
            nominations=self._nominations,
            metrics=metrics,
            observer=observer,
            emulated_version=emulated_version,
            has_entries=root_of is not None,
        )
        self._groups = None if root_of is None else GroupEntries(self._places, now=now, root_of=root_of)
        #: When to check next for pods that were unschedulable for too long.
        self._next_leftovers = now()
        #: Pods popped so far.
        self.scheduling_cycle = 0
        #: Whether the in-flight pods were released; pods that return are accepted all the same.
        self.closed = False
        #: (plugin, profile) -> waiting pods that it rejected: scheduler_unschedulable_pods.
        self.rejected_by = self._places.rejected_by

    def _order_of_profiles(self) -> QueueSortPlugin | None:
        # All profiles have the same QueueSort; the configuration is validated for that.
        return next((framework.queue_sort[0] for framework in self._frameworks.values()), None)

    # -- pods come, change and go -------------------------------------------------------------------------------------

    def add(self, info: PodInfo) -> None:
        """Add a new pending pod."""
        self._add(QueuedPod(pod=info, key=info.key, timestamp=self._now()), self._pod_added)

    def _add(self, queued: QueuedPod, cause: str) -> None:
        if self._is_newer:
            self._nominations.add(queued.pod)
        if self._groups is not None and queued.pod.pod.spec.scheduling_group is not None:
            self._groups.put(queued, cause)
        else:
            self._places.move_to_active(queued, cause)

    def update(self, old: Pod, info: PodInfo) -> None:
        """Take over the new version of a pending pod."""
        if info.uid in self._in_flight:
            # It returns in its newest version; the hints for the change are called then.
            for event in events_of_change(old, info.pod, self._version):
                self._in_flight.record(InFlightEvent(event, old, info.pod))
            return
        queued = self._places.get(info.key)
        if queued is None:
            self._add(QueuedPod(pod=info, key=info.key, timestamp=self._now()), self._pod_updated)
            return
        if self._groups is not None and info.key in self._groups.pods:
            self._groups.renew(queued, info, self._pod_updated)
        else:
            self._places.renew(queued, info)
            self._places.refresh(queued)
        self._nominations.update(old, info)
        if queued.place is Place.UNSCHEDULABLE:
            self._update_unschedulable(queued, old)

    def _update_unschedulable(self, queued: QueuedPod, old: Pod) -> None:
        entity, info = queued.entry or queued, queued.pod
        for event in events_of_change(old, info.pod, self._version):
            strategy = self._requeueing.strategy(queued, InFlightEvent(event, old, info.pod))
            if self._places.requeue(entity, strategy, event.label):
                verbose = _log.v(5)
                if verbose.enabled:
                    keys = log_keys(entity, self._version) | {"pod": info}
                    text = "moved to an internal scheduling queue because the Pod is updated"
                    what = "Entity" if self._is_newer else "Pod"
                    verbose.info(f"{what} {text}", **keys, event=event.label, queue=QUEUE_NAMES[entity.place])
                return

    def delete(self, info: PodInfo) -> None:
        """Remove a pod that is deleted or no longer to be scheduled here; an attempt in flight continues."""
        # Also of a pod in flight, which is not found below.
        self._nominations.delete(info)
        queued = self._places.get(info.key)
        if queued is None:
            return
        if self._is_newer or queued.place is Place.UNSCHEDULABLE:
            self._places.count_rejectors(queued, -1)
        if self._groups is not None and info.key in self._groups.pods:
            self._groups.remove(queued, self._pod_added)
        else:
            self._places.take_out(queued)
        self._places.settle(queued, Place.GONE, REMOVED)

    def nominate(self, info: PodInfo, node_name: str | None) -> None:
        """Nominate a pending pod to a node; "" removes its nomination, None means the node that its status names."""
        self._nominations.add(info, node_name)

    # -- attempts -----------------------------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        """The pod or group to try now; None when there is none. Its pods are in flight until `done`."""
        while True:
            queued = self._places.pop_active() or self._pop_from_backoff()
            if queued is None or self._begin_attempt(queued):
                return queued

    def _pop_from_backoff(self) -> QueuedPod | None:
        if not self._settings.pop_from_backoff:
            return None
        queued = self._places.pop_rejected()
        if queued is not None:
            # No groups are among them.
            self._metrics.entered("active", POP_FROM_BACKOFF_Q)
        return queued

    def pop_specific(self, info: PodInfo) -> QueuedPod | None:
        """Pop this pod; None if it is not waiting, or is gated."""
        self._activate(info)
        queued = self._places.get(info.key)
        if queued is None or queued.place is not Place.ACTIVE:
            return None
        self._places.take_out(queued)
        return queued if self._begin_attempt(queued) else None

    def _begin_attempt(self, queued: QueuedPod) -> bool:
        """Put the pod in flight; False if the same pod is in flight already, so that this one is dropped."""
        queued.attempts += 1
        if self._groups is not None and isinstance(queued, QueuedGroup):
            return self._begin_trial(self._groups, queued)
        uid = queued.pod.uid
        # Its events are kept once per UID; a second attempt would end the first one's.
        if uid in self._in_flight.by_uid:
            self._observer.problem(f"the same pod is tracked in multiple places in the scheduler: {queued.key}")
            self._places.settle(queued, Place.GONE, POPPED)
            return False
        self._in_flight.begin(queued)
        self.scheduling_cycle += 1
        if queued.unschedulable_plugins or queued.pending_plugins:
            self._places.count_rejectors(queued, -1)
        self._places.settle(queued, Place.IN_FLIGHT, POPPED)
        return True

    def _begin_trial(self, groups: GroupEntries, group: QueuedGroup) -> bool:
        """Put the pods of a group in flight; those that are already are dropped."""
        groups.popped(group)
        group.members = {key: member for key, member in group.members.items() if self._takes_off(member)}
        if not group.members:
            groups.tried(group.name, TrialEnd.ABORTED, POPPED)
            return False
        self.scheduling_cycle += 1
        return True

    def _takes_off(self, member: QueuedPod) -> bool:
        member.attempts += 1
        if member.pod.uid in self._in_flight.by_uid:
            text = "a pod of a group is tracked in multiple places in the scheduler, and not tried"
            self._observer.problem(f"{text}: {member.key}")
            self._places.settle(member, Place.GONE, POPPED)
            return False
        self._in_flight.begin(member)
        self._places.count_rejectors(member, -1)
        self._places.settle(member, Place.IN_FLIGHT, POPPED)
        return True

    def done(self, uid: str) -> None:
        """End the pod's attempt; it does not return to the queue. Idempotent."""
        queued = self._in_flight.end(uid)
        if queued is not None:
            self._places.settle(queued, Place.GONE, DONE)

    def add_unschedulable_if_not_present(self, queued: QueuedPod) -> None:
        """Return a pod whose attempt failed, with the plugins that rejected it; none of them means an error.

        Raise ValueError if a pod of its name is waiting already; this one is dropped then.
        """
        present = self._places.get(queued.key)
        if present is not None:
            self._in_flight.end(queued.pod.uid)
            queued.place = Place.GONE
            raise ValueError(f"Pod {queued.key} is already present in {_QUEUE_TEXT[present.place]}")
        if queued.failed_with_error:
            queued.consecutive_errors_count += 1
        else:
            queued.unschedulable_count += 1
            queued.consecutive_errors_count = 0
        queued.timestamp = self._now()
        queued.backoff_expiration = None
        queued.was_flushed, queued.flushed_at = False, None
        self._places.count_rejectors(queued, 1)
        if self._groups is not None and queued.pod.pod.spec.scheduling_group is not None:
            # It waits for the end of its group's trial: no event and no backoff of its own brings it back.
            self._in_flight.end(queued.pod.uid)
            self._groups.put(queued, self._pod_added, returns=True)
            return
        queued.with_group = self._is_member(queued.pod)
        # While the pod is still in flight: the events since its pop are kept for those in flight.
        strategy, happened = self._strategy_after_attempt(queued)
        self._in_flight.end(queued.pod.uid)
        self._places.requeue(queued, strategy, SCHEDULE_ATTEMPT_FAILURE)
        self._log_return(queued, strategy)
        if happened is not None and not happened.event.is_wildcard:
            self._observer.woken([queued], happened.event, happened.old if happened.new is None else happened.new)

    def end_trial(self, group: str, end: TrialEnd, cause: str = SCHEDULE_ATTEMPT_FAILURE) -> None:
        """Return a group that was tried, with the pods that have come or returned meanwhile; no-op without entries."""
        if self._groups is None:
            return
        entry = self._groups.tried(group, end, cause)
        verbose = _log.v(3)
        if entry is not None and verbose.enabled:
            verbose.info(
                "Pod group moved to an internal scheduling queue",
                podGroup=group,
                event=cause,
                queue=QUEUE_NAMES[entry.place],
                schedulingCycle=self.scheduling_cycle,
                **{"unschedulable plugins": {}},
            )

    def group_added(self, group: str) -> None:
        """A PodGroup, or a group of groups, was added."""
        if self._groups is not None:
            self._groups.added(group, self._pod_added)

    def group_deleted(self, root: str) -> None:
        """A group of this root's tree was deleted."""
        if self._groups is not None:
            self._groups.deleted(root, self._pod_updated)

    def _log_return(self, queued: QueuedPod, strategy: Strategy) -> None:
        """Log where the pod went and which plugins rejected it, as a set that Go formats."""
        verbose = _log.v(3)
        if verbose.enabled and queued.place in QUEUE_NAMES:
            rejectors = _as_go_set(queued.unschedulable_plugins | queued.pending_plugins)
            verbose.info(
                "Pod moved to an internal scheduling queue",
                pod=queued.pod,
                event=SCHEDULE_ATTEMPT_FAILURE,
                queue=QUEUE_NAMES[queued.place],
                schedulingCycle=self.scheduling_cycle,
                hint=_HINT_NUMBERS[strategy],
                **{"unschedulable plugins": rejectors},
            )

    def _strategy_after_attempt(self, queued: QueuedPod) -> tuple[Strategy, InFlightEvent | None]:
        """The strategy, and the event during the attempt that determines it, if there is one."""
        if queued.failed_with_error or queued.with_group:
            return Strategy.AFTER_BACKOFF, None
        verbose = _log.v(5)
        if verbose.enabled:
            verbose.info(
                "Checking events for in-flight pod",
                pod=queued.pod,
                unschedulablePlugins=_as_go_set(queued.unschedulable_plugins),
                # Parity: upstream's list of events has the pods in flight in it.
                inFlightEventsSize=self._in_flight.counts().total(),
                inFlightPodsSize=len(self._in_flight.pods()),
            )
        events = self._in_flight.since(queued.pod.uid)
        # After `done` (in PreBind) events are no longer recorded for the pod.
        if events is None:
            return Strategy.AFTER_BACKOFF, None
        return self._requeueing.strategy_after(queued, events)

    # -- what requeues pods -------------------------------------------------------------------------------------------

    def move_all(
        self, event: ClusterEvent, old: Any, new: Any, *, pre_check: Callable[[PodInfo], bool] | None = None
    ) -> None:
        """Requeue the unschedulable pods (that pass `pre_check`) that the event may help."""
        if not (self._in_flight.by_uid or self._places.unschedulable.by_key):
            # The common case: no pod waits for anything.
            return
        interest = self._requeueing.interest(event)
        if not interest.listeners:
            return
        happened = InFlightEvent(event, old, new)
        if _log.v(5).enabled:
            self._log_unmoved(interest, pre_check)
        groups = self._places.unschedulable.groups_of(interest.listeners)
        if groups:
            # All hints before any move, which changes what is iterated. Then in order of arrival, which does not depend
            # on how rejections are grouped.
            found = self._requeueing.helped(groups, happened, pre_check)
            helped = sorted(found if self._groups is None else by_entity(found), key=_arrival)
            for queued, strategy in helped:
                self._places.requeue_unschedulable(queued, strategy, interest.label)
            if helped:
                pods = [pod for queued, _ in helped for pod in pods_of(queued)]
                self._observer.woken(pods, event, old if new is None else new)
        # For pods that are being tried on an older state: they are asked when they return.
        if self._in_flight:
            self._in_flight.record(happened)
            verbose = _log.v(5)
            if verbose.enabled:
                what = "entities" if self._is_newer else "pods"
                verbose.info(f"Event received while {what} are in flight", event=interest.label)

    def _log_unmoved(self, interest: Interest, pre_check: Callable[[PodInfo], bool] | None) -> None:
        """Log the unschedulable pods whose rejecting plugins did not register for the event."""
        for queued in self._places.unschedulable_entities():
            registered = queued.gating_plugin or any(
                (queued.profile, name) in interest.listeners for name in queued.rejectors
            )
            if not registered:
                self._requeueing.log_skipped((queued,), interest.label, pre_check)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move these pods to the active queue, whatever they wait for; unknown ones are ignored."""
        for info in pods:
            if not self._activate(info) and info.uid in self._in_flight and not self._is_member(info):
                self._in_flight.record(InFlightEvent(FORCE_ACTIVATE, None, info.pod))

    def waiting_members(self, group: str) -> list[PodInfo]:
        """The pods of a pod group that wait here, not those in flight."""
        if self._groups is None:
            return [queued.pod for queued in self._places.of_group(group)]
        entry = self._groups.entry(group)
        return [] if entry is None else [queued.pod for queued in entry.members.values()]

    def _is_member(self, info: PodInfo) -> bool:
        """Whether the pod is scheduled with its group; events during its attempt then do not matter."""
        if info.pod.spec.scheduling_group is None:
            return False
        return next(iter(self._frameworks.values())).handle.features.enabled("GenericWorkload")

    def _activate(self, info: PodInfo) -> bool:
        queued = self._places.get(info.key)
        if queued is not None and queued.entry is not None:
            queued = queued.entry
        if queued is None or queued.place in (Place.ACTIVE, Place.PENDING, Place.INCOMPLETE):
            return False
        from_backoff = queued.place is not Place.UNSCHEDULABLE
        if from_backoff:
            self._places.take_out(queued)
        return self._places.move_to_active(queued, FORCE_ACTIVATE.label, from_backoff=from_backoff)

    def register(self) -> None:
        """Read the registrations after plugins were switched on or off; requeue the pods of those that are off."""
        # Before they are read anew, which forgets the plugins that are off.
        before = self._requeueing.rejecting_plugins()
        self._requeueing.read_registrations()
        off = before - self._requeueing.rejecting_plugins()
        orphans = [
            queued
            for queued in self._places.unschedulable_entities()
            if any((pod.profile, plugin) in off for pod in pods_of(queued) for plugin in pod.rejectors)
        ]
        for queued in orphans:
            self._places.requeue_unschedulable(queued, Strategy.AFTER_BACKOFF, PLUGINS_CHANGED)

    def reconfigure(self, settings: QueueSettings, swapped: Collection[str]) -> None:
        """Use other settings, and other plugins in the swapped profiles, which have not judged any pod yet."""
        order = self._order_of_profiles()
        self._requeueing.read_registrations()
        if settings != self._settings or order is not self._order:
            self._settings, self._order = settings, order
            key = sort_key(order, self._observer)
            self._places.rearrange(settings, key, rejected_in_a_row=_in_a_row(settings, order))
        if swapped and self._in_flight:
            # Pods in flight may be rejected by plugins of the replaced profile.
            self._in_flight.record(InFlightEvent(PROFILE_SWAPPED, None, None))
        for queued in sorted(self._places.entities(), key=lambda queued: queued.arrival):
            if queued.profile in swapped:
                self._places.requeue_with_changed_plugins(queued, PROFILE_SWAPPED.label)

    def requeue_untried(self, queued: QueuedPod, newest: PodInfo, event: ClusterEvent) -> None:
        """Return a pod in flight that was not tried to the end, in its newest version: it is retried without delay."""
        self._in_flight.end(queued.pod.uid)
        queued.pod = newest
        self._places.count_rejectors(queued, 1)
        if self._groups is not None and newest.pod.spec.scheduling_group is not None:
            self._groups.put(queued, event.label)
        else:
            self._places.move_to_active(queued, event.label)

    def clear(self) -> None:
        """Forget every waiting pod; nominations stay."""
        if self._places.is_empty:
            return
        for queued in self.pending():
            self._places.count_rejectors(queued, -1 if self._is_newer or queued.place is Place.UNSCHEDULABLE else 0)
        for queued in list(self._places.entities()):
            self._places.take_out(queued)
            self._places.settle(queued, Place.GONE, REMOVED)
        if self._groups is not None:
            self._groups.clear()

    # -- time ---------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Do what is due: end backoffs, and requeue pods that were unschedulable for too long."""
        self._places.end_backoffs(BACKOFF_COMPLETE)
        if self._now() >= self._next_leftovers:
            self._flush_leftovers()

    def _flush_leftovers(self) -> None:
        look, self._next_leftovers = surrounding_ticks(self._now(), self._next_leftovers, _LEFTOVERS_INTERVAL)
        longest = self._settings.max_in_unschedulable
        overdue = [q for q in self._places.unschedulable_entities() if look - q.waits_since > longest]
        for queued in overdue:
            for one in (queued, *pods_of(queued)):
                one.was_flushed, one.flushed_at = True, self._now() if self._is_newer else None
            if self._places.times_out(queued):
                self._places.requeue_unschedulable(queued, Strategy.AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.label)
        if overdue and self._in_flight:
            self._in_flight.record(InFlightEvent(UNSCHEDULABLE_TIMEOUT, None, None))
        # Anew, as requeued pods may have been the oldest.
        left = (q.waits_since for q in self._places.unschedulable_entities() if self._places.times_out(q))
        self._places.oldest = min(left, default=inf)

    def next_flush(self) -> float | None:
        """When `flush` next has something to do if no other call comes; None if nothing can become due."""
        backoff = self._places.backoff.next_look()
        leftovers = self._next_overdue()
        if backoff is None or leftovers is None:
            return leftovers if backoff is None else backoff
        return min(backoff, leftovers)

    def _next_overdue(self) -> float | None:
        if self._places.oldest == inf or not self._places.any_times_out():
            return None
        grown_old, look = self._places.oldest + self._settings.max_in_unschedulable, self._next_leftovers
        return look if grown_old < look else surrounding_ticks(grown_old, look, _LEFTOVERS_INTERVAL)[1]

    @property
    def incoming(self) -> Counter[tuple[str, str]]:
        """(queue, cause) -> pods that entered it: scheduler_queue_incoming_pods_total."""
        return self._metrics.incoming

    def is_registered(self, event: ClusterEvent) -> bool:
        """Whether some plugin registered for the event."""
        return bool(self._requeueing.interest(event).listeners)

    def get(self, key: str) -> QueuedPod | None:
        """The waiting pod with this `namespace/name`; a pod in flight is not waiting."""
        return self._places.get(key)

    @property
    def can_pop(self) -> bool:
        """Whether `pop` gives a pod now, unless it is in flight already."""
        places = self._places
        return bool(places.active.pods.entries or (self._settings.pop_from_backoff and places.backoff.rejected.entries))

    @property
    def any_active(self) -> bool:
        """Whether that pod is ready; any other is still backing off."""
        return bool(self._places.active.pods.entries)

    def is_in_flight(self, uid: str) -> bool:
        return uid in self._in_flight

    def in_flight(self) -> list[QueuedPod]:
        return self._in_flight.pods()

    def in_flight_events(self) -> Mapping[str, int]:
        """Number of recorded events by label, and of pods in flight: scheduler_inflight_events."""
        return self._in_flight.counts()

    def counts(self) -> Mapping[str, int]:
        """Number of waiting pods by queue: scheduler_pending_pods."""
        gated = self._places.unschedulable.gated
        found = {
            "active": len(self._places.active),
            "backoff": len(self._places.backoff),
            "unschedulable": len(self._places.unschedulable) - gated,
            "gated": gated,
        }
        if self._groups is None:
            return found
        for entry in self._groups.entries():
            if entry.place is not Place.UNSCHEDULABLE:
                found["active" if entry.place is Place.ACTIVE else "backoff"] += len(entry.members) - 1
        aside = {place.value: sum(1 for _ in self._groups.aside(place)) for place in (Place.INCOMPLETE, Place.PENDING)}
        return found | aside

    def entity_counts(self) -> Mapping[tuple[str, str], int]:
        """Number of waiting entities by queue and type: scheduler_queued_entities."""
        found = Counter(
            (
                "gated" if queued.gated else _QUEUE_OF[queued.place],
                "podgroup" if isinstance(queued, QueuedGroup) else "pod",
            )
            for queued in self._places.entities()
        )
        return {(queue, kind): found[queue, kind] for queue in QUEUES for kind in ("pod", "podgroup")}

    def pending(self) -> Iterator[QueuedPod]:
        """All waiting pods: active ones, those in backoff, unschedulable ones, those that wait for their group."""
        if self._groups is None:
            yield from self._places.entities()
            return
        for queued in self._places.entities():
            yield from pods_of(queued)
        for place in (Place.PENDING, Place.INCOMPLETE):
            yield from self._groups.aside(place)

    def summary(self) -> str:
        """One line for dumps."""
        counts = self.counts()
        sizes = counts["active"], counts["backoff"], counts["unschedulable"] + counts["gated"]
        rest = "unschedulableEntities" if self._is_newer else "unschedulablePods"
        found = f"activeQ:{sizes[0]}; backoffQ:{sizes[1]}; {rest}:{sizes[2]}"
        if self._groups is None:
            return found
        return f"{found}; pendingPodGroupMemberPods:{counts['pending']}; incompletePodGroupPods:{counts['incomplete']}"

    def close(self) -> list[str]:
        """End all attempts; the UIDs of their pods. Active pods can still be popped."""
        uids = [queued.pod.uid for queued in self._in_flight.pods()]
        for uid in uids:
            self.done(uid)
        self.closed = True
        return uids

    # -- dump and load ------------------------------------------------------------------------------------------------

    def dump(self) -> DumpedQueue:
        """The waiting pods with their queue state; no pod may be in flight."""
        places = self._places
        return DumpedQueue(
            pods=[dumped_pod(queued) for queued in (*places.entities(), *self._incomplete())],
            arrivals=places.arrivals,
            rejected_in_a_row=places.active.in_a_row,
            next_backoff_look=places.backoff.next_check,
            next_leftovers=self._next_leftovers,
            oldest=None if places.oldest == inf else places.oldest,
            scheduling_cycle=self.scheduling_cycle,
            rejected_by=[(*key, number) for key, number in places.rejected_by.items()],
        )

    def load(self, dumped: DumpedQueue, pending: KnownPods) -> None:
        """Fill the queue, which must be empty; `pending` must be loaded and the profiles built."""
        places = self._places
        self._requeueing.read_registrations()
        for one in dumped.pods:
            queued = restored_pod(one, pending)
            if queued.place is not Place.INCOMPLETE:
                places.restore(queued)
            if self._groups is not None and queued.pod.pod.spec.scheduling_group is not None:
                for pod in pods_of(queued):
                    self._groups.restore(pod)
        places.arrivals, places.active.in_a_row = dumped.arrivals, dumped.rejected_in_a_row
        places.backoff.next_check, self._next_leftovers = dumped.next_backoff_look, dumped.next_leftovers
        places.oldest = inf if dumped.oldest is None else dumped.oldest
        self.scheduling_cycle = dumped.scheduling_cycle
        places.rejected_by.update({(plugin, profile): number for plugin, profile, number in dumped.rejected_by})

    def _incomplete(self) -> Iterable[QueuedPod]:
        return () if self._groups is None else self._groups.aside(Place.INCOMPLETE)

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Violated invariants, between calls; there should be none."""
        groups = () if self._groups is None else self._groups.problems()
        return [*self._places.problems(), *groups, *self._in_flight.problems(), *self._problems_of_flights()]

    def _problems_of_flights(self) -> Iterator[str]:
        waiting = {queued.pod.uid: queued for queued in self.pending()}
        for queued in self._in_flight.pods():
            found = waiting.get(queued.pod.uid)
            if found is not None:
                yield f"pod {queued.key} ({queued.pod.uid}): in flight, and waits: {found.place.value}"


#: Names of the queues in error texts, which are matched on.
_QUEUE_TEXT = {
    Place.ACTIVE: "the active queue",
    Place.BACKOFF: "the backoff queue",
    Place.ERROR_BACKOFF: "the backoff queue",
    Place.UNSCHEDULABLE: "unschedulable queue",
    Place.PENDING: "pending pods of its group",
    Place.INCOMPLETE: "pods without a PodGroup",
}
#: The same in metrics.
_QUEUE_OF = {
    Place.ACTIVE: "active",
    Place.BACKOFF: "backoff",
    Place.ERROR_BACKOFF: "backoff",
    Place.UNSCHEDULABLE: "unschedulable",
}


def _in_a_row(settings: QueueSettings, order: QueueSortPlugin | None) -> int:
    return settings.rejected_in_a_row if order is None or order.by_priority_and_time else 0


def _as_go_set(plugins: Iterable[str]) -> dict[str, dict[str, str]]:
    return {plugin: {} for plugin in sorted(plugins)}


def _arrival(helped: tuple[QueuedPod, Strategy]) -> int:
    return helped[0].arrival
