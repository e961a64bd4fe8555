"""The simulated cluster around the engine: carries out requests, notifies watchers, ends pods.

Changes of the store are delivered to the engine, for the kinds that it watches: at once, or with the latency model's
delay, in order for each kind. Finished pods are removed as if they were deleted, because the engine watches unfinished
ones. Kubelets are modelled by durations: a placed pod ends after a given time, and a deleted one after its grace
period.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol

from stowplan.drivers.virtual_time.agenda import Agenda
from stowplan.drivers.virtual_time.latency import Latency
from stowplan.drivers.virtual_time.object_store import ObjectStore, runs
from stowplan.drivers.virtual_time.virtual_api import ListObjects, PendingCall
from stowplan.drivers.virtual_time.volume_controllers import FOLLOWED, VolumeControllers
from stowplan.kube.api.meta import ApiStruct, parse_timestamp
from stowplan.kube.api.pod import FINISHED, Pod, grace_period_of
from stowplan.kube.api.port import Change, Listing
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.framework.requests import Bind, Delete, Done, Outcome, Read, Refused

#: What a request changed, in order.
Changes = Sequence[Change[Any]]
_DONE = Done()


class PodEnd(PlainStruct, frozen=True):
    """The end of a pod, by its kubelet."""

    namespace: str
    name: str
    uid: str


class VolumesDue(NamedTuple):
    """The controllers of volumes have something to do."""


VOLUMES_DUE = VolumesDue()


class Watcher(Protocol):
    """Observes changes in addition to the engine, such as a model of a controller."""

    def changed(self, change: Change[Any], /) -> None:
        """The store has changed. A watcher must not write here, but schedule a write (`VirtualTime.at`)."""


class SimulatedCluster:
    def __init__(
        self,
        store: ObjectStore,
        agenda: Agenda,
        *,
        latency: Latency,
        kinds: Collection[type[ApiStruct]] | None,
        runs_for: Callable[[Pod], float | None] | None,
        binds_volumes_after: float | None = None,
    ) -> None:
        """`kinds`: the watched ones; None: all. `runs_for`: the duration of a pod in seconds; None: forever.

        `binds_volumes_after`: seconds until a claim is bound, or a volume provisioned for it; None: never.
        """
        self._store = store
        self._agenda = agenda
        self._latency = latency
        self._kinds = None if kinds is None else frozenset(kinds)
        self._runs_for = runs_for
        self._volumes = None if binds_volumes_after is None else VolumeControllers(store, takes=binds_volumes_after)
        #: When the controllers of volumes run next.
        self._volumes_due = inf
        #: They observe every change immediately, in this order.
        self.watchers: list[Watcher] = []
        #: Kind -> time of the last delayed delivery.
        self._delivered_at: dict[type[ApiStruct], float] = {}

    # -- requests -----------------------------------------------------------------------------------------------------

    def outcome(self, request: Any, pending: PendingCall | None = None) -> tuple[Outcome, Changes]:
        """Carry a request out: its outcome, and its changes, which the caller must deliver (`deliver`).

        `pending` has additional parameters from a plugin's coroutine.
        """
        kind = type(request)
        try:
            if kind is Bind and pending is None:
                # An API server returns no object here.
                return _DONE, (self._store.bind(request, self._agenda.now),)
            if kind is Read:
                return Done(self._store.get(request.kind, request.namespace, request.name)), ()
            if kind is ListObjects:
                found = self._store.list(request.kind, request.namespace)
                return Done(Listing(found, str(self._store.version))), ()
            changes = self.write(request, pending)
        except Exception as error:
            # Any exception: a plugin may send an invalid request.
            return Refused(error), ()
        if kind is Bind or kind is Delete:
            # An API server returns no object here.
            return _DONE, changes
        [change] = changes
        return Done(change.old if change.new is None else change.new), changes

    def write(self, request: Any, pending: PendingCall | None = None) -> Changes:
        """Apply a request and return the changes; raises ApiError if it is refused."""
        kind, now = type(request), self._agenda.now
        if kind is Delete:
            return self._delete(request, None if pending is None else pending.grace)
        if pending is not None and pending.annotations and kind is Bind:
            return (self._store.bind(request, now, pending.annotations),)
        return self._store.write(request, now)

    def _delete(self, request: Delete, grace: float | None) -> Changes:
        if grace is None:
            found: Any = self._store.get(request.kind, request.namespace, request.name)
            if runs(found) and not found.metadata.deletion_timestamp:
                grace = self._latency.deletion(found)
                if grace == inf:
                    return self._store.delete(request, self._agenda.now, grace_period_of(found))
        changes = self._store.delete(request, self._agenda.now, grace)
        last = changes[-1]
        if grace is not None and last.new is not None and last.new is not last.old and runs(last.new):
            self._end_in(last.new, grace)
        return changes

    # -- deliveries ----------------------------------------------------------------------------------------------------

    def deliver(self, changes: Changes) -> None:
        """Deliver changes to watchers, and schedule the end of pods that were placed."""
        for change in changes:
            self._deliver(change)

    def _deliver(self, change: Change[Any]) -> None:
        old: Any = change.old
        new: Any = change.new
        if old is new:
            return
        for watcher in self.watchers:
            watcher.changed(change)
        kind = type(new) if old is None else type(old)
        if self._volumes is not None and (kind in FOLLOWED or (kind is Pod and (old or new).spec.volumes)):
            self._follow_volumes(self._volumes, change)
        if kind is Pod:
            if self._runs_for is not None and new is not None and new.spec.node_name:
                self._run(old, new)
            if (old is not None and old.status.phase in FINISHED) or (new is not None and new.status.phase in FINISHED):
                visible = _unfinished(change)
                if visible is None:
                    return
                change = visible
        if self._kinds is not None and kind not in self._kinds:
            return
        if self._latency.watches_at_once:
            self._agenda.join(kind, change)
        else:
            self._deliver_later(kind, change)

    def _follow_volumes(self, volumes: VolumeControllers, change: Change[Any]) -> None:
        volumes.follow(change)
        if volumes.are_due:
            # As a later event of the same time, so that other changes at this time are included.
            self._run_volumes_at(self._agenda.now)

    def _run_volumes_at(self, when: float) -> None:
        if when < self._volumes_due:
            self._volumes_due = when
            self._agenda.put(when, VOLUMES_DUE)

    def run_volumes(self, due: VolumesDue) -> None:
        """Let the controllers of volumes do what is due."""
        volumes, now = self._volumes, self._agenda.now
        assert volumes is not None
        for request in volumes.requests(now):
            self.deliver(self.write(request))
        self._volumes_due = inf
        if volumes.next is not None:
            self._run_volumes_at(volumes.next)

    def forget_volumes(self) -> None:
        """Objects may change without being followed."""
        if self._volumes is not None and self._volumes.is_used:
            self._volumes.forget()

    def _deliver_later(self, kind: type[ApiStruct], change: Change[Any]) -> None:
        at = max(self._agenda.now + self._latency.watch(kind), self._delivered_at.get(kind, 0.0))
        self._delivered_at[kind] = at
        self._agenda.put(at, change)

    # -- ends of pods --------------------------------------------------------------------------------------------------

    def _run(self, old: Pod | None, pod: Pod) -> None:
        """Schedule the end of a pod that was just placed."""
        if old is None or not old.spec.node_name:
            assert self._runs_for is not None
            seconds = self._runs_for(pod)
            if seconds is not None:
                self._end_in(pod, seconds)

    def _end_in(self, pod: Pod, seconds: float) -> None:
        metadata = pod.metadata
        ending = PodEnd(metadata.namespace, metadata.name, metadata.uid)
        self._agenda.put(self._agenda.now + seconds, ending)

    def take_over(self, pod: Pod) -> None:
        """Schedule the end of a pod that was placed before the simulation started."""
        now, goes_at = self._agenda.now, pod.metadata.deletion_timestamp
        if goes_at is not None:
            self._end_in(pod, parse_timestamp(goes_at) - now)
        elif self._runs_for is not None and (seconds := self._runs_for(pod)) is not None:
            times = (one.last_transition_time for one in pod.status.conditions if one.type == "PodScheduled")
            since = next(times, None)
            self._end_in(pod, seconds if since is None else parse_timestamp(since) + seconds - now)

    def end(self, ending: PodEnd) -> None:
        change = self._store.end(ending.namespace, ending.name, ending.uid)
        if change is not None:
            self._deliver(change)


def _unfinished(change: Change[Pod]) -> Change[Pod] | None:
    """The change as seen by watchers of unfinished pods; None: not visible to them."""
    old, new = (None if pod is None or pod.status.phase in FINISHED else pod for pod in (change.old, change.new))
    return None if old is None and new is None else Change(old, new)
