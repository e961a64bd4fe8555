"""The simulated cluster around the engine: carries out requests, notifies watchers, ends pods.

What a request changes in the store becomes news for the engine, of the kinds that it watches: at once, or when the
latency model says, in one order for each kind. Pods that are finished leave as if they were deleted, as the engine
watches those that are not. Whoever runs a pod is modelled by the time that this takes: a pod with a node ends after
the seconds that somebody says, and one that is deleted after its grace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from stowplan.api.changes import Change
from stowplan.api.meta import ApiStruct
from stowplan.api.pod import FINISHED, Pod
from stowplan.api.port import Listing
from stowplan.api.timestamps import parse_timestamp
from stowplan.framework.requests import Bind, Delete, Done, Read, Refused
from stowplan.simulate.object_store import runs
from stowplan.simulate.virtual_api import ListObjects
from stowplan.simulate.volume_controllers import FOLLOWED, VolumeControllers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from stowplan.framework.requests import Outcome
    from stowplan.simulate.agenda import Agenda
    from stowplan.simulate.latency import Latency
    from stowplan.simulate.object_store import ObjectStore
    from stowplan.simulate.virtual_api import Asked

#: What a request changed, one after the other.
Changes = Sequence[Change[Any]]
_DONE = Done()


class Ending(msgspec.Struct, frozen=True):
    """The deletion of an object by its owner, such as a kubelet."""

    kind: type[ApiStruct]
    namespace: str
    name: str
    uid: str


class Look(NamedTuple):
    """Whoever binds volumes looks at the claims that wait for no pod."""


LOOK = Look()


class Watcher(Protocol):
    """Somebody beside the engine who sees what happens to objects, such as a model of a controller."""

    def changed(self, change: Change[Any], /) -> None:
        """It has happened in the store. Whoever wants to write for it does so in its turn (`VirtualTime.at`)."""


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
        """`kinds`: those that are watched; None: all. `runs_for`: for how many seconds a pod runs; None: for ever.

        `binds_volumes_after`: seconds that it takes to bind a claim, or make a volume for it; None: nobody does.
        """
        self._store = store
        self._agenda = agenda
        self._latency = latency
        self._kinds = None if kinds is None else frozenset(kinds)
        self._runs_for = runs_for
        self._volume_controllers = None if binds_volumes_after is None else VolumeControllers(store)
        self._binds_volumes_after = binds_volumes_after or 0.0
        #: Whether claims are looked after at this moment.
        self._will_look = False
        #: They see every change at once, in this order.
        self.watchers: list[Watcher] = []
        #: Kind -> when the last of its news is told, unless that is at once.
        self._told_at: dict[type[ApiStruct], float] = {}

    # -- requests -----------------------------------------------------------------------------------------------------

    def outcome(self, request: Any, asked: Asked | None = None) -> tuple[Outcome, Changes]:
        """Carry a request out: how it ends, and what it changed, which is to be told (`tell`).

        `asked` has what a request cannot say, if a plugin's coroutine made it.
        """
        kind = type(request)
        try:
            if kind is Bind and asked is None:
                # An API server answers this with no object.
                return _DONE, (self._store.bind(request, self._agenda.now),)
            if kind is Read:
                return Done(self._store.get(request.kind, request.namespace, request.name)), ()
            if kind is ListObjects:
                found = self._store.list(request.kind, request.namespace)
                return Done(Listing(found, str(self._store.version))), ()
            changes = self.write(request, asked)
        except Exception as error:
            # Not only an ApiError: a plugin may ask for what makes no sense.
            return Refused(error), ()
        if kind is Bind or kind is Delete:
            # An API server answers these with no object.
            return _DONE, changes
        [change] = changes
        return Done(change.old if change.new is None else change.new), changes

    def write(self, request: Any, asked: Asked | None = None) -> Changes:
        """What a request changes; an ApiError if it is refused."""
        kind, now = type(request), self._agenda.now
        if kind is Delete:
            return self._delete(request, None if asked is None else asked.grace)
        if asked is not None and asked.annotations and kind is Bind:
            return (self._store.bind(request, now, asked.annotations),)
        return self._store.write(request, now)

    def _delete(self, request: Delete, grace: float | None) -> Changes:
        if grace is None:
            found: Any = self._store.get(request.kind, request.namespace, request.name)
            if runs(found) and not found.metadata.deletion_timestamp:
                grace = self._latency.deletion(found)
        changes = self._store.delete(request, self._agenda.now, grace)
        last = changes[-1]
        if grace is not None and last.new is not None and last.new is not last.old and runs(last.new):
            self._end_in(last.new, grace)
        return changes

    # -- news ---------------------------------------------------------------------------------------------------------

    def tell(self, changes: Changes) -> None:
        """Have watchers told of changes, and see to it that a pod that got a node ends."""
        for change in changes:
            self._tell(change)

    def _tell(self, change: Change[Any]) -> None:
        old: Any = change.old
        new: Any = change.new
        if old is new:
            return
        for watcher in self.watchers:
            watcher.changed(change)
        kind = type(new) if old is None else type(old)
        if self._volume_controllers is not None and kind in FOLLOWED:
            self._tell_volume_controllers(self._volume_controllers, change)
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
            self._tell_later(kind, change)

    def _tell_volume_controllers(self, controllers: VolumeControllers, change: Change[Any]) -> None:
        for request in controllers.requests_after(change):
            self._agenda.put(self._agenda.now + self._binds_volumes_after, request)
        if controllers.want_to_look and not self._will_look:
            # In its turn: what comes at this moment, too, counts.
            self._will_look = True
            self._agenda.put(self._agenda.now, LOOK)

    def look_after_claims(self, look: Look) -> None:
        """Claims that wait for no pod are seen to."""
        self._will_look = False
        assert self._volume_controllers is not None
        now = self._agenda.now
        for request, takes_time in self._volume_controllers.look():
            self._agenda.put(now + self._binds_volumes_after if takes_time else now, request)

    def _tell_later(self, kind: type[ApiStruct], change: Change[Any]) -> None:
        at = max(self._agenda.now + self._latency.watch(kind), self._told_at.get(kind, 0.0))
        self._told_at[kind] = at
        self._agenda.put(at, change)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _run(self, old: Pod | None, pod: Pod) -> None:
        """See to it that a pod with a node ends, if it has just got that."""
        if old is None or not old.spec.node_name:
            assert self._runs_for is not None
            seconds = self._runs_for(pod)
            if seconds is not None:
                self._end_in(pod, seconds)

    def _end_in(self, pod: Pod, seconds: float) -> None:
        metadata = pod.metadata
        ending = Ending(Pod, metadata.namespace, metadata.name, metadata.uid)
        self._agenda.put(self._agenda.now + seconds, ending)

    def take_over(self, pod: Pod) -> None:
        """See to it that a pod ends that had its node before time began."""
        now, goes_at = self._agenda.now, pod.metadata.deletion_timestamp
        if goes_at is not None:
            self._end_in(pod, parse_timestamp(goes_at) - now)
        elif self._runs_for is not None and (seconds := self._runs_for(pod)) is not None:
            times = (one.last_transition_time for one in pod.status.conditions if one.type == "PodScheduled")
            since = next(times, None)
            self._end_in(pod, seconds if since is None else parse_timestamp(since) + seconds - now)

    def end(self, ending: Ending) -> None:
        change = self._store.end(ending.kind, ending.namespace, ending.name, ending.uid)
        if change is not None:
            self._tell(change)


def _unfinished(change: Change[Pod]) -> Change[Pod] | None:
    """The change of a pod as those see it who watch pods that are not finished; None: they do not."""
    old, new = (None if pod is None or pod.status.phase in FINISHED else pod for pod in (change.old, change.new))
    return None if old is None and new is None else Change(old, new)
