"""Effects of a part of the engine, answered by hand: a driver that does only what a test says, in a time of its own."""

from collections import deque
from contextlib import contextmanager

from stowplan.api.decode import DecodeError
from stowplan.client.errors import OutcomeUnknown
from stowplan.engine.effects import EmitEvent, Wake, Withdraw
from stowplan.engine.outbox import Outbox
from stowplan.framework.requests import Done, Refused, Unknown


class ScriptedEffects:
    """Hands steps to whoever writes to its `outbox`, and keeps what they ask for.

    Each asked effect takes the next of `answers` when it is answered without one: an exception, an object, an outcome,
    or None for `Done` without an object.
    """

    def __init__(self):
        self.outbox = Outbox()
        #: What was asked for, in order; requests, runs of plugins, questions, cancellations.
        self.actions = []
        #: What was asked for and not answered yet, by number, in order.
        self.under_way = {}
        #: Events for users.
        self.told = []
        self.answers = deque()
        #: Called after each step; each returns texts of what is wrong.
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
        """Answer an effect in a step of its own: the one that was asked for first, unless told otherwise."""
        number = next(iter(self.under_way)) if number is None else number
        del self.under_way[number]
        if answer is None and self.answers:
            answer = self.answers.popleft()
        with self.step():
            self.outbox.answered(number, as_outcome(answer))

    def answer_all(self):
        """Answer until nothing is under way."""
        while self.under_way:
            self.answer()

    def advance(self, seconds):
        """Let time pass, from one moment that was asked for with `Wake` to the next."""
        until = self.now + seconds
        while self._wakes and (at := min(self._wakes)) <= until:
            self._wakes.remove(at)
            self.outbox.now = max(self.now, at)
            with self.step():
                self.outbox.ring()
        self.outbox.now = until

    @property
    def pauses(self):
        """How long each alarm is off."""
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
    """As drivers tell the engine how a request ended."""
    match answer:
        case Done() | Refused() | Unknown():
            return answer
        case DecodeError() | OutcomeUnknown():
            return Unknown(answer)
        case Exception():
            return Refused(answer)
        case _:
            return Done(answer)
