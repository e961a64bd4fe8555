"""Pending effects, and the records that wait for their outcomes or for a time.

A waiter is an engine object with a method for the outcome, never a closure, so that waits can be inspected and verified
(`Engine.validate`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from math import inf
from typing import Protocol

from stowplan.scheduler.engine.dumped import DumpedOutbox
from stowplan.scheduler.engine.effects import Action, Cancel, Effect, Wake, Withdraw
from stowplan.scheduler.framework.requests import Done, Key, Outcome, Wait

#: Number of alarms from which on cancelled ones are dropped before their time.
_MANY_ALARMS = 1024


class Waiter(Protocol):
    """Waits for the outcome of an effect."""

    def answered(self, number: int, outcome: Outcome, /) -> None: ...


class Wakeable(Protocol):
    """Waits for a time, for objects to change, or for the end of the step."""

    def on_wake(self) -> None: ...


class Alarm:
    """A time at which a target wakes."""

    __slots__ = ("at", "target")

    def __init__(self, at: float, target: Wakeable) -> None:
        self.at = at
        #: None once it has fired or was cancelled.
        self.target: Wakeable | None = target

    def cancel(self) -> None:
        self.target = None


class Sleep:
    """A target's wait for a time, for objects to change, or for whichever comes first."""

    __slots__ = ("_outbox", "_since", "_target", "alarm")

    def __init__(self, outbox: Outbox, wait: Wait, target: Wakeable) -> None:
        self._outbox = outbox
        self._since = outbox.now
        self._target = target
        self.alarm = None if wait.seconds is None else outbox.wake(outbox.now + wait.seconds, target)
        for key in wait.keys:
            outbox.watch(key, target)

    def end(self) -> Done:
        """Stop waiting; the outcome is for how many seconds it has."""
        if self.alarm is not None:
            self.alarm.cancel()
        self._outbox.unwatch(self._target)
        return Done(self._outbox.now - self._since)


class Outbox:
    def __init__(self, now: float = 0.0) -> None:
        #: The time of the current step, and the offset of the wall clock from it; set by the engine.
        self.now, self.ahead = now, 0.0
        #: Effects of the current step.
        self.effects: list[Effect] = []
        self._number = 0
        self._waiters: dict[int, Waiter] = {}
        self._alarms: list[tuple[float, int, Alarm]] = []
        #: Number of alarms at which cancelled ones are dropped next: twice those that were left the last time.
        self._cleanup_at = _MANY_ALARMS
        #: Identifies alarms; of alarms for the same time, the first one set fires first.
        self._alarm_number = 0
        #: The earliest wake-up time that the driver knows.
        self._announced_wake = inf
        #: When alarms last fired, and the number of the last one set before.
        self._rung = (-inf, 0)
        #: Targets to wake before the step ends, in order, without duplicates.
        self.waking: dict[Wakeable, None] = {}
        #: Object -> targets that wait for its change; and the reverse mapping.
        self.watched_by: dict[Key, dict[Wakeable, None]] = {}
        self._watched: dict[Wakeable, dict[Key, None]] = {}

    def time(self) -> float:
        """The time of the current step."""
        return self.now

    def wall_clock(self) -> float:
        return self.now + self.ahead

    # -- effects ------------------------------------------------------------------------------------------------------

    def emit(self, action: Action) -> int:
        """Emit an effect without a waiter; return its number."""
        self._number += 1
        self.effects.append(Effect(self._number, action))
        return self._number

    def ask(self, action: Action, waiter: Waiter) -> int:
        """Emit an effect; its outcome goes to the waiter, in a later step."""
        self._number = number = self._number + 1
        self.effects.append(Effect(number, action))
        self._waiters[number] = waiter
        return number

    def cancel(self, number: int, why: str) -> None:
        """Cancel an effect in progress; its waiter gets the outcome."""
        if number in self._waiters:
            self.emit(Cancel(number, why))

    def withdraw(self, number: int) -> None:
        """The outcome is no longer needed; the driver need not start the effect."""
        if self._waiters.pop(number, None) is not None:
            self.emit(Withdraw(number))

    def answered(self, number: int, outcome: Outcome) -> None:
        """Pass an effect's outcome to its waiter, if there is one."""
        # Taken out first: the waiter may ask for the next thing, or end. There is none if the effect was withdrawn
        # while its outcome was on the way.
        waiter = self._waiters.pop(number, None)
        if waiter is not None:
            waiter.answered(number, outcome)

    def take(self) -> list[Effect]:
        """Return and remove the effects since the last call."""
        effects, self.effects = self.effects, []
        return effects

    @property
    def number(self) -> int:
        """The number of the last effect."""
        return self._number

    @property
    def awaited(self) -> dict[int, Waiter]:
        """Effect number -> waiter."""
        return self._waiters

    # -- end of step ---------------------------------------------------------------------------------------------------

    def at_step_end(self, target: Wakeable) -> None:
        """Wake a target before the step ends, after the current caller, such as a plugin, has finished."""
        self.waking[target] = None

    def finish(self) -> None:
        """Wake the targets that are due before the step ends."""
        while self.waking:
            # Targets wake others, and themselves again: those follow in the next round.
            now, self.waking = self.waking, {}
            for target in now:
                target.on_wake()

    # -- objects ------------------------------------------------------------------------------------------------------

    def watch(self, key: Key, target: Wakeable) -> None:
        """Wake a target once, when any object that it watches changes, unless it is passed to `unwatch` first."""
        self.watched_by.setdefault(key, {})[target] = None
        self._watched.setdefault(target, {})[key] = None

    def unwatch(self, target: Wakeable) -> None:
        """Stop watching all objects of a target."""
        for key in self._watched.pop(target, ()):
            watchers = self.watched_by[key]
            del watchers[target]
            if not watchers:
                del self.watched_by[key]

    @property
    def watchers(self) -> Iterator[tuple[Key, Wakeable]]:
        """(object key, target) of all waits for objects."""
        return ((key, target) for key, targets in self.watched_by.items() for target in targets)

    def changed(self, key: Key) -> None:
        """Wake the targets of a changed object."""
        # At the end of the step: the caller is in the midst of changing the cluster. A target is woken once, and
        # watches again whatever it still waits for.
        for target in tuple(self.watched_by.get(key, ())):
            self.unwatch(target)
            self.at_step_end(target)

    # -- alarms -------------------------------------------------------------------------------------------------------

    def wake(self, at: float, target: Wakeable) -> Alarm:
        """Wake a target in the first step at or after this time."""
        alarm = Alarm(at, target)
        self._alarm_number += 1
        heapq.heappush(self._alarms, (at, self._alarm_number, alarm))
        if len(self._alarms) > self._cleanup_at:
            self._drop_cancelled()
        if at < self._announced_wake:
            self._announce_wake(at)
        return alarm

    def _drop_cancelled(self) -> None:
        """Most timeouts are cancelled long before their time, such as those of Permit, which may be many minutes."""
        self._alarms = [entry for entry in self._alarms if entry[2].target is not None]
        heapq.heapify(self._alarms)
        self._cleanup_at = max(_MANY_ALARMS, 2 * len(self._alarms))

    def ring(self) -> None:
        """Wake every target that is due; alarms set in the process fire in a later step."""
        last, later = self._alarm_number, []
        self._announced_wake, self._rung = inf, (self.now, last)
        try:
            while self._alarms and (self._alarms[0][0] <= self.now or self._alarms[0][2].target is None):
                at, number, alarm = heapq.heappop(self._alarms)
                if number > last:
                    # Set by a target of this round; a target that is always due again would keep the step from ending.
                    later.append((at, number, alarm))
                elif (target := alarm.target) is not None:
                    alarm.target = None
                    target.on_wake()
        finally:
            # Also if a target raises: an alarm that is lost is a pod that waits for ever.
            for waiting in later:
                heapq.heappush(self._alarms, waiting)
        if self._alarms and self._alarms[0][0] < self._announced_wake:
            self._announce_wake(self._alarms[0][0])

    @property
    def alarms(self) -> Iterator[Alarm]:
        """Alarms that have not fired, in no particular order."""
        return (alarm for _, _, alarm in self._alarms if alarm.target is not None)

    def _announce_wake(self, at: float) -> None:
        self._announced_wake = at
        self.emit(Wake(at))

    # -- dump and load ------------------------------------------------------------------------------------------------

    def dump(self) -> DumpedOutbox:
        """The numbers. There must be no waiters; owners of alarms dump these themselves."""
        return DumpedOutbox(
            number=self._number, next_wake=None if self._announced_wake == inf else self._announced_wake
        )

    def load(self, dumped: DumpedOutbox) -> None:
        """Restore the numbers. Alarms are set again afterwards, without repeating wake-ups that the driver knows."""
        self._number, self._announced_wake = dumped.number, inf if dumped.next_wake is None else dumped.next_wake

    # -- invariants ---------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Violated invariants between steps."""
        return [*self._problems_of_effects(), *self._problems_of_alarms()]

    def _problems_of_effects(self) -> Iterator[str]:
        if self.waking:
            yield f"the step is over, and these were to be woken before: {', '.join(map(str, self.waking))}"
        numbers: dict[int, int] = {}
        for number, waiter in self._waiters.items():
            if not 0 < number <= self._number:
                yield f"{waiter} waits for effect {number}, and the last was {self._number}"
            other = numbers.setdefault(id(waiter), number)
            if other != number:
                yield f"{waiter} waits for effect {other} and for effect {number}"

    def _problems_of_alarms(self) -> Iterator[str]:
        time, last = self._rung
        for at, number, alarm in self._alarms:
            if alarm.target is None:
                continue
            if number <= last and at <= time:
                yield f"the alarm of {alarm.target} was to ring at {at:.3f}, and did not at {time:.3f}"
            if at < self._announced_wake:
                yield f"the alarm of {alarm.target} rings at {at:.3f}, the driver knows of {self._announced_wake:.3f}"
