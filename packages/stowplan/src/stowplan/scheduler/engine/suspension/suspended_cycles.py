"""Scheduling cycles that are suspended, for an extender, a PostFilter plugin, or long work.

A pod's cycle that never waits does not get here; `schedule_one` drives it. There is one record per entity of the queue
that waits, or may: a pod, or a pod group with its members. It owns the cycle's steps and resumes them once all awaited
answers have arrived. The pods stay in flight, so the queue records events for them; nothing is assumed for them, and no
transaction is open.

While a cycle waits for an extender, no other pod is tried, as in the reference. With overlapping cycles the number is
not limited, except that at most `MAX_CYCLES` cycles may call the same extender at a time. Further pods wait in line,
the most important first; a pod that needs another extender, or none, does not wait for them. A group holds up all
others in either case: it is decided on one state of the cluster.

    lined up   an extender that is interested in the pod has enough cycles; this one has not begun
    requesting requests are in progress
    asleep     a PostFilter plugin waits for a time, or for objects to change
    portions   a plugin has more work to do, and continues after other pods had their turns
    restarting the cycle was aborted, and restarts before the step ends

When a cycle is aborted, its requests are withdrawn, and late answers are ignored. The reasons:

* the pod was deleted, or bound by another client: it is dropped;
* the pod changed in more than its status: the cycle restarts with the new pod, unless that is being deleted;
* plugins of its profile were switched off or on: it restarts with the current set;
* its profile was replaced: the pod returns to the queue, and is tried with the new profile, if there is one;
* scheduling stops, or another replica leads: the pod returns to the queue unchanged.

A group does not restart: in each case, those of its pods that are still to be scheduled return to the queue.

Long plugin work is done in portions, one at a time, with a pause before each, so that it does not delay other pods. A
cycle whose plugin returns that it is unfinished (`framework.unfinished`) queues in `WorkSlices`. The driver answers a
`Pause` after other pods had their turns; then the first cycle does its next portion, and queues again if that was not
enough. So all unfinished work together takes one portion per pause, however many pods there are.

Equal pods (by their profile's signature) queue behind the first of them, as its results apply to the others. They
return to the scheduling queue when it has finished. The queues of different pods take turns.

Upstream has no counterpart. There, a cycle blocks until it is answered, and all pods wait with it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any

from stowplan.kube.api.port import Change
from stowplan.kube.api.types import Pod
from stowplan.kube.klog import get_logger
from stowplan.scheduler.cluster.pod_info import PodInfo, uid_of
from stowplan.scheduler.engine.context import EngineContext
from stowplan.scheduler.engine.decision.cycle_steps import CycleSteps, Needs
from stowplan.scheduler.engine.effects import Pause
from stowplan.scheduler.engine.outbox import Outbox
from stowplan.scheduler.engine.schedule_one import SchedulingCycle, on_node
from stowplan.scheduler.engine.suspension.suspended import (
    AwaitedRequest,
    CycleHandler,
    Stage,
    SuspendableCycle,
    has_same_requirements,
    key_of,
)
from stowplan.scheduler.framework.boundary import Ended, Raised, close, resume
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    EQUAL_POD_DECIDED,
    FORCE_ACTIVATE,
    PROFILE_SWAPPED,
    ClusterEvent,
)
from stowplan.scheduler.framework.extender import Extender
from stowplan.scheduler.framework.requests import Done, Outcome
from stowplan.scheduler.framework.runtime.framework import Framework
from stowplan.scheduler.framework.unfinished import UnfinishedError
from stowplan.scheduler.queue.group_entries import TrialEnd
from stowplan.scheduler.queue.queued_pod import QueuedPod

#: Maximum number of cycles that may call an extender at a time.
MAX_CYCLES = 64

_log = get_logger(__name__)


class SuspendedCycles:
    """Drives the scheduling cycles of single pods that wait, and the trials of groups; keeps those that wait."""

    def __init__(self, context: EngineContext, *, handler: SchedulingCycle, overlaps: bool = False) -> None:
        """`handler` is that of single pods."""
        self._context = context
        self.outbox = context.outbox
        self.stopwatch = context.stopwatch
        self._state = context.state
        self._handler = handler
        self._overlaps = overlaps
        #: Extender -> number of cycles that may call it.
        self._slots: Counter[str] = Counter()
        #: Extenders -> cycles in line to call them: urgency, turn, cycle.
        self._lines: dict[tuple[str, ...], list[tuple[int, int, SuspendableCycle]]] = {}
        self._turns = count(1)
        #: Cycles that wait for an extender's answer, and before which no other pod may be tried.
        self._blocking: set[SuspendableCycle] = set()
        self.work_slices = WorkSlices(context.outbox)
        #: Waiting cycles, by the UIDs of their pods.
        self.under_way: dict[str, SuspendableCycle] = {}

    @property
    def cycles(self) -> list[SuspendableCycle]:
        return list(dict.fromkeys(self.under_way.values()))

    @property
    def asleep(self) -> int:
        """Cycles that only time, or a change of some object, can advance."""
        return sum(cycle.stage is Stage.ASLEEP for cycle in self.cycles)

    @property
    def blocks_scheduling(self) -> bool:
        """Whether no pod may be tried until an extender has answered."""
        return bool(self._blocking)

    def begins(self, framework: Framework, queued: QueuedPod, *, started: float) -> bool:
        """Begin a popped pod's cycle here if it may have to wait before it starts, or holds nodes while it waits."""
        equal = bool(self.work_slices.queues) and self.work_slices.has_equal(framework, queued)
        if not equal and not (self._overlaps and framework.suspends):
            return False
        cycle = SuspendableCycle(self, self._handler, framework, (queued,), started)
        if equal:
            self._work_later(cycle)
        else:
            self._start(cycle)
        return True

    def take_over(
        self,
        framework: Framework,
        queued: QueuedPod,
        steps: CycleSteps[Any],
        needed: Needs | Raised,
        *,
        started: float,
    ) -> None:
        """Keep a pod's cycle, which has begun elsewhere, until it has what it needs."""
        cycle = SuspendableCycle(self, self._handler, framework, (queued,), started, steps=steps)
        self._settle(cycle, needed)

    def begin_group(
        self,
        handler: CycleHandler,
        framework: Framework,
        group: str,
        members: Sequence[QueuedPod],
        steps: CycleSteps[Any],
        *,
        started: float,
    ) -> None:
        """Run a group's trial until it ends or waits."""
        self._go_on(SuspendableCycle(self, handler, framework, tuple(members), started, group, steps), None)

    def _start(self, cycle: SuspendableCycle) -> None:
        """Start a single pod's cycle; with overlapping cycles, when it is its turn."""
        framework = cycle.framework
        if self._overlaps and framework.suspends:
            if not self._gets_slots(cycle):
                return
            # Anew for each start: what an aborted one held was freed.
            cycle.held = set()
        cycle.steps = self._handler.find_node(framework, cycle.queued.pod, cycle.held)
        self._go_on(cycle, None)

    def _go_on(self, cycle: SuspendableCycle, outcomes: tuple[Outcome, ...] | None) -> None:
        """Run a cycle's steps until it ends or waits."""
        if outcomes is not None:
            cycle.stage = Stage.RUNNING
            # Blocks again if it waits for another answer; until then it runs, within this step.
            self._blocking.discard(cycle)
            if cycle.framework.metrics is not None:
                # Other cycles drew theirs while it waited.
                cycle.framework.metrics.sample, cycle.framework.metrics.parts = cycle.sample, cycle.parts
        assert cycle.steps is not None, "it has begun"
        self._settle(cycle, resume(cycle.steps, outcomes))

    def _settle(self, cycle: SuspendableCycle, needed: Needs | Ended | Raised) -> None:
        """Let a cycle wait, or end it."""
        end = needed if isinstance(needed, Ended) else self._wait(cycle, needed)
        if end is None:
            return
        # Before its result is handled: that may try, wake or requeue pods, which must find nothing of it here.
        if self.under_way or cycle.slots:
            self._over(cycle)
        if isinstance(end, Ended):
            cycle.handler.finish(cycle, end.value)
        else:
            cycle.handler.fail(cycle, end.cause)
        if cycle.held:
            # Must come last: the pod must not be woken by its own release.
            self._free(cycle)

    def _over(self, cycle: SuspendableCycle) -> None:
        cycle.stage = Stage.OVER
        if cycle.slots:
            self._release_slots(cycle)
        if not self.under_way:
            return
        for queued in cycle.members:
            if self.under_way.get(queued.pod.uid) is cycle:
                del self.under_way[queued.pod.uid]

    def _free(self, cycle: SuspendableCycle) -> None:
        """Tell the queue that the room reserved for a pod is available again."""
        pod, held = cycle.queued.pod, cycle.held or ()
        placed = self._state.placed(cycle.uid)
        for node_name in sorted(held):
            # All but the node that it got in the end, which stays taken.
            if placed is None or placed.node_name != node_name:
                was = on_node(pod.pod, node_name)
                self._context.queue.move_all(ASSIGNED_POD_DELETE, was, None, pre_check=_anyone_but(cycle.uid))
        cycle.held = None

    # -- line ----------------------------------------------------------------------------------------------------------

    def _gets_slots(self, cycle: SuspendableCycle) -> bool:
        """Take a slot of each interested extender; without a free one, the cycle waits in line."""
        # They were given to it when its turn in line came (`_release_slots`).
        if cycle.slots:
            return True
        pod = cycle.queued.pod
        names = tuple(
            extender.name
            for extender in cycle.framework.handle.extenders()
            if (extender.filters or extender.prioritizes or extender.preempts) and _is_interested(extender, pod)
        )
        line = self._lines.get(names)
        # Behind others in line even if slots are free just now: the line, by importance, decides who is next.
        if line or not self._has_slots(names):
            cycle.stage, cycle.turn = Stage.LINED_UP, next(self._turns)
            self._keep(cycle)
            heappush(self._lines.setdefault(names, []), (-pod.priority, cycle.turn, cycle))
            return False
        self._give_slots(cycle, names)
        return True

    def _has_slots(self, names: tuple[str, ...]) -> bool:
        return all(self._slots[name] < MAX_CYCLES for name in names)

    def _give_slots(self, cycle: SuspendableCycle, names: tuple[str, ...]) -> None:
        cycle.slots, cycle.turn = names, 0
        self._slots.update(names)

    def _release_slots(self, cycle: SuspendableCycle) -> None:
        """Release the cycle's extender slots, so that the next cycle in line begins before the step ends."""
        # Its entry in a line's heap, if it has one, is void by this.
        cycle.turn = 0
        if not cycle.slots:
            return
        self._slots.subtract(cycle.slots)
        cycle.slots = ()
        for names, line in tuple(self._lines.items()):
            while line and self._has_slots(names):
                _, turn, following = heappop(line)
                # Cycles that left the line are still in its heap, with a turn that is no longer theirs.
                if following.turn == turn:
                    self._give_slots(following, names)
                    # At the end of the step, as the caller is about to handle how this cycle ended.
                    following.stage = Stage.RESTARTING
                    self.outbox.at_step_end(following)
            if not line:
                del self._lines[names]

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _wait(self, cycle: SuspendableCycle, needed: Needs | Ended | Raised) -> Ended | Raised | None:
        """Let a cycle wait for what it needs; or how it ended, if it may not wait."""
        # `_keep` comes first, as portions are counted from the first wait.
        while isinstance(needed, UnfinishedError):
            self._keep(cycle)
            if self._may_go_on(cycle, needed):
                self._work_later(cycle)
                return None
            assert cycle.steps is not None, "it has begun"
            # It has had all its portions: the steps end with the plugin's last result, which says that it is
            # unfinished.
            needed = resume(cycle.steps, (Done(False),))
        if isinstance(needed, Ended | Raised):
            return needed
        self._keep(cycle)
        if cycle.wait_for(needed) and (cycle.group or not self._overlaps):
            self._blocking.add(cycle)
        return None

    def _keep(self, cycle: SuspendableCycle) -> None:
        if (metrics := cycle.framework.metrics) is not None:
            cycle.sample, cycle.parts = metrics.sample, metrics.parts
        # What follows is as of its first wait: a cycle that waits again goes on with what it began with.
        if cycle.uid in self.under_way:
            return
        cycle.began, cycle.switched_off = self.outbox.now, cycle.framework.switched_off
        cycle.portions_before = self.work_slices.taken
        for queued in cycle.members:
            self.under_way[queued.pod.uid] = cycle

    def answered(self, cycle: SuspendableCycle) -> None:
        """Continue a cycle if all its answers have arrived."""
        if (outcomes := cycle.take_outcomes()) is not None:
            self._go_on(cycle, outcomes)

    def on_wake(self, cycle: SuspendableCycle) -> None:
        # In any other stage, it was aborted, or has gone on, after the wake was due.
        if cycle.stage is Stage.ASLEEP:
            self._go_on(cycle, cycle.end_sleep())
        elif cycle.stage is Stage.RESTARTING:
            self._restart(cycle)

    # -- work in portions ---------------------------------------------------------------------------------------------

    def _may_go_on(self, cycle: SuspendableCycle, work: UnfinishedError) -> bool:
        return work.portions is None or self.work_slices.taken - cycle.portions_before < work.portions

    def _work_later(self, cycle: SuspendableCycle) -> None:
        self._keep(cycle)
        cycle.stage = Stage.PORTIONS
        self.work_slices.join(cycle)

    def take_portion(self, cycle: SuspendableCycle) -> None:
        """The cycle's next portion is due."""
        # It queued behind an equal pod before it had begun.
        if cycle.steps is None:
            self._start(cycle)
        else:
            self._go_on(cycle, (Done(True),))

    def put_back(self, cycle: SuspendableCycle) -> None:
        """An equal pod was decided: the cycle's pods return to the queue."""
        self._abort(cycle, "an equal pod was decided")
        self._give_back(cycle, EQUAL_POD_DECIDED)

    # -- aborting -----------------------------------------------------------------------------------------------------

    def _abort(self, cycle: SuspendableCycle, why: str) -> None:
        """Abort a waiting cycle. What remains is its record: the caller restarts it, or returns its pods."""
        if cycle.group:
            _log.v(4).info("Aborted the suspended trial of a pod group", podGroup=cycle.group, reason=why)
        else:
            pod = cycle.queued.pod
            _log.v(4).info("Aborted a suspended scheduling cycle", pod=pod, reason=why)
            self._context.stories.step(pod.key, pod.uid, "attempt aborted", "", why)
        # Off every list before its steps are closed: that runs code of plugins, which must not find it waiting.
        cycle.stop_waiting()
        self._blocking.discard(cycle)
        self.work_slices.leave(cycle)
        steps, cycle.steps = cycle.steps, None
        # Other extenders may be interested in the changed pod.
        self._release_slots(cycle)
        if steps is None:
            return
        # Closing runs the steps' `finally` blocks, which release the room that is reserved for the pod. Only then may
        # others be told that it is free.
        if (problem := close(steps)) is not None:
            what = "trial of a pod group" if cycle.group else "scheduling cycle"
            self._context.reporter.report(f"aborted {what}: {problem.cause}")
        self._free(cycle)

    def _give_back(self, cycle: SuspendableCycle, event: ClusterEvent) -> None:
        """Return an aborted cycle's pods to the queue in their newest versions, unless they are gone or on a node."""
        # First, as in `_settle`: the queue calls plugins. The group's end comes last, so that its pods return as one
        # entry.
        self._over(cycle)
        for queued in cycle.members:
            newest = self._state.pending.by_uid(queued.pod.uid)
            if newest is None:
                self._context.queue.done(queued.pod.uid)
            else:
                self._context.queue.requeue_untried(queued, newest, event)
        self._end_trial(cycle, event.label)

    def _end_trial(self, cycle: SuspendableCycle, cause: str) -> None:
        if cycle.group:
            self._context.queue.end_trial(cycle.group, TrialEnd.ABORTED, cause)

    def _abort_to_retry(self, cycle: SuspendableCycle, why: str) -> None:
        """Abort a cycle. A pod's restarts at the end of the step, when all changes of the step are known."""
        # Its start reads everything anew, this change as well.
        if cycle.stage is Stage.RESTARTING:
            return
        self._abort(cycle, why)
        if cycle.group:
            self._give_back(cycle, PROFILE_SWAPPED)
        else:
            cycle.stage = Stage.RESTARTING
            self.outbox.at_step_end(cycle)

    def _restart(self, cycle: SuspendableCycle) -> None:
        newest = self._state.pending.by_uid(cycle.uid)
        # First: it may be decided at once, and its result may requeue the pod, of which nothing may be left here.
        del self.under_way[cycle.uid]
        if newest is None or self._handler.skip_pod_schedule(cycle.framework, newest):
            cycle.stage = Stage.OVER
            self._release_slots(cycle)
            self._context.queue.done(cycle.uid)
            return
        cycle.queued.pod = newest
        self._start(cycle)

    def pods_changed(self, changes: Sequence[Change[Pod]]) -> None:
        """Pods were added, changed or deleted; the cluster state is already updated."""
        for change in changes:
            pod = change.new or change.old
            # Looked up for each change: after one of its pods, a group is no longer found.
            cycle = None if pod is None else self.under_way.get(uid_of(pod))
            if cycle is None or pod is None:
                continue
            gone = change.new is None or bool(change.new.spec.node_name)
            tried = next(queued.pod for queued in cycle.members if queued.pod.uid == uid_of(pod))
            if gone and not cycle.group:
                self._abort(
                    cycle, "the pod was deleted" if change.new is None else "the pod was bound by another client"
                )
                self._give_back(cycle, PROFILE_SWAPPED)
            elif gone or not has_same_requirements(tried, self._state.pending.by_uid(tried.uid)):
                self._abort_to_retry(cycle, f"pod {tried.key} has changed" if cycle.group else "the pod has changed")

    def plugins_switched(self) -> None:
        """Plugins were switched on or off."""
        # `cycles` is a copy: what is aborted leaves `under_way`.
        for cycle in self.cycles:
            if cycle.switched_off != cycle.framework.switched_off:
                self._abort_to_retry(cycle, "plugins were switched off or on")

    def profiles_swapped(self, profiles: Mapping[str, Framework]) -> None:
        """These profiles are active from now on; pods of a profile that is gone are left to others."""
        for cycle in self.cycles:
            framework = profiles.get(cycle.framework.profile_name)
            if framework is cycle.framework:
                continue
            self._abort(cycle, "the profile was swapped")
            if framework is not None:
                self._give_back(cycle, PROFILE_SWAPPED)
                continue
            self._over(cycle)
            for queued in cycle.members:
                self._context.queue.done(queued.pod.uid)
            self._end_trial(cycle, PROFILE_SWAPPED.label)

    def stop(self) -> None:
        """Scheduling has stopped."""
        for cycle in self.cycles:
            self._abort(cycle, "the scheduler stops")
            self._over(cycle)
            for queued in cycle.members:
                # Before it is added: it must not wait and be in flight at once.
                self._context.queue.done(queued.pod.uid)
                newest = self._state.pending.by_uid(queued.pod.uid)
                if newest is not None:
                    self._context.queue.add(newest)
            self._end_trial(cycle, FORCE_ACTIVATE.label)

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """Violated invariants between steps."""
        for uid, cycle in self.under_way.items():
            yield from self._problems_of_pod(uid, cycle)
        for cycle in self.cycles:
            yield from self._problems_of_cycle(cycle)
        yield from self._problems_of_turns()
        yield from self.work_slices.problems()
        for number, waiter in self.outbox.awaited.items():
            if isinstance(waiter, AwaitedRequest) and waiter not in waiter.cycle.needs:
                yield f"{waiter}: does not wait for effect {number}"

    def _problems_of_pod(self, uid: str, cycle: SuspendableCycle) -> Iterator[str]:
        whose = f"{cycle}: pod {uid}" if cycle.group else str(cycle)
        queued = next((queued for queued in cycle.members if queued.pod.uid == uid), None)
        if queued is None:
            yield f"{whose}: is kept under UID {uid}"
            return
        if not self._context.queue.closed and not self._context.queue.is_in_flight(uid):
            yield f"{whose}: the pod is not in flight"
        if self._state.placed(uid) is not None:
            yield f"{whose}: the pod is on a node"
        newest = self._state.pending.by_uid(uid)
        if newest is None:
            yield f"{whose}: the pod is not pending"
        elif not has_same_requirements(queued.pod, newest):
            yield f"{whose}: the pod has changed"

    def _problems_of_cycle(self, cycle: SuspendableCycle) -> Iterator[str]:
        if any(self.under_way.get(queued.pod.uid) is not cycle for queued in cycle.members):
            yield f"{cycle}: not all of its pods are under way"
        if cycle.began > self.outbox.now:
            yield f"{cycle}: began later than now"
        if cycle.switched_off != cycle.framework.switched_off:
            yield f"{cycle}: plugins were switched off or on"
        if (cycle.stage is Stage.PORTIONS) is not (cycle in self.work_slices):
            yield f"{cycle}: {cycle.stage.value}, but its work is {'' if cycle in self.work_slices else 'not '}queued"
        if cycle.stage not in (Stage.REQUESTING, Stage.ASLEEP, Stage.LINED_UP, Stage.PORTIONS):
            yield f"{cycle}: is {cycle.stage.value} between steps"
        yield from cycle.problems()

    def _problems_of_turns(self) -> Iterator[str]:
        taken = Counter(name for cycle in self.cycles for name in cycle.slots)
        if +self._slots != taken:
            yield f"slots: {dict(+self._slots)} are counted, {dict(taken)} are held"
        in_line = {cycle for line in self._lines.values() for _, turn, cycle in line if turn == cycle.turn}
        for cycle in self.cycles:
            if (cycle.stage is Stage.LINED_UP) is not (cycle in in_line):
                yield f"{cycle}: {cycle.stage.value}, but {'' if cycle in in_line else 'not '}in line"
            if cycle in self._blocking and not any(need.outcome is None for need in cycle.needs):
                yield f"{cycle}: waits for no answer, and holds others up"
        for cycle in in_line | self._blocking:
            if self.under_way.get(cycle.uid) is not cycle:
                yield f"{cycle}: waits, but is not under way"
        for names, line in self._lines.items():
            if self._has_slots(names) and any(turn == cycle.turn for _, turn, cycle in line):
                yield f"cycles wait for slots of {', '.join(names)}, which are free"


def _is_interested(extender: Extender, pod: PodInfo) -> bool:
    try:
        return extender.is_interested(pod)
    except Exception:
        # Reported by the cycle itself.
        return False


def _anyone_but(uid: str) -> Callable[[PodInfo], bool]:
    return lambda info: info.uid != uid


class WorkSlices:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        #: Equal pods -> their cycles, the working one first; keys in the order of their turns.
        self.queues: OrderedDict[Hashable, list[SuspendableCycle]] = OrderedDict()
        #: The cycle that is currently doing a portion.
        self._working: SuspendableCycle | None = None
        #: The effect that ends the pause; 0 if nothing is queued.
        self._pause = 0
        #: Number of pauses so far, which measures portions.
        self.taken = 0

    def __str__(self) -> str:
        return "work in portions"

    def join(self, cycle: SuspendableCycle) -> None:
        """Queue a cycle for its next portion."""
        cycles = self.queues.setdefault(cycle.queue_key, [])
        if cycle is self._working:
            # Its portion was not enough. Its equals must keep waiting for it, whoever joined meanwhile.
            cycles.insert(0, cycle)
        else:
            cycles.append(cycle)
        self._go_on_later()

    def has_equal(self, framework: Framework, queued: QueuedPod) -> bool:
        """Whether there is work for an equal pod."""
        return key_of(framework, queued) in self.queues

    def leave(self, cycle: SuspendableCycle) -> None:
        """Remove a cycle; no-op if it is not queued."""
        for key, cycles in self.queues.items():
            if cycle in cycles:
                cycles.remove(cycle)
                if not cycles:
                    # The loop must end here, as its dict has changed.
                    del self.queues[key]
                break
        if not self.queues and self._pause:
            self._outbox.withdraw(self._pause)
            self._pause = 0

    def answered(self, number: int, outcome: Outcome) -> None:
        """The pause is over."""
        self._pause = 0
        self.taken += 1
        key, cycles = next(iter(self.queues.items()))
        working = self._working = cycles.pop(0)
        # Before its portion, because that may end with anything: it joins again, ends, or puts others in its place.
        # `_working` holds back the next pause until it is known whether any work is left.
        if cycles:
            self.queues.move_to_end(key)
        else:
            del self.queues[key]
        try:
            working.owner.take_portion(working)
        finally:
            self._working = None
        cycles = self.queues.get(key, [])
        if cycles and cycles[0] is not working:
            # It has finished. Putting a cycle back takes it out of this list, hence the copy.
            for cycle in tuple(cycles):
                cycle.owner.put_back(cycle)
        if self.queues:
            self._go_on_later()

    def _go_on_later(self) -> None:
        if not self._pause and self._working is None:
            self._pause = self._outbox.ask(Pause(), self)

    # -- invariants ---------------------------------------------------------------------------------------------------

    def __contains__(self, cycle: SuspendableCycle) -> bool:
        return any(cycle in cycles for cycles in self.queues.values())

    def problems(self) -> Iterator[str]:
        """Violated invariants between steps."""
        if bool(self._pause) is not bool(self.queues):
            yield f"{self}: {len(self.queues)} queues, and pause {self._pause}"
        if self._pause and self._outbox.awaited.get(self._pause) is not self:
            yield f"{self}: pause {self._pause} has another waiter"
