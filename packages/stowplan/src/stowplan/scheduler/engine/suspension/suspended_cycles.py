"""Scheduling cycles suspended for an extender, a PostFilter plugin, or the next portion of long work.

There is one record per pod. It owns the cycle (`suspendable_algorithm`) and resumes it once all awaited answers have
arrived. The pod stays in flight, so the queue records events for it; nothing is assumed for it, and no transaction is
open.

While a cycle waits for an extender, no other pod is tried, as in the reference. With overlapping cycles the number is
not limited, except that at most `MAX_CYCLES` cycles may call the same extender at a time. Further pods wait in line,
the most important first; a pod that needs another extender, or none, does not wait for them.

    lined up   an extender that is interested in the pod has enough cycles; this one has not begun
    asking     requests are in progress
    asleep     a PostFilter plugin waits for a time, or for objects to change
    portions   a plugin has more work to do, and continues after other pods had their turns (`portions`)
    restarting the cycle was aborted, and restarts before the step ends

When a cycle is aborted, its requests are withdrawn, and late answers are ignored. The reasons:

* the pod was deleted, or bound by another client: it is dropped;
* the pod changed in more than its status: the cycle restarts with the new pod, unless that is being deleted;
* plugins of its profile were switched off or on: it restarts with the current set;
* its profile was replaced: the pod returns to the queue, and is tried with the new profile, if there is one;
* scheduling stops, or another replica leads: the pod returns to the queue unchanged.

Upstream has no counterpart. There, a cycle blocks until it is answered, and all pods wait with it.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from stowplan.kube.klog import get_logger
from stowplan.scheduler.engine.schedule_one import on_node
from stowplan.scheduler.engine.suspension.portions import key_of
from stowplan.scheduler.engine.suspension.suspended import (
    AwaitedRequest,
    Stage,
    Suspended,
    has_same_requirements,
)
from stowplan.scheduler.framework.boundary import Ended, Raised, close, resume
from stowplan.scheduler.framework.events import ASSIGNED_POD_DELETE, EQUAL_POD_DECIDED, PROFILE_SWAPPED
from stowplan.scheduler.framework.requests import Done
from stowplan.scheduler.framework.unfinished import UnfinishedError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from stowplan.kube.api.port import Change
    from stowplan.kube.api.types import Pod
    from stowplan.scheduler.cluster.pod_info import PodInfo
    from stowplan.scheduler.engine.context import EngineContext
    from stowplan.scheduler.engine.decision.suspendable_algorithm import Cycle, Needs, SuspendableAlgorithm
    from stowplan.scheduler.engine.schedule_one import Attempt, Failure, SchedulingCycle
    from stowplan.scheduler.engine.suspension.portions import Portions
    from stowplan.scheduler.framework.extender import Extender
    from stowplan.scheduler.framework.requests import Outcome
    from stowplan.scheduler.framework.runtime.framework import Framework
    from stowplan.scheduler.framework.runtime.metrics import PluginTimes
    from stowplan.scheduler.queue.queued_pod import QueuedPod

#: Maximum number of cycles that may call an extender at a time.
MAX_CYCLES = 64

_log = get_logger(__name__)


class SuspendedCycle(Suspended):
    """One pod's waiting scheduling cycle."""

    __slots__ = (
        "asks",
        "began",
        "framework",
        "held",
        "portions_before",
        "queued",
        "sample",
        "started",
        "steps",
        "switched_off",
        "turn",
    )

    def __init__(self, owner: SuspendedCycles, framework: Framework, queued: QueuedPod, *, started: float) -> None:
        super().__init__(owner, owner.outbox)
        self.framework = framework
        self.queued = queued
        #: When the attempt began: in the engine's time, and by the stopwatch.
        self.began = owner.outbox.now
        self.started = started
        self.steps: Cycle | None = None
        #: The extenders that it may call, once it is its turn.
        self.asks: tuple[str, ...] = ()
        #: Nodes that were reserved for the pod while it waited; None: no reservations.
        self.held: set[str] | None = None
        #: Number of portions taken, by any work, when the attempt began.
        self.portions_before = owner.portions.taken
        #: Its place in the line; 0 if it is in none.
        self.turn = 0
        #: Plugins that were switched off when it started.
        self.switched_off = framework.switched_off
        #: Times its plugin calls if it is sampled.
        self.sample: PluginTimes | None = None

    @property
    def uid(self) -> str:
        return self.queued.pod.uid

    @property
    def line(self) -> Hashable:
        return key_of(self.framework, self.queued)

    def __str__(self) -> str:
        return f"suspended cycle of pod {self.queued.key} ({self.uid})"


class SuspendedCycles:
    """Scheduling cycles of profiles whose cycles can be suspended."""

    def __init__(
        self,
        context: EngineContext,
        *,
        algorithm: SuspendableAlgorithm,
        cycle: SchedulingCycle,
        portions: Portions,
        overlaps: bool = False,
    ) -> None:
        self._overlaps = overlaps
        #: Extender -> number of cycles that may call it.
        self._asking: Counter[str] = Counter()
        #: Cycles that wait for an extender's answer.
        self._answers_awaited: set[SuspendedCycle] = set()
        #: Extenders -> cycles in line to call them: urgency, turn, cycle.
        self._lines: dict[tuple[str, ...], list[tuple[int, int, SuspendedCycle]]] = {}
        self._turns = count(1)
        self.outbox = context.outbox
        self._state = context.state
        self._context = context
        self._stories = context.stories
        self._algorithm = algorithm
        self._cycle = cycle
        self.portions = portions
        #: Waiting cycles, by the pod's UID.
        self.under_way: dict[str, SuspendedCycle] = {}

    @property
    def asleep(self) -> int:
        """Cycles that only time, or a change of some object, can advance."""
        return sum(cycle.stage is Stage.ASLEEP for cycle in self.under_way.values())

    @property
    def holds_up(self) -> bool:
        """Whether no pod may be tried until an extender has answered."""
        return bool(self._answers_awaited) and not self._overlaps

    def begin(self, framework: Framework, queued: QueuedPod, *, started: float) -> None:
        """Run a popped pod's scheduling cycle until it ends or waits."""
        self._begin(SuspendedCycle(self, framework, queued, started=started))

    def begin_later(self, framework: Framework, queued: QueuedPod, *, started: float) -> None:
        """Run the cycle after other pods have had their turns."""
        self._work_later(SuspendedCycle(self, framework, queued, started=started))

    def _begin(self, cycle: SuspendedCycle) -> None:
        if not self._overlaps or self._may_ask(cycle):
            self._start(cycle)

    def _start(self, cycle: SuspendedCycle) -> None:
        if cycle.framework.metrics is not None:
            cycle.framework.metrics.begin_cycle()
        cycle.sample = None if cycle.framework.metrics is None else cycle.framework.metrics.sample
        cycle.switched_off = cycle.framework.switched_off
        cycle.held = set() if self._overlaps else None
        cycle.steps = self._algorithm.schedule(cycle.framework, cycle.queued.pod, cycle.held)
        self._go_on(cycle, None)

    def _go_on(self, cycle: SuspendedCycle, outcomes: tuple[Outcome, ...] | None) -> None:
        framework, queued, started = cycle.framework, cycle.queued, cycle.started
        if framework.metrics is not None:
            framework.metrics.sample = cycle.sample
        cycle.stage = Stage.RUNNING
        self._answers_awaited.discard(cycle)
        outcome: Attempt | Failure
        assert cycle.steps is not None, "it has begun"
        needed = resume(cycle.steps, outcomes)
        while isinstance(needed, UnfinishedError) and not self._may_go_on(cycle, needed):
            needed = resume(cycle.steps, (Done(False),))
        if isinstance(needed, Ended):
            self._over(cycle)
            outcome = self._cycle.finish(framework, queued, needed.value, started=started)
        elif isinstance(needed, Raised):
            self._over(cycle)
            outcome = self._cycle.broken(queued, needed.cause, started=started)
        else:
            self._wait(cycle, needed)
            return
        self._cycle.handle_outcome(framework, queued, outcome, started=started)
        # Must come last: the pod must not be woken by its own release.
        self._free(cycle)

    def _free(self, cycle: SuspendedCycle) -> None:
        """Tell the queue that the room reserved for a pod is available again."""
        pod, held = cycle.queued.pod, cycle.held or ()
        placed = self._state.placed(cycle.uid)
        for node_name in sorted(held):
            if placed is None or placed.node_name != node_name:
                was = on_node(pod.pod, node_name)
                self._context.queue.move_all(ASSIGNED_POD_DELETE, was, None, pre_check=_anyone_but(cycle.uid))
        cycle.held = None

    def _over(self, cycle: SuspendedCycle) -> None:
        cycle.stage = Stage.OVER
        self._give_way(cycle)
        if self.under_way.get(cycle.uid) is cycle:
            del self.under_way[cycle.uid]

    # -- line ----------------------------------------------------------------------------------------------------------

    def _may_ask(self, cycle: SuspendedCycle) -> bool:
        """Whether the interested extenders have a free slot; if not, the cycle waits in line."""
        if cycle.asks:
            return True
        pod = cycle.queued.pod
        asks = tuple(
            extender.name
            for extender in cycle.framework.handle.extenders()
            if (extender.filters or extender.prioritizes or extender.preempts) and _is_interested(extender, pod)
        )
        line = self._lines.get(asks)
        if line or not self._has_room(asks):
            cycle.stage, cycle.turn = Stage.LINED_UP, next(self._turns)
            self.under_way[cycle.uid] = cycle
            heappush(self._lines.setdefault(asks, []), (-pod.priority, cycle.turn, cycle))
            return False
        self._let_ask(cycle, asks)
        return True

    def _has_room(self, asks: tuple[str, ...]) -> bool:
        return all(self._asking[name] < MAX_CYCLES for name in asks)

    def _let_ask(self, cycle: SuspendedCycle, asks: tuple[str, ...]) -> None:
        cycle.asks, cycle.turn = asks, 0
        self._asking.update(asks)

    def _give_way(self, cycle: SuspendedCycle) -> None:
        """Release the cycle's extender slots, so that the next cycle in line begins before the step ends."""
        cycle.turn = 0
        if not cycle.asks:
            return
        self._asking.subtract(cycle.asks)
        cycle.asks = ()
        for asks, line in tuple(self._lines.items()):
            while line and self._has_room(asks):
                _, turn, following = heappop(line)
                if following.turn == turn:
                    self._let_ask(following, asks)
                    following.stage = Stage.RESTARTING
                    self.outbox.soon(following)
            if not line:
                del self._lines[asks]

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _wait(self, cycle: SuspendedCycle, needed: Needs) -> None:
        self.under_way[cycle.uid] = cycle
        if isinstance(needed, UnfinishedError):
            self._work_later(cycle)
        elif cycle.wait_for(needed):
            self._answers_awaited.add(cycle)

    def answered(self, cycle: SuspendedCycle) -> None:
        """Continue a cycle if all its answers have arrived."""
        if (outcomes := cycle.take_outcomes()) is not None:
            self._go_on(cycle, outcomes)

    def woken(self, cycle: SuspendedCycle) -> None:
        if cycle.stage is Stage.ASLEEP:
            self._go_on(cycle, cycle.end_sleep())
        elif cycle.stage is Stage.RESTARTING:
            self._restart(cycle)

    # -- work in portions ---------------------------------------------------------------------------------------------

    def _may_go_on(self, cycle: SuspendedCycle, work: UnfinishedError) -> bool:
        return work.portions is None or self.portions.taken - cycle.portions_before < work.portions

    def _work_later(self, cycle: SuspendedCycle) -> None:
        self.under_way[cycle.uid] = cycle
        cycle.stage = Stage.PORTIONS
        self.portions.join(cycle)

    def take_portion(self, cycle: SuspendedCycle) -> None:
        if cycle.steps is None:
            self._begin(cycle)
        else:
            self._go_on(cycle, (Done(True),))

    def put_back(self, cycle: SuspendedCycle) -> None:
        self._abort(cycle, "an equal pod was decided")
        self._over(cycle)
        newest = self._state.pending.by_uid(cycle.uid)
        assert newest is not None, "cycles of pods that are gone have ended"
        self._context.queue.give_back(cycle.queued, newest, EQUAL_POD_DECIDED)

    # -- aborting ------------------------------------------------------------------------------------------------------

    def _abort(self, cycle: SuspendedCycle, why: str) -> None:
        """Abort a waiting cycle."""
        pod = cycle.queued.pod
        _log.v(4).info("Aborted a suspended scheduling cycle", pod=pod, reason=why)
        self._stories.step(pod.key, pod.uid, "attempt aborted", "", why)
        cycle.stop_waiting()
        self._answers_awaited.discard(cycle)
        self.portions.leave(cycle)
        steps, cycle.steps = cycle.steps, None
        # Other extenders may be interested in the changed pod.
        self._give_way(cycle)
        if steps is None:
            return
        if (problem := close(steps)) is not None:
            self._context.reporter.report(f"aborted scheduling cycle: {problem.cause}")
        self._free(cycle)

    def _end(self, cycle: SuspendedCycle, why: str) -> None:
        self._abort(cycle, why)
        self._over(cycle)
        self._context.queue.done(cycle.uid)

    def _abort_to_restart(self, cycle: SuspendedCycle, why: str) -> None:
        """Abort a cycle and restart it at the end of the step, when all changes of the step are known."""
        if cycle.stage is not Stage.RESTARTING:
            self._abort(cycle, why)
            cycle.stage = Stage.RESTARTING
            self.outbox.soon(cycle)

    def _restart(self, cycle: SuspendedCycle) -> None:
        newest = self._state.pending.by_uid(cycle.uid)
        del self.under_way[cycle.uid]
        if newest is None or self._cycle.skip_pod_schedule(cycle.framework, newest):
            cycle.stage = Stage.OVER
            self._give_way(cycle)
            self._context.queue.done(cycle.uid)
            return
        cycle.queued.pod = newest
        cycle.portions_before = self.portions.taken
        self._begin(cycle)

    def pods_changed(self, changes: Sequence[Change[Pod]]) -> None:
        """Pods were added, changed or deleted; the cluster state is already updated."""
        for change in changes:
            pod = change.new or change.old
            cycle = None if pod is None else self.under_way.get(pod.metadata.uid)
            if cycle is None:
                continue
            if change.new is None:
                self._end(cycle, "the pod was deleted")
            elif change.new.spec.node_name:
                self._end(cycle, "the pod was bound by another client")
            elif not has_same_requirements(cycle.queued.pod, self._state.pending.by_uid(cycle.uid)):
                self._abort_to_restart(cycle, "the pod has changed")

    def plugins_switched(self) -> None:
        """Plugins were switched on or off."""
        for cycle in tuple(self.under_way.values()):
            if cycle.switched_off != cycle.framework.switched_off:
                self._abort_to_restart(cycle, "plugins were switched off or on")

    def profiles_swapped(self, profiles: Mapping[str, Framework]) -> None:
        """These profiles are active from now on."""
        for cycle in tuple(self.under_way.values()):
            framework = profiles.get(cycle.framework.profile_name)
            if framework is cycle.framework:
                continue
            self._abort(cycle, "the profile was swapped")
            self._over(cycle)
            newest = self._state.pending.by_uid(cycle.uid)
            if framework is None or newest is None or self._cycle.skip_pod_schedule(framework, newest):
                self._context.queue.done(cycle.uid)
            else:
                self._context.queue.give_back(cycle.queued, newest, PROFILE_SWAPPED)

    def stop(self) -> None:
        """Scheduling has stopped."""
        for cycle in tuple(self.under_way.values()):
            self._end(cycle, "the scheduler stops")
            newest = self._state.pending.by_uid(cycle.uid)
            if newest is not None:
                self._context.queue.add(newest)

    # -- invariants ----------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Violated invariants between steps."""
        for uid, cycle in self.under_way.items():
            whose = str(cycle)
            if cycle.uid != uid:
                yield f"{whose}: is kept under UID {uid}"
            if not self._context.queue.closed and not self._context.queue.is_in_flight(uid):
                yield f"{whose}: the pod is not in flight"
            if cycle.began > self.outbox.now:
                yield f"{whose}: began later than now"
            if self._state.placed(uid) is not None:
                yield f"{whose}: the pod is on a node"
            newest = self._state.pending.by_uid(uid)
            if newest is None:
                yield f"{whose}: the pod is not pending"
            elif not has_same_requirements(cycle.queued.pod, newest):
                yield f"{whose}: the pod has changed"
            if cycle.switched_off != cycle.framework.switched_off:
                yield f"{whose}: plugins were switched off or on"
            if (cycle.stage is Stage.PORTIONS) is not (cycle in self.portions):
                yield f"{whose}: {cycle.stage.value}, but its work is {'' if cycle in self.portions else 'not '}in line"
            if cycle.stage not in (Stage.ASKING, Stage.ASLEEP, Stage.LINED_UP, Stage.PORTIONS):
                yield f"{whose}: is {cycle.stage.value} between steps"
            yield from cycle.problems()
        yield from self._problems_of_turns()
        yield from self.portions.problems()
        for number, waiter in self.outbox.awaited.items():
            if isinstance(waiter, AwaitedRequest) and waiter not in waiter.work.needs:
                yield f"{waiter}: does not wait for effect {number}"

    def _problems_of_turns(self) -> Iterator[str]:
        asking = Counter(name for cycle in self.under_way.values() for name in cycle.asks)
        if +self._asking != asking:
            yield f"cycles that may ask: {dict(+self._asking)} are counted, {dict(asking)} are under way"
        in_line = {cycle for line in self._lines.values() for _, turn, cycle in line if turn == cycle.turn}
        for cycle in self.under_way.values():
            if (cycle.stage is Stage.LINED_UP) is not (cycle in in_line):
                yield f"{cycle}: {cycle.stage.value}, but {'' if cycle in in_line else 'not '}in line"
            if cycle in self._answers_awaited and not any(need.outcome is None for need in cycle.needs):
                yield f"{cycle}: waits for no answer, and holds others up"
        for cycle in in_line | self._answers_awaited:
            if self.under_way.get(cycle.uid) is not cycle:
                yield f"{cycle}: waits, but is not under way"
        for asks, line in self._lines.items():
            if self._has_room(asks) and any(turn == cycle.turn for _, turn, cycle in line):
                yield f"cycles wait for their turn to ask {', '.join(asks)}, who have room"


def _is_interested(extender: Extender, pod: PodInfo) -> bool:
    try:
        return extender.is_interested(pod)
    except Exception:
        # Reported by the cycle itself.
        return False


def _anyone_but(uid: str) -> Callable[[PodInfo], bool]:
    return lambda info: info.uid != uid
