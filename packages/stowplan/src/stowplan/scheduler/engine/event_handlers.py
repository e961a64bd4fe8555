"""Apply changes of API objects to the cluster state and the queue.

Changes arrive in batches from the informers, between scheduling cycles, never within one. Each is applied to the
cluster state before the queue is notified, so that hints see the new state; for a deleted node it is the other way
round.

Pods are ours (their schedulerName is a profile) or another scheduler's. The latter count once they are bound; ours are
pending until then.

Upstream: pkg/scheduler/eventhandlers.go; docs/reference/behaviour.md, What a change does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stowplan.kube.api.port import Change
from stowplan.kube.api.types import CompositePodGroup, Node, Pod, PodGroup
from stowplan.kube.klog import get_logger
from stowplan.kube.metrics.families import Histogram, HistogramVec
from stowplan.scheduler.cluster.node_order import zone_of
from stowplan.scheduler.cluster.objects import STORED
from stowplan.scheduler.cluster.pod_groups import AnyGroup, key_of_group
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key, scheduler_name_of, uid_of
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.deferred_resizes import DeferredResizes
from stowplan.scheduler.engine.schedule_one import on_node
from stowplan.scheduler.framework.boundary import Raised, call
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE,
    Action,
    ClusterEvent,
    events_of_change,
    pod_events,
)

#: Events observed by a single handler.
_NODE_DELETE = ClusterEvent(NODE, Action.Delete).label
_ASSIGNED_ADD, _ASSIGNED_UPDATE = ASSIGNED_POD_ADD.label, ASSIGNED_POD_UPDATE.label
_ASSIGNED_DELETE = ASSIGNED_POD_DELETE.label

#: Kinds that are handled even without a registration.
_ALWAYS_HANDLED = (Node, Pod)

_SCHEDULED, _UNSCHEDULED = "scheduled pod", "unscheduled pod"

_log = get_logger(__name__)


class EventHandlers:
    def __init__(
        self,
        context: EngineContext,
        *,
        algorithm: SchedulingAlgorithm,
        durations: HistogramVec | None,
        now: Callable[[], float],
        gangs: bool = False,
        resizes: DeferredResizes | None = None,
    ) -> None:
        """`durations`: observes the handling time by event label, with a monotonic clock; None: not measured.

        `gangs`: whether pods wait for the other pods of their group. `resizes`: see `ScheduleOne`.
        """
        self._outbox = context.outbox
        self._state = context.state
        self._version = context.state.emulated_version
        unscheduled = pod_events(self._version)
        self._unscheduled_add, self._unscheduled_update = unscheduled.added, unscheduled.updated
        self._add_label, self._update_label = unscheduled.added.label, unscheduled.updated.label
        self._delete_label = unscheduled.deleted.label
        self._queue = context.queue
        self._waiting_pods = context.waiting_pods
        self._leaving = context.leaving
        self._stories = context.stories
        self._algorithm = algorithm
        self._statuses = context.statuses
        self._gangs = gangs
        self._declared = context.state.declared_groups
        self._declares_groups = bool(self._declared.kinds)
        self._resizes = resizes
        #: Whether handling is timed.
        self._timed = durations is not None
        self._durations = durations
        self._now = now
        #: The first of our pods that another client bound, and its node.
        self.bound_by_others: tuple[str, str] | None = None
        #: By label; created on first use, as a series is exported once it exists.
        self._by_label: dict[str, Histogram] = {}

    def handle(self, kind: type[Any], changes: Sequence[Change[Any]]) -> None:
        """Apply the changes that an informer delivered; an object that fails does not affect the others."""
        apply: Callable[[Any, Any], None] = self._object
        if kind is Pod:
            apply = self._pod
        elif kind is Node:
            apply = self._node
        of_groups = self._declares_groups and kind is Pod
        if of_groups:
            changes = [Change(*(pod and self._declared.pod(pod) for pod in (one.old, one.new))) for one in changes]
        for change in changes:
            # A bug of ours or of a hint must not cost the changes after it: they are delivered once.
            failed = call(apply, change.old, change.new, check=None, failed=Raised)
            if failed is not None:
                text, subject = "Failed to process a changed object", change.new or change.old
                _log.error(failed.cause, text, trace=True, kind=kind.__name__, object=subject)
            if of_groups and (pod := change.new or change.old) is not None:
                self._state.follow_priority(pod, has_left=change.new is None)
        if self._outbox.watched_by:
            for change in changes:
                metadata: Any = (change.new or change.old).metadata  # type: ignore[union-attr]
                self._outbox.changed((kind.__name__, f"{metadata.namespace}/{metadata.name}"))

    def switch_off(self, plugins: frozenset[str]) -> None:
        """Disable these plugins, because the cluster does not serve the kinds that they need."""
        for framework in self._algorithm.frameworks.values():
            framework.switch_off(plugins)
        self._plugins_switched()

    def switch_on(self, plugins: frozenset[str]) -> None:
        """Enable these plugins, because the kinds that they need are served."""
        for framework in self._algorithm.frameworks.values():
            framework.switch_on(plugins)
        self._plugins_switched()

    def _plugins_switched(self) -> None:
        """Drop everything that was derived with the previous set of plugins."""
        self._algorithm.forget()
        self._queue.register()

    def profiles_swapped(self) -> None:
        """Forget the pods of removed profiles, except for those in a binding cycle, which is completed first."""
        for info in tuple(self._state.pending.values()):
            if not self._ours(info.pod):
                _log.v(3).info("Pod is left to the scheduler that now has its scheduler name", pod=info)
                self._state.pending.remove(info.key)
                self._statuses.forget(info.uid)
                self._queue.delete(info)
                self._leaving.left(info.uid)
        if self._resizes is not None:
            self._resizes.profiles_swapped()

    # -- nodes and lookup objects -------------------------------------------------------------------------------------

    def _node(self, old: Node | None, new: Node | None) -> None:
        started = self._now()
        if new is not None:
            _log_change("node", old, new, node=new)
            self._state.add_node(new)
            _log_place(old, new)
            self._notify_timed(old, new, started)
        elif old is not None:
            # Parity: the queue is told before the cluster, so hints still see the node.
            self._notify(old, None)
            _log_change("node", old, None, node=old)
            self._state.remove_node(old.metadata.name)
            _log_place(old, None)
            self._handled(_NODE_DELETE, started)

    def _object(self, old: Any, new: Any) -> None:
        started = self._now()
        if isinstance(new, STORED):
            if isinstance(new, PodGroup | CompositePodGroup):
                self._group(old, new)
            else:
                self._state.put_object(new)
        elif isinstance(old, STORED):
            if isinstance(old, PodGroup | CompositePodGroup):
                self._group_deleted(old)
            else:
                self._state.remove_object(old)
        self._notify_timed(old, new, started)
        before, after = self._declared.changed_with(old, new)
        if before is not after:
            self._object(before, after)

    def _group(self, old: AnyGroup | None, new: AnyGroup) -> None:
        parent = new.spec.parent_composite_pod_group_name
        if old is not None and parent != old.spec.parent_composite_pod_group_name:
            # The API does not allow it, but another group may have taken its name while the watch was down.
            self._group_deleted(old)
            old = None
        self._state.put_object(new)
        if old is None:
            self._queue.group_added(key_of_group(new))

    def _group_deleted(self, old: AnyGroup) -> None:
        # Before the object is gone, with which its way to the root is.
        root = self._state.group_trees.root(key_of_group(old))
        self._state.remove_object(old)
        self._queue.group_deleted(root)

    def _notify(self, old: Any, new: Any) -> None:
        for event in events_of_change(old, new, self._version):
            self._queue.move_all(event, old, new)

    def _notify_timed(self, old: Any, new: Any, started: float) -> None:
        """Notify the queue of an applied change; each event's duration includes the time to apply it."""
        applied_in = self._now() - started
        for event in events_of_change(old, new, self._version):
            began = self._now()
            self._queue.move_all(event, old, new)
            if type(new or old) in _ALWAYS_HANDLED or self._queue.is_registered(event):
                self._handled(event.label, began - applied_in)

    def _handled(self, label: str, started: float) -> None:
        if self._durations is None:
            return
        histogram = self._by_label.get(label)
        if histogram is None:
            histogram = self._by_label[label] = self._durations.with_label_values(label)
        histogram.observe(self._now() - started)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _to_notify(self, added: Pod) -> Callable[[PodInfo], bool] | None:
        """Which pods to notify of an added one: those of its group only once the gang is complete.

        Otherwise they would only be held back again, each after counting its group.
        """
        group = group_key(added)
        found = self._state.objects.get(PodGroup, group) if group else None
        gang = None if found is None else found.spec.scheduling_policy.gang
        if gang is None or self._state.pod_groups.pods(group) >= gang.min_count:
            return None
        name = added.spec.scheduling_group
        return lambda info: info.pod.spec.scheduling_group != name or group_key(info.pod) != group

    def _ours(self, pod: Pod) -> bool:
        # A profile may be removed while its last pod is in a binding cycle.
        return scheduler_name_of(pod) in self._algorithm.frameworks or self._state.is_assumed(uid_of(pod))

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._pod_deleted(old)
        elif old is None:
            self._pod_added(new)
        elif old.spec.node_name:
            started = self._now()
            _log_change(_SCHEDULED, old, new, pod=new)
            self._state.add_pod(new)
            if new.metadata.deletion_timestamp is not None:
                self._leaving.left(uid_of(new))
            self._notify_timed(old, new, started)
            if self._resizes is not None:
                self._resizes.observe(new)
            # Parity: an update without specific events has this label already, and is counted twice.
            self._handled(_ASSIGNED_UPDATE, started)
        elif new.spec.node_name:
            self._pod_bound(new)
        elif self._ours(new):
            self._unassigned_pod_updated(old, new)

    def _pod_added(self, pod: Pod) -> None:
        started = self._now() if self._timed else 0.0
        if pod.spec.node_name:
            _log_change(_SCHEDULED, None, pod, pod=pod)
            self._state.add_pod(pod)
            self._queue.move_all(ASSIGNED_POD_ADD, None, pod)
            if self._resizes is not None:
                self._resizes.observe(pod)
            self._handled(_ASSIGNED_ADD, started)
        elif self._ours(pod):
            if _log.verbosity >= 3:
                _log_change(_UNSCHEDULED, None, pod, pod=pod)
            info = self._state.pod_info(pod)
            # Before the queue has it: PreEnqueue counts the pods of its group, and only pending pods are nominated.
            self._state.pending.put(info)
            self._queue.add(info)
            if self._gangs:
                # A gang may be complete now: notify its other pods.
                self._queue.move_all(self._unscheduled_add, None, pod, pre_check=self._to_notify(pod))
            if self._timed:
                self._handled(self._add_label, started)

    def _pod_bound(self, pod: Pod) -> None:
        """A pod was bound: ours as assumed, or by another client."""
        timed, logged = self._timed, _log.verbosity >= 3
        started = self._now() if timed else 0.0
        if logged:
            _log_change(_SCHEDULED, None, pod, pod=pod)
        known, ours = self._state.placed(uid_of(pod)), self._ours(pod)
        if known is None or known.node_name != pod.spec.node_name:
            if known is not None:
                _log.info(
                    "Pod was added to a different node than it was assumed",
                    pod=pod,
                    assumedNode=known.node_name,
                    currentNode=pod.spec.node_name,
                )
            if ours and self.bound_by_others is None:
                self.bound_by_others = (f"{pod.metadata.namespace}/{pod.metadata.name}", pod.spec.node_name)
        info = self._state.add_pod(pod)
        if pod.metadata.deletion_timestamp is not None:
            self._leaving.left(info.uid)
        self._queue.move_all(ASSIGNED_POD_ADD, None, pod)
        if timed:
            self._handled(_ASSIGNED_ADD, started)
        if ours:
            started = self._now() if timed else 0.0
            # Parity: the pod is removed from the pods without a node.
            if logged:
                _log_change(_UNSCHEDULED, pod, None, pod=pod)
            self._queue.delete(info)
            self._statuses.forget(info.uid)
            if timed:
                self._handled(self._delete_label, started)

    def _unassigned_pod_updated(self, old: Pod, new: Pod) -> None:
        started = self._now()
        self._take_in_unassigned(old, new)
        self._handled(self._update_label, started)
        for event in events_of_change(old, new, self._version):
            if event != self._unscheduled_update:
                self._handled(event.label, started)

    def _take_in_unassigned(self, old: Pod, new: Pod) -> None:
        info = self._state.pod_info(new)
        self._state.pending.put(info)
        self._statuses.observe(new)
        if self._state.is_assumed(info.uid):
            if new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
                self._assumed_pod_goes(info.uid)
            return
        _log_change(_UNSCHEDULED, old, new, pod=new)
        self._queue.update(old, info)
        if old.status.nominated_node_name and old.status.nominated_node_name != new.status.nominated_node_name:
            self._nomination_lost(old, info.priority)

    def _pod_deleted(self, pod: Pod) -> None:
        started = self._now() if self._timed else 0.0
        if pod.spec.node_name:
            if _log.verbosity >= 3:
                _log_change(_SCHEDULED, pod, None, pod=pod)
            uid = uid_of(pod)
            # The cluster, then preemptors, then the queue: hints and PreEnqueue must see that it has left.
            self._state.remove_pod(uid)
            self._leaving.left(uid)
            if self._resizes is not None:
                self._resizes.gone(pod)
            self._queue.move_all(ASSIGNED_POD_DELETE, pod, None)
            if self._stories.kept and self._ours(pod):
                self._stories.gone(uid)
            if self._timed:
                self._handled(_ASSIGNED_DELETE, started)
        elif self._ours(pod):
            self._unassigned_pod_deleted(pod)
            self._handled(self._delete_label, started)

    def _unassigned_pod_deleted(self, pod: Pod) -> None:
        _log_change(_UNSCHEDULED, pod, None, pod=pod)
        info = self._state.pod_info(pod)
        self._state.pending.remove(info.key)
        self._statuses.forget(info.uid)
        self._queue.delete(info)
        self._stories.gone(info.uid)
        if self._state.is_assumed(info.uid):
            self._assumed_pod_goes(info.uid)
        elif pod.status.nominated_node_name:
            self._nomination_lost(pod, info.priority)
        if self._state.placed(info.uid) is None:
            self._leaving.left(info.uid)

    def _assumed_pod_goes(self, uid: str) -> None:
        """A pod that we have assumed, but that is not bound in the API server, is being deleted."""
        info = self._state.placed(uid)
        if info is None:
            return
        was = on_node(info.pod, info.node_name)
        # A pod that waits on Permit is forgotten by its binding cycle, which ends before the step does.
        if not self._waiting_pods.reject(uid):
            self._state.forget(info)
            self._leaving.left(uid)
        self._queue.move_all(ASSIGNED_POD_DELETE, was, None)

    def _nomination_lost(self, pod: Pod, priority: int) -> None:
        """A nomination was removed, which may free room for other pods."""
        self._queue.move_all(ASSIGNED_POD_DELETE, pod, None, pre_check=_no_more_important_than(priority))


def _log_change(what: str, old: object, new: object, **keys: object) -> None:
    update = old is not None and new is not None
    verbose = _log.v(4 if update else 3)
    if verbose.enabled:
        verb = "Update" if update else "Add" if old is None else "Delete"
        verbose.info(f"{verb} event for {what}", **keys)


def _log_place(old: Node | None, new: Node | None) -> None:
    """Log a node that is added, deleted or changes its zone, like the reference's node tree."""
    verbose = _log.v(2)
    if not verbose.enabled or (old is not None and new is not None and zone_of(old) == zone_of(new)):
        return
    if old is not None:
        verbose.info("Removed node from NodeTree", node=old, zone=_zone_text(old))
    if new is not None:
        verbose.info("Added node to NodeTree", node=new, zone=_zone_text(new))


def _zone_text(node: Node) -> str:
    # Parity: the separator contains a character that labels cannot contain.
    region, zone = zone_of(node)
    return f"{region}:\0:{zone}" if region or zone else ""


def _no_more_important_than(priority: int) -> Callable[[PodInfo], bool]:
    return lambda info: info.priority <= priority
