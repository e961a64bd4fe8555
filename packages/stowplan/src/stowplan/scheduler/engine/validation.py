"""Verify the invariants of an engine.

Much of the engine's state is stored twice, for access from either side: where a pod waits, the sums of requests, who
waits for an answer. Each part verifies its own state in `problems()`. Here is what must hold between them:

* A pending pod of ours is exactly one of these: waiting in the queue; in flight; in a binding cycle that no longer
  needs the queue; on a node, when its binding is over and has not been observed yet. A pod that is terminating may be
  nowhere, as it is not tried, or wait while its last binding ends.
* A pod is in flight as long as its scheduling cycle is suspended, or its binding is announced or waits on Permit.
* Waiters for status writes are known to the statuses, and the other way round.
* Every outcome and every alarm goes to a record of one of the parts.
* Binding cycles agree with the other parts about what they wait for (`BindingChecks`).

Upstream has no such check. The model is `validate_state` of dask.distributed's worker state machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

from stowplan.scheduler.cluster.pod_info import PodInfo, scheduler_name_of
from stowplan.scheduler.cluster.recount import problems_of as problems_of_state
from stowplan.scheduler.engine.binding_calls import PluginCall
from stowplan.scheduler.engine.binding_cycle import IN_FLIGHT, BindingCycle, BindingCycles, BindingStage
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.dumping import EngineParts
from stowplan.scheduler.engine.eviction.eviction_records import PlanRecord, VictimRecord
from stowplan.scheduler.engine.groups.group_statuses import GroupPatch
from stowplan.scheduler.engine.statuses import PodWrites
from stowplan.scheduler.engine.suspension.suspended import AwaitedRequest, SuspendableCycle
from stowplan.scheduler.engine.suspension.suspended_cycles import WorkSlices

#: The records that wait for effects' outcomes, and those that alarms wake, besides the queue's timer.
_WAITERS = (PodWrites, GroupPatch, VictimRecord, BindingCycle, PluginCall, AwaitedRequest, WorkSlices)
_SLEEPERS = (PodWrites, GroupPatch, PlanRecord, BindingCycle, PluginCall, SuspendableCycle)


class InvalidStateError(RuntimeError):
    """The engine's state is inconsistent, which indicates a bug; lists the violations."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class Validation:
    """Compares the parts of an engine between steps."""

    def __init__(self, parts: EngineParts) -> None:
        self._parts = parts
        self._context = parts.context
        self._statuses = parts.context.statuses
        self._bindings = parts.bindings
        self._resizes = parts.resizes

    def problems(self) -> list[str]:
        """Violated invariants between steps."""
        return [
            *problems_of_state(self._context.state),
            *self._context.queue.problems(),
            *self._context.outbox.problems(),
            *self._statuses.problems(),
            *self._parts.evictions.problems(),
            *self._parts.suspended.problems(),
            *BindingChecks(self._context, self._bindings).problems(),
            *self._problems_of_pending_pods(),
            *self._problems_of_waiting_pods(),
            *self._problems_of_flights(),
            *self._problems_of_assumed_pods(),
            *self._problems_of_listeners(),
            *self._problems_of_waiters(),
            *(() if self._resizes is None else self._resizes.problems()),
        ]

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _problems_of_pending_pods(self) -> Iterator[str]:
        for info in self._context.state.pending.values():
            if scheduler_name_of(info.pod) not in self._context.profiles and not self._context.state.is_assumed(
                info.uid
            ):
                yield f"pod {info.key}: pending, but its scheduler {scheduler_name_of(info.pod)} is no profile"
            places = list(self._places_of(info))
            if len(places) != 1 and not info.terminating:
                yield f"pod {info.key} ({info.uid}): pending, and {' and '.join(places) or 'nowhere'}"

    def _places_of(self, info: PodInfo) -> Iterator[str]:
        """The places of a pending pod; there should be exactly one."""
        queue, state = self._context.queue, self._context.state
        queued = queue.get(info.key)
        if queued is not None and queued.pod.uid == info.uid:
            yield f"waits in the queue: {queued.place.value}"
        binding, placed = self._bindings.under_way.get(info.uid), state.placed(info.uid)
        if queue.is_in_flight(info.uid):
            yield "is in flight"
        elif binding is not None:
            yield f"is on its way: {binding.stage.value}"
        elif placed is not None:
            yield f"is on node {placed.node_name}"

    def _problems_of_waiting_pods(self) -> Iterator[str]:
        pending = self._resizes or self._context.state.pending
        for queued in self._context.queue.pending():
            newest = pending.get(queued.key)
            if newest is not queued.pod:
                known = "nothing" if newest is None else f"another version ({newest.uid})"
                yield f"pod {queued.key} ({queued.pod.uid}): waits in the queue, the pending pods have {known}"

    def _problems_of_flights(self) -> Iterator[str]:
        queue, under_way = self._context.queue, self._bindings.under_way
        if queue.closed:
            return
        for queued in queue.in_flight():
            binding = under_way.get(queued.pod.uid)
            uid = queued.pod.uid
            if binding is None and uid in self._parts.suspended.under_way:
                continue
            if binding is None or binding.stage not in IN_FLIGHT:
                found = "is not under way" if binding is None else f"is in the stage {binding.stage.value}"
                yield f"pod {queued.key} ({queued.pod.uid}): in flight, but its binding {found}"
        for uid, binding in under_way.items():
            if binding.stage in IN_FLIGHT and not queue.is_in_flight(uid):
                yield f"{binding} ({uid}): {binding.stage.value}, but the pod is not in flight"

    def _problems_of_assumed_pods(self) -> Iterator[str]:
        state = self._context.state
        for info in state.placed_pods():
            assumed = state.is_assumed(info.uid)
            if assumed and state.pending.by_uid(info.uid) is None and info.uid not in self._bindings.under_way:
                yield f"pod {info.key} ({info.uid}): assumed on {info.node_name}, but neither pending nor on its way"

    # -- waiters -------------------------------------------------------------------------------------------------------

    def _problems_of_listeners(self) -> Iterator[str]:
        announcing = [
            binding for binding in self._bindings.under_way.values() if binding.stage is BindingStage.ANNOUNCING
        ]
        withdrawing = [
            binding for binding in self._bindings.under_way.values() if binding.stage is BindingStage.WITHDRAWING
        ]
        listeners = [*announcing, *self._parts.evictions.listeners]
        yield from _differing("a status to be written", listeners, self._statuses.listeners)
        yield from _differing("a status to be withdrawn", withdrawing, self._statuses.withdrawals)

    def _problems_of_waiters(self) -> Iterator[str]:
        """Check that all waiters belong to known records; each part verifies that its records are registered."""
        for number, waiter in self._context.outbox.awaited.items():
            if not isinstance(waiter, _WAITERS):
                yield f"effect {number}: its answer goes to {waiter}, which is no part's"
        for alarm in self._context.outbox.alarms:
            if not isinstance(alarm.target, (*_SLEEPERS, type(self._parts.queue_timer))):
                yield f"the alarm at {alarm.at:.3f} wakes {alarm.target}, which is no part's"


def _differing(what: str, waiting: Iterable[Any], known: Iterable[Any]) -> Iterator[str]:
    waits, records = list(waiting), list(known)
    times = Counter(map(id, waits)), Counter(map(id, records))
    for one in {id(one): one for one in (*waits, *records)}.values():
        if times[0][id(one)] != times[1][id(one)]:
            yield f"{one}: waits for {what} {times[0][id(one)]} times, but the statuses know of {times[1][id(one)]}"


#: Number of plugin calls in progress per stage.
_CALLS = {BindingStage.PRE_BIND: (1, inf), BindingStage.BIND: (1, 1), BindingStage.POST_BIND: (1, 1)}


class BindingChecks:
    def __init__(self, context: EngineContext, bindings: BindingCycles) -> None:
        self._context = context
        self._bindings = bindings

    def problems(self) -> list[str]:
        """Violated invariants between steps."""
        return [
            *(text for uid, binding in self._bindings.under_way.items() for text in self._problems_of(uid, binding)),
            *self._problems_of_waiting_pods(),
            *self._problems_of_the_outbox(),
            *self._problems_of_sums(),
        ]

    def _problems_of(self, uid: str, binding: BindingCycle) -> Iterator[str]:
        stage = binding.stage
        if binding.uid != uid:
            yield f"{binding} ({binding.uid}): under way under the UID {uid}"
        if stage in (BindingStage.BEGUN, BindingStage.OVER):
            yield f"{binding}: {stage.value} between steps"
        yield from self._problems_of_permit(binding)
        stoppable = binding.stoppable if stage is BindingStage.PRE_BIND else None
        known = self._context.pods_in_pre_bind.get(uid)
        if known is not stoppable:
            yield f"{binding}: {stage.value}, but the pod is {_among(known)} those in PreBind"
        low, high = _CALLS.get(stage, (0, 0))
        calls: list[BindingCycle | PluginCall] = [*((binding,) if binding.number else ()), *binding.calls]
        if not low <= len(calls) <= high:
            yield f"{binding}: {stage.value} with {len(calls)} calls"
        for call in calls:
            yield from self._problems_of_call(call)
        yield from self._problems_of_place(binding)

    def _problems_of_permit(self, binding: BindingCycle) -> Iterator[str]:
        stage, waiting, timer = binding.stage, binding.waiting, binding.timer
        wanted = waiting if stage in IN_FLIGHT else None
        known = self._context.waiting_pods.get(binding.uid)
        if known is not wanted:
            yield f"{binding}: {stage.value}, but the pod is {_among(known)} those that wait on Permit"
        if stage is not BindingStage.PERMIT:
            return
        if waiting is None or waiting.decision is not None:
            yield f"{binding}: {stage.value}, but nothing is left to be decided"
            return
        deadline = waiting.next_deadline or inf
        at = timer.at if timer is not None and timer.target is binding else inf
        if at > deadline:
            yield f"{binding}: waits on Permit until {deadline:.3f}, but its alarm rings at {at:.3f}"

    def _problems_of_call(self, call: BindingCycle | PluginCall) -> Iterator[str]:
        waits_for = self._context.outbox.awaited.get(call.number) if call.number else None
        if call.number and waits_for is not call:
            yield f"{call}: waits for effect {call.number}, whose answer goes to {waits_for}"
        if isinstance(call, BindingCycle):
            return
        if not call.number and call.sleep is None:
            yield f"{call}: waits for nothing"
        if call.writes and not call.number:
            yield f"{call}: counted as a write, but no effect is under way"

    def _problems_of_place(self, binding: BindingCycle) -> Iterator[str]:
        """A pod in its binding cycle is assumed, or was bound by another client, unless it is terminating."""
        attempt = binding.attempt
        placed, newest = self._context.state.placed(binding.uid), self._context.state.newest(binding.uid)
        if binding.stage is BindingStage.POST_BIND or newest is None or newest.metadata.deletion_timestamp is not None:
            return
        if placed is None:
            yield f"{binding} to {attempt.node_name}: {binding.stage.value}, but the pod is on no node"
        elif self._context.state.is_assumed(binding.uid) and placed.node_name != attempt.node_name:
            yield f"{binding} to {attempt.node_name}: but the pod is assumed on {placed.node_name}"

    def _problems_of_waiting_pods(self) -> Iterator[str]:
        for waiting in self._context.waiting_pods:
            if waiting.uid not in self._bindings.under_way:
                yield f"pod {waiting.pod.key}: waits on Permit, but its binding is not under way"
        for uid in self._context.pods_in_pre_bind.uids():
            if uid not in self._bindings.under_way:
                yield f"pod {uid}: in PreBind, but its binding is not under way"

    def _problems_of_the_outbox(self) -> Iterator[str]:
        for number, waiter in self._context.outbox.awaited.items():
            if isinstance(waiter, BindingCycle | PluginCall) and (waiter.number != number or not self._knows(waiter)):
                yield f"{waiter}: not under way, but gets the answer to {number}"
        for alarm in self._context.outbox.alarms:
            target = alarm.target
            if isinstance(target, BindingCycle) and (
                target.timer is not alarm or target.stage is not BindingStage.PERMIT
            ):
                yield f"{target}: {target.stage.value}, but is woken at {alarm.at:.3f}"
            if isinstance(target, PluginCall) and not (
                self._knows(target) and target.sleep is not None and target.sleep.alarm is alarm
            ):
                yield f"{target}: does not sleep, but is woken at {alarm.at:.3f}"
        for key, watcher in self._context.outbox.watchers:
            if isinstance(watcher, PluginCall) and not self._knows(watcher):
                yield f"{watcher}: not under way, but waits for {' '.join(key)} to change"

    def _knows(self, call: BindingCycle | PluginCall) -> bool:
        binding = call if isinstance(call, BindingCycle) else call.binding
        return self._bindings.under_way.get(binding.uid) is binding and (call is binding or call in binding.calls)

    def _problems_of_sums(self) -> Iterator[str]:
        bindings = self._bindings.under_way.values()
        writes = sum(bool(binding.number) + sum(call.writes for call in binding.calls) for binding in bindings)
        if writes != self._bindings.writes:
            yield f"{self._bindings.writes} writes of bindings are counted, {writes} are under way"


def _among(known: object) -> str:
    return "not among" if known is None else "among"
