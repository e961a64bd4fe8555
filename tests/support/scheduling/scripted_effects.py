"""Effects of one part of the engine, answered by the test, in virtual time."""

from collections import deque
from contextlib import contextmanager

from stowplan.kube.api.decode import DecodeError
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.scheduler.engine.effects import EmitEvent, Wake, Withdraw
from stowplan.scheduler.engine.outbox import Outbox
from stowplan.scheduler.framework.requests import Done, Refused, Unknown


class ScriptedEffects:
    """Runs steps of a part that writes to its `outbox`, and keeps the effects.

    Each effect that is answered without an argument takes the next of `answers`: an exception, an object, an outcome,
    or None for `Done` without an object.
    """

    def __init__(self):
        self.outbox = Outbox()
        #: Effects in order: requests, plugin runs, questions, cancellations.
        self.actions = []
        #: Unanswered effects by number, in order.
        self.under_way = {}
        #: Events for users.
        self.told = []
        self.answers = deque()
        #: Called after each step; each returns a list of problems.
        self.checks = []
        self._wakes = []

    @property
    def now(self):
        return self.outbox.now

    @contextmanager
    def step(self):
        """One step of the engine: `with effects.step(): part.does_something()`."""
        yield
        self.outbox.finish()
        for effect in self.outbox.take():
            self._carry_out(effect.number, effect.action)
        problems = [problem for check in self.checks for problem in check()]
        assert problems == []

    def answer(self, answer=None, *, number=None):
        """Answer an effect in a step of its own; the oldest one by default."""
        number = next(iter(self.under_way)) if number is None else number
        del self.under_way[number]
        if answer is None and self.answers:
            answer = self.answers.popleft()
        with self.step():
            self.outbox.answered(number, as_outcome(answer))

    def answer_all(self):
        """Answer until nothing is in progress."""
        while self.under_way:
            self.answer()

    def advance(self, seconds):
        """Advance time, from one `Wake` to the next."""
        until = self.now + seconds
        while self._wakes and (at := min(self._wakes)) <= until:
            self._wakes.remove(at)
            self.outbox.now = max(self.now, at)
            with self.step():
                self.outbox.ring()
        self.outbox.now = until

    @property
    def pauses(self):
        """Seconds until each alarm."""
        return sorted(alarm.at - self.now for alarm in self.outbox.alarms)

    def _carry_out(self, number, action):
        if isinstance(action, Wake):
            self._wakes.append(action.at)
        elif isinstance(action, EmitEvent):
            self.told.append(action)
        elif isinstance(action, Withdraw):
            self.under_way.pop(action.number, None)
        else:
            self.actions.append(action)
            if number in self.outbox.awaited:
                self.under_way[number] = action


def as_outcome(answer):
    """An answer in the form in which drivers report how a request ended."""
    match answer:
        case Done() | Refused() | Unknown():
            return answer
        case DecodeError() | OutcomeUnknown():
            return Unknown(answer)
        case Exception():
            return Refused(answer)
        case _:
            return Done(answer)
