"""Pod status patches: the newest per pod, with lower priority than bindings.

`write` records a note with the wanted change of a pod's status and returns. Pods with a note wait in line, and a few at
a time are written in the status lane. Notes for a pod that is waiting, or that has a patch in progress, are merged into
one. So ten thousand pods that fail at once are ten thousand notes, and a pod that fails again before its turn costs
nothing more. `patch` is for callers that wait for the result; it bypasses the line.

A patch is computed when it is sent, against the newest known status: the informer's, or the response to the last patch,
which may be ahead of the informer.

A note that cannot be sent is dropped after a few attempts, because the pod's next failure writes it again. For a pod
that is about to be bound, `withdraw` guarantees that no older note about its scheduling is sent after the binding.

    idle         nothing to write; the last response is ahead of the informer
    in line      there is a note
    under way    a patch was sent; further notes are sent after its response
    resting      it failed and is retried later; further notes are included

The patch (`status_patch`) is the difference between the known and the wanted status, as a strategic merge patch: an
existing condition is identified by its type and has its changed fields, with the order of all conditions; a new one has
all fields. `lastTransitionTime` stays unless the condition's status changes, and a change of `observedGeneration` alone
is not written.

Upstream: PatchPodStatus in pkg/scheduler/util/utils.go, UpdatePodCondition in pkg/api/v1/pod/util.go; merging as in
pkg/scheduler/framework/api_calls; docs/reference/behaviour.md, Status patches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, Protocol

from msgspec.structs import replace

from stowplan.kube.api.api_errors import ApiError, NotFound
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.meta import ObjectMeta, timestamp
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import Pod, PodCondition, PodStatus
from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.timing.backoff import Backoff, BackoffPolicy
from stowplan.kube.timing.reports import Reports
from stowplan.scheduler.cluster.pod_info import uid_of
from stowplan.scheduler.engine.dumped import DumpedStatus
from stowplan.scheduler.engine.outbox import Alarm, Outbox
from stowplan.scheduler.framework.requests import Done, Outcome, Patch, is_retriable

MAX_CONCURRENT_PATCHES = 16
MAX_TRIES = 4
RETRYING = BackoffPolicy(initial=0.01, factor=5.0, cap=1.0, jitter=0.1)

_FAILURES = (ApiError, Unreachable)


class StatusListener(Protocol):
    """Waits for the result of a patch: its own, or, to `withdraw`, that of whatever patch is in progress."""

    def status_written(self, failed: Exception | None, /) -> None: ...


class PatchStage(Enum):
    IDLE = "idle"
    IN_LINE = "in line"
    UNDER_WAY = "under way"
    RESTING = "resting"


class PendingStatus:
    """The pending change of a pod's status."""

    __slots__ = ("conditions", "listeners", "nominated_node_name", "tries")

    def __init__(self) -> None:
        #: By type. Their `last_transition_time` is when they were recorded.
        self.conditions: dict[str, PodCondition] = {}
        self.nominated_node_name: str | None = None
        #: Callers that wait for the result; such a note bypasses the line.
        self.listeners: list[StatusListener] = []
        #: Patches sent since the note was last changed.
        self.tries = 0

    @property
    def is_about_scheduling(self) -> bool:
        """Whether it is outdated once the pod is bound; a victim's DisruptionTarget alone is not."""
        return self.nominated_node_name is not None or "PodScheduled" in self.conditions

    def add(self, condition: PodCondition | None, nominated_node_name: str | None) -> None:
        """Merge a newer change."""
        if condition is not None:
            earlier = self.conditions.get(condition.type)
            if earlier is not None and earlier.status == condition.status:
                condition = replace(condition, last_transition_time=earlier.last_transition_time)
            self.conditions[condition.type] = condition
        if nominated_node_name is not None:
            self.nominated_node_name = nominated_node_name
        self.tries = 0

    def followed_by(self, newer: PendingStatus | None) -> PendingStatus:
        if newer is not None:
            for condition in newer.conditions.values():
                self.add(condition, None)
            self.add(None, newer.nominated_node_name)
            self.listeners += newer.listeners
        return self

    def end(self, failed: Exception | None = None) -> bool:
        """Notify the listeners; return whether there were any."""
        for listener in self.listeners:
            listener.status_written(failed)
        return bool(self.listeners)

    def on_wake(self) -> None:
        """The note was dropped."""
        self.end()


class PodWrites:
    """A pod with a pending change, or with a response that is ahead of the informer."""

    __slots__ = (
        "ahead",
        "alarm",
        "backoff",
        "bound",
        "forgotten",
        "name",
        "namespace",
        "note",
        "number",
        "owner",
        "sent",
        "stage",
        "status",
        "uid",
        "version",
        "withdrawals",
    )

    def __init__(self, owner: PodStatuses, pod: Pod) -> None:
        self.owner = owner
        self.uid = uid_of(pod)
        self.namespace = pod.metadata.namespace or "default"
        self.name = pod.metadata.name
        self.stage = PatchStage.IDLE
        self.status: PodStatus = pod.status
        self.version = _version(pod)
        self.bound = bool(pod.spec.node_name)
        #: Whether the status is from a response that the informer has not delivered yet.
        self.ahead = False
        #: The pod is gone, or about to be bound: the record only exists for the patch in progress.
        self.forgotten = False
        #: The change to send, or to retry.
        self.note: PendingStatus | None = None
        #: The change in the patch in progress, and the effect's number.
        self.sent: PendingStatus | None = None
        self.number = 0
        #: Fires at the retry, while resting.
        self.alarm: Alarm | None = None
        #: Set while attempts fail.
        self.backoff: Backoff | None = None
        #: Waiters for the end of the patch in progress.
        self.withdrawals: list[StatusListener] = []

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"status of pod {self.key}"

    def see(self, pod: Pod, *, answer: bool = False) -> None:
        """Use another version of the pod, unless it is older."""
        version = _version(pod)
        if version < self.version or uid_of(pod) != self.uid:
            return
        self.bound = bool(pod.spec.node_name)
        # A bound pod is patched at most once, so its response need not be kept.
        self.ahead = answer and version > self.version and not self.bound
        self.status, self.version = pod.status, version

    def answered(self, number: int, outcome: Outcome) -> None:
        self.owner.answered(self, outcome)

    def on_wake(self) -> None:
        """The delay before the retry is over."""
        self.owner.rested(self)


@mypyc_attr(allow_interpreted_subclasses=True)
class PodStatuses:
    def __init__(self, outbox: Outbox, *, random: Callable[[], float], report: Callable[[str], None]) -> None:
        """`random`: uniform in [0, 1), for the jitter of retries."""
        self._outbox = outbox
        self._random = random
        self._reports = Reports(report, clock=outbox.time)
        self._known: dict[str, PodWrites] = {}
        #: Pods with a pending status that no caller waits for, by UID.
        self._line: OrderedDict[str, PodWrites] = OrderedDict()
        #: UIDs of pods that were taken from the line, until their note is written or dropped.
        self._slots: set[str] = set()
        #: Whether a wake-up at the end of the step is scheduled.
        self._begins = False
        self._last_try = False
        #: Number of patches in progress.
        self.under_way = 0

    @property
    def listeners(self) -> Iterator[StatusListener]:
        """Waiters for patches, with multiplicity."""
        for writes in self._known.values():
            for note in (writes.sent, writes.note):
                yield from () if note is None else note.listeners

    @property
    def withdrawals(self) -> Iterator[StatusListener]:
        """Waiters for the end of a patch that is not theirs."""
        return (listener for writes in self._known.values() for listener in writes.withdrawals)

    @property
    def idle(self) -> bool:
        """Whether nothing is in progress or can start before time passes."""
        return not self.under_way and not self._can_begin

    @property
    def settled(self) -> bool:
        """Whether all changes that no caller waits for were written or dropped."""
        return not self._slots and not self._line

    def write(self, pod: Pod, *, condition: PodCondition | None = None, nominated_node_name: str | None = None) -> None:
        """Record a status change, to be written soon. A nominated node of None keeps the current one, "" clears it."""
        # The common case of a pod that fails again in the same way: no record is made for it.
        if uid_of(pod) not in self._known:
            conditions = () if condition is None else (condition,)
            if status_patch(pod.status, conditions=conditions, nominated_node_name=nominated_node_name) is None:
                return
        writes, _ = self._noted(pod, condition, nominated_node_name)
        if writes.stage is PatchStage.IDLE:
            self._line_up(writes)

    def patch(
        self,
        pod: Pod,
        listener: StatusListener,
        *,
        condition: PodCondition | None = None,
        nominated_node_name: str | None = None,
    ) -> None:
        """Change the status now, including pending changes. The listener may be called before this returns."""
        writes, note = self._noted(pod, condition, nominated_node_name)
        note.listeners.append(listener)
        if writes.stage is not PatchStage.UNDER_WAY:
            self._leave(writes)
            self._send(writes)

    def observe(self, pod: Pod) -> None:
        """Process a pod that the informer delivered."""
        writes = self._known.get(uid_of(pod))
        if writes is None:
            return
        writes.see(pod)
        if pod.spec.node_name and writes.note is not None and not writes.note.listeners:
            # The pod was bound, so "unschedulable" is no longer true.
            self._drop(writes)
        self._tidy(writes)

    def forget(self, uid: str) -> None:
        """Drop pending writes of a pod that was deleted or bound."""
        writes = self._known.get(uid)
        if writes is None:
            return
        writes.forgotten = True
        self._give_up(writes)
        self._drop(writes)
        self._tidy(writes)

    def withdraw(self, uid: str, listener: StatusListener) -> bool:
        """Drop pending changes of a pod that is about to be bound; return whether the listener has to wait for a patch.

        The known status is kept: if the binding fails, the next patch builds on it. A victim's condition is written all
        the same, and the binding does not wait for it: the victim's deletion, which comes next, would overtake it.
        """
        writes = self._known.get(uid)
        if writes is None:
            return False
        if writes.note is not None and writes.note.is_about_scheduling:
            self._drop(writes)
        # A patch that was sent cannot be taken back; after the binding it would say that the pod is unschedulable.
        waits = writes.sent is not None and writes.sent.is_about_scheduling
        if waits:
            self._give_up(writes)
            writes.withdrawals.append(listener)
        self._tidy(writes)
        return waits

    def last_try(self) -> None:
        """Send what is waiting for a retry, and stop retrying: shutdown is near."""
        self._last_try = True
        # A copy: a note that changes nothing is over at once, and its record forgotten.
        for writes in tuple(self._known.values()):
            if writes.alarm is not None:
                writes.alarm.cancel()
                self.rested(writes)

    def close(self) -> None:
        """Report what has not been reported yet."""
        self._reports.close()

    # -- notes --------------------------------------------------------------------------------------------------------

    def _noted(
        self, pod: Pod, condition: PodCondition | None, nominated_node_name: str | None
    ) -> tuple[PodWrites, PendingStatus]:
        uid = uid_of(pod)
        writes = self._known.get(uid)
        if writes is None:
            writes = self._known[uid] = PodWrites(self, pod)
        else:
            writes.see(pod)
            writes.forgotten = False
        note = writes.note = writes.note or PendingStatus()
        if condition is not None:
            condition = replace(condition, last_transition_time=timestamp(self._outbox.wall_clock()))
        note.add(condition, nominated_node_name)
        return writes, note

    def _drop(self, writes: PodWrites) -> None:
        """Drop a pending change.

        Listeners are notified at the end of the step, as callers are in the middle of something.
        """
        note, writes.note = writes.note, None
        if writes.stage is not PatchStage.UNDER_WAY:
            self._leave(writes)
        if note is not None and note.listeners:
            self._outbox.at_step_end(note)

    @staticmethod
    def _give_up(writes: PodWrites) -> None:
        """Do not retry the patch in progress."""
        if writes.sent is not None:
            writes.sent.tries = MAX_TRIES

    def _tidy(self, writes: PodWrites) -> None:
        if writes.stage is not PatchStage.IDLE or writes.note is not None or (writes.ahead and not writes.forgotten):
            return
        if self._known.get(writes.uid) is writes:
            del self._known[writes.uid]

    # -- the line -----------------------------------------------------------------------------------------------------

    def _line_up(self, writes: PodWrites) -> None:
        writes.stage = PatchStage.IN_LINE
        self._line[writes.uid] = writes
        self._begin_soon()

    def _leave(self, writes: PodWrites) -> None:
        """Leave the line, or end the wait for a retry."""
        self._line.pop(writes.uid, None)
        if writes.alarm is not None:
            writes.alarm.cancel()
            writes.alarm = None
        self._free_slot(writes)
        writes.stage = PatchStage.IDLE

    def _free_slot(self, writes: PodWrites) -> None:
        self._slots.discard(writes.uid)
        self._begin_soon()

    @property
    def _can_begin(self) -> bool:
        return bool(self._line) and len(self._slots) < MAX_CONCURRENT_PATCHES

    def _begin_soon(self) -> None:
        """Start at the end of the step, so that further changes of a pod in this step go into the same patch."""
        if not self._begins and self._can_begin:
            self._begins = True
            self._outbox.at_step_end(self)

    def on_wake(self) -> None:
        """Start as many patches as allowed."""
        self._begins = False
        while self._can_begin:
            _, writes = self._line.popitem(last=False)
            writes.stage = PatchStage.IDLE
            self._slots.add(writes.uid)
            self._send(writes)

    # -- sending ------------------------------------------------------------------------------------------------------

    def _send(self, writes: PodWrites) -> None:
        # Taken out: what is recorded while the patch is under way goes into the next one.
        note, writes.note = writes.note, None
        assert note is not None
        body = status_patch(
            writes.status, conditions=note.conditions.values(), nominated_node_name=note.nominated_node_name
        )
        if body is None:
            self._over(writes, note, None)
            return
        note.tries += 1
        writes.stage, writes.sent = PatchStage.UNDER_WAY, note
        request = Patch(
            kind=Pod,
            namespace=writes.namespace,
            name=writes.name,
            body=body,
            subresource="status",
            lane="default" if note.listeners else "status",
        )
        self.under_way += 1
        writes.number = self._outbox.ask(request, writes)

    def answered(self, writes: PodWrites, outcome: Outcome) -> None:
        note, writes.sent, writes.number = writes.sent, None, 0
        assert note is not None
        self.under_way -= 1
        if isinstance(outcome, Done):
            # Ahead of the informer: the next patch is the difference to this.
            if isinstance(outcome.value, Pod):
                writes.see(outcome.value, answer=True)
            self._over(writes, note, None)
        elif isinstance(outcome.error, DecodeError):
            self._reports.say("The API server returned a pod that cannot be decoded", f"{writes.key}: {outcome.error}")
            self._over(writes, note, None)
        elif self._is_tried_again(writes, note, outcome):
            self._rest(writes, note)
        else:
            self._over(writes, note, outcome.error)

    def _is_tried_again(self, writes: PodWrites, note: PendingStatus, outcome: Outcome) -> bool:
        outdated = writes.bound and not note.listeners
        return is_retriable(outcome) and note.tries < MAX_TRIES and not self._last_try and not outdated

    def _rest(self, writes: PodWrites, note: PendingStatus) -> None:
        # The older first: a condition's newer version keeps the time of its last transition.
        writes.note = note.followed_by(writes.note)
        if note.listeners:
            self._free_slot(writes)
        if writes.backoff is None:
            writes.backoff = Backoff(RETRYING, clock=self._outbox.time, random=self._random)
        writes.stage = PatchStage.RESTING
        writes.alarm = self._outbox.wake(self._outbox.now + writes.backoff.next(), writes)

    def rested(self, writes: PodWrites) -> None:
        """Retry."""
        writes.alarm, writes.stage = None, PatchStage.IDLE
        self._send(writes)

    def _over(self, writes: PodWrites, note: PendingStatus, failed: Exception | None) -> None:
        """A change was written, or failed for good; continue with what was recorded in the meantime."""
        writes.stage, writes.backoff = PatchStage.IDLE, None
        self._free_slot(writes)
        withdrawals, writes.withdrawals = writes.withdrawals, []
        # First, because the other listeners may send another patch.
        for listener in withdrawals:
            listener.status_written(None)
        if not note.end(failed) and failed is not None:
            self._report_failure(writes, failed)
        self._go_on(writes)

    def _go_on(self, writes: PodWrites) -> None:
        # A listener may have sent another patch.
        if writes.stage is not PatchStage.IDLE or writes.note is None:
            self._tidy(writes)
        elif writes.note.listeners:
            self._send(writes)
        else:
            self._line_up(writes)

    def _report_failure(self, writes: PodWrites, failed: Exception) -> None:
        if isinstance(failed, NotFound):
            # The pod is gone.
            return
        if isinstance(failed, _FAILURES):
            self._reports.say("A pod's status cannot be written", f"{writes.key}: {failed}")
        else:
            # Indicates a bug.
            self._reports.say("Writing a pod's status fails", f"{writes.key}: {failed!r}")

    # -- dump and load ------------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> Iterator[str]:
        """Pods with pending changes."""
        return (
            f"{writes}: {writes.stage.value}" for writes in self._known.values() if writes.stage is not PatchStage.IDLE
        )

    def dump(self) -> list[DumpedStatus]:
        """The responses that are ahead of the informer; nothing may be unfinished."""
        return [
            DumpedStatus(
                uid=writes.uid,
                namespace=writes.namespace,
                name=writes.name,
                status=writes.status,
                version=writes.version,
            )
            for writes in self._known.values()
        ]

    def load(self, dumped: Iterable[DumpedStatus]) -> None:
        for one in dumped:
            metadata = ObjectMeta(
                name=one.name, namespace=one.namespace, uid=one.uid, resource_version=str(one.version)
            )
            writes = self._known[one.uid] = PodWrites(self, Pod(metadata=metadata, status=one.status))
            writes.ahead = True

    # -- invariants ----------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Violated invariants between steps."""
        return [*self._problems_of_pods(), *self._problems_of_sums(), *self._problems_of_the_outbox()]

    def _problems_of_pods(self) -> Iterator[str]:
        for uid, writes in self._known.items():
            if uid != writes.uid:
                yield f"{writes.key} is known by a wrong UID"
            if not _fits_stage(writes):
                yield f"{writes.key} is {writes.stage.value}, and its record does not fit that"
            if (uid in self._line) != (writes.stage is PatchStage.IN_LINE):
                yield f"{writes.key} is {writes.stage.value}; in line: {uid in self._line}"
            if (uid in self._slots) != _needs_slot(writes):
                yield f"{writes.key} is {writes.stage.value}; has a slot: {uid in self._slots}"

    def _problems_of_sums(self) -> Iterator[str]:
        stages = [writes.stage for writes in self._known.values()]
        if self.under_way != stages.count(PatchStage.UNDER_WAY):
            yield f"{self.under_way} patches are counted, of {stages.count(PatchStage.UNDER_WAY)} under way"
        if len(self._slots) > MAX_CONCURRENT_PATCHES:
            yield f"{len(self._slots)} slots are taken"
        if self._can_begin:
            yield "a pod is in line although a slot is free"
        for uid in (self._line.keys() | self._slots) - self._known.keys():
            yield f"an unknown pod is in line or has a slot: {uid}"

    def _problems_of_the_outbox(self) -> Iterator[str]:
        awaited = self._outbox.awaited
        waiters = [*awaited.values(), *(alarm.target for alarm in self._outbox.alarms)]
        for waiter in waiters:
            if isinstance(waiter, PodWrites) and self._known.get(waiter.uid) is not waiter:
                yield f"{waiter.key} waits and is not known"
        for writes in self._known.values():
            if writes.stage is PatchStage.UNDER_WAY and awaited.get(writes.number) is not writes:
                yield f"the answer to {writes.key}'s patch goes elsewhere"


def _fits_stage(writes: PodWrites) -> bool:
    note, resting, sent = writes.note, writes.alarm is not None, writes.sent is not None
    if writes.stage is PatchStage.UNDER_WAY:
        return sent and not resting
    if sent or writes.withdrawals or writes.forgotten or (note is None) != (writes.stage is PatchStage.IDLE):
        return False
    if note is None:
        return writes.ahead and not resting
    return resting if writes.stage is PatchStage.RESTING else not resting and not note.listeners


def _needs_slot(writes: PodWrites) -> bool:
    note = {PatchStage.UNDER_WAY: writes.sent, PatchStage.RESTING: writes.note}.get(writes.stage)
    return note is not None and not note.listeners


def _version(pod: Pod) -> int:
    """Of two objects with the same UID, the one with the larger resourceVersion is newer."""
    version = pod.metadata.resource_version
    return int(version) if version.isdecimal() else 0


def status_patch(
    status: PodStatus, *, conditions: Iterable[PodCondition] = (), nominated_node_name: str | None = None
) -> dict[str, Any] | None:
    """The body of the patch; None if nothing would change.

    Each condition's `last_transition_time` is the time to write if its status changes. A nominated node of None keeps
    the current one, "" clears it.
    """
    renominated = nominated_node_name is not None and nominated_node_name != status.nominated_node_name
    wanted = {one.type: one for one in conditions}
    old = {one.type: one for one in status.conditions}
    new = {type_: _kept_since(old.get(type_), one) for type_, one in wanted.items()}
    if not renominated and not any(_differs(old.get(type_), one) for type_, one in new.items()):
        return None
    changed = [found for type_, one in new.items() if (found := _difference(old.get(type_), one))]
    body: dict[str, Any] = {}
    if changed and old:
        body["$setElementOrder/conditions"] = [{"type": type_} for type_ in old | new]
    if changed:
        body["conditions"] = changed
    if renominated:
        body["nominatedNodeName"] = nominated_node_name or None
    return {"status": body}


def _kept_since(old: PodCondition | None, new: PodCondition) -> PodCondition:
    if old is None or old.status != new.status:
        return new
    return replace(new, last_transition_time=old.last_transition_time)


def _differs(old: PodCondition | None, new: PodCondition) -> bool:
    return old is None or replace(old, observed_generation=new.observed_generation) != new


def _difference(old: PodCondition | None, new: PodCondition) -> dict[str, Any]:
    """The fields to send; empty if nothing changed."""
    wanted = _fields(new)
    if old is None:
        return wanted
    known = _fields(old)
    names = [name for name in sorted(known | wanted) if known.get(name) != wanted.get(name)]
    return {**{name: wanted.get(name) for name in names}, "type": new.type} if names else {}


def _fields(condition: PodCondition) -> dict[str, Any]:
    """The condition as Go encodes it, with null times included."""
    fields: dict[str, Any] = {
        "lastProbeTime": condition.last_probe_time,
        "lastTransitionTime": condition.last_transition_time,
        "message": condition.message,
        "observedGeneration": condition.observed_generation,
        "reason": condition.reason,
        "status": condition.status,
        "type": condition.type,
    }
    return {name: value for name, value in fields.items() if value or name in _TIMES}


_TIMES = ("lastProbeTime", "lastTransitionTime")
