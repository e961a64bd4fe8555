"""Which sub-queue each pod is in, and moves between them.

A pod is in one place at a time, and at most one waiting pod has a given `namespace/name`. PreEnqueue runs before a pod
enters the active queue, and before it enters backoff if pods are popped from there; a pod that it rejects is gated and
stays unschedulable.

Since 1.37 the pods of a group wait together: while PreEnqueue gates one of them, the others are *held*, which is to be
gated by its plugin. They are asked again when the last gated one is not gated any more, or has left.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (moveToActiveQ, moveToBackoffQ,
requeuePodWithQueueingStrategy), docs/reference/behaviour.md, The queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from stowplan.scheduler.queue.queued_pod import Place, QueuedPod
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
        groups_together: bool,
        emulated_version: KubernetesVersion,
    ) -> None:
        events = pod_events(emulated_version)
        #: Causes with which the nomination in the pod's status is taken over.
        self._updated = events.updated.label
        self._new = (events.added.label, self._updated)
        #: Whether gated pods keep their nomination, and are flushed like others.
        self._minds_gated = emulated_version >= V1_37
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
        #: Pod group -> its waiting pods by `namespace/name`, while it has any.
        self._members: dict[str, dict[str, QueuedPod]] = {}
        self.groups_together = groups_together
        #: Pod group -> its pods that are gated, and not held; only if groups wait together.
        self._gated: dict[str, dict[str, QueuedPod]] = {}
        self._releasing = False
        self.arrivals = 0
        #: No unschedulable pod that `times_out` has an earlier timestamp.
        self.oldest = inf
        #: (plugin, profile) -> waiting pods that it rejected.
        self.rejected_by: Counter[tuple[str, str]] = Counter()

    def get(self, key: str) -> QueuedPod | None:
        return self._queued.get(key)

    def of_group(self, group: str) -> list[QueuedPod]:
        """The waiting pods of a pod group, in order of arrival."""
        return sorted(self._members.get(group, {}).values(), key=lambda queued: queued.arrival)

    def renew(self, queued: QueuedPod, info: PodInfo) -> None:
        """Take over another version of a waiting pod; a successor of its name may be in another group."""
        before = queued.pod
        self._leave(queued)
        queued.pod = info
        self._enter(queued)
        if before.pod.spec.scheduling_group != info.pod.spec.scheduling_group:
            self.release(before, self._updated)
            self.release(info, self._updated)

    @property
    def waiting(self) -> int:
        return len(self._queued)

    # -- groups -------------------------------------------------------------------------------------------------------

    def add(self, queued: QueuedPod, cause: str) -> None:
        """Add a new pod; it joins the backoff of its group."""
        group = self._group(queued.pod)
        others = self._members.get(group, {}).values() if group else ()
        backing_off = next((o for o in others if o.place in (Place.BACKOFF, Place.ERROR_BACKOFF)), None)
        if backing_off is None or any(other.place is Place.ACTIVE for other in others):
            self.move_to_active(queued, cause)
            return
        self._nominations.add(queued.pod)
        queued.timestamp, queued.with_group = backing_off.timestamp, backing_off.with_group
        queued.unschedulable_count = backing_off.unschedulable_count
        queued.consecutive_errors_count = backing_off.consecutive_errors_count
        self.requeue(queued, Strategy.AFTER_BACKOFF, cause)

    def release(self, member: PodInfo, cause: str, strategy: Strategy = Strategy.AFTER_BACKOFF) -> None:
        """Requeue the held pods of this pod's group, unless one of its pods is still gated."""
        group = self._group(member)
        if not group or self._releasing or self._gated.get(group):
            return
        self._releasing = True
        try:
            for queued in self.of_group(group):
                if queued.held:
                    self.requeue(queued, strategy, cause)
        finally:
            self._releasing = False

    def _hold_others(self, gated: QueuedPod, cause: str) -> None:
        """Hold back the other pods of a group, one pod of which is gated."""
        for other in self.of_group(group_key(gated.pod.pod)):
            if other.gated or other is gated or not self._asks_at(other.place):
                continue
            if other.place is Place.UNSCHEDULABLE:
                other.gating_plugin, other.held = gated.gating_plugin, True
                self.unschedulable.put(other)
            else:
                self.take_out(other)
                other.gating_plugin, other.held = gated.gating_plugin, True
                self._move_to_unschedulable(other, cause)

    def _asks_at(self, place: Place) -> bool:
        """Whether PreEnqueue was asked about pods in this place."""
        return self._pop_from_backoff or place not in (Place.BACKOFF, Place.ERROR_BACKOFF)

    def _group(self, info: PodInfo) -> str:
        """The group with which a pod waits; "" if it waits alone."""
        together = self.groups_together and info.pod.spec.scheduling_group is not None
        return group_key(info.pod) if together else ""

    # -- moves --------------------------------------------------------------------------------------------------------

    def requeue(self, queued: QueuedPod, strategy: Strategy, cause: str) -> bool:
        """Move the pod as the strategy says; False if it is unschedulable or gated then."""
        if strategy is Strategy.SKIP:
            self._move_to_unschedulable(queued, cause)
            return False
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.is_backing_off(queued):
            return self._move_to_backoff(queued, cause)
        return self.move_to_active(queued, cause)

    def requeue_unschedulable(self, queued: QueuedPod, strategy: Strategy, cause: str) -> None:
        """Requeue a pod that is unschedulable; no-op if it no longer is."""
        if queued.place is not Place.UNSCHEDULABLE:
            # A plugin activated it during a call for another pod.
            return
        if not self.requeue(queued, strategy, cause):
            # Parity: a pod that is gated again is counted as entering once more.
            self._metrics.entered("unschedulable", cause)

    def requeue_with_changed_plugins(self, queued: QueuedPod, cause: str) -> None:
        """Re-evaluate a waiting pod with changed plugins: a ready pod stays ready unless it is gated."""
        ready = queued.place is Place.ACTIVE
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
        for queued in sorted(active, key=lambda queued: queued.arrival):
            self.active.put(queued)
        for queued in self._queued.values():
            # Recomputed with the new settings.
            queued.backoff_expiration = None
        for queued in sorted(backing_off, key=lambda queued: queued.arrival):
            self._leave(queued)
            self.requeue(queued, Strategy.AFTER_BACKOFF, PROFILE_SWAPPED.label)

    def move_to_active(self, queued: QueuedPod, cause: str, *, from_backoff: bool = False) -> bool:
        """Move the pod to the active queue; False if it is gated."""
        new = cause in self._new
        if new and self._minds_gated:
            self._nominations.add(queued.pod)
        # If pods are popped from backoff, too, PreEnqueue was asked before that, and is not again between the two.
        if not (from_backoff and self._pop_from_backoff) and self._is_gated(queued):
            self._move_to_unschedulable(queued, cause)
            return False
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = self._now()
        if queued.pod.key in self._queued:
            self._make_way(queued, cause)
        self._arrive(queued)
        self.active.put(queued)
        self.settle(queued, Place.ACTIVE, cause)
        self._metrics.entered("active", cause)
        if new and not self._minds_gated:
            self._nominations.add(queued.pod)
        if self.groups_together:
            self.release(queued.pod, cause, Strategy.IMMEDIATELY)
        return True

    def _move_to_backoff(self, queued: QueuedPod, cause: str) -> bool:
        """Move the pod to the backoff queue; False if it is gated."""
        if self._pop_from_backoff and self._is_gated(queued):
            self._move_to_unschedulable(queued, cause)
            return False
        self._make_way(queued, cause)
        self._arrive(queued)
        place = self.backoff.put(queued)
        self.settle(queued, place, cause)
        self._metrics.entered("backoff", cause)
        if self.groups_together:
            self.release(queued.pod, cause)
        return True

    def _move_to_unschedulable(self, queued: QueuedPod, cause: str) -> None:
        present = self._queued.get(queued.pod.key)
        if present is queued:
            self.unschedulable.put(queued)
        elif present is not None and present.place is not Place.UNSCHEDULABLE:
            # A second pod of that name is gated: the first one stays where it is.
            return
        else:
            self._make_way(queued, cause)
            self._arrive(queued)
            self.unschedulable.put(queued)
            self.settle(queued, Place.UNSCHEDULABLE, cause)
            self._metrics.entered("unschedulable", cause)
        if self.times_out(queued):
            self.oldest = min(self.oldest, queued.timestamp)
        if self._gated and queued.gated and not queued.held and len(self._gated.get(self._group(queued.pod), ())) == 1:
            self._hold_others(queued, cause)

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
        plugin = queued.gating_plugin = self._gate.gating_plugin(queued)
        if plugin:
            self._count_rejection(queued, plugin)
        if self.groups_together and queued.pod.pod.spec.scheduling_group is not None:
            return self._is_gated_with(group_key(queued.pod.pod), queued)
        return bool(plugin)

    def _count_rejection(self, queued: QueuedPod, plugin: str) -> None:
        if plugin not in queued.unschedulable_plugins:
            if plugin not in queued.pending_plugins:
                self.rejected_by[plugin, queued.profile] += 1
            queued.unschedulable_plugins.add(plugin)

    def _is_gated_with(self, group: str, queued: QueuedPod) -> bool:
        """Whether the pod is gated, or else another pod of its group still is, so that it is held."""
        queued.held = False
        if self._queued.get(queued.pod.key) is queued:
            self._count_gated(group, queued)
        while not queued.gated and (gated := self._gated.get(group)):
            other = next(iter(gated.values()))
            if plugin := self._gate.gating_plugin(other):
                self._count_rejection(other, plugin)
                other.gating_plugin = queued.gating_plugin = plugin
                queued.held = True
            else:
                # It is requeued with the last one.
                other.held = True
                self._count_gated(group, other)
            self.unschedulable.put(other)
        return queued.gated

    def _count_gated(self, group: str, queued: QueuedPod) -> None:
        """Keep a waiting pod among the gated ones of its group, if it is gated, and not held."""
        gated = self._gated.setdefault(group, {})
        if queued.gated and not queued.held:
            gated[queued.pod.key] = queued
        else:
            gated.pop(queued.pod.key, None)
        if not gated:
            del self._gated[group]

    # -- in and out ---------------------------------------------------------------------------------------------------

    def take_out(self, queued: QueuedPod) -> None:
        """Remove a waiting pod from its place."""
        key = queued.pod.key
        self._leave(queued)
        if queued.place is Place.UNSCHEDULABLE:
            self.unschedulable.discard(key)
        else:
            self._heap_of(queued).discard(key)

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
        for queued in completed:
            self._leave(queued)
        for queued in completed:
            self.move_to_active(queued, cause, from_backoff=True)

    def refresh(self, queued: QueuedPod) -> None:
        """Sort the pod in again where it is, after it changed."""
        if queued.place is Place.UNSCHEDULABLE:
            self.unschedulable.put(queued)
        else:
            self._heap_of(queued).put(queued)

    def settle(self, queued: QueuedPod, place: Place, cause: str) -> None:
        """Record the pod's place, and tell the observer."""
        queued.place = place
        self._observer.moved(queued, place, cause)

    def count_rejectors(self, queued: QueuedPod, change: int) -> None:
        if queued.unschedulable_plugins or queued.pending_plugins:
            for plugin in queued.rejectors:
                self.rejected_by[plugin, queued.profile] += change

    def _heap_of(self, queued: QueuedPod) -> ActiveQueue | PodHeap:
        return self.active if queued.place is Place.ACTIVE else self.backoff.heap_of(queued)

    def _make_way(self, queued: QueuedPod, cause: str) -> None:
        """Remove the pod, or another one of its name, from its place."""
        present = self._queued.get(queued.pod.key)
        if present is not None:
            self.take_out(present)
            if present is not queued:
                self.settle(present, Place.GONE, cause)

    def _arrive(self, queued: QueuedPod) -> None:
        self.arrivals = queued.arrival = self.arrivals + 1
        self._enter(queued)

    def _enter(self, queued: QueuedPod) -> None:
        self._queued[queued.pod.key] = queued
        if queued.pod.pod.spec.scheduling_group is not None:
            self._members.setdefault(group_key(queued.pod.pod), {})[queued.pod.key] = queued
            if self.groups_together:
                self._count_gated(group_key(queued.pod.pod), queued)

    def _leave(self, queued: QueuedPod) -> None:
        del self._queued[queued.pod.key]
        if queued.pod.pod.spec.scheduling_group is None:
            return
        group = group_key(queued.pod.pod)
        members = self._members[group]
        del members[queued.pod.key]
        if not members:
            del self._members[group]
        if self.groups_together and (gated := self._gated.get(group)):
            gated.pop(queued.pod.key, None)
            if not gated:
                del self._gated[group]

    # -- dump and load ------------------------------------------------------------------------------------------------

    def restore(self, queued: QueuedPod) -> None:
        """Restore a pod to its place; to be called in the order of each place."""
        self._enter(queued)
        if queued.place is Place.UNSCHEDULABLE:
            self.unschedulable.put(queued)
        else:
            self._heap_of(queued).put(queued)

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

    def _problems_of_members(self) -> Iterator[str]:
        grouped = {
            key: queued for key, queued in self._queued.items() if queued.pod.pod.spec.scheduling_group is not None
        }
        found = {key: queued for members in self._members.values() for key, queued in members.items()}
        if grouped.keys() != found.keys() or any(found[key] is not queued for key, queued in grouped.items()):
            yield f"waiting pods of groups are {sorted(grouped)}, and {sorted(found)} are found by group"
        yield from self._problems_of_gated()
        for group, members in self._members.items():
            if not members or any(group_key(queued.pod.pod) != group for queued in members.values()):
                yield f"pod group {group}: none of its pods waits, or pods of another group do"

    def _problems_of_gated(self) -> Iterator[str]:
        if not self.groups_together:
            return
        for group, members in self._members.items():
            gated = {key for key, queued in members.items() if queued.gated and not queued.held}
            if gated != set(self._gated.get(group, ())):
                yield f"pod group {group}: {sorted(gated)} are gated, {sorted(self._gated.get(group, ()))} are known"
            for key, queued in members.items():
                if bool(gated) != queued.gated and (queued.held or gated) and self._asks_at(queued.place):
                    yield f"pod {key}: {'held' if queued.held else 'not held'}, and {len(gated)} of its group are gated"


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
        if old_uid != info.uid:
            self._nominator.delete(old_uid)
        if not old.status.nominated_node_name and not info.pod.status.nominated_node_name:
            self.add(info, node_name)
        else:
            self.add(info)

    def delete(self, info: PodInfo) -> None:
        self._nominator.delete(info.uid)
