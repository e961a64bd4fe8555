"""Which sub-queue each pod is in, and moves between them.

A pod is in one place at a time, and at most one waiting pod has a given `namespace/name`. PreEnqueue runs before a pod
enters the active queue, and before it enters backoff if pods are popped from there; a pod that it rejects is gated and
stays unschedulable.

Since 1.37 a group is one entry (`QueuedGroup`), which any of its pods gates; `group_entries` puts pods into it.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (moveToActiveQ, moveToBackoffQ,
requeuePodWithQueueingStrategy), docs/reference/behaviour.md, The queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from stowplan.kube.api.types import Pod
from stowplan.kube.klog import get_logger
from stowplan.kube.kubernetes_versions import V1_37, KubernetesVersion
from stowplan.scheduler.cluster.nominator import Nominator
from stowplan.scheduler.cluster.pending_pods import PendingPods
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.framework.boundary import call
from stowplan.scheduler.framework.events import PROFILE_SWAPPED, pod_events
from stowplan.scheduler.framework.interface import PreEnqueuePlugin
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.runtime.metrics import PluginTimes
from stowplan.scheduler.framework.status import Code, Status
from stowplan.scheduler.queue.active import ActiveQueue, PodHeap
from stowplan.scheduler.queue.backoff import BackoffQueue, QueueSettings
from stowplan.scheduler.queue.metrics import QueueMetrics
from stowplan.scheduler.queue.observer import QueueObserver
from stowplan.scheduler.queue.queued_pod import Place, QueuedGroup, QueuedPod, pods_of
from stowplan.scheduler.queue.requeueing import Requeueing, Strategy
from stowplan.scheduler.queue.unschedulable import UnschedulablePods

_log = get_logger(__name__)


class Places:
    """The active queue, the backoff queue and the unschedulable pods."""

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
        has_entries: bool,
        emulated_version: KubernetesVersion,
    ) -> None:
        """`has_entries`: whether a group is one entry."""
        events = pod_events(emulated_version)
        #: Whether gated pods keep their nomination, and are flushed like others.
        self._minds_gated = emulated_version >= V1_37
        #: Causes with which the nomination in the pod's status is taken over here; since 1.37 the queue does it before.
        self._nominated_with = () if self._minds_gated else (events.added.label, events.updated.label)
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
        #: Waiting pods and groups by key.
        self._queued: dict[str, QueuedPod] = {}
        #: Waiting pods of groups that have entries, by `namespace/name`; kept by `GroupEntries`.
        self.members: dict[str, QueuedPod] = {}
        self.has_entries = has_entries
        #: Pod group -> its waiting pods by `namespace/name`, while it has any; without the pods of entries.
        self._members: dict[str, dict[str, QueuedPod]] = {}
        self.arrivals = 0
        #: No unschedulable pod that `times_out` has an earlier timestamp.
        self.oldest = inf
        #: (plugin, profile) -> waiting pods that it rejected.
        self.rejected_by: Counter[tuple[str, str]] = Counter()

    def get(self, key: str) -> QueuedPod | None:
        found = self._queued.get(key)
        # Of pods in entries, `_queued` has the entry alone.
        return self.members.get(key) if found is None and self.members else found

    def of_group(self, group: str) -> list[QueuedPod]:
        """The waiting pods of a pod group, in order of arrival."""
        return sorted(self._members.get(group, {}).values(), key=lambda queued: queued.arrival)

    def renew(self, queued: QueuedPod, info: PodInfo) -> None:
        """Take over another version of a waiting pod; a successor of its name may be in another group."""
        # Under its old group, before the new version says another one.
        self._leave(queued)
        queued.pod = info
        self._enter(queued)

    @property
    def is_empty(self) -> bool:
        return not (self._queued or self.members)

    def entities(self) -> Iterator[QueuedPod]:
        """What waits: in the active queue, in backoff, unschedulable."""
        yield from self.active
        yield from self.backoff
        yield from self.unschedulable_entities()

    def unschedulable_entities(self) -> Iterable[QueuedPod]:
        """Unschedulable pods without a group, and groups."""
        if not self.has_entries:
            return self.unschedulable
        # Each group once, in the order of their first pods, in which those that are overdue are requeued.
        return dict.fromkeys(queued if queued.entry is None else queued.entry for queued in self.unschedulable)

    # -- moves --------------------------------------------------------------------------------------------------------

    def requeue(self, queued: QueuedPod, strategy: Strategy, cause: str, *, arrives: bool = False) -> bool:
        """Move the pod as the strategy says; False if it is unschedulable or gated then.

        `arrives`: it is new to the queue, for its metrics.
        """
        came_from = None if arrives else strategy
        if strategy is Strategy.SKIP:
            self._move_to_unschedulable(queued, cause, came_from)
            return False
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.is_backing_off(queued):
            return self._move_to_backoff(queued, cause, came_from)
        return self.move_to_active(queued, cause, came_from)

    def requeue_unschedulable(self, queued: QueuedPod, strategy: Strategy, cause: str) -> None:
        """Requeue a pod that is unschedulable; no-op if it no longer is."""
        if queued.place is not Place.UNSCHEDULABLE:
            # A plugin activated it during a call for another pod.
            return
        if not self.requeue(queued, strategy, cause):
            # Parity: a pod that is gated again is counted as entering once more.
            pods = self._size(queued) if self.has_entries else 0
            self._metrics.entered("unschedulable", cause, pods, moved=strategy is not Strategy.SKIP)

    def requeue_with_changed_plugins(self, queued: QueuedPod, cause: str) -> None:
        """Re-evaluate a waiting pod with changed plugins: a ready pod stays ready unless it is gated."""
        ready = queued.place is Place.ACTIVE
        # Taken out by its place, which the move changes.
        self.take_out(queued)
        self.requeue(queued, Strategy.IMMEDIATELY if ready else Strategy.AFTER_BACKOFF, cause)

    def rearrange(
        self, settings: QueueSettings, sort_key: Callable[[QueuedPod], Any], *, rejected_in_a_row: int
    ) -> None:
        """Change the order and the backoff settings; each pod stays where it is."""
        active, backing_off = self.active, self.backoff
        self.active = ActiveQueue(sort_key, rejected_in_a_row=rejected_in_a_row)
        self.active.in_a_row = active.in_a_row
        self.backoff = BackoffQueue(settings, sort_key=sort_key, now=self._now)
        self.backoff.next_check = backing_off.next_check
        # Straight into the new heap: PreEnqueue is not asked again, and arrivals, which break ties, stay.
        for queued in sorted(active, key=lambda queued: queued.arrival):
            self.active.put(queued)
        for queued in self._queued.values():
            # Recomputed with the new settings.
            queued.backoff_expiration = None
        # Through `requeue`, as some may be ready with a shorter backoff. Not `take_out`: the heaps that held them are
        # gone.
        for queued in sorted(backing_off, key=lambda queued: queued.arrival):
            self._leave(queued)
            self.requeue(queued, Strategy.AFTER_BACKOFF, PROFILE_SWAPPED.label)

    def move_to_active(
        self, queued: QueuedPod, cause: str, came_from: Strategy | None = None, *, from_backoff: bool = False
    ) -> bool:
        """Move the pod to the active queue; False if it is gated.

        Parity: `came_from` says by its strategy, not by its place, where it was; None: it is new.
        """
        # If pods are popped from backoff, too, PreEnqueue was asked before that, and is not again between the two.
        if not (from_backoff and self._pop_from_backoff) and self._is_gated(queued):
            self._move_to_unschedulable(queued, cause, came_from)
            return False
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = self._now()
        # Only once it is known not to be gated: a gated pod must not push another one of its name out.
        if queued.key in self._queued:
            self._make_way(queued, cause)
        # First: the heap breaks ties by arrival.
        self._arrive(queued)
        self.active.put(queued)
        self.settle(queued, Place.ACTIVE, cause)
        pods = self._size(queued) if self.has_entries else 0
        self._metrics.entered("active", cause, pods, moved=came_from is not Strategy.IMMEDIATELY)
        if cause in self._nominated_with:
            self._nominations.add(queued.pod)
        return True

    def _move_to_backoff(self, queued: QueuedPod, cause: str, came_from: Strategy | None) -> bool:
        """Move the pod to the backoff queue; False if it is gated."""
        if self._pop_from_backoff and self._is_gated(queued):
            self._move_to_unschedulable(queued, cause, came_from)
            return False
        self._make_way(queued, cause)
        self._arrive(queued)
        place = self.backoff.put(queued)
        self.settle(queued, place, cause)
        pods = self._size(queued) if self.has_entries else 0
        self._metrics.entered("backoff", cause, pods, moved=came_from is not Strategy.AFTER_BACKOFF)
        return True

    def _move_to_unschedulable(self, queued: QueuedPod, cause: str, came_from: Strategy | None) -> None:
        if self._minds_gated and queued.gated:
            queued.was_flushed = False
        present = self._queued.get(queued.key)
        # It stays where it is and keeps its arrival; but another plugin may gate it, by which it is indexed.
        if present is queued:
            self.put_unschedulable(queued)
        elif present is not None and present.place is not Place.UNSCHEDULABLE:
            # A second pod of that name is gated: the first one stays where it is.
            return
        else:
            self._make_way(queued, cause)
            self._arrive(queued)
            self.put_unschedulable(queued)
            self.settle(queued, Place.UNSCHEDULABLE, cause)
            pods = self._size(queued) if self.has_entries else 0
            self._metrics.entered("unschedulable", cause, pods, moved=came_from is not Strategy.SKIP)
        if self.times_out(queued):
            # Only ever lowered here. When pods leave, it is too low, which costs a check in vain.
            self.oldest = min(self.oldest, queued.timestamp)

    def times_out(self, queued: QueuedPod) -> bool:
        """Whether the pod is requeued without an event after a time.

        Until 1.36, a gated pod only if the plugin that gates it registered for all events.
        """
        return not queued.gated or self._minds_gated or queued.gating_plugin in self._requeueing.registered_for_all

    def any_times_out(self) -> bool:
        """False if `times_out` is false for all unschedulable pods; cheap."""
        all_gated = len(self.unschedulable) == self.unschedulable.gated
        return not all_gated or self._minds_gated or bool(self._requeueing.registered_for_all)

    def _is_gated(self, queued: QueuedPod) -> bool:
        """Run PreEnqueue, and record on the pod which plugin gates it."""
        if self.has_entries and isinstance(queued, QueuedGroup):
            return self._group_is_gated(queued)
        # The gate asks the former gating plugin first, so that is only replaced afterwards.
        plugin = queued.gating_plugin = self._gate.gating_plugin(queued)
        if plugin and plugin not in queued.unschedulable_plugins:
            # `rejected_by` counts each rejecting plugin of a pod once, in whichever set it is.
            if plugin not in queued.pending_plugins:
                self.rejected_by[plugin, queued.profile] += 1
            queued.unschedulable_plugins.add(plugin)
        return bool(plugin)

    def _group_is_gated(self, group: QueuedGroup) -> bool:
        """Run PreEnqueue for the group's pods, up to the first that it keeps out: it has to be let in in any case."""
        known = group.gated_by
        # The pod that gated it comes first: mostly it still does, and no other has to be asked.
        for member in (*(() if known is None else (known,)), *group.members.values()):
            if self._is_gated(member):
                group.gated_by, group.gating_plugin = member, member.gating_plugin
                return True
        group.gated_by, group.gating_plugin = None, ""
        return False

    def joined(self, group: QueuedGroup, member: QueuedPod, cause: str) -> None:
        """A pod has joined a waiting group."""
        place = group.place
        # If it does not stay, the move has recorded the place of all its pods, this one included.
        if place is not Place.UNSCHEDULABLE and not self._stays(group, member, cause):
            return
        self._follow(member, group, cause)
        if place is Place.UNSCHEDULABLE:
            self.unschedulable.put(member)
        queue = {Place.ACTIVE: "active", Place.UNSCHEDULABLE: "unschedulable"}.get(place, "backoff")
        self._metrics.entered(queue, cause, len(group.members), moved=False)

    def left(self, group: QueuedGroup, member: QueuedPod, cause: str) -> None:
        """A pod has left a waiting group, in which others are."""
        if group.place is not Place.UNSCHEDULABLE:
            self._stays(group, next(iter(group.members.values())), cause)
            return
        # First: the pod is no longer in the group, so `take_out` of the group would not find it.
        self.unschedulable.discard(member.key)
        if group.gated_by is None:
            # It may be let in now. Upstream waits for an event or the timeout.
            self.requeue_unschedulable(group, Strategy.AFTER_BACKOFF, cause)

    def _stays(self, group: QueuedGroup, asked: QueuedPod, cause: str) -> bool:
        """Whether a group whose pods have changed stays in its place, or else move it.

        PreEnqueue is asked for one pod only: the others were let in before, and a plugin that minds how many there are
        gives the same answer for each.
        """
        if self._asks_at(group.place) and self._is_gated(asked):
            self.take_out(group)
            group.gated_by, group.gating_plugin = asked, asked.gating_plugin
            self._move_to_unschedulable(group, cause, None)
            return False
        # The backoff may be over before the check that would end it is due.
        if group.place is not Place.ACTIVE and not self.backoff.is_backing_off(group):
            self.take_out(group)
            self.move_to_active(group, cause, Strategy.AFTER_BACKOFF)
            return False
        self.refresh(group)
        return True

    def _asks_at(self, place: Place) -> bool:
        """Whether PreEnqueue was asked about what is in this place."""
        return self._pop_from_backoff or place is Place.ACTIVE

    # -- in and out ---------------------------------------------------------------------------------------------------

    def take_out(self, queued: QueuedPod) -> None:
        """Remove a waiting pod from its place."""
        # `place` is not changed here: it tells which index has the pod, and is set when the pod is somewhere else.
        self._leave(queued)
        if queued.place is Place.UNSCHEDULABLE:
            for pod in pods_of(queued):
                self.unschedulable.discard(pod.key)
        else:
            self._heap_of(queued).discard(queued.key)

    def put_unschedulable(self, queued: QueuedPod) -> None:
        """Index an unschedulable pod, or those of a group, anew."""
        if not (self.has_entries and isinstance(queued, QueuedGroup)):
            self.unschedulable.put(queued)
            return
        for pod in queued.members.values():
            # First: the index of unschedulable pods is by what rejects them, and counts the gated ones.
            pod.gating_plugin = queued.gating_plugin
            self.unschedulable.put(pod)

    def pop_active(self) -> QueuedPod | None:
        """Remove and return the first active pod."""
        queued = self.active.pop()
        if queued is not None:
            self._leave(queued)
        return queued

    def pop_rejected(self) -> QueuedPod | None:
        """Remove and return the first of the rejected pods in backoff."""
        queued = self.backoff.rejected.pop()
        if queued is not None:
            self._leave(queued)
        return queued

    def end_backoffs(self, cause: str) -> None:
        """Move pods whose backoff is over to the active queue, if a check is due."""
        completed = self.backoff.completed()
        # All of them first: a plugin that is asked about one may activate another.
        for queued in completed:
            self._leave(queued)
        for queued in completed:
            self.move_to_active(queued, cause, from_backoff=True)

    def refresh(self, queued: QueuedPod) -> None:
        """Sort the pod in again where it is, after it changed."""
        if queued.place is Place.UNSCHEDULABLE:
            self.put_unschedulable(queued)
        else:
            self._heap_of(queued).put(queued)

    def settle(self, queued: QueuedPod, place: Place, cause: str) -> None:
        """Record the pod's place, and tell the observer."""
        queued.place = place
        if self.has_entries and isinstance(queued, QueuedGroup):
            for pod in queued.members.values():
                self._follow(pod, queued, cause)
            self._observer.group_moved(queued, place, cause)
            return
        self._observer.moved(queued, place, cause)

    def _follow(self, member: QueuedPod, group: QueuedGroup, cause: str) -> None:
        """Record the place of its group for a pod."""
        member.place, member.gating_plugin = group.place, group.gating_plugin
        member.backoff_expiration = group.backoff_expiration
        if group.place is Place.ACTIVE and member.initial_attempt_timestamp is None:
            member.initial_attempt_timestamp = self._now()
        self._observer.moved(member, group.place, cause)

    def count_rejectors(self, queued: QueuedPod, change: int) -> None:
        if queued.unschedulable_plugins or queued.pending_plugins:
            for plugin in queued.rejectors:
                self.rejected_by[plugin, queued.profile] += change

    @staticmethod
    def _size(queued: QueuedPod) -> int:
        """The number of pods of a group's entry; 0 for a pod."""
        return len(queued.members) if isinstance(queued, QueuedGroup) else 0

    def _heap_of(self, queued: QueuedPod) -> ActiveQueue | PodHeap:
        return self.active if queued.place is Place.ACTIVE else self.backoff.heap_of(queued)

    def _make_way(self, queued: QueuedPod, cause: str) -> None:
        """Remove the pod, or another one of its name, from its place."""
        present = self._queued.get(queued.key)
        if present is not None:
            self.take_out(present)
            # A predecessor of its name, of which no other event will tell.
            if present is not queued:
                self.settle(present, Place.GONE, cause)

    def _arrive(self, queued: QueuedPod) -> None:
        self.arrivals = queued.arrival = self.arrivals + 1
        self._enter(queued)

    def _enter(self, queued: QueuedPod) -> None:
        self._queued[queued.key] = queued
        if queued.pod.pod.spec.scheduling_group is not None and not self.has_entries:
            self._members.setdefault(group_key(queued.pod.pod), {})[queued.key] = queued

    def _leave(self, queued: QueuedPod) -> None:
        del self._queued[queued.key]
        if queued.pod.pod.spec.scheduling_group is None or self.has_entries:
            return
        group = group_key(queued.pod.pod)
        # Under the group that the pod names now: whoever changes the pod takes it out first (`renew`).
        members = self._members[group]
        del members[queued.key]
        if not members:
            del self._members[group]

    # -- dump and load ------------------------------------------------------------------------------------------------

    def restore(self, queued: QueuedPod) -> None:
        """Restore a pod to its place; to be called in the order of each place."""
        # Not `_arrive`: it has its arrival from the dump.
        self._enter(queued)
        self.refresh(queued)

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Violated invariants, between calls."""
        yield from self.active.problems()
        yield from self.backoff.problems()
        yield from self.unschedulable.problems()
        yield from self._problems_of_places()
        yield from self._problems_of_rejectors()
        yield from self._problems_of_members()

    def _held(self) -> Iterator[tuple[Place, QueuedPod]]:
        """Waiting pods and groups, and the place in which each is found."""
        places = (
            (Place.ACTIVE, self.active),
            (Place.BACKOFF, self.backoff.rejected),
            (Place.ERROR_BACKOFF, self.backoff.errors),
            (Place.UNSCHEDULABLE, self.unschedulable_entities()),
        )
        for place, found in places:
            for queued in found:
                yield place, queued

    def _problems_of_places(self) -> Iterator[str]:
        found: dict[str, Place] = {}
        for place, queued in self._held():
            key = queued.key
            if key in found:
                yield f"pod {key}: waits twice, as {found[key].value} and as {place.value}"
            found[key] = place
            if any(one.place is not place for one in (queued, *pods_of(queued))):
                yield f"pod {key}: found among the pods that are {place.value}, but its place is {queued.place.value}"
            if self._queued.get(key) is not queued:
                yield f"pod {key}: {place.value}, but it is not what waits under its name"
        for key, queued in self._queued.items():
            if key not in found:
                yield f"pod {key}: waits, but it is not found where it should be: {queued.place.value}"

    def _problems_of_rejectors(self) -> Iterator[str]:
        pods = (pod for _, queued in self._held() for pod in pods_of(queued))
        counted = Counter((plugin, pod.profile) for pod in pods for plugin in pod.rejectors)
        for (plugin, profile), number in counted.items():
            # Parity: until 1.36 the metric still counts pods that were deleted while they were active or backed off.
            if self.rejected_by[plugin, profile] < number:
                known = self.rejected_by[plugin, profile]
                yield f"plugin {plugin} of {profile}: rejected {number} waiting pods, {known} are counted"

    def _problems_of_members(self) -> Iterator[str]:
        if self.has_entries:
            return
        grouped = {
            key: queued for key, queued in self._queued.items() if queued.pod.pod.spec.scheduling_group is not None
        }
        found = {key: queued for members in self._members.values() for key, queued in members.items()}
        if grouped.keys() != found.keys() or any(found[key] is not queued for key, queued in grouped.items()):
            yield f"waiting pods of groups are {sorted(grouped)}, and {sorted(found)} are found by group"
        for group, members in self._members.items():
            if not members or any(group_key(queued.pod.pod) != group for queued in members.values()):
                yield f"pod group {group}: none of its pods waits, or pods of another group do"


# -- PreEnqueue and nominations ---------------------------------------------------------------------------------------


class Gate:
    """The PreEnqueue plugins of all profiles: they decide whether a pod may enter the active queue."""

    def __init__(self, frameworks: Mapping[str, Framework], observer: QueueObserver) -> None:
        self._frameworks = frameworks
        self._observer = observer

    def gating_plugin(self, queued: QueuedPod) -> str:
        """Run PreEnqueue: name of the plugin that gates the pod; "" if none does."""
        framework = self._frameworks.get(queued.pod.shape.scheduler_name)
        if framework is None:
            return ""
        metrics = framework.metrics
        if metrics is None:
            return self._first_refusing(framework, queued, None)
        started = metrics.now()
        plugin = self._first_refusing(framework, queued, metrics.draw())
        # Parity: recorded as a success even if the pod is gated.
        metrics.points["PreEnqueue"].ran(started)
        return plugin

    def _first_refusing(self, framework: Framework, queued: QueuedPod, times: PluginTimes | None) -> str:
        plugins: Sequence[PreEnqueuePlugin] = framework.pre_enqueue
        if gated_by := queued.gating_plugin:
            # A pod that stays gated costs one call.
            plugins = sorted(plugins, key=lambda plugin: plugin.name != gated_by)
        for plugin in plugins:
            status = call(plugin.pre_enqueue, queued.pod, times=times, at=("PreEnqueue", plugin))
            if status is not None and status.code != Code.Success:
                if status.code == Code.Error:
                    # Gates the pod all the same: only a success lets it in.
                    self._report(plugin, queued, status)
                else:
                    _log_gated(plugin, queued, status)
                return plugin.name
        return ""

    def _report(self, plugin: PreEnqueuePlugin, queued: QueuedPod, status: Status) -> None:
        self._observer.problem(
            f'PreEnqueue plugin "{plugin.name}" failed on pod {queued.key}, which waits: {status.message}'
        )


def _log_gated(plugin: PreEnqueuePlugin, queued: QueuedPod, status: Status) -> None:
    verbose = _log.v(4)
    if verbose.enabled:
        text = "Status after running PreEnqueue plugin"
        verbose.info(text, pod=queued.pod, plugin=plugin.name, status=status.message)


class Nominations:
    """The queue's changes of nominations, which belong to the cluster state: Filter takes them into account."""

    def __init__(self, nominator: Nominator, pending: PendingPods) -> None:
        self._nominator = nominator
        self._pending = pending

    def add(self, info: PodInfo, node_name: str | None = None) -> None:
        """Nominate the pod to a node; "" removes its nomination, None means the node that its status names."""
        wanted = info.pod.status.nominated_node_name if node_name is None else node_name
        if wanted and self._pending.by_uid(info.uid) is None:
            # The nomination of a pod that is deleted or bound would never be removed.
            wanted = ""
        if wanted:
            self._nominator.add(info, wanted)
        else:
            self._nominator.delete(info.uid)

    def update(self, old: Pod, info: PodInfo) -> None:
        """Take over a changed pod; a nomination in memory stays unless the old or the new status has one."""
        node_name = self._nominator.node_of(info.uid)
        old_uid = old.metadata.uid or info.key
        # Another pod of the same name: nothing else removes the nomination of its predecessor.
        if old_uid != info.uid:
            self._nominator.delete(old_uid)
        if not old.status.nominated_node_name and not info.pod.status.nominated_node_name:
            self.add(info, node_name)
        else:
            self.add(info)

    def delete(self, info: PodInfo) -> None:
        self._nominator.delete(info.uid)
