"""The pods of groups in the queue, since 1.37: one entry per group.

Of a tree of groups there is one entry, that of its root (`cluster.group_trees`). A group is in one place at a time, and
has timestamps, attempts and backoff of its own. Its pods wait in its entry, and are popped with it. While it is tried,
they are in flight, and those that come or return meanwhile are *pending*: they get into the entry when the trial is
over. Pods whose PodGroup, or a parent of it, does not exist are *incomplete*, and wait for it.

Until 1.36 a group has no entry; then this is not used.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go (addPodGroupMember, AddAttemptedPodGroupIfNeeded),
incomplete_pod_group_pods.go, pending_pod_group_pods.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from stowplan.scheduler.cluster.pod_groups import is_composite
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.queue.places import Places
from stowplan.scheduler.queue.queued_pod import REMOVED, Place, QueuedGroup, QueuedPod, entry_key
from stowplan.scheduler.queue.requeueing import Strategy


class TrialEnd(Enum):
    """How the trial of a group ended."""

    SCHEDULED = "scheduled"
    REJECTED = "rejected"
    FAILED = "failed"
    #: It was aborted, and begins again.
    ABORTED = "aborted"


def by_entity(helped: Iterable[tuple[QueuedPod, Strategy]]) -> Iterable[tuple[QueuedPod, Strategy]]:
    """What an event moves: a group is requeued as the best of its pods."""
    found: dict[QueuedPod, Strategy] = {}
    for queued, strategy in helped:
        entity = queued if queued.entry is None else queued.entry
        if entity not in found or strategy is Strategy.IMMEDIATELY:
            found[entity] = strategy
    return found.items()


class GroupEntries:
    """The entries of groups in `places`, and their pods."""

    def __init__(self, places: Places, *, now: Callable[[], float], root_of: Callable[[str], str]) -> None:
        """`root_of`: the root of a PodGroup's tree, such as itself; "" if it is not complete."""
        self._places = places
        self._now = now
        self._root_of = root_of
        #: Waiting pods of groups by `namespace/name`.
        self.pods = places.members
        #: Pods that are pending, by root, or incomplete, by PodGroup.
        self._aside: dict[Place, dict[str, dict[str, QueuedPod]]] = {Place.PENDING: {}, Place.INCOMPLETE: {}}
        #: Roots of what is tried.
        self._on_trial: dict[str, QueuedGroup] = {}

    def entry(self, group: str) -> QueuedGroup | None:
        """The waiting entry of a root."""
        found = self._places.get(entry_key(group))
        assert found is None or isinstance(found, QueuedGroup)
        return found

    def entries(self) -> list[QueuedGroup]:
        return [queued for queued in self._places.entities() if isinstance(queued, QueuedGroup)]

    def aside(self, place: Place) -> Iterator[QueuedPod]:
        """The pods that are pending, or incomplete."""
        return (queued for pods in self._aside[place].values() for queued in pods.values())

    # -- pods ---------------------------------------------------------------------------------------------------------

    def put(self, member: QueuedPod, cause: str, *, returns: bool = False) -> None:
        """Add a pod; `returns`: from an attempt that failed."""
        group = group_key(member.pod.pod)
        root = self._root_of(group)
        self.pods[member.key] = member
        if not root:
            self._set_aside(member, group, Place.INCOMPLETE, cause)
        elif (entry := self.entry(root)) is not None:
            entry.put(member)
            self._places.joined(entry, member, cause)
        elif root in self._on_trial:
            self._set_aside(member, root, Place.PENDING, cause)
        else:
            self._begin(member, root, cause, returns)

    def _set_aside(self, member: QueuedPod, under: str, place: Place, cause: str) -> None:
        member.gating_plugin, member.aside_under = "", under
        self._aside[place].setdefault(under, {})[member.key] = member
        self._places.settle(member, place, cause)

    def _begin(self, member: QueuedPod, root: str, cause: str, returns: bool) -> None:
        """The first pod of a tree waits. If its attempt has failed after the group's trial, the group backs off."""
        entry = QueuedGroup(
            pod=member.pod,
            key=entry_key(root),
            name=root,
            timestamp=member.timestamp,
            initial_attempt_timestamp=member.initial_attempt_timestamp,
            unschedulable_count=member.unschedulable_count if returns else 0,
            consecutive_errors_count=member.consecutive_errors_count if returns else 0,
        )
        entry.put(member)
        self._places.requeue(entry, Strategy.AFTER_BACKOFF, cause, arrives=True)

    def remove(self, member: QueuedPod, cause: str) -> None:
        """Remove a waiting pod."""
        del self.pods[member.key]
        if member.place in self._aside:
            groups, under = self._aside[member.place], member.aside_under
            del groups[under][member.key]
            if not groups[under]:
                del groups[under]
        elif (entry := member.entry) is not None:
            if len(entry.members) == 1:
                self._places.take_out(entry)
                entry.remove(member)
                entry.place = Place.GONE
            else:
                entry.remove(member)
                self._places.left(entry, member, cause)

    def renew(self, member: QueuedPod, info: PodInfo, cause: str) -> None:
        """Take over another version of a waiting pod; a successor of its name may be in another group."""
        if info.pod.spec.scheduling_group != member.pod.pod.spec.scheduling_group:
            self.remove(member, cause)
            member.pod = info
            self.put(member, cause)
            return
        entry, member.pod = member.entry, info
        if entry is not None:
            entry.put(member)
            if entry.place is Place.UNSCHEDULABLE:
                self._places.unschedulable.put(member)
            else:
                self._places.refresh(entry)

    # -- groups -------------------------------------------------------------------------------------------------------

    def added(self, group: str, cause: str) -> None:
        """The group exists now."""
        incomplete = self._aside[Place.INCOMPLETE]
        complete = [leaf for leaf in incomplete if self._root_of(leaf)] if is_composite(group) else [group]
        for member in [member for leaf in complete for member in incomplete.pop(leaf, {}).values()]:
            self.put(member, cause)

    def deleted(self, root: str, cause: str) -> None:
        """A group of the tree was deleted: its pods, and those of groups below it, wait for another one."""
        entry, pending = self.entry(root), self._aside[Place.PENDING].get(root, {})
        pods = list((pending if entry is None else entry.members).values())
        lost = [member for member in pods if self._root_of(group_key(member.pod.pod)) != root]
        if entry is not None and len(lost) == len(pods):
            self._places.take_out(entry)
            entry.place = Place.GONE
            for member in lost:
                member.entry = None
                self._set_aside(member, group_key(member.pod.pod), Place.INCOMPLETE, cause)
            return
        for member in lost:
            self.remove(member, cause)
            self.put(member, cause)

    # -- attempts -----------------------------------------------------------------------------------------------------

    def popped(self, entry: QueuedGroup) -> None:
        """The group is tried from now on, until `tried`."""
        self._on_trial[entry.name] = entry
        for member in entry.members.values():
            del self.pods[member.key]
            member.entry, member.gating_plugin, member.backoff_expiration = None, "", None

    def tried(self, root: str, end: TrialEnd, cause: str) -> QueuedGroup | None:
        """Return a tree with its pending pods; None if there are none."""
        # No longer on trial, so pods that come from now on join the entry.
        entry = self._on_trial.pop(root, None)
        pending = self._aside[Place.PENDING].pop(root, None)
        if entry is None or pending is None:
            return None
        were_tried = {member.pod.uid for member in entry.members.values()}
        some_left = any(member.pod.uid in were_tried for member in pending.values())
        entry.members, entry.pod, entry.gated_by = {}, next(iter(pending.values())).pod, None
        for member in pending.values():
            entry.put(member)
        entry.gating_plugin, entry.was_flushed, entry.flushed_at = "", False, None
        self._count(entry, end)
        if end is not TrialEnd.ABORTED and not (end is TrialEnd.SCHEDULED and some_left):
            # The rest of a scheduled group keeps its turn: now it may preempt.
            entry.timestamp = self._now()
        at_once = end in (TrialEnd.SCHEDULED, TrialEnd.ABORTED)
        strategy = Strategy.IMMEDIATELY if at_once else Strategy.AFTER_BACKOFF
        self._places.requeue(entry, strategy, cause, arrives=True)
        return entry

    @staticmethod
    def _count(entry: QueuedGroup, end: TrialEnd) -> None:
        if end is TrialEnd.ABORTED:
            return
        entry.backoff_expiration = None
        if end is TrialEnd.FAILED:
            entry.consecutive_errors_count += 1
            return
        entry.consecutive_errors_count = 0
        entry.unschedulable_count = 0 if end is TrialEnd.SCHEDULED else entry.unschedulable_count + 1

    def clear(self) -> None:
        """Forget the pods that wait outside entries; entries are forgotten with the others."""
        for place, groups in self._aside.items():
            for member in list(self.aside(place)):
                self._places.settle(member, Place.GONE, REMOVED)
            groups.clear()
        self.pods.clear()

    # -- load ---------------------------------------------------------------------------------------------------------

    def restore(self, member: QueuedPod) -> None:
        """Restore an incomplete pod, or one whose entry was restored."""
        self.pods[member.key] = member
        if member.place in self._aside:
            member.aside_under = group_key(member.pod.pod)
            self._aside[member.place].setdefault(member.aside_under, {})[member.key] = member

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Violated invariants, between calls."""
        entries = self.entries()
        found = {key: queued for entry in entries for key, queued in entry.members.items()}
        for place, groups in self._aside.items():
            for group, pods in groups.items():
                found |= pods
                if any(queued.place is not place or queued.aside_under != group for queued in pods.values()):
                    yield f"pod group {group}: not all of its {place.value} pods are, or are of this group"
                if not pods or (place is Place.PENDING and group not in self._on_trial):
                    yield f"pod group {group}: has no {place.value} pods, or is not tried"
        if found.keys() != self.pods.keys() or any(self.pods[key] is not queued for key, queued in found.items()):
            yield f"waiting pods of groups are {sorted(found)}, and {sorted(self.pods)} are known"
        for entry in entries:
            yield from self._problems_of_entry(entry)
        for group in self._on_trial:
            if self.entry(group) is not None:
                yield f"pod group {group}: is tried, and waits"

    def _problems_of_entry(self, entry: QueuedGroup) -> Iterator[str]:
        members = entry.members.values()
        roots = {self._root_of(group_key(one.pod.pod)) for one in members}
        if roots != {entry.name} or any(one.entry is not entry for one in members):
            yield f"pod group {entry.name}: its entry has no pods, or pods of another group"
        if all(one.pod is not entry.pod for one in members):
            yield f"pod group {entry.name}: its entry is sorted by a pod that is not in it"
        if any(one.pod.priority > entry.pod.priority for one in members):
            yield f"pod group {entry.name}: its entry is not sorted by its most important pod"
        gate = entry.gated_by
        if (gate is None) is entry.gated or (gate is not None and entry.members.get(gate.key) is not gate):
            yield f"pod group {entry.name}: gated by {entry.gating_plugin or 'no plugin'}, and not by one of its pods"
        if any(one.gating_plugin != entry.gating_plugin for one in members):
            yield f"pod group {entry.name}: its pods are not gated as it is"
