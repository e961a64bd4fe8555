"""Check binding cycles against the other parts of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from stowplan.scheduler.engine.binding_cycle import IN_FLIGHT, BindingCycle, BindingCycles, BindingStage, PluginCall
from stowplan.scheduler.engine.context import EngineContext

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
        if not low <= len(binding.calls) <= high:
            yield f"{binding}: {stage.value} with {len(binding.calls)} calls"
        for call in binding.calls:
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

    def _problems_of_call(self, call: PluginCall) -> Iterator[str]:
        waits_for = self._context.outbox.awaited.get(call.number) if call.number else None
        if call.number and waits_for is not call:
            yield f"{call}: waits for effect {call.number}, whose answer goes to {waits_for}"
        if not call.number and call.steps is None:
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
            if isinstance(waiter, PluginCall) and (waiter.number != number or not self._knows(waiter)):
                yield f"{waiter}: not under way, but gets the answer to {number}"
        for alarm in self._context.outbox.alarms:
            target = alarm.target
            if isinstance(target, BindingCycle) and (
                target.timer is not alarm or target.stage is not BindingStage.PERMIT
            ):
                yield f"{target}: {target.stage.value}, but is woken at {alarm.at:.3f}"
            if isinstance(target, PluginCall) and not (self._knows(target) and target.is_woken_by(alarm)):
                yield f"{target}: does not sleep, but is woken at {alarm.at:.3f}"
        for key, watcher in self._context.outbox.watchers:
            if isinstance(watcher, PluginCall) and not self._knows(watcher):
                yield f"{watcher}: not under way, but waits for {' '.join(key)} to change"

    def _knows(self, call: PluginCall) -> bool:
        binding = call.binding
        return self._bindings.under_way.get(binding.uid) is binding and call in binding.calls

    def _problems_of_sums(self) -> Iterator[str]:
        writes = sum(call.writes for binding in self._bindings.under_way.values() for call in binding.calls)
        if writes != self._bindings.writes:
            yield f"{self._bindings.writes} writes of bindings are counted, {writes} are under way"


def _among(known: object) -> str:
    return "not among" if known is None else "among"
