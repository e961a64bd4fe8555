"""Dump the parts of an engine, and restore them (see `stowplan.scheduler.engine.dumped`)."""

from __future__ import annotations

from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.transaction import TransactionError
from stowplan.scheduler.engine.binding_cycle import BindingCycles
from stowplan.scheduler.engine.context import EngineContext, QueueTimer
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.deferred_resizes import DeferredResizes
from stowplan.scheduler.engine.dumped import DumpError, EngineDump, UnfinishedDumpError, dumped_state, restored_state
from stowplan.scheduler.engine.eviction.evictions import Evictions
from stowplan.scheduler.engine.suspension.suspended_cycles import SuspendedCycles


class EngineParts(PlainStruct, frozen=True, kw_only=True, eq=False):
    """The parts of an engine that keep something between steps, for dumps and validation."""

    context: EngineContext
    algorithm: SchedulingAlgorithm
    suspended: SuspendedCycles
    bindings: BindingCycles
    evictions: Evictions
    queue_timer: QueueTimer
    #: None if pods that are to grow on their node evict none.
    resizes: DeferredResizes | None


class Dumping:
    def __init__(self, parts: EngineParts) -> None:
        self._context = parts.context
        self._parts = parts

    def unfinished(self) -> list[str]:
        """What is in progress and prevents a dump."""
        return [
            *(["a transaction is open"] if self._context.state.transactions.depth else ()),
            *(f"{cycle}: {cycle.stage.value}" for cycle in self._parts.suspended.cycles),
            *(f"{binding}: {binding.stage.value}" for binding in self._parts.bindings.under_way.values()),
            *self._parts.evictions.unfinished,
            *self._context.statuses.unfinished,
        ]

    def dump(self, *, stopped: bool) -> EngineDump:
        """`stopped`: whether scheduling is stopped."""
        unfinished = self.unfinished()
        if unfinished:
            raise UnfinishedDumpError(unfinished)
        frameworks = self._context.profiles
        return EngineDump(
            now=self._context.outbox.now,
            ahead=self._context.outbox.ahead,
            stopped=stopped,
            switched_off={name: sorted(framework.switched_off) for name, framework in frameworks.items()},
            state=dumped_state(self._context.state.dump()),
            queue=self._context.queue.dump(),
            timer=self._parts.queue_timer.dump(),
            outbox=self._context.outbox.dump(),
            evictions=self._parts.evictions.dump(),
            statuses=self._context.statuses.dump(),
        )

    def load(self, dump: EngineDump) -> None:
        self._check(dump)
        self._context.outbox.now, self._context.outbox.ahead = dump.now, dump.ahead
        for name, off in dump.switched_off.items():
            self._context.profiles[name].switch_off(off)
        self._parts.algorithm.forget()
        try:
            self._context.state.load(restored_state(dump.state))
        except TransactionError as e:
            raise DumpError(str(e)) from e
        if self._parts.resizes is not None:
            self._parts.resizes.restore()
        self._context.queue.load(dump.queue, self._parts.resizes or self._context.state.pending)
        self._context.outbox.load(dump.outbox)
        self._parts.queue_timer.load(dump.timer)
        self._parts.evictions.load(dump.evictions)
        self._context.statuses.load(dump.statuses)

    def _check(self, dump: EngineDump) -> None:
        """Raise DumpError if the dump cannot be loaded, before anything is changed."""
        if any(self._context.state.version) or self._context.outbox.number:
            raise DumpError("a dump can only be loaded into an engine that has not taken a step")
        theirs, ours = (", ".join(sorted(names)) for names in (dump.switched_off, self._context.profiles))
        if theirs != ours:
            raise DumpError(f"the dump has the profiles {theirs}, and this engine has {ours}")
