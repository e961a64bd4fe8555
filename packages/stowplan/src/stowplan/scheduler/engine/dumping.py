"""Dump the parts of an engine, and restore them (see `stowplan.scheduler.engine.dumped`)."""

from __future__ import annotations

from stowplan.scheduler.cluster.transaction import TransactionError
from stowplan.scheduler.engine.binding_cycle import BindingCycles
from stowplan.scheduler.engine.context import EngineContext, QueueTimer
from stowplan.scheduler.engine.decision.algorithm import SchedulingAlgorithm
from stowplan.scheduler.engine.deferred_resizes import DeferredResizes
from stowplan.scheduler.engine.dumped import DumpError, EngineDump, UnfinishedDumpError, dumped_state, restored_state
from stowplan.scheduler.engine.eviction.evictions import Evictions
from stowplan.scheduler.engine.statuses import PodStatuses
from stowplan.scheduler.engine.suspension.suspended_cycles import SuspendedCycles


class Dumping:
    def __init__(
        self,
        context: EngineContext,
        *,
        algorithm: SchedulingAlgorithm,
        statuses: PodStatuses,
        suspended: SuspendedCycles,
        bindings: BindingCycles,
        evictions: Evictions,
        queue_timer: QueueTimer,
        resizes: DeferredResizes | None,
    ) -> None:
        self._context = context
        self._algorithm = algorithm
        self._statuses = statuses
        self._suspended = suspended
        self._bindings = bindings
        self._evictions = evictions
        self._queue_timer = queue_timer
        self._resizes = resizes

    def unfinished(self) -> list[str]:
        """What is in progress and prevents a dump."""
        return [
            *(["a transaction is open"] if self._context.state.transactions.depth else ()),
            *(f"{cycle}: {cycle.stage.value}" for cycle in self._suspended.cycles),
            *(f"{binding}: {binding.stage.value}" for binding in self._bindings.under_way.values()),
            *self._evictions.unfinished,
            *self._statuses.unfinished,
        ]

    def dump(self, *, ahead: float, stopped: bool) -> EngineDump:
        """`ahead`: the offset of the wall clock from the engine's time; `stopped`: whether scheduling is stopped."""
        unfinished = self.unfinished()
        if unfinished:
            raise UnfinishedDumpError(unfinished)
        frameworks = self._algorithm.frameworks
        return EngineDump(
            now=self._context.outbox.now,
            ahead=ahead,
            stopped=stopped,
            switched_off={name: sorted(framework.switched_off) for name, framework in frameworks.items()},
            state=dumped_state(self._context.state.dump()),
            queue=self._context.queue.dump(),
            timer=self._queue_timer.dump(),
            outbox=self._context.outbox.dump(),
            evictions=self._evictions.dump(),
            statuses=self._statuses.dump(),
        )

    def load(self, dump: EngineDump) -> None:
        self._check(dump)
        self._context.outbox.now = dump.now
        for name, off in dump.switched_off.items():
            self._algorithm.frameworks[name].switch_off(off)
        self._algorithm.forget()
        try:
            self._context.state.load(restored_state(dump.state))
        except TransactionError as e:
            raise DumpError(str(e)) from e
        if self._resizes is not None:
            self._resizes.restore()
        self._context.queue.load(dump.queue, self._resizes or self._context.state.pending)
        self._context.outbox.load(dump.outbox)
        self._queue_timer.load(dump.timer)
        self._evictions.load(dump.evictions)
        self._statuses.load(dump.statuses)

    def _check(self, dump: EngineDump) -> None:
        """Raise DumpError if the dump cannot be loaded, before anything is changed."""
        if any(self._context.state.version) or self._context.outbox.number:
            raise DumpError("a dump can only be loaded into an engine that has not taken a step")
        theirs, ours = (", ".join(sorted(names)) for names in (dump.switched_off, self._algorithm.frameworks))
        if theirs != ours:
            raise DumpError(f"the dump has the profiles {theirs}, and this engine has {ours}")
