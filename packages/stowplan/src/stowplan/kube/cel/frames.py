"""The state of one evaluation: slots of variables, and the cost so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from stowplan.kube.cel.cel_errors import CostLimitExceeded, Interrupted
from stowplan.kube.cel.values import Value

#: Number of comprehension steps between checks whether to stop.
_STEPS_BETWEEN_CHECKS = 100
#: Cost between such checks: not everything slow is a comprehension.
_COST_BETWEEN_CHECKS = 1000


class Frame:
    __slots__ = ("_interrupted", "_limit", "_next_check", "_steps", "cost", "slots")

    def __init__(self, slots: list[Value], limit: int, interrupted: Callable[[int], bool] | None) -> None:
        #: Attributes add to it without a check; the next call or step checks.
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
        """Stop the evaluation if it exceeds a limit or is interrupted."""
        if self.cost > self._limit:
            raise CostLimitExceeded
        if self._interrupted is not None and self._interrupted(self.cost):
            raise Interrupted
        self._next_check = min(self._limit + 1, self.cost + _COST_BETWEEN_CHECKS)

    def check_limit(self) -> None:
        if self.cost > self._limit:
            raise CostLimitExceeded


#: A compiled node: computes its value, and adds its cost.
Closure: TypeAlias = Callable[[Frame], Value]
