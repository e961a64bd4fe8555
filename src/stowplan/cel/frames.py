"""The state of one evaluation: slots of variables, and what it has cost so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from stowplan.cel.errors import CostLimitExceeded, Interrupted
from stowplan.cel.values import Value

#: After how many steps of comprehensions an evaluation asks whether it should end.
_STEPS_BETWEEN_CHECKS = 100
#: And after how much of cost: not everything that takes long is a comprehension.
_COST_BETWEEN_CHECKS = 1000


class Frame:
    __slots__ = ("_interrupted", "_limit", "_next_check", "_steps", "cost", "slots")

    def __init__(self, slots: list[Value], limit: int, interrupted: Callable[[int], bool] | None) -> None:
        #: Attributes add to it without a check; the next call or step makes up for that.
        self.cost = 0
        self.slots = slots
        self._limit = limit
        self._interrupted = interrupted
        self._steps = 0
        self._next_check = min(limit + 1, _COST_BETWEEN_CHECKS)

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost >= self._next_check:
            self.check()

    def step(self) -> None:
        """Called after each step of a comprehension, which may cost nothing."""
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_CHECKS == 0 or self.cost >= self._next_check:
            self.check()

    def check(self) -> None:
        """End the evaluation if it must not go on."""
        if self.cost > self._limit:
            raise CostLimitExceeded
        if self._interrupted is not None and self._interrupted(self.cost):
            raise Interrupted
        self._next_check = min(self._limit + 1, self.cost + _COST_BETWEEN_CHECKS)

    def check_limit(self) -> None:
        if self.cost > self._limit:
            raise CostLimitExceeded


#: A compiled node: computes its value, counting what that costs.
Closure: TypeAlias = Callable[[Frame], Value]
